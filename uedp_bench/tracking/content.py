"""A result as MLflow shows it: parameters, tags, metrics, data sets, and names within its grid."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from uedp_bench.accounting.events import DECLARED
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components.metric import Declared
from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.contracts.source import second_source

ID, GRID, CONTENT = "uedp_bench.id", "uedp_bench.grid", "uedp_bench.content"
"""Tags: id of the result, key of the grid (of its parent run), hash of what was logged in full."""

ROUND = "round/"
"""Beginning of the names of metrics that are series."""

VIEW = "uedp-bench"
"""Key of the view of MLflow's table of runs."""

_LONGEST_VALUE = 40

_TAG = 5_000
"""Characters that a tag holds."""


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
    for guarantee in result.guarantees:
        name = mlflow_name(f"epsilon.{guarantee.kind}.{guarantee.unit}.{guarantee.adjacency}")
        out[name] = ", ".join([*filter(None, [out.get(name)]), _epsilon(guarantee)])
    return out


def _epsilon(guarantee: Guarantee) -> str:
    """An epsilon as it may be repeated: nobody takes one that is refuted or declared for proven."""
    if guarantee.status == "refused":
        return "refused"
    notes: list[str] = [DECLARED] if guarantee.accountant == DECLARED else []
    notes += [guarantee.status] if guarantee.status == "refuted" else []
    notes += ["per unit of distance"] if guarantee.notion == "metric-dp" else []
    return f"{guarantee.epsilon:g}" + (f" ({', '.join(notes)})" if notes else "")


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
    for one in result.guarantees:
        if one.status == "given":
            # An epsilon per unit of distance compares with no other.
            distance = "/per unit of distance" if one.notion == "metric-dp" else ""
            name = f"epsilon/{one.kind}/{one.unit}/{one.adjacency}{distance}"
            final[name] = max(one.epsilon, final.get(name, 0.0))
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


def view(results: Iterable[Result]) -> tuple[str, str]:
    """Tag of an experiment that holds the columns of MLflow's table of runs, and its value.

    The columns are mechanism and seed, headline, epsilons, and the main metrics of each attack.
    MLflow shows them where an address ends in `viewStateShareKey=uedp-bench`, and its own choice
    elsewhere.
    """
    columns = dict.fromkeys(("params.`mechanism`", "params.`seed`"))
    for result in results:
        names = [f"utility/{result.headline.metric}"] if result.headline else []
        names += [name for name, _, _ in metrics(result) if name.startswith("epsilon/")]
        declared = result.metrics or Declared()
        names += [
            f"leakage/{attack}/{name}"
            for attack, values in result.leakage.items()
            for name in values
            if declared.metric("leakage", name, attack).main
        ]
        columns |= dict.fromkeys(f"metrics.`{mlflow_name(name)}`" for name in names)
    shown = [*columns]
    while len(value := json.dumps({"selectedColumns": shown})) > _TAG:
        shown.pop()
    return f"mlflow.sharedViewState.{VIEW}", value


def data_sets(result: Result) -> list[Any]:
    """The corpora of a result as MLflow's data sets: name, digest, sizes and where they are from.

    No row and no text: the digest is the fingerprint of the corpus, and the source is the component
    with its parameters, as the result's spec has them.
    """
    from mlflow.data.code_dataset_source import CodeDatasetSource
    from mlflow.entities import Dataset, DatasetInput, InputTag

    inputs, spec = [], result.spec
    for name, context, source in (
        ("corpus", "training", spec.source),
        ("downstream", "downstream", second_source(spec.task)),
    ):
        corpus = result.provenance.get(name)
        if source is None or not isinstance(corpus, dict) or not corpus.get("fingerprint"):
            continue
        read = {"uedp_bench.source": source.name, "parameters": json.dumps(source.params)}
        data = Dataset(
            name=source.name,
            digest=str(corpus["fingerprint"])[:36],  # MLflow takes no more
            source_type="code",
            source=CodeDatasetSource(read).to_json(),
            profile=json.dumps({k: v for k, v in corpus.items() if isinstance(v, int)}),
        )
        inputs.append(DatasetInput(data, [InputTag("mlflow.data.context", context)]))
    return inputs


def content(result: Result) -> str:
    """Hash of all that is logged of a result."""
    text = result.model_copy(update={"tracking": {}}).model_dump_json()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def times(result: Result) -> tuple[int, int]:
    """Milliseconds since 1970 at which a run began and ended: logging again changes nothing."""
    created = result.provenance.get("created")
    began, ended = (
        round(datetime.fromisoformat(at).timestamp() * 1000) if at else 0
        for at in (result.provenance.get("started", created), created)
    )
    return min(began, ended), ended


@dataclass(frozen=True)
class Grid:
    """Grid of a command: common parameters of its runs, and their names.

    Attributes:
        key: key that is equal for the same grid with more seeds, or fewer.
        title: name of the parent run.
        names: names of the runs by id: mechanism, the parameters in which it differs, seed.
        common: parameters that all runs share.
        size: number of runs, those of other commands too.
    """

    key: str
    title: str
    names: Mapping[str, str]
    common: Mapping[str, str]
    size: int

    @classmethod
    def from_specs(cls, specs: Mapping[str, RunSpec], every: Sequence[RunSpec] = ()) -> Grid:
        """The grid of at least one run.

        Args:
            specs: specs of this command's runs by id.
            every: specs of all runs, where those are a share of them.
        """
        whole = [*every] or [*specs.values()]
        flat = [parameters(spec) for spec in whole]
        common = {name: value for name, value in flat[0].items()
                  if name != "seed" and all(one.get(name) == value for one in flat)}  # fmt: skip
        varied = {
            label: _varied([one for one in flat if one["mechanism"] == label])
            for label in {spec.label for spec in specs.values()}
        }
        names = {one: _run_name(spec, varied[spec.label]) for one, spec in specs.items()}
        seedless = {
            hashlib.sha256(spec.model_copy(update={"seed": 0}).model_dump_json().encode()).digest()
            for spec in whole
        }
        key = hashlib.sha256(b"".join(sorted(seedless))).hexdigest()[:16]
        tasks, sources, models = (
            ", ".join(dict.fromkeys(getattr(spec, kind).name for spec in whole))
            for kind in ("task", "source", "model")
        )
        title = f"{tasks} on {sources}, {models} (grid {key[:6]})"
        return cls(key, title, names, common, len(whole))


def _varied(alike: Sequence[Mapping[str, str]]) -> list[str]:
    """Parameters in which runs of one mechanism differ, those of the mechanism first."""
    names = dict.fromkeys(name for one in alike for name in one)
    varied = [name for name in names if name not in ("seed", "mechanism")
              and len({one.get(name) for one in alike}) > 1]  # fmt: skip
    return sorted(varied, key=lambda name: not name.startswith("mechanism."))


def _run_name(spec: RunSpec, varied: Sequence[str]) -> str:
    flat, shown = parameters(spec), []
    for name in varied:
        value = flat.get(name, "none")
        short = value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}…"
        shown.append(f"{name.rpartition('.')[2]}={short}")
    inside = f" ({', '.join(shown)})" if shown else ""
    return f"{spec.label}{inside}, seed {spec.seed}"


def mlflow_name(text: str) -> str:
    """Text as MLflow allows it in names: letters, digits, and _ - . / space."""
    return re.sub(r"[^\w\-. /]", "_", text)
