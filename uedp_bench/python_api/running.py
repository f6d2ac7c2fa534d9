"""Runs and guarantees from Python, as the commands make them: same grid, checks and accounting."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components import registry
from uedp_bench.errors import InputError, UedpBenchError, nearest, shown
from uedp_bench.io.fresh_processes import hide_main
from uedp_bench.leaderboard.run_pages.in_words import promise
from uedp_bench.one_run.planning.account import DELTA
from uedp_bench.one_run.planning.account import account as account_for
from uedp_bench.one_run.planning.calibration import Solution, Target, default_parameter, solve
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism, PlannedPipeline
from uedp_bench.python_api.results import Results, table_html
from uedp_bench.python_api.run_grid import Options, run_grid
from uedp_bench.spec.descriptions import has_parameter, needs_parameter
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
    allowed = (*FIELDS, *EXECUTION)
    for name in keywords:
        if name not in allowed:
            hint = nearest(name, allowed)
            meant = f"did you mean {hint}?" if hint else f"allowed: {', '.join(allowed)}"
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


COLUMNS = ("kind", "epsilon", "delta", "unit", "adjacency", "notion", "status", "reason")
NUMBERS = ("epsilon", "delta")


class NoSingleGuaranteeError(InputError, LookupError):
    """No guarantee, or several, for a unit: a mistake of users, as all errors of the package."""


class Guarantees(tuple[Guarantee, ...]):
    """Guarantees of a mechanism, claims first; a table where they are shown."""

    __slots__ = ()

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """Cells of the table, one line a guarantee, in the order of `COLUMNS`."""
        return [tuple(_cell(getattr(guarantee, name)) for name in COLUMNS) for guarantee in self]

    def proven(self, unit: str | None = None) -> Guarantee:
        """Proven guarantee for a unit, or for the only one.

        Statements of components that nobody reviewed are not among them.

        Raises:
            NoSingleGuaranteeError: if there are several, or none.
        """
        matches = [g for g in self if g.kind == "proven" and unit in (None, g.unit)]
        if len(matches) != 1:
            units = ", ".join(str(g.unit) for g in self if g.kind == "proven") or "none"
            raise NoSingleGuaranteeError(
                f"proven guarantees for the unit {unit}: {len(matches)}; proven are those for: "
                f"{units}"
            )
        return matches[0]

    def __repr__(self) -> str:
        """One line a guarantee."""
        return "\n".join(" ".join(cell for cell in line if cell) for line in self.lines)

    def _repr_html_(self) -> str:
        """Proven guarantees in a sentence, and the table."""
        kinds = ["number" if name in NUMBERS else "" for name in COLUMNS]
        return f"<p>{escape(promise(self))}.</p>{table_html(COLUMNS, self.lines, kinds)}"


def account(
    mechanism: str,
    parameters: Mapping[str, Any] | None = None,
    *,
    delta: float | None = None,
    spread: Iterable[int | None] | None = None,
    plugins: Iterable[Path | str] = (),
    **more: Any,
) -> Guarantees:
    """Account for a mechanism before training: its paper's claims, and what can be proven.

        account("user-dp", users=4000, users_per_round=400, rounds=100, noise_multiplier=1.1)

    Args:
        mechanism: mechanism, several in a row joined by +, or a published system.
        parameters: parameters of the mechanism, and public sizes; of several mechanisms
            "deidentify.detector" and the like.
        delta: delta at which guarantees are stated; 1e-5 by default.
        spread: points of the curve of guarantees for a user with an entity: how many other users
            mention it; None among them for all users.
        plugins: files that register mechanisms of your own.
        more: parameters, as keywords.

    Raises:
        InputError: for an unknown name or parameter, a value out of range, or a size that is
            missing.
    """
    registry.load_plugins(map(Path, plugins))
    settings, delta = _settings(mechanism, {**(parameters or {}), **more}, delta)
    several = "+" in mechanism
    planned = (PlannedPipeline if several else PlannedMechanism).from_settings(mechanism, settings)
    points: Sequence[int | None] | None = None if spread is None else list(spread)
    return Guarantees(account_for(planned, DELTA if delta is None else delta, points))


def calibrate(
    mechanism: str,
    epsilon: float,
    parameters: Mapping[str, Any] | None = None,
    *,
    parameter: str | None = None,
    delta: float | None = None,
    spread: int | None = None,
    plugins: Iterable[Path | str] = (),
    **more: Any,
) -> Solution:
    """Find the parameter of a mechanism that meets a target, as proven.

        calibrate("user-dp", 8, users=4000, users_per_round=400, rounds=100).value

    Args:
        mechanism: mechanism, or published system.
        epsilon: largest epsilon to be proven.
        parameters: parameters of the mechanism, and public sizes.
        parameter: parameter to solve for; the smallest noise_multiplier where there is one.
        delta: delta to be proven; 1e-5 by default.
        spread: point of the curve; the mechanism's own by default, else all users.
        plugins: files that register mechanisms of your own.
        more: parameters, as keywords.

    Raises:
        InputError: see `account`, and where no value meets the target.
    """
    registry.load_plugins(map(Path, plugins))
    named = {**(parameters or {}), **more}
    wanted = default_parameter(mechanism, named) if parameter is None else parameter
    start = {wanted: 1} if needs_parameter(mechanism, wanted) else {}
    settings, delta = _settings(mechanism, {**start, **named}, delta)
    planned = PlannedMechanism.from_settings(mechanism, settings, "calibrate")
    return solve(planned, Target(epsilon, DELTA if delta is None else delta, spread), wanted)


def _settings(
    mechanism: str, parameters: dict[str, Any], delta: float | None
) -> tuple[dict[str, Any], float | None]:
    """Parameters, and delta; a mechanism that has a parameter of this name gets the same one."""
    if delta is not None and has_parameter(mechanism, "delta"):
        parameters = {"delta": delta, **parameters}
    return parameters, parameters.get("delta", delta)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)
