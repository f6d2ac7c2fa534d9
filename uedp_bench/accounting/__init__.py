"""Guarantees: events in, epsilons out; imports neither torch nor any mechanism."""
