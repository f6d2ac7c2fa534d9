"""The commands `check` and `doctor`."""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from unittest.mock import patch

import pytest
from tiny import plugged

from uedp_bench.accounting.accountants.composing import compose
from uedp_bench.accounting.events import Repeated
from uedp_bench.cli.check import write_component
from uedp_bench.cli.main import run_cli
from uedp_bench.components import registry
from uedp_bench.errors import InputError, UnknownNameError
from uedp_bench.testing import check_component, subjects_of
from uedp_bench.testing.checks import KINDS


def checks(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    return {one["what"]: one for one in json.loads(capsys.readouterr().out)}


def test_all_is_well_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["doctor", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "all is well" in out
    assert "cores, torch uses" in out
    assert "mechanisms" in out


def test_a_broken_plug_in_and_a_broken_store_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mlflow.db").write_text("no database at all, but long enough to be read as one")
    entry = EntryPoint("torn", "no_such_package:Torn", registry.mechanisms.group)
    torn = {"torn": registry._origin(entry)}
    with patch.object(registry.mechanisms, "_plugins", torn):
        assert run_cli(["doctor", "--out", str(tmp_path), "--json"]) == 1
    states = checks(capsys)
    assert states["mechanism torn"]["state"] == "bad"
    assert "no_such_package" in states["mechanism torn"]["said"]
    assert states["tracking"]["state"] == "bad"
    assert states["attacks"]["state"] == "good"


BROKEN = str(Path(__file__).parents[1] / "support" / "broken_components.py")


def test_a_component_that_conforms(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["check", "model/none", "--explain"]) == 0
    out = capsys.readouterr().out
    assert "parameters declared" in out
    assert "riddle" in out


def test_a_component_that_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    with plugged():
        code = run_cli(["check", "source/other-each-time", "--plugin", BROKEN, "--json"])
    assert code == 1
    (report,) = json.loads(capsys.readouterr().out)
    failed = {one["check"] for one in report["checks"] if one["state"] == "failed"}
    assert "check_corpus_repeats" in failed
    assert report["conforms"] is False


def test_bad_input_is_refused_before_anything_is_checked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_cli(["check", "user-dp", "--set", "roundz=2"]) == 2
    assert "'rounds'" in capsys.readouterr().err
    assert run_cli(["check", "no-such-file.py"]) == 2


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


def test_a_new_event_is_accounted_for_and_its_test_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run_cli(["new", "event", "brand-new-event", "--out", str(tmp_path)]) == 0
    file = tmp_path / "brand_new_event.py"
    command = f"describe event/brand-new-event --plugin {file}"
    assert f"uedp-bench {command};" in capsys.readouterr().out
    with plugged(file):
        assert run_cli(command.split()) == 0
        event = registry.events.create("brand-new-event", {"sensitivity": 8, "scale": 40.0})
        fifty = compose([Repeated(count=50, event=event)], "replace-one", 1e-5)
        assert fifty.epsilon == pytest.approx(6.08, abs=0.005)  # docs/registry/event.md
        sys.modules[file.stem] = sys.modules[f"uedp_bench_plugin_{file.stem}"]
        test = importlib.import_module("test_brand_new_event")
        test.test_pair_and_promise_dominate_what_is_drawn()
    for name in (file.stem, test.__name__):
        sys.modules.pop(name)
    module, _, project, readme = write_component("event", "packed", tmp_path, package=True)
    assert tomllib.loads(project.read_text())["project"]["entry-points"] == {
        "uedp_bench.events": {"packed": "packed:Packed"}
    }
    assert "events.register" not in module.read_text()
    assert "uedp-bench check" not in readme.read_text()
    compile(module.read_text(), "packed.py", "exec")


def test_nothing_is_overwritten_and_names_are_checked(tmp_path: Path) -> None:
    write_component("task", "brand-new", tmp_path)
    with pytest.raises(InputError, match="exists"):
        write_component("task", "brand-new", tmp_path)
    with pytest.raises(InputError, match="'Brand New'"):
        write_component("task", "Brand New", tmp_path)
    with pytest.raises(UnknownNameError, match=r"'mechanisn'.*'mechanism'"):
        write_component("mechanisn", "brand-new", tmp_path)


@pytest.mark.parametrize(
    "name", ["none", "class", "json", "promise", "discrete-pair", "numpy", "uedp-bench"]
)
def test_names_that_python_or_the_file_has_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"'{name}'"):
        write_component("event", name, tmp_path)
    assert not any(tmp_path.iterdir())
    assert write_component("event", "noise", tmp_path)
