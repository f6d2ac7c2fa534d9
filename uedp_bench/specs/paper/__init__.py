"""Specs with the constants that papers publish."""
