"""What MLflow shows of a result: parameters, tags, metrics and data sets."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from uedp_bench.accounting.events import DECLARED
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.results import Result, RunSpec
from uedp_bench.second_source import second_source

ID, CONTENT = "uedp_bench.id", "uedp_bench.content"
ROUND = "round/"
"""Metrics that are series begin with this."""


def parameters(spec: RunSpec) -> dict[str, str]:
    """The spec, flattened to dotted names."""
    flat: dict[str, str] = {}
    parts = [("task", spec.task), ("source", spec.source), ("model", spec.model)]
    parts += [(f"mechanism.{part.name}", part) for part in spec.mechanism]
    parts += [(f"attack.{part.name}", part) for part in spec.attacks]
    for kind, part in parts:
        flat |= {mlflow_name(f"{kind}.{key}"): str(value) for key, value in part.params.items()}
        if "." not in kind:
            flat[kind] = part.name
    flat["mechanism"] = spec.label
    flat["attacks"] = ", ".join(part.name for part in spec.attacks)
    return flat | {"seed": str(spec.seed), "delta": str(spec.delta)}


def tags(result: Result) -> dict[str, str]:
    """Identity and guarantees; a guarantee is a tag too, for MLflow's metrics know no infinity."""
    out = {"uedp_bench.group": result.group, "uedp_bench.status": result.status}
    if result.error is not None:
        out["uedp_bench.error"] = result.error.message
    if commit := result.provenance.get("commit"):
        out["mlflow.source.git.commit"] = str(commit)
    for found in result.guarantees:
        name = mlflow_name(f"epsilon.{found.kind}.{found.unit}.{found.adjacency}")
        out[name] = ", ".join([*filter(None, [out.get(name)]), _epsilon(found)])
    return out


def _epsilon(found: Guarantee) -> str:
    """An epsilon as it may be repeated: nobody takes one that is refuted or declared for proven."""
    if found.status == "refused":
        return "refused"
    said: list[str] = [DECLARED] if found.accountant == DECLARED else []
    said += [found.status] if found.status == "refuted" else []
    return f"{found.epsilon:g}" + (f" ({', '.join(said)})" if said else "")


def metrics(result: Result) -> list[tuple[str, float, int]]:
    """(name, value, step) of every finite number: final ones at step 0, series by round."""
    final: dict[str, float] = {}
    groups = {"utility": result.utility}
    groups |= {f"leakage/{attack}": values for attack, values in result.leakage.items()}
    for kind, values in groups.items():
        for name, estimate in values.items():
            final[f"{kind}/{name}"] = estimate.value
            if estimate.low is not None and estimate.high is not None:
                final[f"{kind}/{name}/low"] = estimate.low
                final[f"{kind}/{name}/high"] = estimate.high
    for found in result.guarantees:
        if found.status == "given":
            final[f"epsilon/{found.kind}/{found.unit}/{found.adjacency}"] = found.epsilon
    for kind, numbers in (("cost", result.cost.model_dump()), ("diagnostics", result.diagnostics)):
        final |= {
            f"{kind}/{name}": float(value)
            for name, value in numbers.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
    points = [(mlflow_name(name), value, 0) for name, value in final.items()]
    for name, series in result.series.items():
        points += [(mlflow_name(f"{ROUND}{name}"), value, step) for step, value in series]
    return [point for point in points if math.isfinite(point[1])]


def data_sets(result: Result) -> list[Any]:
    """The corpora of a result as MLflow's data sets: name, digest, sizes and where they are from.

    No row and no text: the digest is the fingerprint of the corpus, and the source is the component
    with its parameters, as the result's spec has them.
    """
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.entities import Dataset, DatasetInput, InputTag

    found = []
    for name, context in (("corpus", "training"), ("downstream", "downstream")):
        known = result.provenance.get(name)
        if not isinstance(known, dict) or not known.get("fingerprint"):
            continue
        spec = result.spec
        source = spec.source if name == "corpus" else second_source(spec.task)
        if source is None:
            continue
        read = {"uedp_bench.source": source.name, "parameters": json.dumps(source.params)}
        sizes = {key: value for key, value in known.items() if isinstance(value, int)}
        data = Dataset(
            name=source.name,
            digest=str(known["fingerprint"])[:36],  # MLflow takes no more
            source_type="code",
            source=CodeDatasetSource(read).to_json(),
            profile=json.dumps(sizes),
        )
        found.append(DatasetInput(data, [InputTag("mlflow.data.context", context)]))
    return found


def mlflow_name(text: str) -> str:
    """MLflow allows letters, digits, and _ - . / space."""
    return re.sub(r"[^\w\-. /]", "_", text)
