"""Mechanisms that train with clipping and noise."""
