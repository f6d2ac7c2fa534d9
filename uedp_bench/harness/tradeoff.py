"""Privacy against utility of word mechanisms, and the choice of parameters under a utility budget.

Utility loss is that of the task `word-substitution`, inference error that of the attack
`word-reconstruction`; both take the words of all private rows as prior. Points share their random
numbers, so that differences between them are those of the parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from uedp_bench import registry
from uedp_bench.corpus import Corpus
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.mechanism import CorpusStats, PublishingMechanism
from uedp_bench.release import WordChannel
from uedp_bench.results import ComponentSpec, Estimate, RunSpec
from uedp_bench.run_context import Run
from uedp_bench.text.word_occurrences import Unlabelled

Adversary = Literal["posterior", "map"]

SECOND_WEIGHTS = tuple(round(0.05 * step, 2) for step in range(1, 21))
"""Values of t that Algorithm 2 tries."""

NOTE = (
    "measured on the corpus, and a choice made by it looks at private text: the mechanism's "
    "guarantee does not cover the choice"
)


class ChannelMeter(Protocol):
    """A task or an attack that measures a word channel without a run."""

    def of_channel(
        self, rows: Corpus, channel: WordChannel, rng: np.random.Generator
    ) -> Mapping[str, Estimate]:
        """Its metrics for the words of some rows; substitutes and intervals come from `rng`."""
        ...


class Point(NamedTuple):
    """One setting of a mechanism and what it does to the words of a corpus.

    Attributes:
        params: of the mechanism, all of them.
        loss: utility loss, equation (2).
        error: inference error by adversary: `posterior` (equation 4) and `map`.
        unchanged: share of words replaced by themselves.
    """

    params: dict[str, Any]
    loss: Estimate
    error: dict[Adversary, Estimate]
    unchanged: Estimate

    @property
    def axes(self) -> dict[str, Any]:
        """Epsilon and t, where the mechanism has them."""
        return {name: self.params[name] for name in ("epsilon", "t") if name in self.params}


@dataclass(frozen=True, eq=False)
class Study:
    """What stays the same for all points.

    Attributes:
        rows: private rows with their labels.
        samples: substitutes of each word, for either quantity; an even number.
        unlabelled: how substitutes without a label count.
        seed: of all random numbers.
        device: torch device.
    """

    rows: Corpus
    samples: int = 100
    unlabelled: Unlabelled = "wrong"
    seed: int = 1
    device: str = "cpu"

    def measure(self, mechanism: ComponentSpec) -> Point:
        """Loss and error at one setting.

        Raises:
            CapabilityError: if the mechanism does not replace words one by one.
            InputError: if its parameters are wrong, or the corpus has no labels or no such words.
        """
        stats = CorpusStats(users=0, rows=0, sensitive_rows=0, entities=0, public=False)
        run = Run(self.seed, stats, self.device)
        made = registry.mechanisms.create(mechanism.name, mechanism.params)
        channel = made.word_channel(run) if isinstance(made, PublishingMechanism) else None
        if channel is None:
            raise CapabilityError(f"{mechanism.name} does not replace words one by one")
        loss: ChannelMeter = registry.tasks.create(
            "word-substitution", {"samples": self.samples, "unlabelled": self.unlabelled}
        )
        error: ChannelMeter = registry.attacks.create(
            "word-reconstruction", {"samples": self.samples}
        )
        used = loss.of_channel(self.rows, channel, run.shared("tradeoff", "utility"))
        found = error.of_channel(self.rows, channel, run.shared("tradeoff", "privacy"))
        return Point(
            params=made.params.model_dump(mode="json"),
            loss=used["misclassified"],
            error={"posterior": found["inference_error"], "map": found["inference_error_map"]},
            unchanged=used["unchanged"],
        )


class Choice(NamedTuple):
    """What Algorithm 2 chose, and every point that it measured."""

    chosen: Point
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Budget:
    """A limit on the utility loss, and how far to go for it.

    Attributes:
        loss: C.
        doublings: of epsilon, at most.
        adversary: whose inference error is to be large.
    """

    loss: float
    doublings: int = 12
    adversary: Adversary = "posterior"


def select(measure: Callable[[float, float], Point], epsilon: float, budget: Budget) -> Choice:
    """Algorithm 2: epsilon doubles at t = 0 until the loss is below C; then t is chosen.

    Of t = 0 and those of `SECOND_WEIGHTS` whose loss is at most C, the one with the largest
    inference error; the smallest such t. Where the loss is below C at once, epsilon stays.

    Args:
        measure: the point at (epsilon, t).
        epsilon: where it begins.
        budget: see there.

    Raises:
        InputError: if no epsilon brings the loss below C.
    """
    points = [measure(epsilon, 0.0)]
    while points[-1].loss.value >= budget.loss:
        if len(points) > budget.doublings:
            least = min(points, key=lambda point: point.loss.value)
            raise InputError(
                f"--budget {budget.loss:g} is not reached: the smallest loss seen is "
                f"{least.loss.value:.4g}, at epsilon {least.params['epsilon']:g} and t 0, after "
                f"{budget.doublings} doublings; allow a larger loss, or --doublings"
            )
        epsilon *= 2.0
        points.append(measure(epsilon, 0.0))
    best = points[-1]
    for t in SECOND_WEIGHTS:
        point = measure(epsilon, t)
        points.append(point)
        better = point.error[budget.adversary].value > best.error[budget.adversary].value
        if point.loss.value <= budget.loss and better:
            best = point
    return Choice(best, tuple(points))


def select_for(
    study: Study, mechanism: ComponentSpec, budget: Budget, listen: Callable[[str], None]
) -> Choice:
    """Algorithm 2 for a mechanism that has t; `listen` is told what is measured.

    Raises:
        InputError: as `select`, or if the mechanism has no t.
    """
    fields = registry.mechanisms.get(mechanism.name).Params.model_fields
    if not {"epsilon", "t"} <= set(fields):
        raise InputError(f"--budget chooses epsilon and t, and {mechanism.name} has no t")

    def measure(epsilon: float, t: float) -> Point:
        listen(f"epsilon {epsilon:g}, t {t:g}")
        params = {**mechanism.params, "epsilon": epsilon, "t": t}
        return study.measure(ComponentSpec(name=mechanism.name, params=params))

    return select(measure, float(mechanism.params["epsilon"]), budget)


def study_of(run: RunSpec, **options: Any) -> Study:
    """The study of the private rows of a run's source."""
    from uedp_bench.harness.components import build_sources
    from uedp_bench.harness.planting import load_corpus

    corpus = load_corpus(build_sources(run).first)
    rows = corpus.take(np.flatnonzero(corpus.where("train", "valid", "test")))
    return Study(rows, **options)


