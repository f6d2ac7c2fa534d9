"""Invented pages about invented people, with what a register knows of each."""
