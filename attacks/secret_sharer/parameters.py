"""Parameters of the secret sharer: what is planted, how often, and what it is ranked among."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from uedp_bench.api import Params, equals

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
