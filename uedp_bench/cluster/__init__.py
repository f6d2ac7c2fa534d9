"""Grids on several machines: every run is a task of Ray, results come back to one folder."""
