"""Sentences, words, their vectors, entities and detectors of entities."""
