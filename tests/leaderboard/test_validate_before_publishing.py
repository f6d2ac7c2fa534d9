"""What a submitter should know before a result is published: whom and what its texts name."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.validate import check
from uedp_bench.leaderboard.validation import publishing
from uedp_bench.leaderboard.validation.publishing import (
    check_publishing,
    private_text_notes,
)

QUICKSTART = Path(__file__).parents[2] / "leaderboard/results/quickstart"
AUTHORS = ["AaronPressman", "AlanCrosby", "AlexanderSmith", "BenjaminKangLim"]


@pytest.fixture(scope="module")
def sound() -> Result:
    return load_results([QUICKSTART])[0]


def changed(sound: Result, **fields) -> Result:
    return sound.model_copy(update=fields)


@pytest.mark.parametrize(
    "classes",
    [
        AUTHORS,
        ["aaron_pressman", "alan crosby", "alexander.smith"],
        ["alice", "bob", "carol", "other"],
        dict.fromkeys(AUTHORS, 0.5),
    ],
)
def test_classes_that_look_like_people_are_noted(sound, classes):
    result = changed(sound, details={"attribute-inference": {"attributes": {"author": classes}}})
    (note,) = check_publishing(result)
    assert note.severity == "note"
    assert note.where == "details.attribute-inference.attributes.author"
    assert "names" in note.what


@pytest.mark.parametrize(
    "classes",
    [
        ["World", "Sports", "Business", "Sci/Tech"],
        ["under 20", "20 to 29", "over 30"],
        ["female", "male"],
        ["absent", "present"],
        ["bush", "kerry"],  # two words that are names, too
        ["alt.atheism", "comp.graphics", "rec.sport.baseball"],
    ],
)
def test_other_classes_are_not(sound, classes):
    result = changed(sound, details={"attribute-inference": {"classes": classes}})
    assert not list(check_publishing(result))


def test_no_reference_result_names_anybody(sound):
    assert not list(check_publishing(sound))


def test_accounts_machines_addresses_and_places_are_noted(sound, monkeypatch, tmp_path):
    monkeypatch.setattr(publishing.getpass, "getuser", lambda: "zaphod")
    monkeypatch.setattr(publishing.socket, "gethostname", lambda: "heart-of-gold")
    provenance = {
        **sound.provenance, "machine": "Heart-of-Gold, 2 cores", "by": "zaphod", "x": "zaphodia",
        "mail": "trillian@example.org", "data": "read from /srv/mail/all.csv",
    }  # fmt: skip
    path = tmp_path / "result.json"
    path.write_text(changed(sound, provenance=provenance).model_dump_json())
    notes = {note.where: note.what for note in check(path).notes if "folder" not in note.what}
    assert "machine" in notes["provenance.machine"]
    assert "account" in notes["provenance.by"]
    assert "'trillian@example.org'" in notes["provenance.mail"]
    assert "place" in notes["provenance.data"]
    assert "provenance.x" not in notes


def test_long_texts_are_searched_for_addresses_in_linear_time(sound):
    long = {"texts": ["x" * 10**6, "x" * 10**6 + " ann.lee@example.org"]}
    start = time.process_time()
    notes = list(check_publishing(sound.model_copy(update={"details": {"membership": long}})))
    assert time.process_time() - start < 10.0  # an hour where each character begins a search
    assert [note.what for note in notes if "address" in note.what] == [
        "holds an address, 'ann.lee@example.org'"
    ]


def test_names_that_are_nobodys_are_not_searched(sound, monkeypatch):
    monkeypatch.setattr(publishing.getpass, "getuser", lambda: "root")
    monkeypatch.setattr(publishing.socket, "gethostname", lambda: "gpu")
    result = changed(sound, provenance={**sound.provenance, "x": "root and a gpu"})
    assert not list(check_publishing(result))


def test_what_is_stored_is_said_once_for_all_files(sound, tmp_path, capsys):
    stored = {"release": "model weights made from private rows", "planted": "canaries"}
    for at in range(2):
        (tmp_path / str(at)).mkdir()
        path = tmp_path / str(at) / "result.json"
        path.write_text(changed(sound, stored=stored).model_dump_json())
    assert any(
        "holds release" in line for line in private_text_notes(changed(sound, stored=stored))
    )
    assert run_cli(["leaderboard", "validate", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert output.count("holds release") == 1
    assert "(2 of 2 results)" in output
    assert output.count("its canaries") == 1
    assert run_cli(["leaderboard", "validate", str(tmp_path), "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)
    assert all("result.json" in " ".join(one["told"]) for one in reports)
