"""Audits: canaries with coins, and the epsilon that they refute."""
