"""Mechanisms that publish documents as vectors and protect their sentences."""
