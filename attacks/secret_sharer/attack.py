"""The federated secret sharer: planted canaries, their exposure and their extraction.

Carlini et al. 2019, "The Secret Sharer"; Thakkar, Ramaswamy, Mathews and Beaufays 2021,
"Understanding Unintended Memorization in Language Models Under Federated Learning", sections 1
and 3 (canaries by user and by example, random sampling, beam search).
"""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.attack import Attack, Leakage
from uedp_bench.attacks._planting import (
    drawn_users_and_rows,
    frequent_words,
    hidden,
    person_type,
    replace_rows,
    sharers_and_rows,
    surfaces,
    unused_name,
)
from uedp_bench.attacks.secret_sharer.beam import BeamSearch
from uedp_bench.attacks.secret_sharer.canary import (
    Canary,
    Plan,
    PlantedCanaries,
    Ranking,
    canary_details,
    random_suffixes,
)
from uedp_bench.component import Params
from uedp_bench.corpus import Mention, normalise_surface
from uedp_bench.errors import InputError
from uedp_bench.release import Completer, Generator
from uedp_bench.results import Estimate
from uedp_bench.statistics.exposure import rank_exposure, ranks
from uedp_bench.statistics.intervals import fraction_estimate, mean_estimate
from uedp_bench.statistics.resampling import checked

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray, Corpus, IntArray
    from uedp_bench.release import Release
    from uedp_bench.run import Run

