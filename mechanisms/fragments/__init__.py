"""Mechanisms that publish short phrases of texts with their translations."""
