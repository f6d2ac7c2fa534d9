"""Every number of a result is a function of public things and of the release, or says it is not."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tiny import MODEL, plugged

from uedp_bench.components import registry
from uedp_bench.contracts.results import Result
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.one_run.components import build
from uedp_bench.one_run.planting import forget_corpora, load_corpus, public_sizes
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.private_data import KEY, PUBLIC, counts_sizes
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

UNTRAINED = """
from uedp_bench.components.component import Params
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.components.registry import mechanisms


@mechanisms.register
class Ignorant(TrainingMechanism[Params]):
    \"\"\"Releases what it was given: nothing of the private rows.\"\"\"

    name = "ignorant"
    unit = "user"

    def plan(self, stats):
        return ()

    def train(self, learner, corpus, run):
        return learner.module, ()
"""

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "on", "under", "mat", "tree", "and", "then"]


def rows(users, rows_each, private):
    """Public and test rows are the same whatever the private ones are."""

    def text(user, at):
        return " ".join(WORDS[(7 * user + 3 * at + k * k) % len(WORDS)] for k in range(5))

    out = []
    for split, count in (("valid", 8), ("test", 10)):
        out += [
            {"text": text(user, at), "user": f"{split}{user}", "split": split, "label": str(at % 2)}
            for user in range(count) for at in range(3)
        ]  # fmt: skip
    for user in range(users):
        out += [
            {"text": f"{text(user + 1, at)} {private}", "user": f"u{user}", "split": "train",
             "label": "1" if private else "0"} for at in range(rows_each)
        ]  # fmt: skip
    out[-1]["label"] = "0" if private else "1"
    return out


def run(folder, private_rows, spec):
    """A run in a folder on some private rows: everything public is the same."""
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, private_rows)) + "\n")
    forget_corpora()
    columns = {f"{name}_column": name for name in ("split", "user", "label")}
    params = {"path": str(folder / "data.jsonl"), "valid_is_public": True, **columns}
    (one,) = expand(parse_spec({"source": {"name": "text", "params": params}, **spec}))
    result = execute(one, Execution(folder / "out", "cpu", keep_release=False))
    assert result.error is None, result.error
    return result


def leaves(value, path=""):
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from leaves(part, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value and isinstance(value[0], dict | list):
        for number, part in enumerate(value):
            yield from leaves(part, f"{path}.{number}")
    else:
        yield path, value


NEXT = {
    "task": {"name": "next-word", "params": {"pretraining_epochs": 1}},
    "model": {"name": "lstm-small", "params": MODEL},
}
CLASSES = {
    "task": {"name": "text-classification", "params": {"pretraining_epochs": 1}},
    "model": {"name": "bilstm", "params": {"units": 4, "embedding_size": 4}},
}
SHARER = {"name": "secret-sharer", "params": {"p_u": [0.3], "canaries": 2, "entity_canaries": 0,
          "references": 8, "word_pool": 10}}  # fmt: skip
CLOCK = {"provenance.created", "provenance.started"}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Runs of one spec on two sets of private rows that release the same model."""
    out = {}
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "ignorant.py").write_text(UNTRAINED)
    with plugged(folder / "ignorant.py"):
        for name, more in (("next", {**NEXT, "attacks": [SHARER]}), ("classes", CLASSES)):
            spec = {**more, "mechanisms": ["ignorant"]}
            first = run(folder, rows(20, 3, ""), spec)
            second = run(folder, rows(26, 4, "unheard"), spec)
            out[name] = first, second
    return out


def covers(names, path):
    """True if the dotted path of a value is named, by itself or by what it is a part of."""
    return any(path == name or path.startswith(f"{name}.") for name in names)


