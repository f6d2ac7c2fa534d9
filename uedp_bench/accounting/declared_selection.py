"""Declaration of the way in which a benchmark's hyper-parameters were chosen."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

MOST_SETTINGS = 10_000
"""Most settings of a grid that was tried; each of them is accounted for."""


class Selection(BaseModel):
    """Hyper-parameters that were chosen by comparing trained models.

    Every trial saw the training split, so the choice says something about it even where scores were
    computed on public text. What the ledger adds for it is in `accounting.selection`.

    Attributes:
        tried: by the name of a setting (`mechanism.NAME.x`, `model.x`, `task.x`), all values that
            were tried; a grid where there are several names. No value twice: equal trials of one
            seed draw the same noise.
        seeds: trainings of each setting that the choice looked at; each is a trial. None: as many
            as the benchmark has seeds. A choice by the mean over three seeds is three trainings.
        scores: the text on which trained models were compared: "public"; "validation": private text
            of users who are not in the training split; "training": the training split itself.
        repetitions: law of the number of trials. "fixed": each setting of the grid, with each of
            the seeds. Otherwise the number was drawn at random and kept secret, each trial took a
            setting of the grid uniformly at random and trained it with `seeds` seeds, and the best
            trial was released.
        mean: expected number of trials, where it is random.
        eta: shape of the truncated negative binomial distribution; 1 is geometric, 0 logarithmic.
        charge: False leaves every guarantee as for settings fixed in advance, and says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    tried: dict[str, Annotated[list[Any], Field(min_length=1)]] = Field(min_length=1)
    scores: Literal["public", "validation", "training"] = "validation"
    seeds: int | None = Field(default=None, ge=1, le=1000)
    repetitions: Literal["fixed", "poisson", "truncated-negative-binomial"] = "fixed"
    mean: float | None = Field(default=None, ge=1.0, allow_inf_nan=False)
    eta: float | None = Field(default=None, gt=-1.0, allow_inf_nan=False)
    charge: bool = True

    @field_validator("tried")
    @classmethod
    def _names(cls, tried: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for name in tried:
            parts = name.split(".")
            if (parts[0], len(parts)) not in {("mechanism", 3), ("model", 2), ("task", 2)}:
                raise ValueError(f"{name!r} is none of mechanism.NAME.x, model.x, task.x")
        for name, values in tried.items():
            seen = [json.dumps(value, sort_keys=True, default=str) for value in values]
            for number, value in enumerate(seen):
                if value in seen[:number]:
                    raise ValueError(f"{name}: {value} stands twice; give every value once")
        return tried

    @model_validator(mode="after")
    def _numbers(self) -> Selection:
        if self.size > MOST_SETTINGS:
            raise ValueError(f"tried: the grid has more than {MOST_SETTINGS:,} settings")
        for name, needed in (
            ("mean", self.repetitions != "fixed"),
            ("eta", self.repetitions == "truncated-negative-binomial"),
        ):
            is_set = getattr(self, name) is not None
            if is_set != needed:
                verb = "needed" if needed else "not used"
                raise ValueError(f"{name} is {verb} where repetitions is {self.repetitions!r}")
        return self

    @property
    def size(self) -> int:
        """Number of settings in the grid."""
        return math.prod(len(values) for values in self.tried.values())

    @property
    def each(self) -> int:
        """Trainings of one setting that the choice looked at."""
        return self.seeds or 1

    @property
    def random(self) -> bool:
        """True if chance decided how many trials there were."""
        return self.repetitions != "fixed"

    @property
    def trainings(self) -> int:
        """Trained models that the choice looked at, where their number is fixed."""
        return self.size * self.each

    def declared(self) -> dict[str, Any]:
        """Part of a run's identity; runs of older versions recorded no seeds."""
        fields = self.model_dump(mode="json")
        if self.seeds is None:
            del fields["seeds"]
        return fields

    def settings(self) -> Iterator[dict[str, Any]]:
        """All settings of the grid: the value of every name."""
        for values in itertools.product(*self.tried.values()):
            yield dict(zip(self.tried, values, strict=True))

    def concerning(self, mechanisms: set[str]) -> Selection | None:
        """The part that concerns a run of these mechanisms; None if nothing does."""
        tried = {
            name: values
            for name, values in self.tried.items()
            if not name.startswith("mechanism.") or name.split(".")[1] in mechanisms
        }
        return self.model_copy(update={"tried": tried}) if tried else None
