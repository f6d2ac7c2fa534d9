"""What `uedp-bench new` writes keeps its contract and passes its own test, before any change."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

import pytest
from tiny import plugged

from uedp_bench.cli.main import run_cli
from uedp_bench.errors import InputError, UnknownNameError
from uedp_bench.testing import check_component, subjects_of
from uedp_bench.testing.checks import KINDS
from uedp_bench.testing.writing import write_component


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_component_conforms_and_its_test_passes(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run_cli(["new", kind, f"brand-new-{kind}"]) == 0
    file = tmp_path / f"brand_new_{kind}.py"
    params = {"path": str(tmp_path / f"brand_new_{kind}_example.csv")} if kind == "source" else {}
    with plugged(file):
        (subject,) = subjects_of(file.name, params=params)
        report = check_component(subject)
        assert report.conforms, str(report)
        states = {one.check: one.state for one in report.outcomes}
        assert states["check_runs"] == "passed"
        # Its test imports the module by its name, which registers it under the same file.
        sys.modules[file.stem] = sys.modules[f"uedp_bench_plugin_{file.stem}"]
        test = importlib.import_module(f"test_brand_new_{kind}")
        own = [value for name, value in vars(test).items()
               if name.startswith("test_") and name != "test_contract"]  # fmt: skip
        assert len(own) == 1
        own[0]()
    for name in (file.stem, test.__name__):
        sys.modules.pop(name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_package_registers_by_an_entry_point(kind: str, tmp_path: Path) -> None:
    written = write_component(kind, "brand-new", tmp_path, package=True)
    project = tomllib.loads((tmp_path / "brand-new" / "pyproject.toml").read_text())["project"]
    entries = project["entry-points"][f"uedp_bench.{kind}s"]
    assert entries == {"brand-new": "brand_new:BrandNew"}
    text = written[0].read_text()
    assert "register" not in text
    assert f"{kind}s," not in text.partition("class ")[0]
    compile(text, "brand_new.py", "exec")


def test_nothing_is_overwritten_and_names_are_checked(tmp_path: Path) -> None:
    write_component("task", "brand-new", tmp_path)
    with pytest.raises(InputError, match="exists"):
        write_component("task", "brand-new", tmp_path)
    with pytest.raises(InputError, match="'Brand New'"):
        write_component("task", "Brand New", tmp_path)
    with pytest.raises(UnknownNameError, match=r"'mechanisn'.*'mechanism'"):
        write_component("mechanisn", "brand-new", tmp_path)
