"""Guarantees and noise without training: of one mechanism, of several, of published systems."""
