"""A run whose noise, clipping or threshold was taken away proves nothing, for every mechanism."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from small_networks import HASHED_CNN, small_networks
from toy import toy_run

from uedp_bench.accounting.events import NonPrivate
from uedp_bench.accounting.ledger import check_plan
from uedp_bench.components import registry
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.mechanisms import _noise, dp_vocabulary
from uedp_bench.mechanisms.documents import truncation
from uedp_bench.mechanisms.secure_inference import mpc
from uedp_bench.randomness import Keystream, Stream
from uedp_bench.testing.checks import Subject
from uedp_bench.testing.protecting import STATS
from uedp_bench.testing.small_runs import again, answers
from uedp_bench.training import clipping
from uedp_bench.training.ghost import single_pass

__all__ = ["small_networks"]

Removal = Callable[[pytest.MonkeyPatch], None]

NOISE = ("normal", "standard_normal", "laplace", "gumbel", "gamma")


class Silent:
    """A generator whose coins are those of another one, and whose noise is 0."""

    def __init__(self, real: np.random.Generator) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        return (lambda *args, **more: 0.0 * real(*args, **more)) if name in NOISE else real


def no_noise(patch: pytest.MonkeyPatch) -> None:
    real = Stream.rng
    patch.setattr(Stream, "rng", lambda self, *names: Silent(real(self, *names)))


def half_of_the_noise(patch: pytest.MonkeyPatch) -> None:
    """Of normal noise alone, in enough coordinates to see it."""
    real = Stream.rng

    class Half(Silent):
        def __getattr__(self, name: str) -> Any:
            draw = getattr(self._real, name)
            return (lambda *a, **k: 0.5 * draw(*a, **k)) if name in NOISE else draw

    patch.setattr(Stream, "rng", lambda self, *names: Half(real(self, *names)))


def no_masks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Keystream, "bytes", lambda self, size: np.zeros(size, dtype=np.uint8))


def no_clipping(patch: pytest.MonkeyPatch) -> None:
    def norm_factors(norms: torch.Tensor, bound: float, dtype: torch.dtype) -> Any:
        return torch.ones_like(norms), norms

    for module in (clipping, single_pass):
        patch.setattr(module, "norm_factors", norm_factors)


def heavier_votes(patch: pytest.MonkeyPatch) -> None:
    real = _noise.NoisyUnion.votes

    def votes(self: Any, counts: Any, rng: Any) -> dict[Any, float]:
        return {item: 3.0 * vote for item, vote in real(self, counts, rng).items()}

    patch.setattr(_noise.NoisyUnion, "votes", votes)


def all_occurrences(patch: pytest.MonkeyPatch) -> None:
    kind = dp_vocabulary.DPVocabulary
    patch.setattr(kind, "_first_words", lambda self, voters, words: list(words))


def no_threshold(patch: pytest.MonkeyPatch) -> None:
    def passing(noisy: Iterable[tuple[Any, float]], threshold: float) -> dict[Any, float]:
        return dict(noisy)

    for module in (_noise, dp_vocabulary):
        patch.setattr(module, "passing", passing)


def no_box(patch: pytest.MonkeyPatch) -> None:
    class Unclipped:
        clip = staticmethod(lambda values, low, high: np.asarray(values, dtype=np.float64))

        def __getattr__(self, name: str) -> Any:
            return getattr(np, name)

    patch.setattr(truncation, "np", Unclipped())


def text_shown(patch: pytest.MonkeyPatch) -> None:
    class Lengths:
        ones = staticmethod(lambda shape: np.arange(float(np.prod(shape))).reshape(shape))

    import uedp_bench.mechanisms.representations.majority as module

    patch.setattr(module, "np", Lengths())


def local_truncation(patch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    real = mpc.MPCParams.config
    patch.setattr(mpc.MPCParams, "config", lambda self: replace(real(self), truncation="local"))


class Case(NamedTuple):
    """A small run of a mechanism, and each way to take its protection away."""

    removals: tuple[Removal, ...]
    params: Mapping[str, Any] = {}
    partners: Mapping[str, Any] = {}
    without: str = ""
    """Why nothing else can be taken away."""


SUMS = (no_noise, half_of_the_noise, no_clipping)
SHORT = {"clip": 1e-4}
"""Updates are longer than this bound."""

CASES: dict[str, tuple[Case, ...]] = {
    "deepcandidate": (Case((no_noise,), without="a sentence moves a depth by 1, always"),),
    "dp-ftrl": (Case(SUMS, SHORT),),
    "dp-sgd": (Case(SUMS, SHORT),),
    "dp-vocabulary": (
        Case((no_noise, heavier_votes, no_threshold), {"words_per_unit": 3}),
        Case(
            (no_noise, all_occurrences, no_threshold), {"variant": "laplace", "words_per_unit": 2}
        ),
    ),
    "dpnr": (Case((no_noise,), without="vectors are scaled to [0, 1], and need no clipping"),),
    "federated-dp-sgd": (Case(SUMS, SHORT),),
    "majority": (Case((text_shown,), without="it adds no noise"),),
    "metric-dp": (Case((no_noise,), without="metric DP clips nothing"),),
    "mpc": (Case((no_masks, local_truncation), {}, {"model": HASHED_CNN}),),
    "phrase-union": (Case((no_noise, heavier_votes, no_threshold)),),
    "truncation": (Case((no_noise, no_box)),),
    "uedp": (Case(SUMS, SHORT),),
    "uedp-group": (Case(SUMS, SHORT),),
    "uedp-spread": (Case(SUMS, {**SHORT, "sentence_clip": 1e-5}),),
    "user-dp": (Case(SUMS, SHORT), Case(SUMS, {**SHORT, "clip_policy": "per-layer"})),
    "vickrey": (Case((no_noise,), {"candidates": "all"}, without="metric DP clips nothing"),),
}

UNPROTECTED = {
    "adversarial", "cyclic", "deidentify", "fedavg", "k-document", "noiseless", "phrase-fragments",
    "pooled", "sanitized-elsewhere", "trained-elsewhere",
}  # fmt: skip
"""Mechanisms that plan no event of finite epsilon."""

READS_NOTHING = {"public-only": "it releases the public model, and reads no private row"}
"""Mechanisms whose finite events rest on no protection that could be taken away."""


def built_in() -> list[str]:
    names = registry.mechanisms.names()
    return [name for name in names if "(uedp-bench " in registry.mechanisms.origin(name)]


def subject_of(name: str, case: Case) -> Subject:
    return Subject(registry.mechanisms.get(name), params=case.params, partners=case.partners)


def run_and_ask(subject: Subject) -> None:
    """Trains, serves, asks the release, and compares what happened with the plan."""
    evaluation = again(subject)
    answers(evaluation.release, evaluation.ready.planted_corpus.corpus)
    check_plan(
        evaluation.ready.parts.pipeline.plan(evaluation.ready.run.stats), evaluation.release.events
    )


def test_every_mechanism_loses_its_protection_or_has_none() -> None:
    assert sorted({*CASES, *UNPROTECTED, *READS_NOTHING}) == built_in()
    assert not {*CASES} & UNPROTECTED


@pytest.mark.usefixtures("small_networks")
@pytest.mark.parametrize("name", sorted(UNPROTECTED))
def test_what_plans_finite_events_is_no_exception(name: str) -> None:
    mechanism = Subject(registry.mechanisms.get(name)).create()
    assert all(isinstance(event.event, NonPrivate) for event in mechanism.plan(STATS))


@pytest.mark.filterwarnings("ignore:invalid value")  # a direction of noise 0 is none
@pytest.mark.usefixtures("small_networks")
@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for name, cases in CASES.items() for case in cases],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_run_without_its_protection_is_refused(name: str, case: Case) -> None:
    subject = subject_of(name, case)
    assert len(case.removals) > 1 or case.without
    run_and_ask(subject)
    for removal in case.removals:
        with pytest.MonkeyPatch.context() as patch:
            removal(patch)
            try:
                run_and_ask(subject)
            except PrivacyError:
                continue
            except InputError as error:
                pytest.fail(f"{removal.__name__} ran into {error}")
        pytest.fail(f"{name} without protection ({removal.__name__}) was not refused")


def test_more_votes_than_planned_are_another_event() -> None:
    union = _noise.NoisyUnion(10.0, 3, "frequent", 1e-3)
    voters = {user: dict.fromkeys("abcdefgh", 1) for user in range(40)}
    assert union.released(voters, toy_run())[1] == union.planned

    def votes(self: Any, counts: Any, rng: Any) -> dict[Any, float]:
        return dict.fromkeys(counts, len(counts) ** -0.5)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_noise.NoisyUnion, "votes", votes)
        record = union.released(voters, toy_run())[1]
    assert record.most == 8
    with pytest.raises(PrivacyError):
        check_plan(*(each.events("user", (), "items") for each in (union.planned, record)))
