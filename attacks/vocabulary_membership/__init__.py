"""Membership in the vocabulary of a release."""
