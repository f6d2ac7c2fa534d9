"""Next-word prediction."""
