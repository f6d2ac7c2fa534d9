"""De-identification: mentions found, and replaced by surrogates."""
