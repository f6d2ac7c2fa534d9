"""Word channels that are known exactly."""

from __future__ import annotations

import numpy as np


class Table:
    """A channel with a transition matrix: row w holds the probabilities of its substitutes."""

    def __init__(self, words, matrix, vectors=None):
        self.words = tuple(words)
        self.matrix = np.array(matrix, dtype=float)
        self.vectors = np.array(np.eye(len(words)) if vectors is None else vectors, np.float32)

    def split(self, text):
        return text.split()

    def find(self, word):
        return self.words.index(word) if word in self.words else -1

    def sample(self, words, rng):
        edges = np.cumsum(self.matrix, axis=1)[words]
        return (rng.random(len(words))[:, None] >= edges).sum(axis=1)
