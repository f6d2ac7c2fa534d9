"""A site is a function of the results alone, and touches nobody else's files."""

from __future__ import annotations

import errno
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from references import bundle_lines

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import ComponentSpec, Result, RunError, RunSpec, SkippedAttack
from uedp_bench.errors import InputError
from uedp_bench.leaderboard import site as folders
from uedp_bench.leaderboard import site_files
from uedp_bench.leaderboard.loading import Loaded, Loader, load_results
from uedp_bench.leaderboard.serve import LiveSite, SiteOnDemand
from uedp_bench.leaderboard.site import SiteFolder, build, without_culprits
from uedp_bench.leaderboard.site_files import STATIC
from uedp_bench.leaderboard.sources import Copy, Folder
from uedp_bench.leaderboard.validation.publishing import published

LEADERBOARD = Path(__file__).parents[2] / "leaderboard"


@pytest.fixture(scope="module")
def results():
    """Two mechanisms of the quickstart, three seeds each."""
    all_results = load_results([LEADERBOARD / "results" / "quickstart"])
    return [result for result in all_results if result.label in ("user-dp", "uedp")]


def contents(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# ------------------------------------------------------------------------------ what is on the site


def test_the_same_results_make_the_same_files_in_any_order(results, tmp_path):
    assert len(results) == 6
    first = build(results, tmp_path / "one")
    build(results[3:] + results[2::-1], tmp_path / "deeper" / "two")
    one, two = contents(tmp_path / "one"), contents(tmp_path / "deeper" / "two")
    assert one == two
    assert set(first.files) | {"site.json"} == set(one)
    assert (first.rows, first.runs) == (2, 6)
    # Not because pages were empty: another number is another site.
    changed = results[0].model_copy(update={"utility": {}})
    build([changed, *results[1:]], tmp_path / "three")
    differing = {name for name, text in contents(tmp_path / "three").items() if one[name] != text}
    assert {"table.html", "results.json", f"runs/{changed.id}.html"} <= differing
    assert not any(name.startswith("assets/") for name in differing)


def test_downloads_hold_every_row_and_lead_to_its_pages(results, tmp_path):
    build(results, tmp_path)
    rows = json.loads((tmp_path / "results.json").read_text())
    assert {row["mechanism"] for row in rows} == {"user-dp", "uedp"}
    assert all((tmp_path / run["path"]).is_file() for row in rows for run in row["runs"])
    assert (tmp_path / "results.csv").read_text().count("\n") == 3


class Addresses(HTMLParser):
    """What a page loads, and where it leads."""

    def __init__(self):
        super().__init__()
        self.loaded, self.linked, self.handlers = set(), set(), []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        source = attributes.get("src") or attributes.get("data-src")
        if tag == "link" or source:
            self.loaded.add(source or attributes["href"])
        elif "href" in attributes:
            self.linked.add(attributes["href"])
        self.handlers += [name for name in attributes if name.startswith("on")]


def test_pages_load_files_of_the_site_only_and_all_that_are_shipped(results, tmp_path):
    built = build(results, tmp_path)
    loaded = set()
    for name in built.files:
        if not name.endswith(".html"):
            continue
        page = tmp_path / name
        addresses = Addresses()
        addresses.feed(page.read_text())
        assert addresses.handlers == []
        files = {(page.parent / address).resolve() for address in addresses.loaded - {"data:,"}}
        assert all(file.is_file() for file in files), addresses.loaded
        leads = {
            address
            for address in addresses.linked
            if not address.startswith(("#", "https://", "data:"))
        }
        dead = {x for x in leads if not (page.parent / x.partition("#")[0]).is_file()}
        assert not dead
        loaded |= files
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page.read_text()).group(1)
        assert "default-src 'none'" in policy
        assert "connect-src 'none'" in policy
    shipped = {path.name for path in (LEADERBOARD / "static").rglob("*") if path.suffix in
               (".js", ".css")}  # fmt: skip
    assert {Path(name).name for name in STATIC} == shipped
    # Nothing that no page asks for; `live.js` is for `serve`.
    assert {file.name for file in loaded} == shipped - {"live.js"} | {"plotly.min.js"}


