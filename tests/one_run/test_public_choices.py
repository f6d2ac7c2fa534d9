"""What guarantees assume of a corpus, wherever its splits come from."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uedp_bench.accounting.events import Gaussian, PrivacyEvent
from uedp_bench.accounting.guarantee import Condition
from uedp_bench.accounting.ledger import proven
from uedp_bench.components.component import Params
from uedp_bench.components.registry import attacks, sources
from uedp_bench.contracts.clients import Clients
from uedp_bench.contracts.leakage import Attack, Leakage, Planted
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import PluginError
from uedp_bench.one_run.guaranteeing import (
    CHANGED_DOCUMENTS,
    CHANGED_TEXT,
    CLIENT_ROWS,
    NUMBERED,
    PLANTED,
    PUBLIC_USERS,
    REPLACED_ROWS,
    SCORED_USERS,
    TRAINING_MENTIONS,
    conditions,
)
from uedp_bench.one_run.planting import Data, PlantedCorpus, counted_sizes, plant_all, withdrawn
from uedp_bench.testing.small_parameters import SOURCE, fitted, known_params, known_partners

ROWS = [
    {"text": f"row {at}", "who": f"u{at // 2}", "split": ("train", "test", "valid")[at // 2 % 3]}
    for at in range(60)
]


def planted(corpus: Corpus, before: Corpus | None = None, **attacks: Planted) -> PlantedCorpus:
    nothing = np.zeros(len(corpus), dtype=bool)
    data = Data(corpus if before is None else before)
    return PlantedCorpus(data, corpus, attacks, counted_sizes(corpus), nothing)


def load(path: Path, rows: list[dict[str, Any]], **params: Any) -> Corpus:
    (path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    params = {"user_column": "who", "split_column": "split", **params}
    corpus: Corpus = sources.create("text", {"path": path / "x.jsonl", **params}).load()
    return corpus


def of_folder(path: Path, rows: list[dict[str, Any]]) -> Corpus:
    for name in ("train", "test", "valid", "public"):
        part = [row for row in rows if row["split"] == name]
        if part:
            text = "".join(json.dumps(row) + "\n" for row in part)
            (path / f"{name}.jsonl").write_text(text)
    corpus: Corpus = sources.create("text", {"path": path, "user_column": "who"}).load()
    return corpus


def texts(corpus: Corpus) -> dict[str, bool]:
    return {one.text: one.broken for one in conditions(planted(corpus))}


@pytest.mark.parametrize("door", [load, of_folder])
def test_a_training_user_is_public_by_no_door(tmp_path: Path, door: Any) -> None:
    apart = texts(door(tmp_path, [*ROWS, {"text": "p", "who": "p", "split": "public"}]))
    assert PUBLIC_USERS not in apart
    twice = texts(door(tmp_path, [*ROWS, {"text": "p", "who": "u0", "split": "public"}]))
    assert twice[PUBLIC_USERS]


def test_a_client_with_public_rows_is_covered_in_training_alone(tmp_path: Path) -> None:
    def by_text(rows: list[dict[str, Any]]) -> dict[str, Condition]:
        corpus = Clients(count=2).deal(load(tmp_path, rows))
        by_condition = conditions(planted(corpus))
        return {one.text: one for one in by_condition if one.concerns("client", "add-or-remove")}

    apart = by_text([*ROWS, {"text": "p", "who": "p", "split": "public"}])
    assert not apart[CLIENT_ROWS].broken
    assert CLIENT_ROWS in texts(load(tmp_path, ROWS))  # a mechanism may deal rows by itself (iid)
    assert PUBLIC_USERS not in apart
    assert by_text([*ROWS, {"text": "p", "who": "u0", "split": "public"}])[PUBLIC_USERS].broken


@pytest.mark.parametrize("door", [load, of_folder])
@pytest.mark.parametrize("split", ["valid", "test"])
def test_a_training_user_who_is_scored_is_an_assumption(
    tmp_path: Path, door: Any, split: str
) -> None:
    assert SCORED_USERS not in texts(door(tmp_path, ROWS))
    twice = texts(door(tmp_path, [*ROWS, {"text": "p", "who": "u0", "split": split}]))
    assert twice[SCORED_USERS] is False


def test_an_entity_in_text_that_no_mechanism_protects_is_an_assumption(tmp_path: Path) -> None:
    """Whoever leaves a name out of a file leaves it out of public text too."""
    stated = conditions(planted(load(tmp_path, ROWS)))
    (mentions,) = (one for one in stated if one.text == TRAINING_MENTIONS)
    assert mentions.concerns("user-entity", "add-or-remove")
    assert not mentions.concerns("user", "add-or-remove")


def test_rows_without_ids_are_assumed_to_stay(tmp_path: Path) -> None:
    assert REPLACED_ROWS in texts(load(tmp_path, ROWS))
    named = [{**row, "id": at} for at, row in enumerate(ROWS)]
    assert REPLACED_ROWS not in texts(load(tmp_path, named, id_column="id"))
    alone = conditions(planted(load(tmp_path, ROWS, user_column=None)))
    assert {one.units is not None and "user" in one.units for one in alone} == {True, False}


def test_a_row_of_which_a_word_changes_is_assumed_to_stay(tmp_path: Path) -> None:
    rows = [{**row, "text": f"It rained . We met {at} ."} for at, row in enumerate(ROWS)]
    changed = [{**rows[0], "text": "It rained and We met 0 ."}, *rows[1:]]
    two = [load(tmp_path, each, min_sentences=2) for each in (rows, changed)]
    assert [len(corpus) for corpus in two] == [60, 59]
    (stays,) = (one for one in conditions(planted(two[0])) if one.text == CHANGED_TEXT)
    assert stays.concerns("word", "replace-one")
    assert not stays.concerns("record", "replace-one")


def test_documents_without_names_are_assumed_to_stay(tmp_path: Path) -> None:
    lines = [f"-DOCSTART- O\n\na{at} O\nb B-X\n\nc{at} O\n\n" for at in range(40)]
    (tmp_path / "x.conll").write_text("".join(lines))
    params = {"path": tmp_path / "x.conll", "user_column": "document"}
    needed = conditions(planted(sources.create("text", params).load()))
    changed = [one for one in needed if one.text == CHANGED_DOCUMENTS]
    # Taking out a user with an entity removes sentences from documents of other users.
    for unit, adjacency, assumed in (
        ("record", "add-or-remove", True), ("user-entity", "add-or-remove", True),
        ("user", "add-or-remove", False), ("user", "replace-one", True),
    ):  # fmt: skip
        assert any(one.concerns(unit, adjacency) for one in changed) is assumed


def test_numbers_of_a_plug_in_are_assumed_to_be_names(tmp_path: Path) -> None:
    corpus = load(tmp_path, ROWS)
    assert NUMBERED not in texts(corpus)
    assert texts(replace(corpus, user_names=None))[NUMBERED] is False
    generated = conditions(planted(replace(corpus, user_names=None)), generated=True)
    assert NUMBERED not in {one.text for one in generated}


def test_planting_and_quotas_are_assumed(tmp_path: Path) -> None:
    before = load(tmp_path, ROWS)
    after = before.with_split(before.users == 0, "held_out")
    conditions_met = {one.text for one in conditions(planted(after, before, membership=Planted()))}
    assert PLANTED in conditions_met
    same = {one.text for one in conditions(planted(before, before, membership=Planted()))}
    assert PLANTED not in same
    audited = conditions(planted(before, before, audit=Planted(injected=(0,))))
    assert PLANTED in {one.text for one in audited}
    few = load(tmp_path, [row for row in ROWS if row["who"] in ("u0", "u3", "u6")], test=0.01)
    assert set(few.quotas) < set(texts(few))


GAPS = {"layout": "HSH", "occurrences": [2], "canaries": 1}
PLANTING = [
    *((name, None) for name in sorted(attacks.names())),
    ("secret-sharer", GAPS),
    ("secret-sharer", {**GAPS, "planting": "rows"}),
    ("audit", {"canaries": 20, "adjacency": "replace-one"}),
    ("audit", {"canaries": 20, "canary": "update"}),
]


@pytest.mark.parametrize(("name", "params"), PLANTING)
def test_every_attack_that_plants_is_assumed(
    name: str, params: dict[str, Any] | None, tmp_path: Path
) -> None:
    """Canaries and coins fall among the users who are there: a neighbour has the same ones."""
    partner = known_partners("attack", name).get("source", SOURCE)
    corpus: Corpus = sources.create(partner["name"], partner["params"]).load()
    values = known_params("attack", name, tmp_path) if params is None else params
    attack = attacks.create(name, fitted(attacks.get(name), values, {}))
    after, own = plant_all((attack,), corpus, 1)
    moved = withdrawn(own, len(after))
    prepared = replace(planted(after.with_split(moved, "held_out"), corpus, **own), withdrawn=moved)
    changed = prepared.corpus.fingerprint != corpus.fingerprint or own[name].injected != ()
    assert (PLANTED in {one.text for one in conditions(prepared)}) == changed
    plants = {"annotation-leak", "audit", "membership", "secret-sharer", "vocabulary-membership"}
    assert changed == (name in plants)


def test_an_attack_of_a_stranger_that_plants_is_assumed(tmp_path: Path) -> None:
    """It may have changed rows and say nothing of it."""
    before = load(tmp_path, ROWS)
    prepared = replace(planted(before, before, mine=Planted()), strangers=("attack mine",))
    assert PLANTED in {one.text for one in conditions(prepared)}


class InPlace(Attack[Params]):
    """Publishes a private row, and returns the corpus that it was given."""

    name = "in-place"

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        corpus.split[0] = SPLITS.index("public")
        return corpus, Planted()

    def run(self, *_: Any) -> Leakage:
        raise NotImplementedError


def test_an_attack_that_changes_the_corpus_in_place_is_refused(tmp_path: Path) -> None:
    """Nobody would know that guarantees rest on it."""
    with pytest.raises(PluginError, match="in-place"):
        plant_all((InPlace(Params()),), load(tmp_path, ROWS), 1)


def test_conditions_refuse_or_are_stated_by_unit_and_adjacency() -> None:
    event = Gaussian(noise_multiplier=1.0)
    events = [
        PrivacyEvent(unit="user", event=event, stage="a"),
        PrivacyEvent(unit="record", event=event, stage="a"),
    ]
    needed = (
        Condition("broken", frozenset({"user"}), broken=True),
        Condition("assumed", frozenset({"record"})),
        Condition("of others", None, "replace-one"),
    )
    by_unit = {one.unit: one for one in proven(events, delta=1e-5, conditions=needed)}
    assert (by_unit["user"].status, by_unit["user"].reason) == ("refused", "broken")
    assert math.isfinite(by_unit["record"].epsilon)
    assert "assumed" in by_unit["record"].assumptions
    assert "of others" not in by_unit["record"].assumptions
