"""Documents linked to their authors."""
