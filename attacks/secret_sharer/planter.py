"""Planting of canaries: their texts, the rows that they replace, and their names."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.api import InputError
from uedp_bench.attacks._planting import (
    drawn_users_and_rows,
    hidden,
    person_type,
    pool_words,
    replace_rows,
    sharers_and_rows,
    surfaces,
    unused_name,
)
from uedp_bench.attacks.secret_sharer.canary import (
    Canary,
    PlantedCanaries,
    WantedCanary,
    split_canary,
)
from uedp_bench.corpus import distinct, normal_surface

if TYPE_CHECKING:
    from uedp_bench.attacks.secret_sharer.parameters import SecretSharerParams
    from uedp_bench.corpus import BoolArray, Corpus, IntArray, Mention

SHARED = "some users mention several entity canaries: there are too few users for all of them"
"""Note."""


class CanaryPlanter:
    """Plants the canaries of one attack; see `SecretSharer`.

    Args:
        params: params of the attack.
    """

    def __init__(self, params: SecretSharerParams) -> None:
        self.params = params

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
        wanted = self._wanted(corpus, int(free.sum()), notes)
        named = list(zip(wanted, self._named(corpus, wanted, words, rng), strict=True))
        canaries, rows = self._draw(corpus, named, free, notes, rng)
        if not any(c.occurrences for c in canaries if c.kind == "word"):
            notes.append("no word canary was drawn into any row: the corpus is too small for p_u")
        corpus = self._replaced(corpus, canaries, rows)
        canaries = self._detected(corpus, canaries, rows, notes)
        planted = PlantedCanaries(canaries=tuple(canaries), words=words, notes=tuple(notes))
        return corpus, planted

    def _wanted(self, corpus: Corpus, size: int, notes: list[str]) -> list[WantedCanary]:
        """All canaries to plant among `size` rows, the rarest first."""
        p = self.params
        rates = product(p.p_u, p.p_e, range(p.canaries))
        wanted = [WantedCanary("word", p_u * p_e, (p_u, p_e)) for p_u, p_e, _ in rates]
        if p.entity_canaries and person_type(corpus) is None:
            if p.entity_spreads:
                raise InputError(
                    "secret-sharer.entity_spreads: the source declares no entity types"
                )
            notes.append("no entity canaries: the source declares no entity types")
        elif p.entity_spreads:
            for spread in p.entity_spreads:
                rate = (spread + 1) * p.entity_sentences / size
                wanted += [WantedCanary("entity", rate, spread)] * p.entity_canaries
            notes.append(
                "entity canaries have their spread in the train split; a mechanism that keeps few "
                "rows of each user may train on fewer mentions"
            )
        else:
            p_u, p_e = max(p.p_u), max(p.p_e)
            wanted += [WantedCanary("entity", p_u * p_e, (p_u, p_e))] * p.entity_canaries
        return sorted(wanted, key=lambda part: (part.rate, part.kind == "word"))

    def _draw(
        self,
        corpus: Corpus,
        named: list[tuple[WantedCanary, str]],
        free: BoolArray,
        notes: list[str],
        rng: np.random.Generator,
    ) -> tuple[list[Canary], list[IntArray]]:
        """The canaries and the rows that each replaces, which are no longer free then."""
        canaries: list[Canary] = []
        rows: list[IntArray] = []
        users, size = distinct(corpus.users[free]), int(free.sum())
        taken = np.zeros(corpus.user_count, dtype=bool)
        each = self.params.entity_sentences
        for part, text in named:
            if isinstance(part.spread, tuple):
                p_u, p_e = part.spread
                sharers, hit = sharers_and_rows(corpus, users, part.spread, free, rng)
                drawn: dict[str, Any] = {
                    "p_u": p_u,
                    "p_e": p_e,
                    "expected_sharers": p_u * len(users),
                    "expected_occurrences": p_u * p_e * size,
                    "sharers": sharers,
                }
            else:
                sharing, hit = drawn_users_and_rows(
                    corpus, (part.spread + 1, each), free, taken, rng
                )
                if taken[sharing].any() and SHARED not in notes:
                    notes.append(SHARED)
                taken[sharing] = True
                drawn = {
                    "p_u": None,
                    "p_e": None,
                    "expected_sharers": len(sharing),
                    "expected_occurrences": len(hit),
                    "sharers": len(sharing),
                    "spread": part.spread,
                    "sentences": part.spread * each,
                }
            free[hit] = False
            rows.append(hit)
            canaries.append(Canary(kind=part.kind, text=text, occurrences=len(hit), **drawn))
        return canaries, rows

    def _words(self, corpus: Corpus) -> tuple[tuple[str, ...], list[str]]:
        p = self.params
        words, split, notes = pool_words(corpus, p.word_pool)
        canaries = len(p.p_u) * len(p.p_e) * p.canaries + p.named
        if len(words) < canaries:
            raise InputError(
                f"secret-sharer: the {split} split has {len(words)} usable words (lower-case, "
                f"alphabetic); {canaries} canaries need as many different first words"
            )
        space = len(words) ** (p.canary_words - p.prefix_words)
        if p.references >= space > p.exact_up_to:
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
        wanted: list[WantedCanary],
        words: tuple[str, ...],
        rng: np.random.Generator,
    ) -> list[str]:
        """Texts of the canaries; where the spread is chosen, nobody else has the same name."""
        texts = self._texts(words, len(wanted), rng)
        chosen = [isinstance(part.spread, int) for part in wanted]
        if not any(chosen):
            return texts
        parts = [split_canary(text, self.params.prefix_words) for text in texts]
        used = surfaces(corpus)
        used |= {normal_surface(parts[i][1]) for i in range(len(wanted)) if not chosen[i]}
        for i in np.flatnonzero(chosen).tolist():
            name = unused_name(words, parts[i][1], used, rng)
            used.add(normal_surface(name))
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
                start = self._secret_starts(canary)
                mentions += [(row, start, len(canary.text), kind) for row in hit.tolist()]
        return replace_rows(corpus, np.concatenate(rows), texts, mentions)

    def _detected(
        self, corpus: Corpus, canaries: list[Canary], rows: list[IntArray], notes: list[str]
    ) -> list[Canary]:
        """The canaries; each says if the corpus' detector, where it has one, finds its name."""
        if corpus.detector is None:
            return canaries
        out = []
        for canary, hit in zip(canaries, rows, strict=True):
            if canary.kind == "entity" and len(hit):
                detected = hidden(corpus, int(hit[0]), self._secret_starts(canary))
                canary = canary.model_copy(update={"detected": detected})
            out.append(canary)
        detections = [canary.detected for canary in out if canary.detected is not None]
        if detections:
            notes.append(
                f"{corpus.detector.detector} finds the names of {sum(detections)} "
                f"of {len(detections)} entity canaries: a mechanism on entities does not "
                "see the others"
            )
        return out

    def _secret_starts(self, canary: Canary) -> int:
        """The character of a canary at which what is not given begins."""
        return len(split_canary(canary.text, self.params.prefix_words)[0]) + 1
