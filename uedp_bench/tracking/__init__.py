"""Copies of results in MLflow; `result.json` on disk stays the truth."""
