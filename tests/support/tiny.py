"""The smallest benchmark that still runs end to end, and plug-ins that watch it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from uedp_bench.components import registry
from uedp_bench.contracts.results import RunSpec
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

SPIES = Path(__file__).parent / "spies.py"
SOURCE = {"users": 60, "valid_users": 5, "test_users": 10, "public_users": 20}
MODEL = {"vocabulary_size": 200, "units": 8, "embedding": 8}
ROUNDS = {"rounds": 2, "users_per_round": 10}
USER_DP = {"name": "user-dp", "params": ROUNDS}
NOISELESS = {"name": "noiseless", "params": {"epochs": 1}}


def tiny(*mechanisms: Any, **fields: Any) -> dict[str, Any]:
    """A spec of these mechanisms (each a component or a composition of several)."""
    return {
        "source": {"name": "embedded", "params": SOURCE},
        "model": {"name": "lstm-small", "params": MODEL},
        "mechanisms": list(mechanisms) or [USER_DP],
        **fields,
    }


def runs(*mechanisms: Any, **fields: Any) -> list[RunSpec]:
    """All runs of such a spec."""
    return expand(parse_spec(tiny(*mechanisms, **fields)))


def flags(out: Path, *more: str) -> list[str]:
    """The command line of the same benchmark, without its mechanisms; it runs in this process."""
    sizes = [f"source.{k}={v}" for k, v in SOURCE.items()]
    sizes += [f"model.{k}={v}" for k, v in MODEL.items()]
    settings = [part for size in sizes for part in ("--set", size)]
    return ["run", *settings, "--out", str(out), "--workers", "0", "--no-tracking", *more]


@contextmanager
def plugged(*files: Path) -> Iterator[None]:
    """Loads plug-in files; forgets them and what is loaded meanwhile afterwards."""
    modules = {*sys.modules}
    before = {kind: dict(kind._plugins) for kind in registry.REGISTRIES.values()}
    try:
        registry.load_plugins(files)
        yield
    finally:
        for kind, plugins in before.items():
            kind._plugins = plugins
        loaded = {f"uedp_bench_plugin_{file.stem}" for file in files} | ({*sys.modules} - modules)
        for name in loaded:
            if name.startswith("uedp_bench_plugin_"):
                sys.modules.pop(name, None)
