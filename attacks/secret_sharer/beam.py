"""Extraction of secrets: beam search for what follows a prefix, and filling of gaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api import Estimate, Leakage
from uedp_bench.api.capabilities import Completer, Tokenised
from uedp_bench.api.statistics import fraction_estimate, mean_estimate
from uedp_bench.statistics.exposure import NULL_MEAN
from uedp_bench.statistics.intervals import checked

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, FloatArray, Run
    from uedp_bench.api.capabilities import Generator
    from uedp_bench.api.networks import Vocabulary
    from uedp_bench.attacks.secret_sharer.canary import PlantedCanaries, PlantedSecret

TOKENS_PER_WORD = 8
"""A search gives up on words of more tokens than this."""

NUMBERS_AT_ONCE = 2**23
"""Log-probabilities that are asked for at once (64 MB)."""

TOGETHER = 8
"""Searches side by side."""


class Hypothesis(NamedTuple):
    """A token sequence with its log-probability (nats) given the prefix, and its words so far."""

    score: float
    tokens: tuple[int, ...]
    words: int


@dataclass(eq=False)
class _Search:
    """One search on its way.

    Attributes:
        words: words of the texts that are looked for.
        live: hypotheses that are not complete, best first; none when the search has ended.
        done: scores and texts that are complete, best first.
        steps: tokens added so far.
    """

    words: int
    live: list[Hypothesis]
    done: list[tuple[float, str]] = field(default_factory=list)
    steps: int = 0


@dataclass(frozen=True, eq=False)
class BeamSearch:
    """The `width` most likely texts of `words` words that start with a prefix of one word or more.

    A text is complete when its last word is: with sub-word tokens, its probability includes that
    of the next token starting a new word (or ending the row), so that a fragment of a word never
    beats the word.

    Attributes:
        generator: the release that is asked.
        anchor: token ids of some word; tells which tokens start a new word after it.
        width: hypotheses that are kept at each step, and texts that are returned.
    """

    generator: Generator
    anchor: tuple[int, ...]
    width: int = 5

    @cached_property
    def _size(self) -> int:
        return int(self.generator.next_logprobs([self.anchor]).shape[1])

    @cached_property
    def _shown(self) -> tuple[BoolArray, BoolArray]:
        """(tokens,) twice: True where a token starts a word, and where it leaves the text alone."""
        before = self.generator.decode(self.anchor).split()
        after = [
            self.generator.decode([*self.anchor, token]).split() for token in range(self._size)
        ]
        starts = np.array([len(words) > len(before) for words in after])
        return starts, np.array([words == before for words in after])

    def run(self, prefix: str, words: int) -> list[str]:
        """The most likely texts of `words` words, best first, words joined by single spaces."""
        return self.run_all([(prefix, words)])[0]

    def run_all(
        self, starts: Sequence[tuple[str, int]], progress: Callable[[int], None] = lambda done: None
    ) -> list[list[str]]:
        """The texts that `run` finds for each prefix and number of words.

        Args:
            starts: prefixes, each with the number of words of its texts.
            progress: called with the number of searches that have ended.
        """
        texts: list[list[str]] = []
        for first in range(0, len(starts), TOGETHER):
            progress(first)
            texts += self._side_by_side(starts[first : first + TOGETHER])
        progress(len(starts))
        return texts

    def _side_by_side(self, starts: Sequence[tuple[str, int]]) -> list[list[str]]:
        """Run all searches of `run_all` at the same time."""
        searches = [
            _Search(
                words, [Hypothesis(0.0, tuple(self.generator.encode(prefix)), len(prefix.split()))]
            )
            for prefix, words in starts
        ]
        while going := [search for search in searches if search.live]:
            # The generator takes prefixes of equal length.
            shortest = min(len(search.live[0].tokens) for search in going)
            same = [search for search in going if len(search.live[0].tokens) == shortest]
            for search, logp in self._next_logprobs(same):
                self._step(search, logp)
        return [[text for _, text in search.done] for search in searches]

    def _next_logprobs(self, searches: list[_Search]) -> Iterator[tuple[_Search, FloatArray]]:
        """Searches with next-token log-probabilities (live, tokens) of their hypotheses."""
        at_once = max(1, NUMBERS_AT_ONCE // (self.width * self._size))
        for at in range(0, len(searches), at_once):
            part = searches[at : at + at_once]
            prefixes = [h.tokens for search in part for h in search.live]
            table = next_logprobs(self.generator, prefixes)
            ends = np.cumsum([len(search.live) for search in part])[:-1]
            yield from zip(part, np.split(table, ends), strict=True)

    def _step(self, search: _Search, logp: FloatArray) -> None:
        """Makes the hypotheses of a search one token longer; adds those that are complete.

        All live hypotheses of a search have equally many tokens: each step adds one to each.
        """
        starts, silent = self._shown
        live, words = search.live, search.words
        last = np.array([h.words == words for h in live])
        for at in np.flatnonzero(last).tolist():
            ends = float(np.logaddexp.reduce(logp[at][starts | silent]))
            text = " ".join(self.generator.decode(live[at].tokens).split())
            search.done.append((live[at].score + ends, text))
        search.done.sort(key=lambda text: (-text[0], text[1]))
        del search.done[self.width :]
        total = logp + np.array([h.score for h in live])[:, None]
        total = np.where(silent | (last[:, None] & starts), -np.inf, total)
        search.live = [
            Hypothesis(
                float(total[at, token]),
                (*live[at].tokens, token),
                live[at].words + int(starts[token]),
            )
            for at, token in _largest(total, self.width)
        ]
        search.steps += 1
        full = len(search.done) == self.width
        complete = full and search.live and search.live[0].score <= search.done[-1][0]
        if complete or search.steps == TOKENS_PER_WORD * words:
            search.live = []


def next_logprobs(generator: Generator, prefixes: Sequence[Sequence[int]]) -> FloatArray:
    """(prefixes, tokens) log-probabilities of the token after each prefix, none of them NaN."""
    logprobs = generator.next_logprobs(prefixes)
    return checked(logprobs, "next-token log-probabilities").reshape(len(prefixes), -1)


def _largest(table: FloatArray, count: int) -> list[tuple[int, int]]:
    """Places (row, column) of the largest finite numbers, largest first, ties in their order."""
    flat = table.reshape(-1)
    if len(flat) > count:
        least = np.partition(flat, len(flat) - count)[len(flat) - count]
        places = np.flatnonzero(flat >= least)
    else:
        places = np.arange(len(flat))
    best = places[np.argsort(-flat[places], kind="stable")][:count]
    return [divmod(at, table.shape[1]) for at in best.tolist() if np.isfinite(flat[at])]


UNCHECKED = "the release does not show its vocabulary: every word of the pool is a candidate"
"""Note."""


class _Filled(NamedTuple):
    """One secret among the candidates.

    Attributes:
        secret: secret that was planted.
        loss: loss of its text from the gap on, in nats.
        rank: 1 + the other candidates with a lower or equal loss.
        bits: exposure.
    """

    secret: PlantedSecret
    loss: float
    rank: int
    bits: float


def fill_gaps(release: Completer, planted: PlantedCanaries, run: Run) -> Leakage:
    """Ranks every secret among all candidates at its place.

    A candidate is a word of the pool that is one token of the release's vocabulary. A secret that
    is no candidate is not ranked, and counted: it has no exposure, neither a small one nor a large.
    """
    notes = list(planted.notes)
    if isinstance(release, Tokenised):
        token_words = one_token_words(release.vocabulary, planted.words)
    else:
        token_words = {word: word for word in planted.words}
        notes.append(UNCHECKED)
    candidates = tuple(dict.fromkeys(token_words.values()))
    scorable = [secret for secret in planted.secrets if secret.secret in token_words]
    missing = [secret for secret in planted.secrets if secret.secret not in token_words]
    total = len(planted.secrets)
    metrics = {"secrets_scored": fraction_estimate(len(scorable), total)}
    if missing:
        notes.append(
            f"{len(missing)} of {total} secrets are not one token of the release's vocabulary: "
            "they have no exposure, and no number counts them"
        )
    filled = []
    for done, secret in enumerate(scorable):
        run.progress("secret-sharer: filling gaps", done, len(scorable))
        filled.append(_fill(release, candidates, secret, token_words[secret.secret]))
    if filled:
        most = max(secret.occurrences for secret in planted.secrets)
        metrics |= _metrics(filled, len(candidates), most, run)
    details: dict[str, Any] = {
        "null_exposure": NULL_MEAN,
        "pool": len(planted.words),
        "candidates": len(candidates),
        "canaries": [_row(one) for one in filled],
        "not_scored": [secret.model_dump() | {"text": secret.text} for secret in missing],
        "by_occurrences": [_group(key, filled) for key in _groups(planted.secrets)],
        "notes": notes,
    }
    return Leakage(metrics, details)


def one_token_words(vocabulary: Vocabulary, words: Sequence[str]) -> dict[str, str]:
    """The words that are one known token each where they follow another word.

    Each stands beside the first word with its token: a vocabulary that takes off accents cannot
    tell "naïve" from "naive", and asks about one of them.
    """
    first = words[0]
    (alone,), pairs = vocabulary.encode([first]), vocabulary.encode([f"{first} {w}" for w in words])
    first_of: dict[int, str] = {}
    return {
        word: first_of.setdefault(tokens[-1], word)
        for word, tokens in zip(words, pairs, strict=True)
        if len(tokens) == len(alone) + 1
        and tokens[:-1] == alone
        and tokens[-1] != vocabulary.unknown
    }


def _fill(
    release: Completer, candidates: tuple[str, ...], secret: PlantedSecret, word: str
) -> _Filled:
    """One secret, and the word that it is asked about as, among the candidates."""
    # A release joins texts as they stand: spaces belong to what is around the gap. All candidates
    # are asked about at once, so that their losses are rounded in the same way.
    after = f" {secret.after}" if secret.after else ""
    raw_losses = release.filler_losses(f"{secret.before} ", after, candidates)
    losses = checked(raw_losses, "losses of candidates")
    own = losses[candidates.index(word)]
    rank = int((losses <= own).sum())  # the secret is one of them
    return _Filled(secret, float(own), rank, math.log2(len(losses)) - math.log2(rank))


Group = tuple[str, int | float]
"""A layout and how often a secret was to be planted."""


def _groups(secrets: Sequence[PlantedSecret]) -> list[Group]:
    return list(dict.fromkeys((secret.layout, secret.copies) for secret in secrets))


def _of_group(group: Group, filled: Sequence[_Filled]) -> list[_Filled]:
    return [one for one in filled if (one.secret.layout, one.secret.copies) == group]


def _metrics(
    filled: Sequence[_Filled], candidates: int, most: int, run: Run
) -> dict[str, Estimate]:
    rng = run.shared("secret-sharer", "bootstrap")
    bits = np.array([one.bits for one in filled])
    held = np.array([one.secret.occurrences for one in filled])
    out: dict[str, Estimate] = {}
    if (held == most).any():  # else no secret of that many rows is ranked, and none stands for it
        out["exposure_max_repeats"] = mean_estimate(bits[held == most], rng)
    out["exposure_mean"] = mean_estimate(bits, rng)
    out["exposure_limit"] = Estimate(value=math.log2(candidates))
    ranked_first = [one.rank == 1 for one in filled if one.secret.occurrences]
    if ranked_first:
        out["extracted_filling"] = fraction_estimate(sum(ranked_first), len(ranked_first))
    for layout, copies in _groups([one.secret for one in filled]):
        these = np.array([one.bits for one in _of_group((layout, copies), filled)])
        out[f"exposure_{layout}_{copies}"] = mean_estimate(these, rng)
    return out


def _row(one: _Filled) -> dict[str, Any]:
    return one.secret.model_dump() | {
        "kind": one.secret.layout,
        "text": one.secret.text,
        "loss": one.loss if math.isfinite(one.loss) else None,
        "rank": one.rank,
        "exposure": one.bits,
    }


def _group(group: Group, filled: Sequence[_Filled]) -> dict[str, Any]:
    """Exposure of a layout and a number of occurrences, beside the rows and users that hold it."""
    these = _of_group(group, filled)
    out: dict[str, Any] = {"layout": group[0], "copies": group[1], "scored": len(these)}
    if not these:
        return out
    return out | {
        "rows": these[0].secret.occurrences,
        "users": float(np.mean([one.secret.sharers for one in these])),
        "most_users": max(one.secret.sharers for one in these),
        "exposure": float(np.mean([one.bits for one in these])),
        "extracted": float(np.mean([one.rank == 1 for one in these])),
    }
