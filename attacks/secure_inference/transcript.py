"""Can a party tell from what a protocol opens what the other party put in?

The adversary chooses two inputs (or two models), watches many executions on each, and is then to
say of further executions which of the two it was. Nothing but the masks of the protocol stands in
its way: a mask that is used twice gives the difference of two secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from uedp_bench.api import (
    Attack,
    CapabilityError,
    Estimate,
    InputError,
    Leakage,
    Metric,
    Params,
    Planted,
    equals,
)
from uedp_bench.api.capabilities import capability
from uedp_bench.api.statistics import Scores, auc_estimate

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, FloatArray, Release, Run

ByteArray = NDArray[np.uint8]
"""Opened bytes, an execution a row."""

NO_PAIR = "transcript: there are no two different test rows to tell apart"
"""Why nothing can be told apart."""

_STRENGTH = 1.0
"""Strength of the ridge on standardised bytes: there are more of them than executions."""


@capability(None)
@runtime_checkable
class OpenedMessages(Protocol):
    """Release whose answers two parties compute by a protocol, which one of them can watch.

    Parties are "server", who has the model, and "client", who has the text.
    """

    def opened(
        self,
        corpus: Corpus,
        *,
        party: Literal["server", "client"],
        most: int,
        randomness: bool = False,
    ) -> NDArray[np.uint8]:
        """(rows, at most `most`) bytes that a party sees opened, without the answer.

        Each row is computed on by itself, with fresh randomness, also where rows are equal. Bytes
        are at the same places of every row's messages, evenly spread.

        Args:
            corpus: the rows.
            party: party of the view.
            most: most bytes of a row.
            randomness: True if one half of the bytes is of the party's own random numbers, of
                messages of a dealer, and of opened values without its own share of their masks.
        """
        ...


class TranscriptParams(Params):
    """Number of executions that the adversary watches, and of bytes that it reads."""

    executions: int = Field(
        default=60,
        ge=8,
        description="executions on each of the two; half of them are to learn from",
    )
    bytes: int = Field(
        default=4096,
        ge=64,
        description="bytes of an execution that are looked at, evenly spread over what was opened",
    )
    models: bool = Field(
        default=False,
        description="tell two models apart as well, from what the owner of the text sees opened: a "
        "second model is trained on half of the users",
    )
    randomness: bool = Field(
        default=False,
        exclude_if=equals(False),
        description="one half of the bytes is of the party's own random numbers, of what the "
        "dealer sent to it, and of what it can take off opened values: all of its view",
    )


class _Separation(NamedTuple):
    """Evidence that two sides differ.

    Attributes:
        auc: AUC of the classifier on executions that it did not learn from.
        p: least p-value of the two-sample tests of each byte, times their number.
        sides: (executions, bytes) of both sides, one below the other.
    """

    auc: Estimate
    p: float
    sides: ByteArray


class Transcript(Attack[TranscriptParams]):
    """Tells two inputs apart from the messages that the owner of the model sees opened.

    `auc_inputs` is that of a ridge classifier on standardised bytes, learnt on half of the
    executions and judged on the others; 0.5 is chance. `p_inputs` is the least p-value of the
    two-sample Kolmogorov-Smirnov tests of each byte, times their number. `p_uniform` is that of the
    chi-square test of all bytes against the uniform distribution. The same names end in `models`
    for two models and the owner of the text.
    """

    name = "transcript"
    source = "Goldreich 2004, section 7.2 (views that nobody tells apart); Beaver 1991"
    Params = TranscriptParams
    metrics = (
        Metric.share("auc_inputs", "transcript AUC", "of telling two inputs apart from what the "
                     "owner of the model sees opened; 0.5 where nothing leaks", "lower",
                     no_leak=0.5, main=True),
        Metric.share("auc_models", "transcript AUC, models", "of telling two models apart from "
                     "what the owner of the text sees opened", "lower", no_leak=0.5),
        Metric.rate("p_inputs", "p, inputs", "of the two-sample test on transcripts of two inputs"),
        Metric.rate("p_models", "p, models", "of the two-sample test on transcripts of two models"),
        Metric.rate("p_uniform", "p, uniform", "of the chi-square test of all opened bytes"),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (OpenedMessages,)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Plants nothing; refuses before training what could not be attacked after it.

        Raises:
            InputError: if there are no two different test rows.
        """
        test = corpus.only("test")
        labels = (-1,) * len(test) if test.labels is None else test.labels.tolist()
        if len({*zip(labels, test.texts, strict=True)}) < 2:
            raise InputError(NO_PAIR)
        return corpus, Planted()

    def retrainings(self, offers: tuple[type, ...]) -> dict[str, int]:
        """One more model, where models are to be told apart."""
        return {"models": 1} if self.params.models else {}

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """Watches the executions, and tells them apart.

        Raises:
            InputError: if there are no two different test rows.
        """
        watched = _watched(release)
        pair = self._pair(corpus, run)
        separations = {"inputs": self._separated(
            (watched, pair.take(np.array([0]))), (watched, pair.take(np.array([1]))), "server", run
        )}  # fmt: skip
        if self.params.models:
            other = _watched(self._second_model(corpus, run))
            row = pair.take(np.array([0]))
            separations["models"] = self._separated((watched, row), (other, row), "client", run)
        metrics: dict[str, Estimate] = {}
        for name, one in separations.items():
            metrics[f"auc_{name}"] = one.auc
            metrics[f"p_{name}"] = Estimate(value=one.p)
        uniform = [chi_square_p(one.sides) for one in separations.values()]
        metrics["p_uniform"] = Estimate(value=min(1.0, min(uniform) * len(uniform)))
        return Leakage(metrics, self._details(separations))

    def _details(self, separations: dict[str, _Separation]) -> dict[str, Any]:
        looked = {name: int(one.sides.shape[1]) for name, one in separations.items()}
        return {
            "notes": [
                "an auc near 0.5 and p-values that are not small say that this adversary found "
                "nothing; what the revealed answer tells is not looked at here"
            ],
            "executions": self.params.executions,
            "bytes_looked_at": looked,
        }

    def _pair(self, corpus: Corpus, run: Run) -> Corpus:
        """Two test rows of different text, of different labels where there are any."""
        test = corpus.only("test")
        order = run.shared("transcript", "rows").permutation(len(test))
        for distinct in (test.labels, np.array(test.texts, dtype=object)):
            if distinct is None or not len(order):
                continue
            differ = np.flatnonzero(distinct[order] != distinct[order[0]])
            if len(differ):
                return test.take(np.array([order[0], order[differ[0]]]))
        raise InputError(NO_PAIR)

    def _second_model(self, corpus: Corpus, run: Run) -> Release:
        users = np.unique(corpus.users[corpus.where("train") & (corpus.users >= 0)])
        half = run.shared("transcript", "users").permutation(users)[: max(1, len(users) // 2)]
        chosen = np.zeros(corpus.user_count, dtype=bool)
        chosen[half] = True
        seed = int(run.shared("transcript", "seed").integers(2**31))
        return run.retrain(chosen, mechanism="same", seed=seed)

    def _separated(
        self,
        one: tuple[OpenedMessages, Corpus],
        other: tuple[OpenedMessages, Corpus],
        party: Literal["server", "client"],
        run: Run,
    ) -> _Separation:
        p = self.params
        views = []
        for side, (release, row) in enumerate((one, other)):
            run.progress(f"transcript: {party}", side, 2)
            rows = row.take(np.zeros(p.executions, dtype=np.int64))
            views.append(_view(release, rows, party, p))
        width = min(view.shape[1] for view in views)
        first, second = (view[:, :width] for view in views)
        rng = run.shared("transcript", "bootstrap", party)
        return _Separation(
            separation(first, second, rng), two_sample_p(first, second), np.vstack([first, second])
        )


def _view(
    release: OpenedMessages, rows: Corpus, party: Literal["server", "client"], p: TranscriptParams
) -> ByteArray:
    # Releases of others may know nothing of `randomness`, which is off by default.
    more = {"randomness": True} if p.randomness else {}
    return release.opened(rows, party=party, most=p.bytes, **more)


def _watched(release: Release) -> OpenedMessages:
    if not isinstance(release, OpenedMessages):
        raise CapabilityError(f"transcript needs OpenedMessages, not {type(release).__name__}")
    return release


def separation(one: ByteArray, other: ByteArray, rng: np.random.Generator) -> Estimate:
    """AUC of a ridge classifier that learns on the first half of either side's executions.

    Args:
        one: (executions, bytes).
        other: likewise.
        rng: random generator for the bootstrap.
    """
    middle = [len(one) // 2, len(other) // 2]
    learnt = np.vstack([one[: middle[0]], other[: middle[1]]]).astype(np.float64)
    truth = np.repeat([1.0, -1.0], middle)
    mean, spread = learnt.mean(axis=0), learnt.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)

    def standard(values: FloatArray | ByteArray) -> FloatArray:
        return np.asarray((values - mean) / scale)

    # In the dual: there are fewer executions than bytes.
    training = standard(learnt)
    kernel = training @ training.T / training.shape[1]
    dual = np.linalg.solve(kernel + _STRENGTH * np.eye(len(kernel)), truth - truth.mean())
    sides = [
        Scores(standard(side[start:]) @ training.T @ dual, np.arange(len(side) - start))
        for side, start in zip((one, other), middle, strict=True)
    ]
    return auc_estimate(sides[0], sides[1], rng)


def two_sample_p(one: ByteArray, other: ByteArray) -> float:
    """Least p-value of the Kolmogorov-Smirnov tests of each byte, times their number, at most 1."""
    from scipy.stats import ks_2samp

    test = ks_2samp(one, other, axis=0, method="asymp")
    return float(min(1.0, np.min(test.pvalue) * one.shape[1]))


def chi_square_p(opened: ByteArray) -> float:
    """p-value of the chi-square test of all bytes against the uniform distribution."""
    from scipy.stats import chisquare

    return float(chisquare(np.bincount(opened.ravel(), minlength=256)).pvalue)
