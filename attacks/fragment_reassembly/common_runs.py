"""The longest run of words that a text shares with any of many others, in linear time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class CommonRuns:
    """A suffix automaton of sequences of words (Blumer et al. 1985), one after the other.

    States are classes of substrings; memory and time to build it grow with the number of words.

    Args:
        sequences: what is looked in.
    """

    def __init__(self, sequences: Iterable[Sequence[str]]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        for words in sequences:
            state = 0
            for word in words:
                state = self._extended(state, word)

    def ending(self, words: Sequence[str]) -> list[int]:
        """For each place, how many words up to it, it included, stand in a row in a sequence."""
        state, length, out = 0, 0, []
        for word in words:
            while state and word not in self._next[state]:
                state = self._link[state]
                length = self._length[state]
            if word in self._next[state]:
                state = self._next[state][word]
                length += 1
            else:
                length = 0
            out.append(length)
        return out

    def _extended(self, last: int, word: str) -> int:
        """The state after one more word; several sequences share states."""
        if (there := self._next[last].get(word)) is not None:
            if self._length[there] == self._length[last] + 1:
                return there
            return self._split(last, word, there)
        state = self._new({}, 0, self._length[last] + 1)
        before = last
        while before >= 0 and word not in self._next[before]:
            self._next[before][word] = state
            before = self._link[before]
        if before >= 0:
            there = self._next[before][word]
            whole = self._length[there] == self._length[before] + 1
            self._link[state] = there if whole else self._split(before, word, there)
        return state

    def _split(self, before: int, word: str, there: int) -> int:
        """A state of the shorter substrings of `there`, those that follow `before`."""
        twin = self._new(dict(self._next[there]), self._link[there], self._length[before] + 1)
        self._link[there] = twin
        while before >= 0 and self._next[before].get(word) == there:
            self._next[before][word] = twin
            before = self._link[before]
        return twin

    def _new(self, following: dict[str, int], link: int, length: int) -> int:
        self._next.append(following)
        self._link.append(link)
        self._length.append(length)
        return len(self._next) - 1
