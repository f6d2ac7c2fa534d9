"""Training of networks whose weights no rank holds as a whole."""
