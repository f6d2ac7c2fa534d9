"""Made-up results for boards: few numbers, and exactly what a test is about."""

from __future__ import annotations

import math
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.contracts.results import LowerBound, Result, RunSpec
from uedp_bench.statistics.intervals import fraction_estimate

SAME = "add-or-remove"
REAL, INVENTED = "conll2003", "embedded"


def plain_spec(
    mechanism: str = "noiseless", source: str = INVENTED, *, seed: int = 1, **params: Any
) -> RunSpec:
    """Spec of a run of the task next-word; `params` are those of the mechanism."""
    return RunSpec.model_validate({
        "task": {"name": "next-word"}, "source": {"name": source}, "model": {"name": "lstm-small"},
        "mechanism": [{"name": mechanism, "params": params}], "seed": seed,
    })  # fmt: skip


def promise(kind: str, epsilon: float, unit: str = "user", **more: Any) -> Guarantee:
    """A guarantee that stands; infinite ones promise nothing."""
    notion = "none" if math.isinf(epsilon) else "dp"
    values = {"notion": notion, "adjacency": SAME, "delta": 1e-5, "accountant": "pld"}
    return Guarantee.model_validate(
        {"kind": kind, "epsilon": epsilon, "unit": unit, **values, **more}
    )


def bound(epsilon: float, strict: float, unit: str = "user") -> LowerBound:
    """What an audit found, at 95 % and surely."""
    return LowerBound.model_validate({
        "unit": unit, "adjacency": SAME, "epsilon": epsilon, "delta": 1e-5, "confidence": 0.95,
        "strict_epsilon": strict, "method": "one-run", "attack": "audit",
    })  # fmt: skip


def seeds(mechanism: str, score: float, exposure: float | None = None, **more: Any) -> list[Result]:
    """Three runs of a row whose perplexity is near `score`, worse than 100 being nothing.

    Args:
        mechanism: names joined by " + ".
        score: mean perplexity.
        exposure: mean bits, if the secret sharer ran.
        more: fields of the results; `source`; `apart`, a parameter that tells rows apart.
    """
    source, apart = more.pop("source", REAL), more.pop("apart", {})
    floors = more.pop("floors", {"unigrams": 100.0})
    slug = "-".join([mechanism.replace(" + ", "-"), source, *map(str, apart.values())])
    results = []
    for seed in (1, 2, 3):
        leakage = {} if exposure is None else {
            "secret-sharer": {"exposure_max_repeats": {"value": exposure + 0.01 * seed}}
        }  # fmt: skip
        results.append(Result.model_validate({
            "id": f"{slug}-{seed}".replace(".", "_"), "group": slug, "status": "finished",
            "spec": {
                "task": {"name": "next-word"}, "source": {"name": source},
                "model": {"name": "lstm-small"}, "seed": seed,
                "mechanism": [{"name": name, "params": apart} for name in mechanism.split(" + ")],
            },
            "headline": {"metric": "perplexity", "larger_is_better": False, "by_vocabulary": True},
            "utility": {"perplexity": {"value": score + 0.01 * seed}},
            "floors": floors, "learned": score < min(floors.values(), default=math.inf),
            "leakage": leakage,
            "provenance": {"corpus": {"fingerprint": source}, "vocabulary": {"fingerprint": "v"}},
            **more,
        }))  # fmt: skip
    return results


def members(rate: float, ceiling: float | None = None) -> dict[str, Any]:
    """Fields of results whose membership attack found this share of 1,000 members at 1 %.

    Args:
        rate: of users, above which an AUC by 1/2 lies.
        ceiling: of the rate; None where nothing is proven.
    """
    area = 0.49 + rate
    metrics = {
        "tpr_user_at_1pct_fpr": fraction_estimate(round(1000 * rate), 1000).model_dump(),
        "auc_user": {"value": area, "low": area - 0.03, "high": area + 0.03},
    }
    judged = {"members": 1000, "non_members": 1000, "most_records": 1}
    fields: dict[str, Any] = {
        "leakage": {"membership": metrics}, "details": {"membership": {"judged": judged}},
    }  # fmt: skip
    if ceiling is not None:
        fields["ceilings"] = {"membership": {"tpr_user_at_1pct_fpr": ceiling, "auc_user": 0.743}}
    return fields
