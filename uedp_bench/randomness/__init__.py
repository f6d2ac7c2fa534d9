"""Streams of random numbers: which are secret, which are shared, and where bits come from."""
