"""Each example of the pages for authors runs as printed, and its result is looked at."""

from __future__ import annotations

import ast
import csv
import importlib
import json
import math
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import ROOT, commands, examples, smaller
from tiny import plugged

from uedp_bench import api
from uedp_bench.cli.main import run_cli

SOURCE = {"users": 60, "valid_users": 5, "test_users": 10, "public_users": 20}
HELD_OUT = {"attack.membership.held_out_users": 10, "attack.membership.shadow_models": 2}
USER_DP = {"mechanism.user-dp.rounds": 2, "mechanism.user-dp.users_per_round": 10}
PAGES = (
    "source",
    "model",
    "attack",
    "attack-on-messages",
    "mechanism-that-trains",
    "task",
    "task-in-stages",
    "publisher",
    "event",
)
MAY_IMPORT = {"numpy", "torch", "pydantic", *sys.stdlib_module_names}


def page(name: str) -> str:
    return f"docs/registry/{name}.md"


@pytest.mark.parametrize("name", PAGES)
def test_an_example_imports_public_names_only(name):
    for file, code in examples(page(name)).items():
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom):
                module = str(node.module)
                if module.split(".")[:2] == ["uedp_bench", "api"]:
                    public = set(importlib.import_module(module).__all__)
                    assert {alias.name for alias in node.names} <= public
                else:
                    assert module in MAY_IMPORT, f"{file}, line {node.lineno}"
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= MAY_IMPORT


