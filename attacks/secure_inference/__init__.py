"""Attacks on the messages of a two-party protocol, and on its answers."""
