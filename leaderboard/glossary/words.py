"""Privacy units and floors as a reader would say them."""

from __future__ import annotations

UNITS = {
    "record": "a record",
    "user": "a person",
    "user-entity": "a person with an entity",
    "word": "a word",
    "sentence": "a sentence of a document's author",
    "attribute": "an attribute of a document's author",
    "entity": "an entity",
    "client": "a client",
    "computation": "the computation",
}
"""Privacy units."""

FLOORS = {
    "unigrams": "counting words",
    "bigrams": "counting pairs of words",
    "majority": "always saying the most frequent class",
    "random": "guessing",
    "dictionary": "looking words up in a list of public text",
    "all-outside": "finding nothing at all",
    "public-only": "the model of public text",
    "copy": "copying the text",
    "lexicon": "translating word by word from public text",
    "nothing": "a detector that finds nothing",
}
"""Explanations of floors; a floor without one keeps its name."""
