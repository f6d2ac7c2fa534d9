"""Runs of these tests are logged in stores that are there at once."""

from ready_stores import ready_store, ready_stores

__all__ = ["ready_store", "ready_stores"]
