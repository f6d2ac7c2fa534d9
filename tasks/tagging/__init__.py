"""Sequence tagging: which words of a row are entities, and of what type."""
