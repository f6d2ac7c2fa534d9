"""Specs: files, grids of settings, identity of a run."""
