"""What a component declares, where it is registered, what it needs, and whether it was reviewed."""
