"""Sentences put together from published fragments."""
