"""Fixtures that many tests share."""

from __future__ import annotations

import gc
import os
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# No test cuts the power: waiting for the disk would show nothing. Commands that tests kill are
# processes of their own, which do wait.
os.fsync = lambda handle: None

# Neither how busy the machine is nor chance decides a test: the same inputs each time show less the
# more there are. `--hypothesis-profile fresh` asks for others, and twice as many, each time.
settings.register_profile("fresh", deadline=None)
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")


_INSTALL = "pip install --no-deps --no-build-isolation -e ."


def pytest_configure() -> None:
    """Components are found by entry points: an installation older than the checkout lacks some."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    for group, declared in project["entry-points"].items():
        missing = sorted({*declared} - {entry.name for entry in entry_points(group=group)})
        if missing:
            raise pytest.UsageError(
                f"{group} lacks {', '.join(missing)}: install the checkout again ({_INSTALL})"
            )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keeps what is imported and collected, which lives to the end, out of garbage collections.

    They take a sixth of the time of collecting tests otherwise, and a tenth of that of the tests:
    hence the threshold.
    """
    gc.disable()
    result = yield
    gc.enable()
    gc.freeze()
    gc.set_threshold(100_000, 10, 10)
    return result


imported = 0
"""Modules that were imported when `gc.freeze` was called last."""


def pytest_runtest_logfinish() -> None:
    """Keeps what tests imported out of them too: every run in this process ends with one."""
    global imported
    if len(sys.modules) > imported + 200:
        imported = len(sys.modules)
        gc.collect()
        gc.freeze()


LONG = {"browser", "shared_data"}
"""Fixtures of tests that are long: pages in a browser, and data sets that stand in no checkout."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests by what they need, before marks choose tests."""
    for item in items:
        if not LONG.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.long)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: many tests wait for browsers and processes."""
    return (os.cpu_count() or 1) + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the one option of this suite."""
    parser.addoption(
        "--store-numbers", action="store_true",
        help="store the numbers of small runs whose versions were raised (tests/support)",
    )  # fmt: skip


@pytest.fixture
def store_numbers(request: pytest.FixtureRequest) -> bool:
    """True if numbers of new versions are to be stored."""
    return bool(request.config.getoption("--store-numbers"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of public data sets beside the checkout (or $UEDP_BENCH_DATA)."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("UEDP_BENCH_DATA", default))
    if not folder.is_dir():
        pytest.skip("needs public data sets: set UEDP_BENCH_DATA to their folder")
    return folder