def test_no_page_tells_where_it_was_made(results, tmp_path):
    home = "/" + "home/zaphod"
    spec = results[0].spec
    source = ComponentSpec(
        name="text", params={"path": f"{home}/mail.csv", "public": [f"{home}/a/public.txt"]}
    )
    trace = f'Traceback:\n  File "{home}/venv/lib/runner.py", line 3, in f\nKeyError: "and/or"'
    error = RunError(
        type="X", phase="train", traceback=trace,
        message=f"cannot read {home}/mail.csv, see https://example.org/a/b and C:\\Users\\al\\x.py",
    )  # fmt: skip
    result = Result(
        id="a1", group="g", status="failed", error=error,
        spec=spec.model_copy(update={"source": source}),
        skipped_attacks=(SkippedAttack(name="a", reason=f"no file:///{home}/planted.json"),),
        tracking={"mlflow_run_id": "r1", "tracking_uri": f"sqlite:///{home[1:]}/mlflow.db"},
        provenance={"vocabulary": {"origin": f"{home}/w.txt"}, "ratio": "1/2", "release": "a/b"},
    )  # fmt: skip
    clean = published(result)
    assert clean.spec.source.params == {"path": "mail.csv", "public": ["public.txt"]}
    assert clean.error.message == "cannot read mail.csv, see https://example.org/a/b and x.py"
    assert 'File "runner.py", line 3' in clean.error.traceback
    assert '"and/or"' in clean.error.traceback
    assert clean.skipped_attacks[0].reason == "no planted.json"
    assert clean.tracking == {"mlflow_run_id": "r1"}
    assert clean.provenance == {
        "vocabulary": {"origin": "w.txt"}, "ratio": "1/2", "release": "a/b",
    }  # fmt: skip
    remote = {"tracking_uri": "https://mlflow.example.org/a", "mlflow_run_id": "r2"}
    assert published(result.model_copy(update={"tracking": remote})).tracking == remote
    build([result, *results], tmp_path)
    leaks = [name for name, text in contents(tmp_path).items() if b"zaphod" in text]
    assert leaks == []
    place = str(tmp_path).encode()
    assert not any(place in text for text in contents(tmp_path).values())


def test_ids_that_are_no_names_of_files_are_refused(results, tmp_path):
    names = ("../../x", "a/b", "", "a b", "é", "x" * 65, "con.", "a\x00", "<b>")
    strange = {name: results[0].model_copy(update={"id": name}) for name in names}
    for result in strange.values():
        with pytest.raises(ValueError, match=r"^id '"):
            build([result], tmp_path / "site")
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------- building again


def test_building_again_writes_what_has_changed_and_removes_what_is_gone(results, tmp_path):
    assert build(results, tmp_path).removed == ()
    assert build(results, tmp_path).written == ()
    (tmp_path / "CNAME").write_text("example.org")
    (tmp_path / "runs" / "notes.html").write_text("somebody's")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.html")}
    fewer = [result for result in results if result.label != "uedp"]
    gone = {f"runs/{result.id}.html" for result in results} - {
        f"runs/{result.id}.html" for result in fewer
    }
    built = build(fewer, tmp_path)
    assert set(built.removed) == gone
    assert set(built.written) == {
        "glossary.html",
        "index.html",
        "table.html",
        "results.json",
        "results.csv",
    }
    assert not any((tmp_path / name).exists() for name in gone)
    kept = tmp_path / "runs" / f"{fewer[0].id}.html"
    assert kept.stat().st_mtime_ns == before[kept]
    assert (tmp_path / "CNAME").read_text() == "example.org"
    assert (tmp_path / "runs" / "notes.html").read_text() == "somebody's"
    assert set(contents(tmp_path)) == {*built.files, "site.json", "CNAME", "runs/notes.html"}


def test_a_folder_of_others_is_left_alone(results, tmp_path):
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(InputError, match=r"index\.html.*uedp-bench.*--force"):
        build(results, tmp_path)
    (tmp_path / "site.json").write_text('{"files": ["index.html"]}')  # of another program
    with pytest.raises(InputError, match=r"--out .*index\.html"):
        build(results, tmp_path)
    assert set(contents(tmp_path)) == {"index.html", "site.json"}
    assert (tmp_path / "index.html").read_text() == "mine"
    with pytest.raises(InputError, match=r"--out .*/index\.html"):
        build(results, tmp_path / "index.html")
    (tmp_path / "other.txt").write_text("mine")
    build(results, tmp_path, force=True)
    assert (tmp_path / "other.txt").read_text() == "mine"
    assert "uedp-bench" in (tmp_path / "index.html").read_text()
    # From now on it is a site of ours.
    assert build(results, tmp_path).written == ()


def test_a_checkout_with_hidden_files_only_is_empty(results, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".nojekyll").write_text("")
    build(results, tmp_path)
    assert (tmp_path / ".git").is_dir()


