"""Components: their declarations, registries, requirements and reviews."""
