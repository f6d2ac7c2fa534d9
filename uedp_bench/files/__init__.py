"""Files of anybody, read with bounds and written whole."""
