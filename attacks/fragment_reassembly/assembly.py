"""Runs of words that are longer than any fragment, put together from fragments by overlap.

After Galle and Tealdi 2015 ("Reconstructing Textual Documents from n-grams"): a run grows as long
as what follows its last words is the same in all fragments. Fragments come with translations, and
two that overlap where words are linked have translations that overlap, too: a fragment whose
translation does not fit that of the last one is no candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from uedp_bench.api import InputError
from uedp_bench.api.text import normal_surface

Words = tuple[str, ...]
"""Words in their normal form."""

Fragment = tuple[Words, Words]
"""A phrase and its translation."""

LONGEST = 1000
"""Words of a run at which it stops growing to one side, for texts that repeat themselves."""


REACH = 8
"""First words by which phrases are looked up in runs: it bounds memory where phrases are long."""


def words_of(text: str) -> Words:
    """Words between white space, in normal form."""
    return tuple(form for word in text.split() if (form := normal_surface(word)))


@dataclass(frozen=True)
class Rules:
    """Conditions for joining fragments.

    Attributes:
        overlap: words that they share, at least.
        bilingual: their translations must overlap as well.
    """

    overlap: int
    bilingual: bool


def assemble(fragments: Iterable[Fragment], rules: Rules) -> list[Words]:
    """The runs, each a fragment or longer; those that begin with the longest fragments come first.

    How often a fragment occurs, and where it stands, plays no part.

    Raises:
        InputError: if fragments are to be joined that share no word.
    """
    if rules.overlap < 1:
        raise InputError(f"fragments are joined by {rules.overlap} words; at least 1 is needed")
    kinds = sorted(set(fragments), key=lambda kind: (-len(kind[0]), kind))
    turned = [(words[::-1], translation) for words, translation in kinds]  # from right to left
    forward, backward = _Growth(kinds, rules), _Growth(turned, rules)
    runs: list[Words] = []
    held = _Held(kinds)
    for at, (words, _) in enumerate(kinds):
        if words in held:
            continue
        left, right = backward.grown(at), forward.grown(at)
        runs.append((*reversed(left[len(words) :]), *right))
        held.add(runs[-1])
    return runs


class _Held:
    """Phrases that stand in runs so far."""

    def __init__(self, kinds: Sequence[Fragment]) -> None:
        self._beginning: dict[Words, set[Words]] = {}
        self._phrases: set[Words] = set()
        for words, _ in kinds:
            self._beginning.setdefault(words[:REACH], set()).add(words)

    def add(self, run: Words) -> None:
        """Looks up which phrases stand in one more run."""
        for start in range(len(run)):
            for size in range(1, min(REACH, len(run) - start) + 1):
                for words in self._beginning.get(run[start : start + size], ()):
                    if run[start : start + len(words)] == words:
                        self._phrases.add(words)

    def __contains__(self, words: Words) -> bool:
        return words in self._phrases


class _Growth:
    """Growth of runs to the right, by fragments that begin with their last words."""

    def __init__(self, kinds: Sequence[Fragment], rules: Rules) -> None:
        self._kinds, self._rules = kinds, rules
        self._beginning: dict[Words, list[int]] = {}
        self._longest = max((len(words) for words, _ in kinds), default=0)
        for at, (words, _) in enumerate(kinds):
            for size in range(rules.overlap, len(words)):
                self._beginning.setdefault(words[:size], []).append(at)

    def grown(self, first: int) -> list[str]:
        """The run that begins with a fragment."""
        run, last, used = list(self._kinds[first][0]), first, {first}
        while len(run) < LONGEST:
            follower = self._next(run, last)
            if follower is None or follower[0] in used:
                break
            last, more = follower
            used.add(last)
            run += more
        return run

    def _next(self, run: list[str], last: int) -> tuple[int, Words] | None:
        """The fragment that goes on, and its further words; None where there is none, or several.

        The longest overlap that any candidate has is the one that decides.
        """
        for size in range(min(self._longest - 1, len(run)), self._rules.overlap - 1, -1):
            begins = self._beginning.get(tuple(run[-size:]), ())
            best: tuple[int, Words] | None = None
            for at in begins:
                if self._rules.bilingual and not _overlap(self._kinds[last][1], self._kinds[at][1]):
                    continue
                more = self._kinds[at][0][size:]
                if best is None or (len(more) > len(best[1]) and more[: len(best[1])] == best[1]):
                    best = at, more
                elif best[1][: len(more)] != more:
                    return None
            if best is not None:
                return best
        return None


def _overlap(one: Words, other: Words) -> bool:
    """True if two phrases can be laid over each other: what both cover is the same in both."""
    n, m = len(one), len(other)
    for shift in range(1 - m, n):
        start, end = max(0, shift), min(n, shift + m)
        if one[start:end] == other[start - shift : end - shift]:
            return True
    return False
