"""Folders of results, releases and checkpoints."""
