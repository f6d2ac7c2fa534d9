"""Guarantees: events in, epsilons out; neither torch nor a mechanism is imported."""
