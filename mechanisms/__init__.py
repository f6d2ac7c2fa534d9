"""Mechanisms, one file each (or per close family)."""
