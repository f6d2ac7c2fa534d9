"""uedp-bench: utility, guarantee, leakage and cost of text privacy mechanisms, in one table.

    import uedp_bench as ub

    results = ub.run(mechanisms=["noiseless", "user-dp"], attacks=["membership"], seeds=[1, 2])

Every name of `__all__` is stable, and is imported when it is first asked for, so that importing
the package stays quick. Components of your own import from `uedp_bench.api`.
"""

import importlib as _importlib
import typing as _typing

from uedp_bench.version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from uedp_bench.accounting.guarantee import Guarantee as Guarantee
    from uedp_bench.contracts.leakage import Leakage as Leakage
    from uedp_bench.contracts.release import Release as Release
    from uedp_bench.corpus.table import Corpus as Corpus
    from uedp_bench.errors import UedpBenchError as UedpBenchError
    from uedp_bench.one_run.planning.calibration import Solution as Solution
    from uedp_bench.python_api.results import Result as Result
    from uedp_bench.python_api.results import Results as Results
    from uedp_bench.python_api.results import SavedRun as SavedRun
    from uedp_bench.python_api.results import attack as attack
    from uedp_bench.python_api.results import load_checkpoint as load_checkpoint
    from uedp_bench.python_api.results import load_corpus as load_corpus
    from uedp_bench.python_api.results import load_release as load_release
    from uedp_bench.python_api.results import load_results as load_results
    from uedp_bench.python_api.results import load_run as load_run
    from uedp_bench.python_api.running import Guarantees as Guarantees
    from uedp_bench.python_api.running import account as account
    from uedp_bench.python_api.running import calibrate as calibrate
    from uedp_bench.python_api.running import run as run

_ON_FIRST_USE: dict[str, tuple[str, ...]] = {
    "uedp_bench.accounting.guarantee": ("Guarantee",),
    "uedp_bench.one_run.planning.calibration": ("Solution",),
    "uedp_bench.corpus.table": ("Corpus",),
    "uedp_bench.errors": ("UedpBenchError",),
    "uedp_bench.contracts.leakage": ("Leakage",),
    "uedp_bench.contracts.release": ("Release",),
    "uedp_bench.python_api.results": (
        "Result",
        "Results",
        "SavedRun",
        "attack",
        "load_checkpoint",
        "load_corpus",
        "load_release",
        "load_results",
        "load_run",
    ),
    "uedp_bench.python_api.running": ("Guarantees", "account", "calibrate", "run"),
}
"""Public names by the module that has them (PEP 562)."""

__all__ = sorted(name for names in _ON_FIRST_USE.values() for name in names)


def __getattr__(name: str) -> _typing.Any:
    for module, names in _ON_FIRST_USE.items():
        if name in names:
            public = globals()[name] = getattr(_importlib.import_module(module), name)
            return public
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