def plot(points: Sequence[Point], adversary: Adversary, path: Path) -> None:
    """Writes a page with inference error against utility loss, one line for each t.

    Raises:
        InputError: if it cannot be written.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    lines: dict[Any, list[Point]] = {}
    for point in points:
        lines.setdefault(point.params.get("t"), []).append(point)
    for t, line in lines.items():
        ordered = sorted(line, key=lambda point: float(point.params["epsilon"]))
        loss, error = [p.loss for p in ordered], [p.error[adversary] for p in ordered]
        figure.add_scatter(
            x=[each.value for each in loss],
            y=[each.value for each in error],
            error_x=_bars(loss),
            error_y=_bars(error),
            text=[f"epsilon {p.params['epsilon']:g}" for p in ordered],
            mode="lines+markers",
            name="" if t is None else f"t = {t:g}",
            showlegend=t is not None,
        )
    figure.update_layout(
        xaxis_title="utility loss (words with another label)",
        yaxis_title=f"inference error ({adversary})",
        template="plotly_white",
    )
    try:
        path.write_text(figure.to_html(include_plotlyjs=True), encoding="utf-8")
    except OSError as error_:
        raise InputError(f"--plot {path} cannot be written: {error_.strerror}") from None


def _bars(estimates: Sequence[Estimate]) -> dict[str, Any]:
    """Error bars from the value to the ends of its interval."""
    above = [0.0 if e.high is None else e.high - e.value for e in estimates]
    below = [0.0 if e.low is None else e.value - e.low for e in estimates]
    return {"type": "data", "array": above, "arrayminus": below}
