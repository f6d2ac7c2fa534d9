"""Networks, each by its paper's name."""
