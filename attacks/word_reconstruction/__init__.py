"""Original words from published ones."""
