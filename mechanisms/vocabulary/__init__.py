"""Mechanisms that choose the words of a vocabulary."""
