"""The federated secret sharer: planted canaries, their exposure and their extraction.

Carlini et al. 2019, "The Secret Sharer"; Thakkar, Ramaswamy, Mathews and Beaufays 2021,
"Understanding Unintended Memorization in Language Models Under Federated Learning", sections 1
and 3 (canaries by user and by example, random sampling, beam search); Hoory et al. 2021, "Learning
and Evaluating a Differentially Private Pre-trained Language Model", section 5.2 (secrets in a gap).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from uedp_bench.api import Attack, Estimate, FloatArray, InputError, Leakage, Metric
from uedp_bench.api.capabilities import Completer, Generator, PairScorer, Tokenised
from uedp_bench.api.statistics import fraction_estimate, mean_estimate
from uedp_bench.api.text import normal_surface, or_alone
from uedp_bench.attacks._planting import inserted, pool_words, replace_rows
from uedp_bench.attacks.secret_sharer.beam import BeamSearch, fill_gaps
from uedp_bench.attacks.secret_sharer.canary import (
    KEPT,
    PlantedCanaries,
    PlantedSecret,
    Ranking,
    canary_details,
    contradictions,
    random_suffix_words,
    split_canary,
    unknown_words,
    word_numbers,
    worst_decile,
)
from uedp_bench.attacks.secret_sharer.planter import CanaryPlanter, SecretSharerParams
from uedp_bench.statistics.exposure import NULL_MEAN, by_pool, ranks
from uedp_bench.statistics.intervals import checked

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, IntArray, Release, Run, StoredLeakage


@dataclass(frozen=True)
class PairCompleter:
    """A translator as a `Completer`: a text is as likely as it is as its own translation.

    A planted canary stands on both sides of its row, as names and numbers do: its prefix and its
    secret in the text, and its secret in the target. So do the references that it is ranked
    among, so that a canary which was not learnt is exchangeable with them, however well the
    translator copies words.

    Attributes:
        release: release that is asked.
    """

    NOTE: ClassVar[str] = (
        "canaries are pairs: the same words stand in the text and in its translation, and are "
        "ranked by the loss of the translation"
    )
    release: PairScorer

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> FloatArray:
        """See `Completer`; the losses are those of whole targets, which share their beginning."""
        texts = [f"{before}{filler}{after}" for filler in fillers]
        return self.release.pair_losses(texts, texts)


def as_completer(release: object) -> Completer:
    """The release where it is a `Completer`, else a translator as one.

    Raises:
        InputError: if it is neither.
    """
    if isinstance(release, Completer):
        return release
    if isinstance(release, PairScorer):
        return PairCompleter(release)
    raise InputError(f"secret-sharer needs a Completer, not {type(release).__name__}")


GENERIC = {"HS": (1, 0), "HSH": (1, 1), "HHSHH": (2, 2)}
"""Generic words before and after the secret of each layout."""


class GapPlanter:
    """Plants secret words among generic ones (Hoory et al. 2021, section 5.2).

    Secrets are drawn uniformly from a pool of public words, independently of each other, so that
    one that nobody learnt is exchangeable with every other word of the pool. The generic word
    before the secret is another one for each secret, so that two secrets never ask for one gap.

    Args:
        params: params of the attack.
    """

    def __init__(self, params: SecretSharerParams) -> None:
        self.params = params

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, PlantedCanaries]:
        """Inserts the secrets at word boundaries of rows, or replaces rows by them.

        Raises:
            InputError: if there are too few words, rows, or rows of one user.
        """
        p = self.params
        # Rows that another attack planted are left to it.
        free = corpus.where("train") & (corpus.origin >= 0)
        if not free.any():
            raise InputError("secret-sharer: the train split has no row to plant secrets in")
        words, split, notes = pool_words(corpus, p.word_pool)
        wanted = [
            (layout, copies)
            for copies, layout in product(sorted(p.occurrences), p.layout)
            for _ in range(p.canaries)
        ]
        if len(words) < max(2, len(wanted)):
            raise InputError(
                f"secret-sharer: the {split} split has {len(words)} usable words (lower-case, "
                f"alphabetic); {len(wanted)} secrets need as many different words before them"
            )
        users, size = or_alone(corpus.users), int(free.sum())
        secrets: list[PlantedSecret] = []
        rows: list[IntArray] = []
        firsts = rng.permutation(len(words))[: len(wanted)].tolist()
        for first, (layout, copies) in zip(firsts, wanted, strict=True):
            count = copies if isinstance(copies, int) else max(1, round(copies * size))
            hit = self._rows(users, free, count, rng)
            if p.planting == "rows":
                free[hit] = False
            drawn = [words[i] for i in rng.integers(len(words), size=sum(GENERIC[layout])).tolist()]
            before, secret, after = _words_of(layout, words[first], drawn)
            secrets.append(
                PlantedSecret(
                    layout=layout, before=before, secret=secret, after=after, copies=copies,
                    occurrences=count, sharers=len(np.unique(users[hit])),
                )
            )  # fmt: skip
            rows.append(hit)
        if p.planting == "rows":
            texts = [secret.text for secret, hit in zip(secrets, rows, strict=True) for _ in hit]
            corpus = replace_rows(corpus, np.concatenate(rows), texts, ())
        else:
            pieces = [(secret.text, hit) for secret, hit in zip(secrets, rows, strict=True)]
            corpus = inserted(corpus, pieces, rng)
        return corpus, PlantedCanaries(
            canaries=(), words=words, notes=tuple(notes), secrets=tuple(secrets)
        )

    def _rows(
        self, users: IntArray, free: BoolArray, count: int, rng: np.random.Generator
    ) -> IntArray:
        """Distinct free rows, of as many users as hold the copies."""
        able = np.flatnonzero(free)
        if not self.params.sharers or not count:
            if len(able) < count:
                raise InputError(
                    f"secret-sharer.occurrences: {count} rows are needed for a secret, and the "
                    f"train split has {len(able)} that nothing else was planted in"
                )
            return rng.choice(able, count, replace=False)
        number = min(self.params.sharers, count)
        shares = np.full(number, count // number)
        shares[: count % number] += 1
        have = np.bincount(users[able])
        enough = np.flatnonzero(have >= shares.max())
        if len(enough) < number:
            raise InputError(
                f"secret-sharer.sharers is {self.params.sharers}: {count} copies in {number} users "
                f"need {number} users of the train split with {shares.max()} rows each; there are "
                f"{len(enough)}, and nobody has more than {have.max(initial=0)}"
            )
        chosen = rng.choice(enough, number, replace=False)
        return np.concatenate(
            [
                rng.choice(able[users[able] == user], share, replace=False)
                for user, share in zip(chosen.tolist(), shares.tolist(), strict=True)
            ]
        )


def _words_of(layout: str, first: str, drawn: list[str]) -> tuple[str, str, str]:
    """Words before the secret, the secret, and words after it; the nearest before it is `first`."""
    others = GENERIC[layout][0] - 1
    ahead, (secret, *behind) = drawn[:others], drawn[others:]
    return " ".join([*ahead, first]), secret, " ".join(behind)


WORST_DECILE = NULL_MEAN * (1.0 + math.log(10.0))
"""Mean worst decile, in bits, of many canaries that nobody memorised; of 19 it is 5.12.

