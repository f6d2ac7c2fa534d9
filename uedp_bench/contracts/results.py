"""The result of a run: one versioned pydantic model, written as JSON.

Old schema versions keep loading. Fields are only ever added; a change of meaning raises
`SCHEMA_VERSION` and gets a migration in `migrated`: version 2 has the headline of a run, its floors
and `learned`, and `accuracy` of next-word counts known targets alone; the number of version 1 is
now `accuracy_with_unknown`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.events import Adjacency, PrivacyEvent, PrivacyUnit
from uedp_bench.accounting.guarantee import Guarantee, NoiseSource
from uedp_bench.components.component import Number, equals
from uedp_bench.components.metric import Declared
from uedp_bench.contracts.clients import Clients
from uedp_bench.errors import InputError, is_input_error, plain
from uedp_bench.io.files import (
    MOST_PATH_SHOWN,
    MOST_SHOWN,
    FormError,
    faults,
    file_text,
    parse,
    shown_path,
)
from uedp_bench.io.folders import write_atomically

SCHEMA_VERSION = 2


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def json_values(value: Any) -> Any:
    """JSON values of anything nested: NumPy becomes Python's, infinity the string "inf".

    Raises:
        ValueError: for NaN, naming its place.
    """
    if isinstance(value, Mapping):
        return {key: _inside(part, str(key)) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_inside(part, str(number)) for number, part in enumerate(value)]
    if isinstance(value, np.ndarray | np.generic):
        return json_values(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise ValueError("NaN")
        return "inf" if value > 0 else "-inf"
    return value


def _inside(value: Any, name: str) -> Any:
    try:
        return json_values(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


CHECKED = {"checked": True}
"""Context of validation for values of `parse_result`, which are plain already."""


def _plain_once(value: Any, info: ValidationInfo) -> Any:
    """As `json_values`, unless `parse_result` has looked at every number already."""
    return value if info.context is CHECKED else json_values(value)


Plain = Annotated[dict[str, Any], BeforeValidator(_plain_once)]
"""Free-form JSON values without NaN."""


class Estimate(_Frozen):
    """A number with its 95 % interval; `low` and `high` are None where there is none.

    Raises:
        ValueError: if any of them is NaN: NaN is an error, never a result.
    """

    value: Number
    low: Number | None = None
    high: Number | None = None


Bound = Annotated[Number, Field(ge=0.0, lt=math.inf)]
"""An epsilon from below: 0 or more, and finite."""


Limit = Annotated[float, Field(ge=0.0, le=1.0)]


class CurveEvidence(_Frozen):
    """Counts of an audit that trade-off curves are tested against, without assumptions.

    Attributes:
        canaries: canaries of one training, each in by a fair coin of its own.
        guesses: numbers of guesses and of right ones, for each way that was fixed in advance.
        rates: events over independent trainings: the lower limit of the probability of each on
            the side where it is likely, the upper limit on the other, all at half of `error`.
        bets: guesses of one canary over trainings that stopped early, in their order: the chance
            that was bet on each, 0 for none, and True for a right one.
        error: error of the test: the probability that a curve which holds is refuted.
    """

    canaries: int = Field(ge=1)
    guesses: tuple[tuple[int, int], ...] = ()
    rates: tuple[tuple[Limit, Limit], ...] = ()
    bets: tuple[tuple[Limit, bool], ...] = Field(default=(), exclude_if=equals(()))
    error: float = Field(gt=0.0, lt=1.0)


class LowerBound(_Frozen):
    """An epsilon that an attack refuted from below.

    Attributes:
        unit, adjacency, delta: unit, adjacency and delta of the guarantees that it bounds.
        epsilon: epsilon at `confidence`, which pays for every choice that the attack made.
        strict_epsilon: epsilon at confidence 1 - 1e-6, for the checks against proven and claimed
            guarantees, which no chance may fail; None where the attack's statistics rest on
            `assumptions` that the checks cannot rely on.
        spread, sentences: point of a user-entity bound: other users that mention the entity, and
            their sentences that do, all together; as many of each, the last perhaps fewer. None
            for any number.
        assumptions: conditions beside the attack's own coins; empty for none.
        evidence: counts that the whole curve of a guarantee is tested against; None if the bound
            says all, as every bound at a second delta does.
    """

    unit: PrivacyUnit
    adjacency: Adjacency = "add-or-remove"
    epsilon: Bound
    delta: float = Field(ge=0.0, lt=1.0)
    confidence: float = Field(gt=0.0, lt=1.0)
    method: str
    attack: str = ""
    spread: int | None = Field(default=None, ge=0)
    sentences: int | None = Field(default=None, ge=0)
    strict_epsilon: Bound | None = None
    assumptions: tuple[str, ...] = ()
    evidence: CurveEvidence | None = Field(default=None, exclude_if=equals(None))


MOST_SAMPLES, MOST_SAMPLE_TEXT = 5, 240
"""Most samples that a result keeps of an attack, and characters of each text."""


class Sample(_Frozen):
    """Reading of one private text by an attack. Long texts are cut.

    Results keep samples of generated text, and of other text only where the source's parameter
    `show_samples` asks for it.

    Attributes:
        private: the text that was to be protected.
        seen: the attacker's view of it.
        read: the attacker's right conclusion.
    """

    private: str
    seen: str
    read: str

    @field_validator("private", "seen", "read", mode="before")
    @classmethod
    def _cut(cls, value: Any) -> Any:
        long = isinstance(value, str) and len(value) > MOST_SAMPLE_TEXT
        return f"{value[: MOST_SAMPLE_TEXT - 2]} …" if long else value


class ComponentSpec(_Frozen):
    """A component by name, with all its parameters."""

    name: str
    params: dict[str, Any] = {}


UNPROTECTED = "noiseless"
"""Mechanism that trains where no mechanism of a spec does."""


class RunSpec(_Frozen):
    """Everything that defines one run; defaults are filled in."""

    task: ComponentSpec
    source: ComponentSpec
    model: ComponentSpec
    mechanism: tuple[ComponentSpec, ...]
    attacks: tuple[ComponentSpec, ...] = ()
    seed: int = 1
    delta: float = Field(default=1e-5, gt=0.0, lt=1.0)
    noise_source: NoiseSource = "seed"
    clients: Clients | None = Field(default=None, exclude_if=equals(None))
    selection: Selection | None = None

    @property
    def label(self) -> str:
        """Mechanism names joined by ' + '.

        What would train anyway is left out after another mechanism.
        """
        names = [part.name for part in self.mechanism]
        return " + ".join([name for name in names if name != UNPROTECTED] or names)


class SkippedAttack(_Frozen):
    """An attack that did not apply, with the reason."""

    name: str
    reason: str


MOST_WORDS = 20_000
"""Characters of an error's message or traceback that a result keeps."""

