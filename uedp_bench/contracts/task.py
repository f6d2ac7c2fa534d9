"""Contract of tasks, which define learning, score its use, and judge the scores.

A floor is a value of the headline metric that needs no training on private rows, or next to none:
word counts, the most frequent class, a model that saw public text alone. A model that is no better
has learnt nothing from the text that its mechanism protects, however small its epsilon.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from uedp_bench.components.component import Component, P
from uedp_bench.contracts.results import Estimate, Headline
from uedp_bench.contracts.source import SourceRef
from uedp_bench.errors import CapabilityError, InputError, PluginError

if TYPE_CHECKING:
    from uedp_bench.contracts.capabilities import Vocabulary
    from uedp_bench.contracts.learner import Learner, Role, Rows
    from uedp_bench.contracts.release import Release
    from uedp_bench.contracts.results import Estimate
    from uedp_bench.contracts.run_context import Run
    from uedp_bench.corpus import Corpus

MOST_TEXTS = 1_000_000
"""Approximate most texts of `WordCounts.texts`; larger counts are scaled down to it."""


@dataclass(frozen=True, eq=False)
class WordCounts:
    """Words with their counts, as a vocabulary mechanism chose them.

    Everybody may see them: events hold the cost of the choice. They are sorted, so that nothing
    that is made of them shows the order of rows.

    Attributes:
        counts: count of each word, above 0; noisy where private text was counted.
        origin: origin in words.

    Raises:
        InputError: for a count that is not above 0 or not finite.
    """

    counts: Mapping[str, float]
    origin: str

    def __post_init__(self) -> None:
        for word, count in self.counts.items():
            if not (count > 0.0 and math.isfinite(count)):
                raise InputError(f"the count of the word {word!r} is {count}: it must be above 0")
        object.__setattr__(self, "counts", dict(sorted(self.counts.items())))

    def texts(self, most: int = MOST_TEXTS) -> list[str]:
        """Repeat every word by its count, each time as a text of its own, in order.

        Trainers of tokenizers take texts and no counts. Counts are rounded to whole numbers, 1 at
        least, and scaled down where they add up to more than `most`.
        """
        total = math.fsum(self.counts.values())
        scale = min(1.0, most / total) if total else 1.0
        texts: list[str] = []
        for word, count in self.counts.items():
            texts += [word] * max(1, round(scale * count))
        return texts


@dataclass(frozen=True)
class Utility:
    """Scores of a release by a task.

    Attributes:
        metrics: metrics by name, with 95 % intervals over users; `Task.metrics` declares them.
        details: further values in the details of a result, under the task's name (JSON values).
            Sentences under the name `notes` stand first on the page of a run.
    """

    metrics: Mapping[str, Estimate]
    details: Mapping[str, Any] = field(default_factory=dict)


_DECLARE = 'write metrics = (Metric("error", better="lower"), ...), the headline first'


class Task(Component[P]):
    """Base of all tasks.

    Attributes:
        needs: capabilities of the release that `score` uses; any one of them.
        releases: declared capabilities of its releases: attacks that need others are named before
            anything is trained. None are declared by default.
        models: base class of the models that it can learn (`uedp_bench.contracts.model`), or None.
        default_model: model where a spec names none.
        metrics: declared metrics; the first is the headline, with the better direction.
        by_vocabulary: True if utility compares only between runs of one vocabulary.
        floors: name of a floor -> the metric that holds it. A floor is a value of the
            headline metric that takes no training; a run that is no better has learnt nothing. The
            model before any private row is a floor beside these, wherever it saw public text.
        optional: names of metrics that are left out where they make no sense.
        counted: names of metrics that are computed from private training rows without
            protection (most floors are): a real deployment could not print them.
        scores_original: True if `score` gets the original test rows even where mechanisms perturb
            them at inference; published rows are in the release.
    """

    needs: ClassVar[tuple[type, ...]]
    releases: ClassVar[tuple[type, ...]] = ()
    models: ClassVar[type | None] = None
    default_model: ClassVar[str] = "lstm-small"
    by_vocabulary: ClassVar[bool] = False
    floors: ClassVar[Mapping[str, str]] = MappingProxyType({})
    optional: ClassVar[tuple[str, ...]] = ()
    counted: ClassVar[tuple[str, ...]] = ()
    scores_original: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "utility" in cls.__dict__:
            raise PluginError(
                f"the task {cls.__qualname__} names its metrics in `utility`: {_DECLARE}"
            )
        if "details" in cls.__dict__:
            raise PluginError(
                f"the task {cls.__qualname__} has a method `details`, which nobody asks: return "
                "Utility(metrics, details) from `score`, and rename or delete `details`"
            )

    def __init__(self, params: P | None = None, model: Any = None) -> None:
        super().__init__(params)
        if not self.metrics:
            raise PluginError(f"the task {self.name} declares no metrics: {_DECLARE}")
        self.model = model

    @abstractmethod
    def vocabulary(self, corpus: Corpus, words: WordCounts | None = None) -> Vocabulary | None:
        """Make the vocabulary from the public split or a file; None if the task has none.

        Args:
            corpus: rows that the task may see: the splits train, valid and public.
            words: words that a vocabulary mechanism chose among those of `words`; the vocabulary
                is then made from them alone, and is not private.

        Raises:
            InputError: if the corpus has no public text and the parameters ask for it, or they ask
                for a vocabulary where a mechanism chose the words.
        """

    def words(self, corpus: Corpus) -> Sequence[Sequence[str]]:
        """Split each row into words of the model's vocabulary, by that row alone.

        A vocabulary mechanism chooses among them. A task without this method has none.

        Raises:
            CapabilityError: if no mechanism can choose the vocabulary.
        """
        raise CapabilityError(
            f"the task {self.name} has no vocabulary that a mechanism can choose: leave out the "
            "vocabulary mechanism"
        )

    @abstractmethod
    def stages(self, corpus: Corpus, vocabulary: Vocabulary | None, run: Run) -> Sequence[Learner]:
        """Make the learners of all stages, in the order in which they train; see `roles`.

        Each learner starts from the network that the one before trained (`Learner.start_from`), and
        the last one makes the release. `corpus` holds the train, valid and public splits only.
        """

    def roles(self) -> tuple[Role, ...]:
        """Roles of the learners that `stages` gives, in the same order, from parameters alone.

        One private stage by default; none for a task that trains nothing. The cost of a run is
        planned from them before anything is loaded.
        """
        return ("private",)

    def second_source(self) -> SourceRef | None:
        """Source of the rows of its last stage, if a parameter names one (`SourceRef`).

        `Run.downstream` holds its rows; `score` gets its corpus in place of the run's own.
        """
        named = [value for _, value in self.params if isinstance(value, SourceRef)]
        return named[0] if named else None

    def private_rows(self) -> tuple[Rows, ...]:
        """Rows that each private stage trains on: in the last stage those of a second source."""
        roles = self.roles()
        rows: list[Rows] = ["source"] * roles.count("private")
        if rows and roles[-1] == "private" and self.second_source() is not None:
            rows[-1] = "downstream"
        return tuple(rows)

    def classes_of(self) -> frozenset[str]:
        """Content whose classes decide the form of its networks, unless parameters name them.

        None by default; names are those of `Source.undeclared`.
        """
        return frozenset()

    @abstractmethod
    def score(self, release: Release, corpus: Corpus) -> Utility | Mapping[str, Estimate]:
        """Score utility on the split `test` of the original corpus, with 95 % intervals over users.

        A task without details may return the metrics alone.
        """

    @abstractmethod
    def load(self, folder: Path) -> Release:
        """Load the release that `Release.save` wrote into a folder."""


# ----------------------------------------------------------------------------- judgement of utility


PUBLIC_ONLY = "public-only"
"""The floor of a model that saw public text: the same model before any private row."""


def judged(
    task: Task[Any], utility: Mapping[str, Estimate], public_only: float | None
) -> dict[str, Any]:
    """Fill the fields `headline`, `floors` and `learned` of a result.

    Args:
        task: task that declares which of its metrics are floors.
        utility: metrics of the task.
        public_only: headline metric of the model before any private row; None where the model
            saw no public text either.
    """
    headline = headline_of(type(task))
    floors = {name: utility[at].value for name, at in task.floors.items() if at in utility}
    if public_only is not None:
        floors[PUBLIC_ONLY] = public_only
    estimate = utility.get(headline.metric)
    return {
        "headline": headline,
        "floors": floors,
        "learned": has_learned(estimate, floors.values(), headline.larger_is_better),
    }


def headline_of(task: type[Task[Any]]) -> Headline:
    """The headline that ranks the runs of a task."""
    return Headline(
        metric=task.metrics[0].name,
        larger_is_better=task.metrics[0].better == "higher",
        by_vocabulary=task.by_vocabulary,
    )


def has_learned(
    estimate: Estimate | None, floors: Iterable[float], larger_is_better: bool
) -> bool | None:
    """True if a metric's interval lies strictly on the better side of the best of its floors.

    Returns:
        None where that is not known: without floors, without the metric, or where it is better
        and has no interval.
    """
    sign = 1.0 if larger_is_better else -1.0
    best = max((sign * floor for floor in floors), default=None)
    if estimate is None or best is None:
        return None
    if sign * estimate.value <= best:
        return False
    worst = estimate.low if larger_is_better else estimate.high
    return None if worst is None else sign * worst > best
