"""Components: their declarations, metrics, registries and reviews."""
