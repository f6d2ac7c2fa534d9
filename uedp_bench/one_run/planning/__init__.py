"""Guarantees before a run: account, calibrate."""
