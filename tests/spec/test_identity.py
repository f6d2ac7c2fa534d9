"""What the id of a run is a hash of: recorded in its result, the same after JSON, without paths."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import NOISELESS, USER_DP, plugged, runs

from uedp_bench.components import registry
from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.results import RunError, RunSpec, read_result
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.one_run.execution import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.identity import Identity, identity_parts
from uedp_bench.store.failures import failed
from uedp_bench.store.provenance import names_place, recorded

REFERENCE = Path(__file__).parents[2] / "leaderboard" / "results"

PLUGIN = """
from uedp_bench.components.component import Params
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.components.registry import mechanisms

class ListedParams(Noiseless.Params):
    words: str = "none"

@mechanisms.register
class Listed(Noiseless):
    \"\"\"Trains without noise, and has a parameter that does not say that it is a path.\"\"\"

    name = "listed"
    Params = ListedParams
"""


def test_parts_hash_to_the_id_and_without_the_seed_to_the_group():
    first, second = runs(USER_DP, seeds=[1, 2])
    one, two = identity_parts(first, "c"), identity_parts(second, "c")
    assert identity_of(one) == (
        Identity.from_spec(first, "c").id,
        Identity.from_spec(first, "c").group,
    )
    assert identity_of(one)[0] != identity_of(two)[0]
    assert identity_of(one)[1] == identity_of(two)[1]
    version = registry.mechanisms.get("user-dp").version
    assert one["mechanism"] == [["user-dp", version, first.mechanism[0].params]]
    assert identity_parts(first, "c")["corpus"] == "c"


def test_ids_of_old_results_stay_what_they_are():
    results = load_results([REFERENCE / "quickstart"])
    assert results
    for result in results:
        parts = identity_parts(result.spec, result.provenance["corpus"]["fingerprint"])
        found = result.provenance.get("identity")
        if "engine" not in (found or {}):  # older than the version of the engine
            del parts["engine"]
            parts.pop("unprotected", None)
        # Versions are raised where numbers change, and were 1 before they were recorded.
        for name in ("task", "source", "model"):
            parts[name][1] = 1 if found is None else found[name][1]
        for name in ("mechanism", "attacks"):
            for at, part in enumerate(parts[name]):
                part[1] = 1 if found is None else found[name][at][1]
        assert identity_of(parts) == (result.id, result.group)


def test_new_results_record_what_their_id_is_a_hash_of(tmp_path):
    (spec,) = runs(NOISELESS)
    result = execute(spec, Execution(tmp_path, "cpu", keep_release=False))
    read = read_result(tmp_path / result.id / "result.json")
    parts = read.provenance["identity"]
    assert identity_of(parts) == (read.id, read.group)
    assert parts["corpus"] == read.provenance["corpus"]["fingerprint"]
    assert RunSpec.model_validate(read.spec.model_dump()).seed == parts["seed"]


def test_failed_runs_record_it_too(tmp_path):
    (spec,) = runs({"name": "noiseless", "params": {"epochs": 1}}, task="text-classification")
    result = execute(spec, Execution(tmp_path, "cpu", keep_release=False))
    assert result.status == "failed"
    assert identity_of(result.provenance["identity"]) == (result.id, result.group)


def test_a_file_that_is_there_is_recorded_by_what_it_holds(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("some words")
    (spec,) = runs(task={"name": "next-word", "params": {"vocabulary": str(words)}})
    parts = recorded(identity_parts(spec, "c"))
    assert parts is not None
    assert str(tmp_path) not in json.dumps(parts)
    assert identity_of(parts)[0] == Identity.from_spec(spec, "c").id


def test_no_path_of_this_machine_is_recorded(tmp_path):
    missing = str(tmp_path / "not there.txt")
    (spec,) = runs(task={"name": "next-word", "params": {"vocabulary": missing}})
    error = RunError(type="t", message="m", phase="load")
    result = failed(spec, Identity.from_spec(spec, "c"), error, stored={})
    assert "identity" not in result.provenance
    assert result.id == Identity.from_spec(spec, "c").id
    plugin = tmp_path / "listed.py"
    plugin.write_text(PLUGIN)
    with plugged(plugin):
        named, plain = runs(*({"name": "listed", "params": {"words": w}} for w in (missing, "few")))
        assert recorded(identity_parts(named, "c")) is None
        assert recorded(identity_parts(plain, "c")) == identity_parts(plain, "c")


@pytest.mark.parametrize(
    "text",
    ["/srv/mine/x", "/", "~/x", "~me", "../x", "C:\\Users\\me", "c:/x", "\\\\host\\x", "file:///x"],
)
def test_places_on_a_machine(text):
    assert names_place(text)
    assert names_place({"a": [1, {"b": text}]})
    assert names_place({text: 1})


@pytest.mark.parametrize("value", ["data/glove.txt", "owner/name", "f_E+", "", None, 1.5, [True]])
def test_what_is_no_place_on_a_machine(value):
    assert not names_place(value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: (
        st.lists(part, max_size=3)
        | st.tuples(part, part)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 20), part, max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES, st.integers(), st.floats())
def test_what_is_recorded_has_the_same_hash_after_json(value, seed, delta):
    # Keys of one kind only: JSON cannot sort others.
    parts = {"params": value, "seed": seed, "delta": delta}
    try:
        before = identity_of(parts)
    except TypeError:
        return
    shared = {"params": value, "delta": delta}
    texts = (json.dumps(each, sort_keys=True).encode() for each in (parts, shared))
    assert before == tuple(hashlib.sha256(text).hexdigest()[:16] for text in texts)
    found = recorded(parts)
    if found is None:
        return
    assert identity_of(json.loads(json.dumps(found))) == before


def test_what_json_cannot_hold_is_not_recorded():
    assert recorded({"delta": math.inf, "seed": 1}) is None
    assert recorded({"params": {10: "a", 9: "b"}, "seed": 1}) is None
    assert recorded({"params": (1, 0.1, "inf"), "seed": 1}) == {
        "params": [1, 0.1, "inf"],
        "seed": 1,
    }
