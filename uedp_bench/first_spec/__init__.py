"""First spec from a user's own file: its content, and sizes that fit."""
