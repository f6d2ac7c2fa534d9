"""Attacks on released representations."""
