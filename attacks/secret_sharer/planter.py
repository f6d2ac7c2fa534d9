"""Parameters of the secret sharer, and planting of canaries: texts, rows, and their names."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from uedp_bench.api import InputError, Params, equals
from uedp_bench.api.text import normal_surface
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
from uedp_bench.corpus import distinct

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, IntArray, Mention

Probability = Annotated[float, Field(gt=0.0, le=1.0)]
Copies = Annotated[int, Field(ge=0)] | Annotated[float, Field(gt=0.0, lt=1.0)]
Layout = Literal["suffix", "HS", "HSH", "HHSHH"]

OF_GAPS = ("occurrences", "sharers", "planting")
"""Parameters of secrets in a gap."""

OF_SUFFIXES = (
    "p_u", "p_e", "entity_canaries", "entity_spreads", "entity_sentences", "canary_words",
    "prefix_words", "references", "exact_up_to", "beam_width",
)  # fmt: skip
"""Parameters of canaries that end with their secret."""


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


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
        exclude_if=equals(0),
        description="rank a canary among every suffix that the words make where there are at most "
        "so many; `references` then serve the fit alone. 0 ranks among references always",
    )
    beam_width: int = Field(default=5, ge=1, description="continuations that beam search returns")
    layout: Annotated[tuple[Layout, ...], BeforeValidator(_several)] = Field(
        default=("suffix",),
        min_length=1,
        exclude_if=equals(("suffix",)),
        description="suffix: several words follow a prefix. HS, HSH, HHSHH, or a list of these: "
        "one secret word S among generic words H, ranked among all words of `word_pool`; "
        "`canaries` of each layout and number of occurrences",
    )
    occurrences: tuple[Copies, ...] = Field(
        default=(1, 10, 100),
        min_length=1,
        exclude_if=equals((1, 10, 100)),
        description="rows that hold a secret of a layout: numbers, or shares of the train split "
        "below 1. Secrets of 0 rows measure what chance gives",
    )
    sharers: int = Field(
        default=0,
        ge=0,
        exclude_if=equals(0),
        description="users whose rows hold the copies of a secret, as evenly as it goes (1: all "
        "copies in one user); 0 draws rows of anybody",
    )
    planting: Literal["insert", "rows"] = Field(
        default="insert",
        exclude_if=equals("insert"),
        description="insert: a secret of a layout stands between two words of a row, which stays. "
        "rows: it replaces the row",
    )

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

    @model_validator(mode="after")
    def _of_one_layout(self) -> SecretSharerParams:
        if len(set(self.layout)) < len(self.layout):
            raise ValueError(f"layout is {list(self.layout)}: give each layout once")
        if "suffix" in self.layout and len(self.layout) > 1:
            raise ValueError("layout has 'suffix' among others: suffixes are a run of their own")
        if len(set(self.occurrences)) < len(self.occurrences):
            raise ValueError(f"occurrences is {list(self.occurrences)}: give each number once")
        fields = type(self).model_fields
        for name in OF_SUFFIXES if self.in_gaps else OF_GAPS:
            if getattr(self, name) != fields[name].default:
                raise ValueError(
                    f"{name} is given, but it says nothing where layout is {', '.join(self.layout)}"
                )
        return self

    @property
    def in_gaps(self) -> bool:
        """True if secrets stand among generic words; False if they are suffixes."""
        return "suffix" not in self.layout

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
        return corpus, PlantedCanaries(canaries=tuple(canaries), words=words, notes=tuple(notes))

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
