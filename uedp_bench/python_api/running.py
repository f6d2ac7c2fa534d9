"""Runs from Python: the same grid, checks and results as `uedp-bench run`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from uedp_bench.components import registry
from uedp_bench.errors import InputError, UedpBenchError, nearest, shown
from uedp_bench.io.fresh_processes import hide_main
from uedp_bench.python_api.results import Results
from uedp_bench.python_api.run_grid import Options, run_grid
from uedp_bench.spec.spec import Spec, apply_setting, parse_setting, parse_spec, read_spec
from uedp_bench.tracking.tracker import Tracker

FIELDS = (*Spec.model_fields, "mechanism", "seed")
"""Keywords of `run` that are parts of a spec."""

EXECUTION = ("device", "workers", "threads", "tracking", "plugins", "keep_release", "quiet", "on",
       "cpus_per_run", "gpus_per_run")  # fmt: skip
"""Keywords of `run` that say how to run."""


def run(
    spec: str | Path | Mapping[str, Any] | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    out: Path | str = "runs",
    **keywords: Any,
) -> Results:
    """Train, score, attack and account for every run of a spec, as `uedp-bench run` does.

    Finished runs are skipped, so the same call goes on after an interruption. A run that fails is
    among the results, with its error.

        run("quickstart", out="runs/quickstart")
        run(source={"name": "text", "path": "mail.csv", "text_column": "body"},
            mechanisms=["noiseless", "deidentify+user-dp"], attacks=["membership"], seeds=[1, 2, 3])
        run(mechanisms=["user-dp"], settings={"mechanism.noise_multiplier": [0.5, 1, 2]})

    Args:
        spec: name of a packaged spec, a YAML file, or what such a file would hold.
        settings: parameters of components by name ("mechanism.user-dp.rounds"); a list of values
            makes a grid.
        out: folder of results; one sub-folder a run.
        keywords: fields of a spec (task, source, model, mechanisms, attacks, seeds, delta, ...),
            which override those of `spec`, and how to run: device ("auto"), workers (processes;
            None: one a core; 0: this process), threads, tracking (MLflow's URI; "" for SQLite in
            `out`; None, the default, logs nothing), plugins (files that register components),
            keep_release (True), quiet (True shows no progress), and on (a cluster of Ray, as
            `--on`) with cpus_per_run and gpus_per_run.

    Raises:
        InputError: for any mistake that shows before training.
        UedpBenchError: if results cannot be written.
        TypeError: for an unknown keyword.
    """
    fields, execution = _sorted(keywords)
    registry.load_plugins(plugins := tuple(map(Path, execution.pop("plugins", ()))))
    data = _data(spec) | fields
    wanted = parse_spec(data)
    for name, value in (settings or {}).items():
        path, _ = parse_setting(f"{name}=0")
        wanted = apply_setting(wanted, path, _plain(value))
    options = Options(Path(out), plugins=plugins, **execution)
    if options.workers != 0:
        _check_importable(wanted)
    tracker = Tracker(options.out, options.tracking)
    with _without_main():
        results = run_grid(wanted.model_dump(), options, tracker)
    if tracker.error is not None:
        raise UedpBenchError(f"{tracker.error}; all results are in {options.out}")
    return Results(results, options.out)


def _sorted(keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sort keywords into fields of the spec, and settings of the execution."""
    for name in keywords:
        if name not in (*FIELDS, *EXECUTION):
            hint = nearest(name, (*FIELDS, *EXECUTION))
            meant = (
                f"did you mean {hint}?" if hint else f"allowed: {', '.join((*FIELDS, *EXECUTION))}"
            )
            raise TypeError(f"run() has no keyword {name!r}; {meant}")
    fields = {name: _plain(value) for name, value in keywords.items() if name in FIELDS}
    return fields, {name: value for name, value in keywords.items() if name in EXECUTION}


def _data(spec: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    if spec is None:
        return {}
    return dict(spec) if isinstance(spec, Mapping) else read_spec(str(spec))


def _plain(value: Any) -> Any:
    """The value as YAML would give it: paths are text, tuples are lists."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def _check_importable(wanted: Spec) -> None:
    """Refuse components that were registered here alone: other processes do not know them.

    Raises:
        InputError: naming the first.
    """
    refs = [(wanted.task.name, registry.tasks), (wanted.source.name, registry.sources)]
    refs += [(ref.name, registry.mechanisms) for parts in wanted.mechanisms for ref in parts]
    refs += [(ref.name, registry.attacks) for ref in wanted.attacks]
    refs += [(wanted.model.name, registry.models)] if wanted.model is not None else []
    for name, kind in refs:
        if name in kind.names() and kind.get(name).__module__ == "__main__":
            raise InputError(
                f"{shown(name)} is defined in the script that runs, and other processes cannot "
                "import it: write it into a file and give plugins=[file], or run with workers=0"
            )


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep processes that are started within the block from running the caller's script again.

    `multiprocessing` imports the main module in every process that it spawns. Runs need nothing of
    it, and a script without `if __name__ == "__main__"` would start its benchmark once more.
    """
    kept = hide_main()
    try:
        yield
    finally:
        vars(sys.modules["__main__"]).update(kept)
