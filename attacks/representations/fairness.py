"""Does the main task work equally well for everybody? Accuracy by group of a private attribute."""

from __future__ import annotations

from typing import Any

import numpy as np

from uedp_bench.attacks._true_classes import true_classes
from uedp_bench.attacks.representations.released_rows import Seen
from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray, or_alone
from uedp_bench.errors import InputError
from uedp_bench.release import Classifier, Release
from uedp_bench.results import Estimate
from uedp_bench.statistics.intervals import mean_estimate, sum_of_ratios_estimate

Fairness = tuple[dict[str, Estimate], dict[str, Any]]


def fairness(release: Release, corpus: Corpus, test: Seen, rng: np.random.Generator) -> Fairness:
    """Main-task accuracy on the released test rows, by group of every declared attribute.

    The fairness tables of Lyu, He and Li 2020 (section 4.6, Tables 6 and 7). The gap is the
    accuracy of the best group minus that of the worst; its interval is of the difference between
    these two groups, so that 0 is inside where they cannot be told apart.

    Returns:
        `fairness_gap_<attribute>` of each attribute with two groups or more but the one that is
        predicted, and details. Both are empty for a release that is no classifier, and where no
        test row has a class.

    Raises:
        InputError: if the release's log-probabilities are NaN.
    """
    target = release.target
    if not isinstance(release, Classifier) or (target == "label" and corpus.labels is None):
        return {}, {}
    labels = true_classes(release, corpus, "attribute-inference")[test.rows]
    known = labels >= 0
    if not known.any():
        return {}, {}
    logprobs = np.asarray(release.class_logprobs(test.shown))
    if np.isnan(logprobs).any():
        raise InputError("attribute-inference: class log-probabilities of the test split have NaN")
    correct = (logprobs.argmax(axis=1) == labels)[known].astype(np.float64)
    rows = test.rows[known]
    users = or_alone(corpus.users[rows])
    metrics, tables = {}, {}
    for name, names in corpus.attribute_names.items():
        if name == target:  # by its own classes, accuracy says nothing of fairness
            continue
        groups = corpus.attributes[name][rows]
        tables[name] = _table(correct, groups, names, users, rng)
        gap = _gap(correct, groups, users, rng)
        if gap is not None:
            metrics[f"fairness_gap_{name}"] = gap
    return metrics, {
        "main_task_accuracy": _json(mean_estimate(correct, rng, users)),
        "main_task_by_group": tables,
    }


def _table(
    correct: FloatArray,
    groups: IntArray,
    names: tuple[str, ...],
    users: IntArray,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Share and accuracy of each group that has rows; `difference` is to the first of them."""
    there = [code for code in range(len(names)) if (groups == code).any()]
    known = int((groups >= 0).sum())
    out: dict[str, Any] = {}
    for code in there:
        inside = groups == code
        out[names[code]] = {
            "rows": int(inside.sum()),
            "share": float(inside.sum() / known),
            "accuracy": _json(mean_estimate(correct[inside], rng, users[inside])),
        }
        if code != there[0]:
            pair = (inside, groups == there[0])
            out[names[code]]["difference"] = _json(_difference(correct, pair, users, rng))
    return out


def _gap(
    correct: FloatArray, groups: IntArray, users: IntArray, rng: np.random.Generator
) -> Estimate | None:
    there = np.unique(groups[groups >= 0])
    if len(there) < 2:
        return None
    accuracy = [correct[groups == code].mean() for code in there]
    best, worst = there[int(np.argmax(accuracy))], there[int(np.argmin(accuracy))]
    if best == worst:
        best, worst = there[0], there[1]
    return _difference(correct, (groups == best, groups == worst), users, rng)


def _difference(
    correct: FloatArray,
    pair: tuple[BoolArray, BoolArray],
    users: IntArray,
    rng: np.random.Generator,
) -> Estimate:
    inside = np.stack(pair).astype(np.float64)
    return sum_of_ratios_estimate(inside * correct, inside, (1.0, -1.0), rng, users)


def _json(estimate: Estimate) -> dict[str, Any]:
    return estimate.model_dump(mode="json")