@pytest.fixture
def results(tmp_path, monkeypatch, capsys):
    """Runs the commands of a page in a folder that holds its files; results by mechanism."""
    monkeypatch.chdir(tmp_path)

    def run(name: str, settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
        files = examples(page(name))
        for file, code in files.items():
            Path(file).write_text(code)
        with plugged(*map(Path, files)):
            for command in commands(page(name)):
                runs = command[0] == "run"
                words = [*smaller(command, settings), "--out", "runs"] if runs else command
                assert run_cli(words) == 0, capsys.readouterr().err
        return by_mechanism(tmp_path / "runs")

    return run


def by_mechanism(out: Path) -> dict[str, dict[str, Any]]:
    records = [json.loads(file.read_text()) for file in sorted(out.glob("*/result.json"))]
    return {"+".join(part["name"] for part in run["spec"]["mechanism"]): run for run in records}


def sizes(**more: Any) -> dict[str, Any]:
    """Settings of the embedded source at its smallest, and more."""
    return {**{f"source.{name}": size for name, size in SOURCE.items()}, **more}


def stated(run: dict[str, Any], unit: str = "user") -> float:
    """The epsilon of a run for a unit, which rests on the example of a page: it is stated."""
    (epsilon,) = [
        float(guarantee["epsilon"])
        for guarantee in run["guarantees"]
        if guarantee["kind"] != "claimed" and guarantee["unit"] == unit
    ]
    kinds = {guarantee["kind"] for guarantee in run["guarantees"] if guarantee["unit"] == unit}
    assert math.isinf(epsilon) or "proven" not in kinds  # nobody reviewed the examples
    return epsilon


def write_reviews(file: Path, authors: Sequence[str]) -> None:
    rng = np.random.default_rng(1)
    with file.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(("author", "region", "stars", "text"))
        for author in authors:
            for _ in range(4):
                good = rng.random() < 0.5
                text = f"a {'lovely' if good else 'dull'} book, ask {author}@example.org for it"
                rows.writerow((author, rng.choice(("north", "south")), 4 if good else 2, text))


@pytest.mark.long
def test_the_source_reads_reviews(results, tmp_path, capsys):
    write_reviews(tmp_path / "reviews.csv", [f"author{number}" for number in range(40)])
    (run,) = results("source", {"model.units": 8}).values()
    error = run["utility"]["error"]["value"]
    assert error < run["utility"]["majority_error"]["value"]  # the sentiment was read
    assert "EMAIL" in capsys.readouterr().out


def test_the_source_refuses_a_row_without_a_region(results, tmp_path, capsys):
    write_reviews(tmp_path / "reviews.csv", ["ann", "bo"])
    (tmp_path / "reviews.csv").write_text("author,region,stars,text\nann,,5,fine\n")
    with pytest.raises(AssertionError, match=r"row 1 .*author, region, stars, text"):
        results("source", {})


@pytest.mark.long
def test_the_model_classifies(results, capsys):
    longer = {"mechanism.noiseless.epochs": 30, "mechanism.noiseless.learning_rate": 0.03,
              "mechanism.noiseless.keep": "last"}  # fmt: skip
    runs = results("model", sizes(**USER_DP, **longer))
    assert set(runs) == {"noiseless", "user-dp"}
    error = {name: run["utility"]["error"]["value"] for name, run in runs.items()}
    assert error["noiseless"] < runs["noiseless"]["utility"]["majority_error"]["value"]
    assert runs["noiseless"]["spec"]["model"]["params"]["filters"] == 8
    assert 0 < stated(runs["user-dp"]) < math.inf
    assert "number of filters, each three words wide" in " ".join(capsys.readouterr().out.split())


def test_the_models_rows_do_not_see_each_other():
    import torch

    space: dict[str, Any] = {"__name__": "kim_cnn"}
    code = examples(page("model"))["kim_cnn.py"].replace("@models.register\n", "")
    exec(compile(code, "kim_cnn.py", "exec"), space)  # noqa: S102
    network = space["network"](20, 4, 6, 0)
    tokens, lengths = torch.arange(12).reshape(2, 6), torch.tensor([6, 3])
    alone = network(tokens[1:, :3], lengths[1:])
    torch.testing.assert_close(network(tokens, lengths)[1:], alone)


@pytest.mark.long
def test_the_attack_tells_members_from_outsiders(results):
    runs = results("attack", sizes(**USER_DP, **{"mechanism.noiseless.epochs": 15}))
    auc = {name: run["leakage"]["loss-threshold"]["auc"] for name, run in runs.items()}
    assert auc["noiseless"]["low"] > 0.5  # it memorises, and the interval over users says so
    assert auc["user-dp"]["value"] < auc["noiseless"]["value"]
    assert stated(runs["noiseless"]) == math.inf


@pytest.mark.long
def test_the_attack_on_messages_links_updates_where_there_are_clients(results):
    few = {"users": 60, "users_per_round": 30, "rounds": 3}
    own = {f"mechanism.user-dp.{name}": value for name, value in few.items()}
    plain = {"mechanism.dp-sgd.steps": 2, "mechanism.dp-sgd.batch_size": 50}
    runs = results("attack-on-messages", sizes(**own, **plain))
    record = runs["user-dp"]
    assert record["leakage"]["linked-updates"]["auc"]["low"] > 0.5
    updates = record["details"]["linked-updates"]["updates"]
    assert 0 < updates < record["cost"]["messages"] / 2  # of two rounds of three
    (skipped,) = runs["dp-sgd"]["skipped_attacks"]
    assert "Transcript" in skipped["reason"]


@pytest.mark.long
def test_the_mechanism_trains_and_proves_what_it_planned(results, capsys):
    few = {"users": 60, "users_per_round": 10, "rounds": 4}
    own = {f"mechanism.{name}": value for name, value in few.items()}
    (run,) = results("mechanism-that-trains", sizes(**own, **HELD_OUT)).values()
    assert 0 < stated(run) < math.inf
    (event,) = run["events"]  # one noise multiplier, whatever the bound
    assert event["event"]["count"] == 4
    assert event["event"]["event"]["rate"] == pytest.approx(1 / 6)
    assert event["event"]["event"]["event"]["noise_multiplier"] == 1.0
    bounds = [bound for _, bound in run["series"]["clip_bound"]]
    assert bounds[0] == 0.5
    assert len(bounds) == 4
    assert all(later / before in (0.5, 2.0) for before, later in pairwise(bounds))
    assert "noise_norm" in run["diagnostics"]
    assert "auc" in run["leakage"]["membership"]
    assert "1.491" in capsys.readouterr().out  # what `account` says for 4,000 users


@pytest.mark.long
def test_the_task_predicts_stars_and_membership_reaches_it(results, tmp_path):
    write_reviews(tmp_path / "reviews.csv", [f"author{number}" for number in range(40)])
    small = {"mechanism.user-dp.rounds": 2, "mechanism.user-dp.users_per_round": 5}
    runs = results("task", {**small, **HELD_OUT, "model.units": 8})
    error = {name: run["utility"]["squared_error"]["value"] for name, run in runs.items()}
    constant = runs["noiseless"]["utility"]["constant_error"]["value"]
    assert error["noiseless"] < constant / 2  # it reads "lovely" and "dull"
    assert runs["noiseless"]["learned"] is True
    assert runs["noiseless"]["floors"] == {"constant": pytest.approx(constant)}
    for run in runs.values():
        assert "auc" in run["leakage"]["membership"]
        assert stated(run) == math.inf  # the vocabulary is private


@pytest.mark.long
def test_the_publisher_hides_rare_words_and_carries_names(results):
    few = {"mechanism.uedp.rounds": 2, "mechanism.uedp.users_per_round": 10, "model.units": 8}
    runs = results("publisher", sizes(**few))
    assert set(runs) == {"rare-words", "rare-words+uedp"}  # which reads the carried entities
    for run in runs.values():
        assert run["status"] == "finished", run["error"]
        assert run["spec"]["mechanism"][0]["params"]["least"] == 5
        assert run["diagnostics"]["words_hidden"] > 100
    assert stated(runs["rare-words"], "record") == math.inf


def test_the_publisher_moves_mentions_with_the_words(tmp_path):
    from uedp_bench.contracts.run_context import Run
    from uedp_bench.contracts.source import CorpusStats

    file = tmp_path / "rare_words.py"
    file.write_text(examples(page("publisher"))[file.name])
    texts = ("met Odysseus in Rome today", "we met today in the sun", "met in Rome")
    names = [(0, 4, 12, 0), (0, 16, 20, 1)]
    corpus = api.Corpus(
        texts=texts,
        groups={"user": np.array([0, 1, 1])},
        split=np.array([api.SPLITS.index(name) for name in ("train", "public", "public")]),
        entities=api.Spans.build(texts, names),
        entity_types=("PER", "LOC"),
    )
    with plugged(file):
        mechanism = api.mechanisms.create("rare-words", {"least": 1})
        run = Run(1, CorpusStats(2, 1, 1, 2, public=False))
        out, events = mechanism.publish(corpus, run)
        assert events == mechanism.plan(run.stats)
    assert out.texts == ("met something in Rome today", *texts[1:])
    assert [out.surface(mention) for mention in range(2)] == ["something", "Rome"]


@pytest.mark.long
def test_a_task_in_stages_pre_trains_under_a_guarantee(results):
    few = "{users: 120, valid_users: 0, test_users: 40, public_users: 0, seed: 2}"
    labelled = {"task.labelled": f"{{name: embedded, params: {few}}}", "task.epochs": 20}
    runs = results("task-in-stages", sizes(**USER_DP, **labelled))
    assert set(runs) == {"user-dp", "public-only"}
    trained, floor = runs["user-dp"], runs["public-only"]
    assert [stage["role"] for stage in trained["stages"]] == ["private", "downstream"]
    assert [event["stage"] for event in trained["events"]] == ["user-dp"]
    assert 0 < stated(trained) < math.inf
    accuracy = floor["utility"]["accuracy"]
    assert trained["floors"]["public-only"] == accuracy["value"]
    assert accuracy["low"] > 0.3  # more than the most frequent of five labels
    assert trained["provenance"]["downstream"]["users"] == 160


@pytest.mark.parametrize(("sensitivity", "scale"), [(1, 0.7), (4, 3.0), (8, 40.0)])
def test_the_pair_of_the_event_is_that_of_its_noise(sensitivity, scale, tmp_path):
    file = tmp_path / "discrete_laplace.py"
    file.write_text(examples(page("event"))[file.name])
    noise = np.arange(-4000, 4001)
    laws = [np.exp(-np.abs(noise - at) / scale) for at in (0, sensitivity)]
    laws = [law / law.sum() for law in laws]
    epsilons = np.linspace(-0.5, 1.1, 9) * sensitivity / scale
    exact = [np.maximum(laws[0] - math.exp(e) * laws[1], 0.0).sum() for e in epsilons]
    with plugged(file):
        event = api.events.events.get("discrete-laplace")(sensitivity=sensitivity, scale=scale)
        near = api.events.Neighbours("replace-one")
        for pair in api.events.loss_pairs(event, near):
            assert pair.deltas(epsilons) == pytest.approx(exact, abs=1e-9)
        assert api.events.promises(event, "replace-one").epsilon == sensitivity / scale


@pytest.mark.long
def test_the_event_is_accounted_for_as_zcdp(results, tmp_path, capsys):
    text = (ROOT / page("event")).read_text()
    fifty = text.partition("`fifty.json`:\n\n```json\n")[2].partition("```")[0]
    Path("fifty.json").write_text(fifty)
    more = {"source.users": 400, "source.test_users": 100}
    results("event", sizes(**{"mechanism.noisy-counts.deviation": "[0.01,4]"}, **more))
    output = " ".join(capsys.readouterr().out.split())
    assert "Renyi divergence over the order" in output
    assert re.search(r"6\.076 1e-05 pairs-pld.*record replace-one 10 0 basic", output)
    records = [json.loads(file.read_text()) for file in tmp_path.glob("runs/*/result.json")]
    runs = {run["spec"]["mechanism"][0]["params"]["deviation"]: run for run in records}
    rho, delta = 2.0**2 / (2 * 4.0**2), 1e-5
    # Bun and Steinke 2016, Proposition 1.3: a conversion that an accountant may not exceed.
    limit = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    assert 0.5 * limit < stated(runs[4], "record") <= limit
    assert f"{stated(runs[4], 'record'):.4g}" in output  # `account` says what the run proves
    assert stated(runs[0.01], "record") > 1000
    error = {deviation: run["utility"]["error"]["value"] for deviation, run in runs.items()}
    assert error[0.01] < error[4]
