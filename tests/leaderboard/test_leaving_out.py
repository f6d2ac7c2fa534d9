"""No result of anybody ends a table, a site or a server: it is named in one line and left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from references import bundle_lines

from uedp_bench.cli.main import run_cli
from uedp_bench.errors import InputError
from uedp_bench.leaderboard import site_files
from uedp_bench.leaderboard.leaving_out import without_culprits
from uedp_bench.leaderboard.loading import Loader
from uedp_bench.leaderboard.serve import LiveSite
from uedp_bench.leaderboard.sources import Folder

HOSTILE = {
    "a text in a cost": {"cost": {"train_seconds": "nan"}},
    "a list as fingerprint": {"provenance": {"corpus": {"fingerprint": [1]}}},
    "a number as fingerprint": {"provenance": {"vocabulary": {"fingerprint": 3}}},
    "a text as provenance of the corpus": {"provenance": {"corpus": "x"}},
    "another selection": {"selection": {"x": 1}},
    "a selection of texts": {"selection": {"settings": 1, "scores": 2, "guarantees": "xy",
                                           "method": ""}},
    "diagnostics of any form": {"diagnostics": {"signal_to_noise": [], "a": {"b": [{}, "c", 1]}}},
    "details of any form": {"details": {"membership": {"roc": [1, "x"], "scores": {"a": None}},
                                        "audit": {"curve": "x"}, "secret-sharer": {}}},
    "a series of infinities": {"series": {"loss": [[1, "inf"], [1, "-inf"]]}},
    "a pretraining of any form": {"pretraining": {"series": 3, "x": [[[]]]}},
    "the largest numbers": {"cost": {"train_seconds": 1e308, "x": 10**4000},
                            "utility": {"perplexity": {"value": 1e308, "low": 1e308,
                                                       "high": "inf"}}},
    "names that rule terminals": {"leakage": {"\x1b[2J": {"\x1b]0;x\x07": {"value": 1.0}}}},
}  # fmt: skip


@pytest.fixture
def runs(tmp_path):
    """One reference result, and one of every hostile kind, each in the folder of its id."""
    sound = json.loads(bundle_lines("quickstart")[0].text)
    sound["provenance"].pop("identity", None)
    for at, change in enumerate([{}, *HOSTILE.values()]):
        found = sound | change | {"id": f"{at:016x}", "group": f"{at:016x}"}
        folder = tmp_path / found["id"]
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps(found))
    return tmp_path


@pytest.mark.parametrize("form", ["--csv", "--json", "--markdown", "--out=table.txt", "build"])
def test_hostile_results_end_no_command(runs, form, capsys, monkeypatch):
    monkeypatch.chdir(runs)
    command = ["build", "--out", "site"] if form == "build" else [form]
    assert run_cli(["leaderboard", *command, "--results", str(runs)]) == 0
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert "\x1b" not in said.out + said.err
    lines = said.err.splitlines()
    (cost,) = [line for line in lines if "cost.train_seconds" in line]
    assert cost.startswith("left out: ")
    assert all(line.startswith(("left out: ", "written: ")) for line in lines)


def test_a_server_stays_up_and_shows_the_others(runs, tmp_path_factory):
    site = LiveSite(Loader([Folder(runs)]), tmp_path_factory.mktemp("site"))
    lines = site.refresh()
    assert lines[-1].endswith("runs")
    pages = [name for name in site.names if not name.startswith("assets/")]
    assert len(pages) > 5
    shown = {name: site.read(name) for name in pages}
    assert shown[f"runs/{0:016x}.html"]
    lines += site.refresh()
    assert all(line.startswith("left out") or line.endswith("runs") for line in lines)
    # What is gone made its own page, or that of all, fail, and was named.
    for name, content in shown.items():
        assert content or any(Path(name).stem in line for line in lines), name
    assert site.refresh() == []


def test_a_result_that_makes_its_page_fail_is_left_out_once_it_is_asked_for(
    runs, tmp_path_factory, monkeypatch
):
    bad, other = (f"{at:016x}" for at in (0, 3))
    original = site_files._run

    def failing(result, *rest):
        if result.id == bad:
            raise TypeError("no\x1bpage")
        return original(result, *rest)

    monkeypatch.setattr(site_files, "_run", failing)
    site = LiveSite(Loader([Folder(runs)]), tmp_path_factory.mktemp("site"))
    (*_, before) = site.refresh()
    assert bad in site.read("results.csv").decode()
    assert site.read(f"runs/{other}.html")
    assert site.read(f"runs/{bad}.html") is None
    assert bad not in site.read("results.csv").decode()
    said, rows = site.refresh()
    assert said.startswith("left out: ")
    assert said.endswith("TypeError: no\\x1bpage")
    assert rows != before
    assert site.refresh() == []
    monkeypatch.undo()
    path = runs / bad / "result.json"
    path.write_text(path.read_text() + "\n")  # it has changed, and is tried again
    site.refresh()
    assert site.read(f"runs/{bad}.html")


def test_the_culprit_is_found_and_named(runs):
    loaded = Loader([Folder(runs)]).load()
    bad = f"{2:016x}"

    def show(results):
        ids = [result.id for result in results]
        if bad in ids:
            raise TypeError("a\nlist\x1b")
        return ids

    with pytest.raises(InputError, match="TypeError"):
        without_culprits(loaded, show)  # each of them can be shown alone
