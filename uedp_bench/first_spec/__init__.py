"""A spec that runs, from a file of the user's own: what is in it, and sizes that fit."""
