"""Results with everything that a result can have, for the pages that show them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uedp_bench.accounting.events import (
    NonPrivate,
    PrivacyEvent,
    Protected,
    Repeated,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import CurvePoint, Guarantee
from uedp_bench.contracts.results import (
    ComponentSpec,
    Cost,
    Estimate,
    FailedAttack,
    LowerBound,
    Result,
    RunError,
    RunSpec,
    Sample,
    SkippedAttack,
)

HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">&amp;%{x}'
"""A name that a page must show as it is."""


def spec(seed: int = 1, mechanism: str = "user-dp", **params: Any) -> RunSpec:
    return RunSpec(
        task=ComponentSpec(name="next-word", params={"vocabulary": "public"}),
        source=ComponentSpec(name="embedded", params={"users": 3000}),
        model=ComponentSpec(name="lstm-small", params={"units": 48}),
        mechanism=(ComponentSpec(name=mechanism, params={"noise_multiplier": 0.895, **params}),),
        attacks=(ComponentSpec(name="secret-sharer", params={"p_u": [0.0005, 0.0015]}),),
        seed=seed,
    )


def minimal(seed: int = 1) -> Result:
    """A run that finished and has nothing."""
    return Result(id=f"minimal-{seed}", group="minimal", status="finished", spec=spec(seed))


def failed(seed: int = 1) -> Result:
    """A run that failed in training."""
    error = RunError(
        type="InputError", message="users is 3:\n  at least 10", phase="train",
        traceback="Traceback (most recent call last):\n  raise InputError",
    )  # fmt: skip
    return Result(id=f"failed-{seed}", group="everything", status="failed", error=error,
                  spec=spec(seed))  # fmt: skip


def everything(seed: int = 1, word: str = "plain") -> Result:
    """A run with every field filled; `word` stands wherever text may be anything.

    Numbers are all different, so that a page that shows them can be told from one that does not.
    """
    return Result(
        id=f"everything-{seed}",
        group="everything",
        status="finished",
        spec=spec(seed),
        utility={
            "perplexity": Estimate(value=50.0 + seed, low=45.5, high=56.25),
            f"own {word}": Estimate(value=0.125),
            "unigram_perplexity": Estimate(value=119.75),
        },
        guarantees=_guarantees(word),
        lower_bounds=_bounds(word),
        leakage=_leakage(seed, word),
        details=details(word),
        samples={word: (Sample(private=f"private {word}", seen=f"seen {word}", read=word),)},
        skipped_attacks=(SkippedAttack(name="reidentify", reason=f"nothing published {word}"),),
        failed_attacks=(FailedAttack(name="audit", type="IndexError", message=f"no row {word}"),),
        events=_events(word),
        pretraining={"rows": 1234, "epochs": 2, "note": word},
        series={
            "train_loss": [(1, 4.5), (2, 3.25), (3, math.inf)],
            "valid_loss": [(1, 4.75), (3, 3.5)],
            f"own {word}": [(1, 17.0), (2, 18.0)],
        },
        diagnostics={
            "signal_to_noise": 0.725,
            "projection_errors": {"10": 375.5, "20": 434.25},
            "epsilon_at": {word: 2.125, "random pair": 7.0625},
            "parts": {"first": [1, 2], "second": {"third": word}},
            "simulation_only": ["signal_to_noise", "series.train_loss", "cost.rows_trained"],
        },
        selection={
            "tried": {"mechanism.user-dp.clip": [0.3, 0.6]},
            "scores": "public",
            "settings": 2,
            "method": "all trials",
            "guarantees": [{"unit": "user", "epsilon": 9.5, "charged": True, "reason": word}],
        },
        cost=Cost.model_validate({
            "train_seconds": 19.5, "attack_seconds": 1.75, "score_seconds": 0.375,
            "peak_memory_mb": 735.5, "device": "cpu", "rows_trained": 42712.0,
        }),
        tracking={"mlflow_run_id": "0f0f", "experiment": word},
        provenance={
            "package": "0.1.0",
            "commit": "4e32",
            "libraries": {"torch": "2.13.0", "numpy": "2.4.6", "faker": "40.54.0", "x": word},
            "corpus": {"fingerprint": "c0ffee", "rows": 13098},
            "vocabulary": {"fingerprint": "beef", "private": False},
        },
    )  # fmt: skip


def _guarantees(word: str) -> tuple[Guarantee, ...]:
    common = {"unit": "user-entity", "adjacency": "add-or-remove", "delta": 1e-5}
    curve = (
        CurvePoint(spread=0, sentences=0, epsilon=4.5),
        CurvePoint(spread=3, sentences=3, epsilon=8.25),
        CurvePoint(spread=100, epsilon=300.5),
        CurvePoint(spread=2699, epsilon=math.inf),
    )
    return (
        Guarantee(kind="claimed", epsilon=0.215, accountant="moments", source=f"Paper {word}",
                  status="refuted", reason=f"audit bounds it above {word}", note=f"departs {word}",
                  **common),
        Guarantee(kind="proven", epsilon=8.25, accountant="user-entity-pld", curve=curve,
                  protected=Protected(spread=3), assumptions=(f"clipped {word}", "public"),
                  **common),
        Guarantee(kind="proven", notion="none", unit="record", adjacency="replace-one",
                  epsilon=math.inf, delta=0.0, accountant="none", status="refused",
                  reason=f"depends on the topic model {word}"),
    )  # fmt: skip


def _bounds(word: str) -> tuple[LowerBound, ...]:
    common = {"delta": 1e-5, "confidence": 0.95, "method": "one-run"}
    return (
        LowerBound(unit="user", epsilon=1.375, strict_epsilon=0.5625, attack="audit",
                   assumptions=(f"coins are fair {word}",), **common),
        LowerBound(unit="user-entity", epsilon=2.625, spread=3, sentences=3, attack=word, **common),
    )  # fmt: skip


def _events(word: str) -> tuple[PrivacyEvent, ...]:
    event = UserEntityGaussian(rate=0.02, noise_multiplier=1.625, users=2700)
    return (
        PrivacyEvent(unit="user-entity", event=Repeated(count=200, event=event), stage="uedp-group",
                     assumptions=(f"every user is clipped {word}",),
                     protected=Protected(spread=3, sentences_per_user=2)),
        PrivacyEvent(unit="record", event=NonPrivate(reason=f"seen {word}"), stage="noiseless"),
    )  # fmt: skip


def _leakage(seed: int, word: str) -> dict[str, dict[str, Estimate]]:
    def rate(value: float) -> Estimate:
        return Estimate(value=value, low=value - 0.0625, high=value + 0.0625)

    return {
        "secret-sharer": {
            "exposure_max_repeats": Estimate(value=2.25 + seed / 8, low=1.125, high=3.375),
            "exposure_limit": Estimate(value=10.0),
        },
        "membership": {
            "auc": rate(0.5625),
            "tpr_at_1pct_fpr": rate(0.1875),
            "tpr_at_0.1pct_fpr": rate(0.0625),
        },
        "audit": {"epsilon_lower_bound": Estimate(value=1.375)},
        "attribute-inference": {
            "empirical_privacy": rate(0.4375),
            "accuracy_gender": rate(0.625),
            "majority_gender": rate(0.5),
            f"accuracy_{word}": rate(0.71875),
            f"majority_{word}": rate(0.6875),
        },
        "word-reconstruction": {
            "inference_error": rate(0.875),
            "inference_error_prior": Estimate(value=0.984375),
        },
        f"stranger {word}": {f"metric {word}": rate(0.34375)},
    }


def details(word: str) -> dict[str, dict[str, Any]]:
    """Of every attack that we have, as it writes them."""
    rng = np.random.default_rng(0)
    ranks = [1, 2, 10, 400, 512, 1025]
    canaries = [
        {"kind": "word" if at % 2 else "entity", "text": f"canary {at} {word}", "p_u": 0.0005,
         "loss": 17.0 + at if at else None, "rank": rank,
         "exposure": 10.0 - math.log2(rank), "extrapolated_exposure": "inf" if at == 0 else None}
        for at, rank in enumerate(ranks)
    ]  # fmt: skip
    grid = [0.0, 0.001, 0.01, 0.02, 0.1, 0.5, 1.0]
    rocs = {
        name: {"auc": {"value": 0.5 + lift, "low": 0.375, "high": 0.75},
               "roc": [[x, x ** (1 - lift)] for x in grid]}
        for name, lift in (("loss", 0.0625), ("ratio", 0.25), (word, 0.125))
    }  # fmt: skip
    classes = [f"yes {word}", "no"]
    return {
        "secret-sharer": {
            "null_exposure": 1 / math.log(2),
            "canaries": canaries,
            "notes": [f"the corpus is small {word}"],
            "reference_losses": {"canary": f"canary 1 {word}", "loss": 18.0,
                                 "edges": [17.0, 19.0, 21.0, 23.0], "counts": [3, 7, 2]},
        },
        "membership": {
            "notes": [], "main_score": "ratio", "strongest_score": "ratio", "scores": rocs,
            "roc_user": [[0.0, 0.25], [0.125, 0.5], [1.0, 1.0]],
            "records": {"members": 864, "non_members": 872},
        },
        "audit": {
            "canaries": 100, "included": 48, "delta": 1e-5, "notes": [],
            "scores": {"members": rng.normal(1.0, 1.0, 48).tolist(),
                       "nonmembers": rng.normal(0.0, 1.0, 52).tolist()},
            "retrainings": {"members": [1.0, 2.0], "nonmembers": [0.0, 0.5]},
        },
        "attribute-inference": {
            "empirical_privacy_is": "1 - accuracy",
            "attributes": {
                "gender": _attribute(classes, 0.40625),
                "age": _attribute(["a", "b"], 0.4375),
            },
            "projection": projection(classes, "gender", rng),
        },
        "word-reconstruction": {"words": 6961, "plug_in": {"inference_error": 0.6328125}},
        f"stranger {word}": {
            "deep": {"deeper": {"deepest": [{"a": word, "b": 0.15625}, {"a": "y", "b": 0.21875}]}},
            "long": list(range(1000, 2000)),
            "mixed": [1, [2, {"three": word}]],
            "notes": word,
        },
    }  # fmt: skip


def _attribute(classes: list[str], share: float) -> dict[str, Any]:
    """What is kept of one attribute."""
    accuracy = {"value": 0.25, "low": 0.125, "high": 0.875}
    return {
        "classes": classes,
        "rows": 77,
        "confusion": [[31, 11], [13, 22]],
        "by_class": {
            "first": {"share": share, "accuracy": accuracy},
            "second": {"share": 1 - share, "accuracy": accuracy},
        },
        "valid_loss": {"released": [0.6875, 0.65625 + share / 64]},
    }


def projection(classes: list[str], name: str, rng: np.random.Generator) -> dict[str, Any]:
    """A map of 40 rows, some of unknown class."""
    labels = rng.integers(-1, 2, 40).tolist()
    return {
        "method": "pca",
        "view": "released",
        "rows": 40,
        "points": rng.normal(size=(40, 2)).round(4).tolist(),
        "explained_variance": [0.53125, 0.21875],
        "attributes": {name: {"classes": classes, "labels": labels}},
        "labels": {"classes": ["World", "Sports"], "labels": rng.integers(0, 2, 40).tolist()},
    }
