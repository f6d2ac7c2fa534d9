"""Contracts between mechanisms, attacks, tasks, models and sources."""
