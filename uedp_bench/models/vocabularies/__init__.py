"""Vocabularies and tokenizers."""