@pytest.mark.parametrize("name", ["next", "classes"])
def test_what_differs_between_private_rows_though_the_release_does_not_is_listed(pairs, name):
    first, second = (dict(leaves(one.model_dump(mode="json"))) for one in pairs[name])
    listed = pairs[name][0].diagnostics[KEY]
    differ = {path for path in first.keys() | second.keys() if first.get(path) != second.get(path)}
    unlisted = {path for path in differ - CLOCK if not covers(listed, path)}
    assert unlisted - {f"diagnostics.{KEY}"} == set()
    # It would see them: these do differ.
    assert {"id", "group", "provenance.corpus.users", "provenance.identity.corpus"} <= differ
    counted = "utility.unigram_perplexity" if name == "next" else "utility.majority_error"
    assert f"{counted}.value" in differ
    assert not covers(listed, "floors.public-only")


@pytest.mark.parametrize("name", ["next", "classes"])
def test_every_value_of_a_result_is_public_or_listed(pairs, name):
    result = pairs[name][0]
    listed = result.diagnostics[KEY]
    task = registry.tasks.get(result.spec.task.name)
    released = {f"utility.{one.name}" for one in task.metrics if one.name not in task.counted}
    released |= {"floors.public-only", "events", "guarantees", "selection", "diagnostics"}
    released |= {f"provenance.{part}" for part in result.provenance if part != "corpus"}
    for path, _ in leaves(result.model_dump(mode="json")):
        public = covers(PUBLIC | released, path)
        assert public or covers(listed, path), path
    assert {"id", "group", "cost", "series", "learned", "provenance.corpus"} <= set(listed)
    assert not any(name.startswith(("spec", "headline", "pretraining")) for name in listed)


def test_a_field_that_is_added_to_results_is_private_until_somebody_says_otherwise():
    public = {"utility", "floors", "learned", "events", "guarantees", "selection", "diagnostics",
              "provenance"} | PUBLIC  # fmt: skip
    private = {"id", "group", "leakage", "details", "samples", "failed_attacks", "series", "cost",
               "ceilings"}  # fmt: skip
    assert public | private == set(Result.model_fields)


USER_DP = {"name": "user-dp", "params": {"users_per_round": 5, "rounds": 1}}


@pytest.mark.parametrize("mechanism", ["user-dp", "uedp", "uedp-group", "uedp-spread", "dp-sgd"])
def test_no_refusal_or_error_says_how_many_there_are(mechanism):
    stats = CorpusStats(4321, 8765, 8000, 7000, public=False)
    subject = registry.mechanisms.create(mechanism)
    reasons = subject.refusals(stats)
    assert any("private data" in reason for reason in reasons)
    if mechanism == "uedp-group":  # it takes a rate
        assert not any("4321" in reason for reason in reasons)
        return
    size = {"batch_size": 9999} if mechanism == "dp-sgd" else {"users_per_round": 9999}
    with pytest.raises(Exception, match="9999") as caught:
        registry.mechanisms.create(mechanism, size).plan(stats)
    for text in (*reasons, str(caught.value)):
        assert not any(number in text for number in ("4321", "8765", "8000", "7000")), text
    with pytest.raises(Exception, match="only"):  # a public number may be said
        registry.mechanisms.create(mechanism, size).plan(replace(stats, public=True))


def test_sizes_that_were_counted_make_guarantees_simulated_unless_they_are_declared(tmp_path):
    result = run(tmp_path, rows(20, 3, ""), {**NEXT, "mechanisms": [USER_DP]})
    assert {"events", "guarantees"} <= set(result.diagnostics[KEY])
    declared = {"name": "user-dp", "params": {**USER_DP["params"], "users": 50}}
    again = run(tmp_path, rows(20, 3, ""), {**NEXT, "mechanisms": [declared]})
    assert not {"events", "guarantees"} & set(again.diagnostics[KEY])
    parts = build(result.spec)
    stats = public_sizes(parts.sources, load_corpus(parts.sources.first))
    assert counts_sizes(parts.pipeline, stats)
    assert not counts_sizes(parts.pipeline, replace(stats, public=True))


def test_names_cover_what_is_below_them():
    assert covers(["cost"], "cost.rows_trained")
    assert covers(["cost.rows"], "cost.rows")
    assert not covers(["cost.rows"], "cost.rows_trained")
