"""What of the private data is kept, who can read it, and that results say so."""

from __future__ import annotations

import math
import os

import pytest
from tiny import NOISELESS, SOURCE, SPIES, USER_DP, flags, plugged, runs

from uedp_bench.accounting.guarantee import Guarantee, proves_something
from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import read_result
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.tasks.sources.embedded.source import Embedded


@pytest.fixture(scope="module", autouse=True)
def spies():
    mask = os.umask(0o022)
    with plugged(SPIES):
        yield
    os.umask(mask)


def modes(folder):
    return {path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}


def run_in(folder, mechanism, **fields):
    (spec,) = runs(mechanism, **fields)
    result = execute(spec, Execution(folder, "cpu"))
    assert result.error is None, result.error
    return result, folder / result.id


def test_what_nothing_protects_is_for_its_owner_alone(tmp_path):
    result, folder = run_in(tmp_path, NOISELESS)
    assert modes(folder / "release") == {0o700, 0o600}
    assert modes(folder / "planted.json") == {0o600}
    assert "owner" in result.stored["release"]
    assert "seed" not in result.stored
    assert read_result(folder / "result.json").stored == result.stored


def test_what_is_proven_may_be_read_and_its_seed_takes_the_noise_off(tmp_path):
    result, folder = run_in(tmp_path, USER_DP)
    assert modes(folder / "release") == {0o755, 0o644}
    assert modes(folder / "planted.json") == {0o600}
    assert "guarantees" in result.stored["release"]
    assert "takes it off" in result.stored["seed"]


def test_a_release_that_draws_noise_when_asked_is_for_its_owner_alone(tmp_path):
    """Its files hold the key of that noise, whatever is proven about what it answers."""
    channel = {"name": "dpnr", "params": {"epsilon": 1.0, "dimension": 8, "epochs": 1}}
    result, folder = run_in(
        tmp_path, channel, noise_source="os",
        task={"name": "text-classification", "params": {"target": "label"}},
        model={"name": "bilstm", "params": {"vocabulary_size": 200, "units": 4}},
    )  # fmt: skip
    assert proves_something(result.guarantees)
    assert modes(folder / "release") == {0o700, 0o600}
    assert "owner" in result.stored["noise"]
    assert "seed" not in result.stored


READER = """
from uedp_bench.api import Attack, Leakage, Params, Planted, attacks
from uedp_bench.api.capabilities import Scorer
from uedp_bench.contracts.results import Sample

@attacks.register
class Reader(Attack[Params]):
    name = "reader"
    Params = Params
    needs = (Scorer,)

    def plant(self, corpus, rng):
        return corpus, Planted()

    def run(self, release, planted, corpus, run):
        texts = corpus.only("train").texts[:9]
        return Leakage({}, samples=tuple(Sample(private=t, seen="", read="all") for t in texts))
"""


def test_samples_of_text_are_kept_only_where_it_may_be_shown(tmp_path, monkeypatch):
    (tmp_path / "reader.py").write_text(READER)
    attacks = [{"name": "reader"}]
    with plugged(tmp_path / "reader.py"):
        result, _ = run_in(tmp_path / "generated", NOISELESS, attacks=attacks)
        assert [one.read for one in result.samples["reader"]] == ["all"] * 5
        assert "which are generated or may be shown" in result.stored["samples"]
        monkeypatch.setattr(Embedded, "generated", False)  # as of real text
        result, folder = run_in(tmp_path / "real", NOISELESS, attacks=attacks)
        assert result.samples == {} and "samples" not in result.stored
        assert '"samples"' not in (folder / "result.json").read_text()
        source = {"name": "embedded", "params": {**SOURCE, "show_samples": True}}
        result, _ = run_in(tmp_path / "asked", NOISELESS, attacks=attacks, source=source)
        assert len(result.samples["reader"]) == 5


def test_a_private_vocabulary_and_models_of_attacks_are_told(tmp_path):
    attack = {"name": "hold-out", "params": {"finds": "reference"}}
    result, folder = run_in(
        tmp_path, USER_DP, attacks=[attack],
        task={"name": "next-word", "params": {"vocabulary": "private"}},
    )  # fmt: skip
    assert modes(folder / "release") == {0o700, 0o600}
    assert "private" in result.stored["vocabulary"]
    assert "2 models" in result.stored["cache"]
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    assert "hold-out measured" in result.stored["details"]


def test_no_release_keeps_results_alone(tmp_path, capsys):
    attack = ["--attack", "hold-out", "--set", "attack.hold-out.finds=reference"]
    plain = ["--mechanism", "noiseless", "--set", "mechanism.epochs=1"]
    arguments = flags(tmp_path, *plain, *attack)
    assert run_cli([*arguments, "--no-release"]) == 0
    kept = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert kept == [".lock", "result.json"]
    (file,) = tmp_path.glob("*/result.json")
    assert not {"release", "planted", "vocabulary"} & set(read_result(file).stored)


def test_only_what_is_proven_and_finite_counts():
    values = {"unit": "user", "adjacency": "add-or-remove", "delta": 1e-5, "accountant": "pld"}
    guarantee = Guarantee(kind="proven", epsilon=1.0, **values)
    refused = {"status": "refused", "epsilon": math.inf}
    assert proves_something([guarantee])
    computed = {"unit": "computation", "notion": "simulation", "epsilon": 0.0}
    for other in ({"kind": "claimed"}, {"epsilon": math.inf}, refused, computed):
        assert not proves_something([guarantee.model_copy(update=other)])


@pytest.mark.parametrize("trainer", [NOISELESS, USER_DP])
def test_a_model_that_a_protocol_hides_is_for_its_owner_alone(tmp_path, trainer):
    """Its file holds weights, and no guarantee of computation is about those."""
    result, folder = run_in(
        tmp_path, [trainer, {"name": "mpc"}],
        task={"name": "text-classification", "params": {"target": "label"}},
        model={"name": "tfidf", "params": {}},
    )  # fmt: skip
    assert result.error is None
    assert modes(folder / "release") == {0o700, 0o600}
    assert result.stored["release"].startswith("the model behind answers")
    assert ("nothing is proven" in result.stored["release"]) == (trainer is NOISELESS)
    assert "hides the model" in result.stored["protocol"]


def test_a_folder_whose_links_lead_elsewhere_is_refused(tmp_path, capsys):
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
    elsewhere.mkdir()
    arguments = flags(out, "--mechanism", "noiseless", "--set", "mechanism.epochs=1")
    assert run_cli(arguments) == 0
    (folder,) = [path.parent for path in out.glob("*/result.json")]
    folder.rename(tmp_path / "moved")
    folder.symlink_to(elsewhere)
    capsys.readouterr()
    assert run_cli(arguments) == 2
    assert f"{folder} is a link" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []
