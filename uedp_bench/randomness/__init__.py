"""Streams of random numbers: secret and shared ones, and the source of their bits."""
