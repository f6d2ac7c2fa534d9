"""Intervals, ROC curves, exposure: one place for all attacks and tasks."""
