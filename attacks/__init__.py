"""Attacks, one file per family."""
