"""Specs that ship with the package."""
