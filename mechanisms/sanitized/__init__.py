"""Text sanitized by other tools, read from their files."""
