"""Receipts name what a stranger needs to compute a run again, and coins open one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from board_results import seeds

from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.validation.receipts import check_coins, receipt
from uedp_bench.one_run.planted_elsewhere import one_run, plant_folder, read_coins
from uedp_bench.spec.spec import parse_spec


def ref(name: str, **params: Any) -> ComponentSpec:
    return ComponentSpec(name=name, params=params)


@pytest.mark.parametrize(
    ("change", "rest"),
    [
        ({}, "the run, from its spec. Stated"),
        ({"source": ref("conll2003")}, "The rest: whoever has the data."),
        ({"source": ref("embedded", public=["mine.txt"])}, "whoever has the data."),
        ({"model": ref("gpt2", pretrained="mine")}, "whoever has the model."),
        ({"task": ref("of-nobody")}, "whoever has the data and the code of others."),
        ({"mechanism": (ref("of-nobody"),)}, "whoever has the code of others."),
        ({"noise_source": "os"}, "The rest: nobody"),
    ],
)
def test_only_a_spec_of_public_parts_is_enough(change: dict[str, Any], rest: str) -> None:
    run = seeds("noiseless", 50.0, source="embedded")[0]
    text = receipt(run.model_copy(update={"spec": run.spec.model_copy(update=change)}))
    assert rest in text
    assert ("the run, from its spec" in text) == (change == {})


def test_invented_text_is_planted_again_without_a_spec(tmp_path: Path) -> None:
    audit = {"name": "audit", "params": {"canaries": 20, "references": 10}}
    spec = parse_spec({
        "source": {"name": "embedded", "params": {"users": 60}},
        "mechanisms": ["noiseless"], "attacks": [audit],
    })  # fmt: skip
    commitment = plant_folder(spec, tmp_path / "planted").commitment
    file = tmp_path / "planted/coins.json"
    corpus = {"planted_fingerprint": read_coins(file).corpus}
    elsewhere = {"mechanism": (ref("trained-elsewhere", coins="coins.json"),)}
    run = seeds("noiseless", 50.0)[0].model_copy(update={
        "spec": one_run(spec).model_copy(update=elsewhere),
        "provenance": {"coins": commitment, "corpus": corpus},
    })  # fmt: skip
    (opened,) = check_coins(file, None, run)
    assert opened.severity == "note"
    assert "opens to" in opened.what
    source = ref("embedded", **{**run.spec.source.params, "users": 61})
    other = run.model_copy(update={"spec": run.spec.model_copy(update={"source": source})})
    assert [each.severity for each in check_coins(file, None, other)] == ["error"]


def test_a_folder_in_place_of_its_coins_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"folder.*coins\.json"):
        read_coins(tmp_path)
    with pytest.raises(InputError, match="no file"):
        read_coins(tmp_path / "coins.json")