_Words = Annotated[str, AfterValidator(lambda text: plain(text, MOST_WORDS, lines=True))]
"""Text of an error of anybody, which may have half of a character, or fill a disk."""


class FailedAttack(_Frozen):
    """An attack that ended in an error; all else of its run is as if it had not been asked for.

    Attributes:
        type: name of the exception.
        traceback: traceback; empty if the message explains bad input.
    """

    name: str
    type: str
    message: _Words
    traceback: _Words = ""

    @property
    def reason(self) -> str:
        """Message on one line, after the exception's name unless the error is bad input."""
        message = " ".join(self.message.split())
        if is_input_error(self.type) or message == self.type:
            return message
        return f"{self.type}: {message}"


class RunError(_Frozen):
    """Error that made a run fail.

    Attributes:
        phase: phase of the run.
        failures: number of failures so far, other than on bad input.
    """

    type: str
    message: _Words
    phase: str
    traceback: _Words = ""
    failures: int = 1


class Cost(_Frozen):
    """Cost of a run; `extra="allow"`d names are further counts (users per second, ...)."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    train_seconds: float = 0.0
    attack_seconds: float = 0.0
    score_seconds: float = 0.0
    peak_memory_mb: float = 0.0
    device: str = "cpu"

    @model_validator(mode="before")
    @classmethod
    def _no_nan(cls, values: Any, info: ValidationInfo) -> Any:
        return _plain_once(values, info)


class Headline(_Frozen):
    """Metric by which a board ranks the runs of a task.

    Attributes:
        metric: name of a utility.
        larger_is_better: direction of the metric.
        by_vocabulary: True if it compares only between runs of one vocabulary.
    """

    metric: str
    larger_is_better: bool
    by_vocabulary: bool = False


class TrainedStage(_Frozen):
    """One training stage of a run.

    Attributes:
        role: role of the stage (`learner.Role`); no guarantee speaks of rows of the role
            `downstream`.
        stage: name that the events of a private stage carry.
        rows_of: source of the rows: the run's own, or the task's second one.
        rows: number of rows; None of private stages.
        schedule: schedule; empty of private stages, where the mechanism decided.
    """

    role: Literal["public", "private", "downstream"]
    stage: str = ""
    rows_of: Literal["source", "downstream"] = "source"
    rows: int | None = None
    schedule: Plain = {}


class Result(_Frozen):
    """One run. See `docs/results.md` for every field.

    Attributes:
        headline: metric that ranks the run; None of unknown tasks in files of schema version 1.
        floors: values of the headline metric that need no training on private rows, or little, by
            name.
        learned: True if the headline's interval lies strictly on the better side of the best
            floor; None where that is not known.
        stages: every training stage in order; None where one private stage is all there is, or
            follows public pre-training (`pretraining`).
        metrics: how the numbers are read, as the run's components declare it; None in files from
            before they did (`components.metric.declared` has a substitute).
        ceilings: largest honest values of metrics of `leakage` that proofs bound, by attack.
        samples: readings of private text, by attack; empty unless it may be shown.
        stored: private data that the folder of the result holds, by kind.
    """

    schema_version: Literal[2] = 2
    id: str
    group: str
    status: Literal["finished", "failed"]
    error: RunError | None = None
    spec: RunSpec
    utility: dict[str, Estimate] = {}
    headline: Headline | None = None
    floors: dict[str, Number] = {}
    learned: bool | None = None
    guarantees: tuple[Guarantee, ...] = ()
    lower_bounds: tuple[LowerBound, ...] = ()
    leakage: dict[str, dict[str, Estimate]] = {}
    ceilings: dict[str, dict[str, Number]] = Field(default={}, exclude_if=equals({}))
    details: Annotated[dict[str, dict[str, Any]], BeforeValidator(_plain_once)] = {}
    metrics: Declared | None = Field(default=None, exclude_if=equals(None))
    samples: dict[str, tuple[Sample, ...]] = Field(default={}, exclude_if=equals({}))
    skipped_attacks: tuple[SkippedAttack, ...] = ()
    failed_attacks: tuple[FailedAttack, ...] = Field(default=(), exclude_if=equals(()))
    events: tuple[PrivacyEvent, ...] = ()
    pretraining: Plain = {}
    stages: tuple[TrainedStage, ...] | None = None
    series: dict[str, list[tuple[int, Number]]] = {}
    diagnostics: Plain = {}
    selection: Plain = {}
    cost: Cost = Cost()
    stored: Plain = {}
    tracking: dict[str, str] = {}
    provenance: Plain = {}

    @property
    def label(self) -> str:
        """The mechanism as tables show it."""
        return self.spec.label


def write_result(result: Result, path: Path) -> None:
    """Write `result.json` atomically (a reader sees the old file or the new one)."""
    write_atomically(path, result_text(result))


def result_text(result: Result) -> str:
    """Text of `result.json`."""
    text = json.dumps(result.model_dump(mode="json"), indent=1, allow_nan=False, sort_keys=False)
    return f"{text}\n"


def read_result(path: Path) -> Result:
    """Read a result of any schema version from a file of anybody.

    Raises:
        InputError: in one line, if the file is not a result, with the first field that is wrong.
    """
    try:
        text = file_text(path)
    except FormError as error:
        raise InputError(f"{shown_path(path)} is not a readable result: {error}") from None
    return parse_result(text, str(path))


def parse_result(text: str, where: str) -> Result:
    """Parse a result of any schema version from the text of its file.

    Args:
        text: JSON text.
        where: name of the file in messages.

    Raises:
        InputError: in one line, if the text is not a result, with the first field that is wrong.
    """
    where = plain(where, MOST_PATH_SHOWN)
    try:
        parsed = parse(text)
        for name in parsed.twice:
            raise FormError(f"'{plain(name, MOST_SHOWN)}' is there twice in one object")
        for place, what in () if parsed.sound else faults(parsed.value):
            raise FormError(f"{plain('.'.join(map(str, place)), MOST_SHOWN)}: {what}")
        return Result.model_validate(migrated(parsed.value), context=CHECKED)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        at = plain(".".join(map(str, first["loc"])), MOST_SHOWN)
        message = plain(first["msg"], 2 * MOST_SHOWN)
        raise InputError(f"{where} is not a valid result: {at}: {message}") from None
    except (FormError, ValueError, OverflowError, RecursionError) as error:
        message = plain(str(error), 4 * MOST_SHOWN)
        raise InputError(f"{where} is not a readable result: {message}") from None


# --------------------------------------------------------------- results of earlier schema versions

_HEADLINES: Mapping[str, tuple[str, bool, Mapping[str, str]]] = {
    "next-word": ("perplexity", True, {"unigrams": "unigram_perplexity"}),
    "text-classification": (
        "error",
        False,
        {"majority": "majority_error", "random": "random_error"},
    ),
    "word-substitution": ("misclassified", False, {}),
}
"""Headline metric of each task that version 1 had (less is better), True if it compares within one
vocabulary only, and the metrics that hold its floors."""


def migrated(value: Any) -> Any:
    """Bring a result (JSON values) to the newest version; return anything else as it is."""
    if not isinstance(value, Mapping) or value.get("schema_version", 1) != 1:
        return value
    value = {**value, "schema_version": SCHEMA_VERSION}
    task, utility = _part(value, "spec", "task").get("name"), _part(value, "utility")
    if task == "next-word" and "accuracy" in utility:
        names = {"accuracy": "accuracy_with_unknown"}
        value["utility"] = {names.get(name, name): number for name, number in utility.items()}
    if value.get("status") == "finished" and isinstance(task, str) and task in _HEADLINES:
        value = {**_judged(_HEADLINES[task], utility, bool(value.get("pretraining"))), **value}
    return value


def _judged(
    task_headline: tuple[str, bool, Mapping[str, str]], utility: Mapping[str, Any], pretrained: bool
) -> dict[str, Any]:
    """Headline, floors and `learned`; the model before private training was not kept then."""
    name, by_vocabulary, metrics = task_headline
    held = {floor: _number(_part(utility, at).get("value")) for floor, at in metrics.items()}
    floors = {floor: value for floor, value in held.items() if value is not None}
    headline = {"metric": name, "larger_is_better": False, "by_vocabulary": by_vocabulary}
    estimate = _part(utility, name)
    value, high = (_number(estimate.get(part)) for part in ("value", "high"))
    learned: bool | None = None
    if value is not None and floors:
        best = min(floors.values())
        if value >= best or (high is not None and high >= best):
            learned = False
        elif high is not None and not pretrained:
            learned = True
    return {"headline": headline, "floors": floors, "learned": learned}


def _part(value: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path, empty if there is none: validation reports its errors later."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number