The mean of the k largest of n exponential variables is 1 + H(n) - H(k) times theirs, with the
harmonic numbers H (Renyi 1953); the tenth is rounded down.
"""


def _exposure(
    name: str, label: str, about: str, *, no_leak: float = NULL_MEAN, main: bool = False
) -> Metric:
    return Metric(name, label, about, "lower", "bits", low=0.0, no_leak=no_leak, main=main,
                  limit_metric="exposure_limit")  # fmt: skip


class SecretSharer(Attack[SecretSharerParams]):
    """Plants canaries in the text of some users and measures how well the release knows them.

    Canaries replace training examples: every user is a sharer with probability p_u, and each of a
    sharer's examples is replaced with probability p_e. Suffixes are drawn uniformly from a pool of
    public words, as those of the references are, so that a canary that was not memorised is
    exchangeable with them.

    With the layouts HS, HSH and HHSHH, a secret is one word among generic ones, and is ranked among
    all words of the pool at its place, so that nothing is estimated.
    """

    name = "secret-sharer"
    version = 2
    source = "Carlini et al. 2019; Thakkar et al. 2021, sections 1 and 3, appendix A.1"
    Params = SecretSharerParams
    metrics = (
        _exposure("exposure_max_repeats", "exposure", "mean bits of the most repeated canaries; "
                  "1.44 where nothing leaks", main=True),
        _exposure("exposure_entity", "entity exposure", "mean bits of canaries that are labelled "
                  "names; 1.44 where nothing leaks", main=True),
        _exposure("exposure_entity_spread_*", "exposure, spread", "mean bits of the entity "
                  "canaries that so many other users mention", main=True),
        _exposure("exposure_mean", "exposure, all", "mean bits of all canaries"),
        _exposure("exposure_worst_decile", "exposure, worst decile", "mean bits of the most "
                  "exposed tenth of ten canaries or more; 4.76 where nothing leaks",
                  no_leak=WORST_DECILE),
        Metric("exposure_limit", "exposure limit", "what exposure by rank can reach at most",
               unit="bits", low=0.0, main=True),
        *(_exposure(f"exposure_{layout}_*", f"exposure, {layout}", "mean bits of secret words of "
                    "this layout in so many rows; 1.44 where nothing leaks")
          for layout in ("HS", "HSH", "HHSHH")),
        Metric.rate("extracted_filling", "extracted, gap", "share of planted secret words that "
                    "rank first among all words in their gap", "lower", main=True),
        Metric.rate("secrets_scored", "secrets ranked", "share of secret words that are a token of "
                    "the vocabulary; the others have no exposure"),
        Metric.rate("extracted_random_sampling", "extracted, sampling", "share of word "
                    "canaries that rank first among random references", "lower", main=True),
        Metric.rate("extracted_beam_search", "extracted, beam search", "share of word "
                    "canaries that beam search finds", "lower", main=True),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Completer, PairScorer)
    planted_type = PlantedCanaries

    def contradictions(self, stored: StoredLeakage) -> Iterator[tuple[str, str]]:
        """See `Attack`."""
        return contradictions(stored.metrics, stored.details)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, PlantedCanaries]:
        """Replaces training examples by canaries, or inserts secrets into them.

        Raises:
            InputError: if no training row has a user, or there are too few words or rows.
        """
        if self.params.in_gaps:
            return GapPlanter(self.params).plant(corpus, rng)
        return CanaryPlanter(self.params).plant(corpus, rng)

    def refuses(self, release: Release, corpus: Corpus) -> str | None:
        """Secrets in a gap are no translations of each other."""
        if self.params.in_gaps and not isinstance(release, Completer):
            return (
                f"secrets of the layout {', '.join(self.params.layout)} are asked of a Completer; "
                f"{type(release).__name__} is none"
            )
        return None

    def run(self, release: Release, planted: PlantedCanaries, corpus: Corpus, run: Run) -> Leakage:
        """Ranks every canary among random suffixes, and looks for it by beam search.

        A canary that a translator learnt is its own translation (`secret_sharer.pairs`).
        """
        if isinstance(release, Completer) and self.params.in_gaps:
            return fill_gaps(release, planted, run)
        pairs = isinstance(as_completer(release), PairCompleter)
        canaries, count = planted.canaries, len(planted.canaries)
        rankings = self._rankings(release, planted, run)
        word = np.array([c.kind == "word" for c in canaries])
        expected = np.array([c.expected_occurrences for c in canaries])
        most = word & np.isclose(expected, expected[word].max())
        bits = np.array([ranking.bits for ranking in rankings])
        first = np.array([ranking.rank == 1 for ranking in rankings])
        rng = run.shared("secret-sharer", "bootstrap")
        metrics = {
            "exposure_max_repeats": mean_estimate(bits[most], rng),
            "exposure_mean": mean_estimate(bits, rng),
            "exposure_limit": Estimate(value=math.log2(rankings[0].among)),
            "extracted_random_sampling": fraction_estimate(int(first[word].sum()), int(word.sum())),
        }
        if not word.all():
            metrics["exposure_entity"] = mean_estimate(bits[~word], rng)
        for spread in sorted({c.spread for c in canaries if c.spread is not None}):
            these = np.array([c.spread == spread for c in canaries])
            metrics[f"exposure_entity_spread_{spread}"] = mean_estimate(bits[these], rng)
        if count >= 10:
            metrics["exposure_worst_decile"] = worst_decile(bits, run)
        notes = [*planted.notes, *([PairCompleter.NOTE] if pairs else [])]
        if isinstance(release, Tokenised) and release.vocabulary is not None:
            notes += unknown_words(release.vocabulary, planted, self.params.prefix_words)
        space = len(planted.words) ** (self.params.canary_words - self.params.prefix_words)
        if space <= self.params.exact_up_to:
            notes.append(f"exact ranks: each canary among all {space} suffixes of the words")
        beamed: list[bool | None] = [None] * count
        if isinstance(release, Generator):
            beamed = self._beam(release, planted, run)
            hits = sum(
                bool(in_beam) for in_beam, is_word in zip(beamed, word, strict=True) if is_word
            )
            metrics["extracted_beam_search"] = fraction_estimate(hits, int(word.sum()))
        else:
            notes.append("no beam search: the release does not generate text token by token")
        return Leakage(metrics, canary_details(canaries, rankings, beamed, notes))

    def _rankings(self, release: Any, planted: PlantedCanaries, run: Run) -> list[Ranking]:
        rankings = []
        for index, canary in enumerate(planted.canaries):
            run.progress("secret-sharer: ranking", index, len(planted.canaries))
            rng = run.shared("secret-sharer", "references", index)
            rankings.append(self._ranking(release, planted.words, canary.text, rng))
        return rankings

    def _ranking(
        self, release: Any, words: tuple[str, ...], text: str, rng: np.random.Generator
    ) -> Ranking:
        """One canary among random suffixes, or among all of them."""
        prefix, suffix = split_canary(text, self.params.prefix_words)
        own = word_numbers(words, suffix)
        space = len(words) ** len(own)
        count = min(self.params.references, space - 1)
        others = random_suffix_words(len(words), own, count, rng)
        # A release joins texts as they stand: the space belongs to what comes before.
        pool, before = by_pool(as_completer(release)), f"{prefix} "
        nats = pool.pool_losses(before, words, np.concatenate([own[None], others]))
        losses = checked(nats, "losses of canaries")
        loss, kept = float(losses[0]), losses[1 : 1 + KEPT].copy()
        if space <= self.params.exact_up_to:
            return Ranking(loss, kept, pool.pool_rank(before, words, own), space)
        return Ranking(loss, kept, int(ranks(losses[:1], losses[1:])[0]), count)

    def _beam(self, release: Generator, planted: PlantedCanaries, run: Run) -> list[bool | None]:
        anchor = tuple(release.encode(planted.words[0]))
        search = BeamSearch(release, anchor, self.params.beam_width)
        texts = [canary.text for canary in planted.canaries]
        starts = [(text.split()[0], len(text.split())) for text in texts]

        def show(done: int) -> None:
            run.progress("secret-sharer: beam search", done, len(texts))

        likely_texts = search.run_all(starts, show)
        return [
            normal_surface(text) in map(normal_surface, likely)
            for text, likely in zip(texts, likely_texts, strict=True)
        ]
