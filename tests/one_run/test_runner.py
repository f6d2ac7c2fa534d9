"""One run: what mechanisms and attacks are shown, what a result holds, how failures are told."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path

import pytest
from tiny import NOISELESS, ROUNDS, SPIES, USER_DP, plugged, runs

from uedp_bench.components import registry
from uedp_bench.contracts.mechanism import Mechanism
from uedp_bench.contracts.results import RunSpec, read_result
from uedp_bench.contracts.run_context import Run
from uedp_bench.errors import InputError
from uedp_bench.io import folders
from uedp_bench.one_run import runner
from uedp_bench.one_run.components import build, build_sources
from uedp_bench.one_run.planting import load_corpus, plant_all, public_sizes
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

FEW = {"p_u": [0.3], "canaries": 2, "entity_canaries": 1, "references": 8, "word_pool": 50}
SHARER = {"name": "secret-sharer", "params": FEW}


@pytest.fixture(scope="module", autouse=True)
def spies():
    with plugged(SPIES):
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


def run_all(out, *mechanisms, **fields):
    return [execute(spec, Execution(out, "cpu")) for spec in runs(*mechanisms, **fields)]


@pytest.fixture(scope="module")
def grid(out):
    """Results of four compositions under the same attacks."""
    attacks = ["hold-out", "needs-published", SHARER]
    mechanisms = [NOISELESS, USER_DP, ["deidentify", USER_DP], ["spy-publishing", "spy-training"]]
    names = ("noiseless", "user-dp", "composed", "spies")
    results = dict(zip(names, run_all(out, *mechanisms, attacks=attacks), strict=True))
    assert {name: r.error for name, r in results.items()} == dict.fromkeys(names)
    return results


def planted(out, result):
    return json.loads((out / result.id / "planted.json").read_text())


def proven(result):
    """Guarantees by unit; stated where a plug-in planted."""
    return {g.unit: g for g in result.guarantees if g.kind != "claimed"}


# ------------------------------------------------------------------------- who is shown what


def test_held_out_and_test_users_never_reach_a_mechanism(out, grid):
    seen = grid["spies"].diagnostics
    assert set(seen["published_splits"]) == {"train", "valid", "public"}
    assert set(seen["trained_splits"]) == {"train", "valid"}
    held_out = set(planted(out, grid["spies"])["hold-out"]["users"])
    assert len(held_out) == 10
    assert not held_out & set(seen["published_users"])
    assert not held_out & set(seen["trained_users"])
    assert len(seen["trained_users"]) == 60 - 10
    corpus = load_corpus(build_sources(grid["spies"].spec).first)
    tested = set(corpus.only("test").users.tolist())
    assert not tested & {*seen["published_users"], *seen["trained_users"]}
    # The attack itself does see them.
    assert "held_out" in grid["spies"].details["hold-out"]["splits"]


def test_what_attacks_plant_does_not_depend_on_the_mechanism(out, grid):
    files = [planted(out, result) for result in grid.values()]
    assert all(file == files[0] for file in files)
    prints = {r.provenance["corpus"]["planted_fingerprint"] for r in grid.values()}
    assert len(prints) == 1
    fingerprints = {result.provenance["corpus"]["fingerprint"] for result in grid.values()}
    assert not prints & fingerprints


def test_an_attack_is_handed_no_mechanism(out, monkeypatch):
    shown = []

    def look(self, release, planted, corpus, run):
        shown.extend([release, planted, corpus, run])
        raise InputError("seen enough")

    monkeypatch.setattr(registry.attacks.get("hold-out"), "run", look)
    run_all(out, USER_DP, attacks=["hold-out"])
    # The events of a release are public: they say what its guarantee rests on, by stage. So is
    # what the run's diary says of the number of units that was declared.
    public = ("events", "diagnostics")
    values = [
        value
        for thing in shown
        for value in (thing, *(v for name, v in vars(thing).items() if name not in public))
        if not isinstance(value, Run)  # its attributes are looked at one by one
    ]
    assert len(values) > 10
    assert not any(isinstance(value, Mechanism) for value in values)
    assert not any("user-dp" in str(value) for value in values if not callable(value))


def test_attacks_that_hold_out_plant_first_whatever_their_order(out):
    (first,) = run_all(out, NOISELESS, attacks=["hold-out", SHARER])
    (second,) = run_all(out, NOISELESS, attacks=[SHARER, "hold-out"])
    assert planted(out, first) == planted(out, second)
    assert (first.provenance["corpus"]["planted_fingerprint"]
            == second.provenance["corpus"]["planted_fingerprint"])  # fmt: skip


def test_what_was_planted_reads_back(out, grid):
    spec = grid["user-dp"].spec
    parts = build(spec)
    attacks = parts.attacks
    _, fresh = plant_all(attacks, load_corpus(parts.sources.first), spec.seed)
    plan = planted(out, grid["user-dp"])
    for attack in attacks:
        again = attack.planted_type.model_validate(plan[attack.name])
        assert again == fresh[attack.name]
    assert len(plan["secret-sharer"]["canaries"]) > 0


# ---------------------------------------------------------------------------- what a result holds


def test_attacks_that_do_not_apply_are_listed_with_the_reason(grid):
    for name, result in grid.items():
        if name == "spies":  # they publish text without protection
            assert set(result.details["needs-published"]["published_splits"]) == {
                "train", "valid", "public",
            }  # fmt: skip
            continue
        (skipped,) = result.skipped_attacks
        assert skipped.name == "needs-published"
        assert "Scorer" in skipped.reason
        assert set(result.leakage) == {"hold-out", "secret-sharer"}


def test_a_result_has_every_part_and_no_path(out, grid):
    for result in grid.values():
        raw = (out / result.id / "result.json").read_text()
        assert read_result(out / result.id / "result.json") == result
        assert str(out) not in raw
        assert str(Path(__file__).parent) not in raw
        assert not re.search(r"\bNaN\b|Infinity", raw)
        assert result.utility.keys() >= {
            "perplexity", "accuracy", "unigram_perplexity", "bigram_perplexity"}  # fmt: skip
        assert result.cost.train_seconds > 0
        assert result.cost.attack_seconds > 0
        assert result.cost.peak_memory_mb > 50
        assert result.cost.device == "cpu"
        assert result.provenance["vocabulary"]["private"] is False
        assert result.provenance["libraries"]["torch"]


def test_held_out_users_are_taken_off_the_public_sizes(grid):
    assert grid["user-dp"].details["hold-out"]["sizes"] == 60 - 10
    (event,) = grid["user-dp"].events
    assert event.event.event.rate == pytest.approx(ROUNDS["users_per_round"] / 50)


def test_a_release_reloads_to_the_same_utility(out, grid):
    result = grid["user-dp"]
    parts = build(result.spec)
    again = parts.task.load(out / result.id / "release")
    corpus, _ = plant_all(parts.attacks, load_corpus(parts.sources.first), 1)
    assert parts.task.score(again, corpus) == result.utility


def test_the_same_spec_gives_the_same_numbers(out, grid, tmp_path):
    again = execute(grid["composed"].spec, Execution(tmp_path, "cpu"))
    same = {"cost", "provenance"}
    assert again.model_dump(exclude=same) == grid["composed"].model_dump(exclude=same)
    other = execute(
        grid["composed"].spec.model_copy(update={"seed": 2}), Execution(tmp_path, "cpu")
    )
    assert other.group == again.group
    assert other.id != again.id
    assert other.utility != again.utility


# ------------------------------------------------------------------------------------- guarantees


def test_de_identification_before_training_keeps_the_user_level_guarantee(grid):
    assert grid["composed"].label == "deidentify + user-dp"
    assert grid["composed"].guarantees == grid["user-dp"].guarantees
    assert 0 < proven(grid["composed"])["user"].epsilon < float("inf")
    assert grid["composed"].utility != grid["user-dp"].utility


def test_what_mixes_rows_or_protects_nothing_proves_nothing(grid):
    for name in ("noiseless", "spies"):
        assert proven(grid[name])["user"].epsilon == float("inf")
    assert proven(grid["noiseless"])["user"].status == "given"


def test_another_noise_than_planned_is_refused(out, monkeypatch):
    from uedp_bench.accounting.events import Gaussian
    from uedp_bench.training import noise

    monkeypatch.setattr(noise, "Gaussian", lambda **_: Gaussian(noise_multiplier=0.1))
    (result,) = run_all(out, {"name": "user-dp", "params": {**ROUNDS, "clip": 0.32}})
    assert "noise_multiplier" in (proven(result)["user"].reason)


def test_a_mechanism_that_reports_nothing_is_refused_for_the_unit_it_planned(out):
    (result,) = run_all(out, {"name": "spy-training", "params": {"does": "stay-silent"}})
    assert result.events == ()
    assert proven(result)["user"].status == "refused"
    assert "planned" in proven(result)["user"].reason


def test_a_private_vocabulary_refuses_every_proof(out):
    task = {"name": "next-word", "params": {"vocabulary": "private"}}
    (result,) = run_all(out, USER_DP, task=task)
    for guarantee in proven(result).values():
        assert (guarantee.status, guarantee.epsilon) == ("refused", float("inf"))
        assert "vocabulary" in guarantee.reason
    assert result.provenance["vocabulary"]["private"] is True


# --------------------------------------------------------------------------------------- failures


def test_public_pretraining_is_told_and_leaves_the_guarantee_alone(out):
    task = {"name": "next-word", "params": {"pretraining_epochs": 1}}
    (spec,) = runs(USER_DP, task=task)
    result = execute(spec, Execution(out, "cpu"))
    assert result.pretraining["epochs"] == 1
    assert result.pretraining["rows"] > 50
    assert result.series["pretrain_loss"]
    (proven,) = [g for g in result.guarantees if g.kind == "proven"]
    assert (proven.unit, proven.status) == ("user", "given")


def test_a_failure_is_recorded_where_it_happened(out):
    (broken,) = run_all(out, {"name": "spy-training", "params": {"does": "raise"}})
    assert broken.status == "failed"
    assert (broken.error.type, broken.error.phase) == ("RuntimeError", "train")
    assert "it broke" in broken.error.message
    assert "spies.py" in broken.error.traceback
    assert read_result(out / broken.id / "result.json") == broken
    (refused,) = run_all(out, {"name": "spy-training", "params": {"does": "refuse"}})
    assert (refused.error.type, refused.error.traceback) == ("InputError", "")


@pytest.mark.parametrize("finds", ["nan", "nan-detail"])
def test_nan_from_an_attack_fails_that_attack(out, finds):
    (result,) = run_all(out, NOISELESS, attacks=[{"name": "hold-out", "params": {"finds": finds}}])
    assert (result.status, result.leakage) == ("finished", {})
    (failure,) = result.failed_attacks
    assert failure.name == "hold-out" and "NaN" in failure.message


def test_a_task_that_a_mechanism_leaves_nothing_to_ask_says_what_is_missing(out):
    (result,) = run_all(out, [USER_DP, "silence"])
    assert result.error.type == "CapabilityError"
    assert result.error.message == (
        "the task next-word needs a release that is a Scorer; this one offers nothing"
    )


def test_a_corpus_that_does_not_load_fails_the_run(out):
    spec = runs(source={"name": "text", "params": {"path": "/nowhere/at/all.csv"}})[0]
    result = execute(spec, Execution(out, "cpu"))
    assert (result.status, result.error.phase) == ("failed", "load")
    assert "/nowhere/at/all.csv" in result.error.message
    assert RunSpec.model_validate(result.spec) == spec


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_ends_everything_at_once(tmp_path, monkeypatch, number):
    def save(self, folder):
        try:
            raise OSError(number, "full")
        except OSError as error:
            raise RuntimeError("writer failed") from error

    monkeypatch.setattr("uedp_bench.tasks.language.language_model.LanguageModelRelease.save", save)
    with pytest.raises(OSError, match="no space left") as full:
        run_all(tmp_path, USER_DP)
    assert full.value.errno == errno.ENOSPC
    assert not list(tmp_path.rglob("result.json"))


def test_a_writer_that_hides_a_full_disk_is_seen_through(tmp_path, monkeypatch):
    def save(self, folder):
        raise RuntimeError("unexpected pos 704 vs 598")  # torch's words for a full disk

    monkeypatch.setattr("uedp_bench.tasks.language.language_model.LanguageModelRelease.save", save)
    (result,) = run_all(tmp_path, USER_DP)
    assert result.error.phase == "save"
    usage = folders.shutil.disk_usage(tmp_path)
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda _: usage._replace(free=4096))
    with pytest.raises(OSError, match="no space left"):
        run_all(tmp_path, USER_DP)


def test_ctrl_c_is_no_failed_run(tmp_path, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "protect", stop)
    with pytest.raises(KeyboardInterrupt):
        run_all(tmp_path, USER_DP)
    assert not list(tmp_path.rglob("result.json"))


# ------------------------------------------------------------------------------------------ parts


def test_parts_that_do_not_fit_are_refused():
    (spec,) = runs(attacks=[])
    twice = spec.model_copy(update={"attacks": runs(attacks=["hold-out"])[0].attacks * 2})
    with pytest.raises(InputError, match=r"hold-out, hold-out.*lists"):
        build(twice)
    task = registry.tasks.get("next-word")
    wrong = spec.model_copy(update={"model": spec.task})
    with pytest.MonkeyPatch.context() as patched:
        origin = registry.Origin("here", lambda: task)
        patched.setattr(registry.models, "_plugins", {"next-word": origin})
        with pytest.raises(InputError, match=r"LanguageModel.*next-word"):
            build(wrong)


def test_sizes_that_nobody_documents_are_counted_and_not_public(tmp_path):
    lines = ["text,user,split", *(f"some words {i},u{i % 7},train" for i in range(20)),
             "more words,x,test", "other words,y,valid"]  # fmt: skip
    file = tmp_path / "mail.csv"
    file.write_text("\n".join(lines))
    source = {"path": str(file), "user_column": "user", "split_column": "split"}
    (spec,) = runs(source={"name": "text", "params": source})
    sources = build_sources(spec)
    corpus = load_corpus(sources.first)
    sizes = public_sizes(sources, corpus)
    assert (sizes.users, sizes.rows, sizes.public) == (7, 20, False)
    moved = corpus.with_split(corpus.users == corpus.users[0], "held_out")
    assert public_sizes(sources, moved).users == 6


def test_a_run_draws_from_streams_of_its_own():
    sources = build_sources(runs()[0])
    run = Run(1, public_sizes(sources, load_corpus(sources.first)))
    with pytest.raises(RuntimeError, match=r"retrain.*trainer"):
        run.retrain(None, mechanism="none", seed=1)
