"""The federated secret sharer: planted canaries, their exposure and their extraction.

Carlini et al. 2019, "The Secret Sharer"; Thakkar, Ramaswamy, Mathews and Beaufays 2021,
"Understanding Unintended Memorization in Language Models Under Federated Learning", sections 1
and 3 (canaries by user and by example, random sampling, beam search).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.attack import Attack, Leakage
from uedp_bench.attacks.secret_sharer.beam import BeamSearch
from uedp_bench.attacks.secret_sharer.canary import (
    KEPT,
    PlantedCanaries,
    Ranking,
    canary_details,
    random_suffix_words,
    split_canary,
    word_numbers,
)
from uedp_bench.attacks.secret_sharer.pairs import PairCompleter
from uedp_bench.attacks.secret_sharer.planter import CanaryPlanter
from uedp_bench.component import Params, at
from uedp_bench.errors import InputError
from uedp_bench.pool_completer import by_pool
from uedp_bench.release import Completer, Generator, PairScorer
from uedp_bench.results import Estimate
from uedp_bench.statistics.exposure import ranks
from uedp_bench.statistics.intervals import fraction_estimate, mean_estimate
from uedp_bench.statistics.resampling import checked

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus
    from uedp_bench.release import Release
    from uedp_bench.run import Run

Probability = Annotated[float, Field(gt=0.0, le=1.0)]


class SecretSharerParams(Params):
    """Parameters of `secret-sharer`."""

    p_u: tuple[Probability, ...] = Field(
        default=(0.00025, 0.001, 0.004),
        min_length=1,
        description="probabilities that a user shares a canary; crossed with p_e. With the "
        "defaults, canaries replace about 5 % of the training rows",
    )
    p_e: tuple[Probability, ...] = Field(
        default=(0.1, 1.0),
        min_length=1,
        description="probabilities that an example of a sharer is replaced by the canary",
    )
    canaries: int = Field(default=5, ge=1, description="word canaries for each (p_u, p_e)")
    entity_canaries: int = Field(
        default=5,
        ge=0,
        description="entity canaries: at the largest p_u and p_e, or for each of entity_spreads",
    )
    entity_spreads: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(),
        description="chosen spreads of the entity canaries, in place of p_u and p_e: exactly "
        "spread + 1 users mention each",
    )
    entity_sentences: int = Field(
        default=1,
        ge=1,
        description="rows in which each of these users mentions it (with entity_spreads)",
    )
    canary_words: int = Field(default=5, ge=2, le=8, description="words of a canary")
    prefix_words: int = Field(default=2, ge=1, description="words that random sampling is given")
    word_pool: int = Field(
        default=500, ge=2, description="canaries are made of this many most frequent words"
    )
    references: int = Field(
        default=1024,
        ge=2,
        description="random suffixes that a canary is ranked among; exposure cannot exceed their "
        "log2. Scoring them costs less than one epoch on a few thousand users",
    )
    exact_up_to: int = Field(
        default=0,
        ge=0,
        exclude_if=at(0),
        description="rank a canary among every suffix that the words make where there are at most "
        "so many; `references` then serve the fit alone. 0 ranks among references always",
    )
    beam_width: int = Field(default=5, ge=1, description="continuations that beam search returns")

    @model_validator(mode="after")
    def _spreads_fit(self) -> SecretSharerParams:
        spreads = self.entity_spreads
        if len(set(spreads)) < len(spreads):
            raise ValueError(f"entity_spreads is {spreads}: give each spread once")
        if spreads and not self.entity_canaries:
            raise ValueError("entity_spreads is given, but entity_canaries is 0")
        if self.entity_sentences > 1 and not spreads:
            raise ValueError("entity_sentences is given, but entity_spreads is not")
        return self

    @property
    def named(self) -> int:
        """Entity canaries in all."""
        return self.entity_canaries * max(1, len(self.entity_spreads))

    @model_validator(mode="after")
    def _prefix_leaves_a_suffix(self) -> SecretSharerParams:
        if self.prefix_words >= self.canary_words:
            raise ValueError(
                f"prefix_words is {self.prefix_words}: it must be below "
                f"canary_words ({self.canary_words})"
            )
        return self


class SecretSharer(Attack[SecretSharerParams]):
    """Plants canaries in the text of some users and measures how well the release knows them.

    Canaries replace training examples: every user is a sharer with probability p_u, and each of a
    sharer's examples is replaced with probability p_e. Suffixes are drawn uniformly from a pool of
    public words, as those of the references are, so that a canary that was not memorised is
    exchangeable with them.
    """

    name = "secret-sharer"
    version = 2
    source = "Carlini et al. 2019; Thakkar et al. 2021, sections 1 and 3, appendix A.1"
    Params = SecretSharerParams
    needs: ClassVar[tuple[type, ...]] = (Completer, PairScorer)
    planted_type = PlantedCanaries

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, PlantedCanaries]:
        """Replaces training examples by canaries.

        Raises:
            InputError: if no training row has a user, or there are too few words.
        """
        return CanaryPlanter(self.params).plant(corpus, rng)

    def run(self, release: Release, planted: PlantedCanaries, corpus: Corpus, run: Run) -> Leakage:
        """Ranks every canary among random suffixes, and looks for it by beam search.

        A canary that a translator learnt is its own translation (`secret_sharer.pairs`).
        """
        pairs = isinstance(release, PairScorer) and not isinstance(release, Completer)
        asked = PairCompleter(release) if isinstance(release, PairScorer) and pairs else release
        if not isinstance(asked, Completer):
            raise InputError(f"secret-sharer needs a Completer, not {type(release).__name__}")
        canaries, count = planted.canaries, len(planted.canaries)
        rankings = []
        for i in range(count):
            run.progress("secret-sharer: ranking", i, count)
            rankings.append(self._rank(asked, planted, i, run))
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
        notes = [*planted.notes, *([PairCompleter.NOTE] if pairs else [])]
        space = len(planted.words) ** (self.params.canary_words - self.params.prefix_words)
        if space <= self.params.exact_up_to:
            notes.append(f"exact ranks: each canary among all {space} suffixes of the words")
        beamed: list[bool | None] = [None] * count
        if isinstance(release, Generator):
            beamed = self._beam(release, planted, run)
            hits = sum(bool(found) for found, is_word in zip(beamed, word, strict=True) if is_word)
            metrics["extracted_beam_search"] = fraction_estimate(hits, int(word.sum()))
        else:
            notes.append("no beam search: the release does not generate text token by token")
        return Leakage(metrics, canary_details(canaries, rankings, beamed, notes))

    def _rank(self, release: Completer, planted: PlantedCanaries, index: int, run: Run) -> Ranking:
        prefix, suffix = split_canary(planted.canaries[index].text, self.params.prefix_words)
        rng = run.shared("secret-sharer", "references", index)
        words, own = planted.words, word_numbers(planted.words, suffix)
        space = len(words) ** len(own)
        count = min(self.params.references, space - 1)
        others = random_suffix_words(len(words), own, count, rng)
        # A release joins texts as they stand: the space belongs to what comes before.
        asked, before = by_pool(release), f"{prefix} "
        found = asked.pool_losses(before, words, np.concatenate([own[None], others]))
        losses = checked(found, "losses of canaries")
        loss, kept = float(losses[0]), losses[1 : 1 + KEPT].copy()
        if space <= self.params.exact_up_to:
            return Ranking(loss, kept, asked.pool_rank(before, words, own), space)
        return Ranking(loss, kept, int(ranks(losses[:1], losses[1:])[0]), count)

    def _beam(self, release: Generator, planted: PlantedCanaries, run: Run) -> list[bool | None]:
        anchor = tuple(release.encode(planted.words[0]))
        search = BeamSearch(release, anchor, self.params.beam_width)
        texts = [canary.text for canary in planted.canaries]
        starts = [(text.split()[0], len(text.split())) for text in texts]

        def show(done: int) -> None:
            run.progress("secret-sharer: beam search", done, len(texts))

        found = search.run_all(starts, show)
        return [text in likely for text, likely in zip(texts, found, strict=True)]