def test_a_tampered_list_removes_nothing_outside(results, tmp_path):
    out, outside = tmp_path / "site", tmp_path / "precious.txt"
    outside.write_text("mine")
    build(results, out)
    (out / "elsewhere").symlink_to(tmp_path)
    manifest = json.loads((out / "site.json").read_text())
    listed = ["../precious.txt", str(outside), "elsewhere/precious.txt", "elsewhere", "runs"]
    manifest["files"] += listed
    (out / "site.json").write_text(json.dumps(manifest))
    assert build(results, out).removed == ()
    assert outside.read_text() == "mine"
    assert (out / "elsewhere").is_symlink()


def test_a_link_at_the_name_of_a_half_written_file_is_not_followed(results, tmp_path, monkeypatch):
    out, outside = tmp_path / "site", tmp_path / "precious.txt"
    outside.write_text("mine")
    build(results, out)
    monkeypatch.setattr(folders, "token_hex", lambda count: "known")
    (out / ".index.html-known.partial").symlink_to(outside)
    with pytest.raises(FileExistsError):
        SiteFolder(out, ["index.html"]).write("index.html", "new")
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("left", [0, 1])
def test_a_full_disk_is_no_fault_of_results(results, left, monkeypatch):
    copies, faulty = {one.id: Copy(one, one.id) for one in results}, results[0].id
    monkeypatch.setattr(folders, "trouble", lambda copy: "faulty" * (copy.place == faulty))
    if not left:
        del copies[faulty]

    def show(these):
        if any(one.id == faulty for one in these):
            raise ValueError("of the faulty one")
        raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        without_culprits(Loaded(copies), show)


def test_an_interrupted_build_leaves_whole_files_and_goes_on(results, tmp_path, monkeypatch):
    whole = tmp_path / "whole"
    build(results, whole)
    out = tmp_path / "site"
    original, count = Path.replace, 0

    def interrupted(path, target):
        nonlocal count
        count += 1
        if count == len(STATIC) + 5:
            raise KeyboardInterrupt
        return original(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(results, out)
    left = contents(out)
    assert 0 < len([name for name in left if name.startswith("runs/")]) < len(results)
    assert all(text == contents(whole)[name] for name, text in left.items() if name != "site.json")
    # What is there is known to be ours, pages of runs that are gone included.
    build(results[-1:], out)
    build(results[-1:], whole)
    assert contents(out) == contents(whole)


def test_live_pages_carry_their_version_and_ask_their_server_alone(results, tmp_path):
    site = SiteOnDemand(tmp_path)
    site.update(results)
    for name in ("index.html", "table.html", f"runs/{results[0].id}.html"):
        site.make(name)
        text = (tmp_path / name).read_text()
        assert f'<meta name="version" content="{site.version(name)}">' in text
        assert "connect-src 'self'" in text
        assert "assets/live.js" in text
    site.update([])
    site.make("index.html")
    assert "Waiting for results" in (tmp_path / "index.html").read_text()
    assert not list((tmp_path / "runs").iterdir())


def test_progress_counts_all_files(results, tmp_path):
    counts = []
    built = build(results, tmp_path, progress=lambda *done: counts.append(done))
    assert counts == [(at, len(built.files)) for at in range(1, len(built.files) + 1)]
    assert folders.MANIFEST not in built.files


def test_specs_of_plugins_nobody_has_are_shown(results, tmp_path):
    spec = RunSpec(
        task=ComponentSpec(name="my-task"), source=ComponentSpec(name="my-source"),
        model=ComponentSpec(name="my-model"), mechanism=(ComponentSpec(name="my-mechanism"),),
    )  # fmt: skip
    build([results[0].model_copy(update={"spec": spec})], tmp_path)
    assert "my-mechanism" in (tmp_path / "table.html").read_text()


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
        record = sound | change | {"id": f"{at:016x}", "group": f"{at:016x}"}
        folder = tmp_path / record["id"]
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps(record))
    return tmp_path


@pytest.mark.parametrize("form", ["--csv", "--json", "--markdown", "--out=table.txt", "build"])
def test_hostile_results_end_no_command(runs, form, capsys, monkeypatch):
    monkeypatch.chdir(runs)
    command = ["build", "--out", "site"] if form == "build" else [form]
    assert run_cli(["leaderboard", *command, "--results", str(runs)]) == 0
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    assert "\x1b" not in printed.out + printed.err
    lines = printed.err.splitlines()
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
    news, rows = site.refresh()
    assert news.startswith("left out: ")
    assert news.endswith("TypeError: no\\x1bpage")
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
