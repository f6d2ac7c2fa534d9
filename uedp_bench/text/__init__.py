"""Sentences, words, their vectors, entities and those who find them."""
