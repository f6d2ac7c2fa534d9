"""The page of one run: what it says, its tables and its figures."""
