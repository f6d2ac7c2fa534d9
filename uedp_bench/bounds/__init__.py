"""Bounds from attacks below, ceilings of guarantees above."""
