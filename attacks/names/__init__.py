"""Attacks on names that the training text mentions: which of several, and which at all."""