SHARED = "some users mention several entity canaries: there are too few users for all of them"
"""Note."""

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
    needs: ClassVar[tuple[type, ...]] = (Completer,)
    planted_type = PlantedCanaries

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, PlantedCanaries]:
        """Replaces training examples by canaries.

        Rare canaries are drawn first: a row that two canaries hit goes to the rarer one.

        Raises:
            InputError: if no training row has a user, or there are too few words.
        """
        # Rows that another attack planted are left to it.
        free = corpus.where("train") & (corpus.users >= 0) & (corpus.origin >= 0)
        if not free.any():
            raise InputError("secret-sharer: no row of the train split has a user")
        words, notes = self._words(corpus)
        plan = self._plan(corpus, int(free.sum()), notes)
        planned = list(zip(plan, self._named(corpus, plan, words, rng), strict=True))
        canaries, rows = self._draw(corpus, planned, free, notes, rng)
        if not any(c.occurrences for c in canaries if c.kind == "word"):
            notes.append("no word canary was drawn into any row: the corpus is too small for p_u")
        corpus = self._replaced(corpus, canaries, rows)
        canaries = self._detected(corpus, canaries, rows, notes)
        planted = PlantedCanaries(canaries=tuple(canaries), words=words, notes=tuple(notes))
        return corpus, planted

    def run(self, release: Release, planted: PlantedCanaries, corpus: Corpus, run: Run) -> Leakage:
        """Ranks every canary among random suffixes, and looks for it by beam search."""
        if not isinstance(release, Completer):
            raise InputError(f"secret-sharer needs a Completer, not {type(release).__name__}")
        canaries, count = planted.canaries, len(planted.canaries)
        rankings = []
        for i in range(count):
            run.progress("secret-sharer: ranking", i, count)
            rankings.append(self._rank(release, planted, i, run))
        word = np.array([c.kind == "word" for c in canaries])
        expected = np.array([c.expected_occurrences for c in canaries])
        most = word & np.isclose(expected, expected[word].max())
        bits = np.array([ranking.bits for ranking in rankings])
        first = np.array([ranking.rank == 1 for ranking in rankings])
        rng = run.shared("secret-sharer", "bootstrap")
        metrics = {
            "exposure_max_repeats": mean_estimate(bits[most], rng),
            "exposure_mean": mean_estimate(bits, rng),
            "exposure_limit": Estimate(value=math.log2(self.params.references)),
            "extracted_random_sampling": fraction_estimate(int(first[word].sum()), int(word.sum())),
        }
        if not word.all():
            metrics["exposure_entity"] = mean_estimate(bits[~word], rng)
        for spread in sorted({c.spread for c in canaries if c.spread is not None}):
            these = np.array([c.spread == spread for c in canaries])
            metrics[f"exposure_entity_spread_{spread}"] = mean_estimate(bits[these], rng)
        notes = list(planted.notes)
        beamed: list[bool | None] = [None] * count
        if isinstance(release, Generator):
            beamed = self._beam(release, planted, run)
            hits = sum(bool(found) for found, is_word in zip(beamed, word, strict=True) if is_word)
            metrics["extracted_beam_search"] = fraction_estimate(hits, int(word.sum()))
        else:
            notes.append("no beam search: the release does not generate text token by token")
        return Leakage(metrics, canary_details(canaries, rankings, beamed, notes))

    def _plan(self, corpus: Corpus, size: int, notes: list[str]) -> list[Plan]:
        """All canaries to plant among `size` rows, the rarest first."""
        p = self.params
        rates = product(p.p_u, p.p_e, range(p.canaries))
        plan = [Plan("word", p_u * p_e, (p_u, p_e)) for p_u, p_e, _ in rates]
        if p.entity_canaries and person_type(corpus) is None:
            if p.entity_spreads:
                raise InputError(
                    "secret-sharer.entity_spreads: the source declares no entity types"
                )
            notes.append("no entity canaries: the source declares no entity types")
        elif p.entity_spreads:
            for spread in p.entity_spreads:
                rate = (spread + 1) * p.entity_sentences / size
                plan += [Plan("entity", rate, spread)] * p.entity_canaries
            notes.append(
                "entity canaries have their spread in the train split; a mechanism that keeps few "
                "rows of each user may train on fewer mentions"
            )
        else:
            p_u, p_e = max(p.p_u), max(p.p_e)
            plan += [Plan("entity", p_u * p_e, (p_u, p_e))] * p.entity_canaries
        return sorted(plan, key=lambda part: (part.rate, part.kind == "word"))

    def _draw(
        self,
        corpus: Corpus,
        planned: list[tuple[Plan, str]],
        free: BoolArray,
        notes: list[str],
        rng: np.random.Generator,
    ) -> tuple[list[Canary], list[IntArray]]:
        """The canaries and the rows that each replaces, which are no longer free then."""
        canaries: list[Canary] = []
        rows: list[IntArray] = []
        users, size = np.unique(corpus.users[free]), int(free.sum())
        taken = np.zeros(corpus.user_count, dtype=bool)
        each = self.params.entity_sentences
        for part, text in planned:
            if isinstance(part.how, tuple):
                p_u, p_e = part.how
                sharers, hit = sharers_and_rows(corpus, users, part.how, free, rng)
                drawn: dict[str, Any] = {
                    "p_u": p_u,
                    "p_e": p_e,
                    "expected_sharers": p_u * len(users),
                    "expected_occurrences": p_u * p_e * size,
                    "sharers": sharers,
                }
            else:
                sharing, hit = drawn_users_and_rows(corpus, (part.how + 1, each), free, taken, rng)
                if taken[sharing].any() and SHARED not in notes:
                    notes.append(SHARED)
                taken[sharing] = True
                drawn = {
                    "p_u": None,
                    "p_e": None,
                    "expected_sharers": len(sharing),
                    "expected_occurrences": len(hit),
                    "sharers": len(sharing),
                    "spread": part.how,
                    "sentences": part.how * each,
                }
            free[hit] = False
            rows.append(hit)
            canaries.append(Canary(kind=part.kind, text=text, occurrences=len(hit), **drawn))
        return canaries, rows

    def _words(self, corpus: Corpus) -> tuple[tuple[str, ...], list[str]]:
        p, notes = self.params, []
        split = "public" if corpus.where("public").any() else "train"
        if split == "train":
            notes.append("no public text: canaries are made of frequent words of the train split")
        rows = np.flatnonzero(corpus.where(split)).tolist()
        words = frequent_words((corpus.texts[row] for row in rows), p.word_pool)
        canaries = len(p.p_u) * len(p.p_e) * p.canaries + p.named
        if len(words) < canaries:
            raise InputError(
                f"secret-sharer: the {split} split has {len(words)} usable words (lower-case, "
                f"alphabetic); {canaries} canaries need as many different first words"
            )
        space = len(words) ** (p.canary_words - p.prefix_words)
        if p.references >= space:
            raise InputError(
                f"secret-sharer.references is {p.references}: {len(words)} words make only "
                f"{space} suffixes"
            )
        return words, notes

    def _texts(self, words: tuple[str, ...], count: int, rng: np.random.Generator) -> list[str]:
        # Different first words, or else two canaries would compete for one beam.
        first = rng.choice(len(words), size=count, replace=False)
        rest = rng.integers(len(words), size=(count, self.params.canary_words - 1))
        return [
            " ".join(words[i] for i in row)
            for row in np.concatenate([first[:, None], rest], axis=1).tolist()
        ]

    def _named(
        self,
        corpus: Corpus,
        plan: list[Plan],
        words: tuple[str, ...],
        rng: np.random.Generator,
    ) -> list[str]:
        """Texts of the canaries; where the spread is chosen, nobody else has the same name."""
        texts = self._texts(words, len(plan), rng)
        chosen = [isinstance(part.how, int) for part in plan]
        if not any(chosen):
            return texts
        parts = [self._split(text) for text in texts]
        used = surfaces(corpus)
        used |= {normalise_surface(parts[i][1]) for i in range(len(plan)) if not chosen[i]}
        for i in np.flatnonzero(chosen).tolist():
            name = unused_name(words, parts[i][1], used, rng)
            used.add(normalise_surface(name))
            texts[i] = f"{parts[i][0]} {name}"
        return texts

    def _replaced(self, corpus: Corpus, canaries: list[Canary], rows: list[IntArray]) -> Corpus:
        """The corpus with canary i in `rows[i]`, names labelled as the source labels them."""
        kind = person_type(corpus)
        texts: list[str] = []
        mentions: list[Mention] = []
        for canary, hit in zip(canaries, rows, strict=True):
            texts += [canary.text] * len(hit)
            if canary.kind == "entity" and kind is not None:
                start, end = len(self._split(canary.text)[0]) + 1, len(canary.text)
                mentions += [(row, start, end, kind) for row in hit.tolist()]
        return replace_rows(corpus, np.concatenate(rows), texts, mentions)

    def _detected(
        self, corpus: Corpus, canaries: list[Canary], rows: list[IntArray], notes: list[str]
    ) -> list[Canary]:
        """The canaries with whether the corpus' detector, where it has one, finds their names."""
        if corpus.detector is None:
            return canaries
        out = []
        for canary, hit in zip(canaries, rows, strict=True):
            if canary.kind == "entity" and len(hit):
                start = len(self._split(canary.text)[0]) + 1
                found = hidden(corpus, int(hit[0]), start)
                canary = canary.model_copy(update={"detected": found})
            out.append(canary)
        asked = [canary.detected for canary in out if canary.detected is not None]
        if asked:
            notes.append(
                f"{corpus.detector.detector} finds the names of {sum(asked)} of {len(asked)} "
                "entity canaries: a mechanism on entities does not see the others"
            )
        return out

    def _split(self, text: str) -> tuple[str, str]:
        """Prefix and suffix of a canary."""
        words = text.split()
        at = self.params.prefix_words
        return " ".join(words[:at]), " ".join(words[at:])

    def _rank(self, release: Completer, planted: PlantedCanaries, index: int, run: Run) -> Ranking:
        prefix, suffix = self._split(planted.canaries[index].text)
        rng = run.shared("secret-sharer", "references", index)
        others = random_suffixes(planted.words, suffix, self.params.references, rng)
        # A release joins texts as they stand: the space belongs to what comes before.
        found = release.filler_losses(f"{prefix} ", "", [suffix, *others])
        losses = checked(found, "losses of canaries")
        own, rest = losses[:1], losses[1:]
        return Ranking(
            float(own[0]), rest, int(ranks(own, rest)[0]), float(rank_exposure(own, rest)[0])
        )

    def _beam(self, release: Generator, planted: PlantedCanaries, run: Run) -> list[bool | None]:
        anchor = tuple(release.encode(planted.words[0]))
        search = BeamSearch(release, anchor, self.params.beam_width)
        found: list[bool | None] = []
        for i, canary in enumerate(planted.canaries):
            run.progress("secret-sharer: beam search", i, len(planted.canaries))
            words = canary.text.split()
            found.append(canary.text in search.run(words[0], len(words)))
        return found
