"""Labels that two parties compute: those of the network, in runs, beside what training promises."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import hashed_cnn  # noqa: F401
import numpy as np
import pytest
import text_encoders  # noqa: F401

from uedp_bench.attacks.secure_inference.model_extraction import PublicInputs
from uedp_bench.attacks.secure_inference.transcript import OpenedMessages
from uedp_bench.components.registry import mechanisms, models, tasks
from uedp_bench.contracts.capabilities import (
    Classifier,
    Encoder,
    LabelOnly,
    RowScorer,
    class_labels,
)
from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.one_run.components import build
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.private_data import load_release
from uedp_bench.one_run.runner import execute
from uedp_bench.one_run.training_stages import _check_served
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

ROWS = 40
STATS = CorpusStats(ROWS, ROWS, 0, 0, public=True)
CNN = ("hashed-cnn", {"standardise": False})
LINEAR = ("hashed-words", {"width": 24})


def corpus_of() -> Corpus:
    rng = np.random.default_rng(0)
    texts = tuple(" ".join(f"w{i}" for i in rng.integers(60, size=6)) for _ in range(ROWS))
    split = np.full(ROWS, SPLITS.index("train"))
    split[20:] = SPLITS.index("test")
    return Corpus(texts, {"user": np.arange(ROWS)}, split, labels=np.arange(ROWS) % 3,
                  label_names=("a", "b", "c"))  # fmt: skip


def classifier(model: tuple[str, dict[str, Any]] = LINEAR, **task: Any) -> Any:
    text_task = tasks.create("text-classification", task, model=models.create(*model))
    (learner,) = text_task.stages(corpus_of(), None, Run(1, STATS))
    return learner.release(learner.module)


def served(release: Any, run: Run | None = None, **params: Any) -> Any:
    return mechanisms.create("mpc", params).serve(release, run or Run(1, STATS))


@pytest.mark.parametrize("model", [CNN, LINEAR])
@pytest.mark.parametrize("params", [{}, {"sigmoid": True}, {"batch_rows": 7}])
def test_labels_are_those_of_the_network(model: Any, params: dict[str, Any]) -> None:
    release, corpus = classifier(model), corpus_of()
    run = Run(1, STATS)
    served_release = served(release, run, **params)
    assert served_release.labels(corpus).tolist() == class_labels(release, corpus).tolist()
    assert run.counts["mpc_texts"] == ROWS
    assert run.counts["mpc_rounds"] > 1
    cost = served_release.compiled("formula").cost(ROWS)
    assert run.counts["mpc_rounds"] == cost.rounds
    assert run.counts["mpc_bytes_party"] == cost.bytes_party
    assert run.counts["mpc_bytes_dealer"] == cost.bytes_dealer
    assert run.counts["mpc_wan_seconds"] > 0.04 * cost.rounds > run.counts["mpc_lan_seconds"]


@pytest.mark.parametrize("params", [{}, {"reveals": "logits"}, {"value_range": 2.0**14 - 2}])
def test_convolutions_over_words_are_computed_between_two_parties(
    tmp_path: Path, params: dict[str, Any]
) -> None:
    rng = np.random.default_rng(2)
    lines = [f"w{i} {' '.join(f'{x:.4f}' for x in rng.normal(size=6))}" for i in range(50)]
    file = tmp_path / "vectors.txt"
    file.write_text("\n".join(lines) + "\n")
    of_words = {"embedding": str(file), "positions": 9, "filters": 4, "widths": (2, 3, 4)}
    release, corpus = classifier(("text-cnn", of_words), hidden=[5]), corpus_of()
    run = Run(1, STATS)
    served_release = served(release, run, **params)
    assert class_labels(served_release, corpus).tolist() == class_labels(release, corpus).tolist()
    if params.get("reveals") == "logits":
        np.testing.assert_allclose(
            served_release.class_logprobs(corpus), release.class_logprobs(corpus), atol=2e-3
        )
    cost = served_release.compiled("formula").cost(ROWS)
    questions = run.counts["mpc_texts"] / ROWS
    assert run.counts["mpc_rounds"] == questions * cost.rounds
    assert run.counts["mpc_bytes_party"] == questions * cost.bytes_party
    assert run.counts["mpc_bytes_dealer"] == questions * cost.bytes_dealer
    # Numbers of a text that are compared: windows of each branch with a 0, then two hidden layers.
    windows = sum(9 - width + 1 for width in (2, 3, 4)) * 4
    assert served_release.compiled("formula").cost(1).comparisons == windows + 5 + (
        0 if params.get("reveals") == "logits" else 2
    )


def test_a_label_is_all_that_is_offered_by_default() -> None:
    served_release = served(classifier())
    assert isinstance(served_release, LabelOnly)
    assert isinstance(served_release, OpenedMessages)
    assert isinstance(served_release, PublicInputs)
    for more in (Classifier, Encoder, RowScorer):
        assert not isinstance(served_release, more)
    assert served_release.labels(corpus_of().take(np.arange(0))).shape == (0,)


def test_logits_are_revealed_where_asked_for() -> None:
    release, corpus = classifier(), corpus_of()
    served_release = served(release, reveals="logits")
    assert not isinstance(served_release, LabelOnly)
    np.testing.assert_allclose(
        served_release.class_logprobs(corpus), release.class_logprobs(corpus), atol=2e-3
    )
    (event,) = served_release.events
    assert "one score of each class" in event.event.reveals


def test_every_question_has_randomness_of_its_own() -> None:
    served_release, corpus = served(classifier()), corpus_of().take(np.zeros(2, dtype=np.int64))
    one, other = served_release.opened(corpus, party="server", most=500)
    assert (one != other).mean() > 0.95
    keys = {served_release._draw(name).key for name in ("a", "a", "b")}
    again = {served(classifier())._draw(name).key for name in ("a", "b")}
    assert len(keys) == 3
    assert keys >= again  # the same run draws the same


def test_truncation_by_the_parties_alone_is_bounded() -> None:
    release = classifier()
    with pytest.raises(InputError, match=r"truncation.*'local'.*truncations"):
        mechanisms.create("mpc", {"truncation": "local"})
    with pytest.raises(InputError, match=r"mpc\.truncations is 2.* 3.*truncations=3"):
        served(release, truncation="local", truncations=2)
    params = {"truncation": "local", "truncations": 3, "value_range": 4096.0, "texts": 10}
    served_release = served(release, **params)
    assert (
        served_release.labels(corpus_of()).tolist() == class_labels(release, corpus_of()).tolist()
    )
    event = served_release.events[-1].event
    assert event.count == 10
    assert event.event.failure == pytest.approx(3 * 4096 * 2.0**-31)
    assert event.count * event.event.failure == pytest.approx(
        10 * served_release.compiled("").failure(1)
    )


def test_squares_inside_a_sigmoid_fail_whatever_range_is_declared() -> None:
    params = {"truncation": "local", "truncations": 1, "input_range": 1.0}
    events = [
        mechanisms.create("mpc", params | {"value_range": largest}).plan(STATS)[0].event
        for largest in (2.0, 65.0)
    ]
    assert [event.largest for event in events] == [64.0, 65.0]


PROJECTED = {"name": "sentence-encoder", "params": {"projection": 8}}
FROZEN_BERT = {"name": "bert", "params": {"frozen": True, "projection": 8}}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"task": "next-word"}, "mpc: .*next-word"),
        ({"task": "text-classification"}, "mpc: .*bilstm.*text-cnn"),
        ({"task": "text-classification", "model": PROJECTED}, "sentence-encoder.*projection"),
        ({"task": "text-classification", "model": FROZEN_BERT}, "bert.*projection"),
    ],
)
def test_a_model_that_no_protocol_computes_is_refused_before_anything_is_trained(
    more: dict[str, Any], message: str
) -> None:
    with pytest.raises(CapabilityError, match=message):
        build(run_of("mpc", **more))


@pytest.mark.parametrize("behind", [{"name": "dpnr", "params": {"epsilon": 1.0}}, "mpc"])
def test_what_another_mechanism_answers_is_refused_before_data_are_read(behind: Any) -> None:
    name = behind if isinstance(behind, str) else behind["name"]
    with pytest.raises(CapabilityError, match=f"^mpc: {name} "):
        build(run_of(behind, "mpc", task="text-classification", model="tfidf"))


def test_words_of_private_text_are_refused_before_data_are_read() -> None:
    task = {"name": "text-classification", "params": {"vocabulary": "private"}}
    with pytest.raises(CapabilityError, match=r"'private'.*--set task\.vocabulary=public"):
        build(run_of("mpc", task=task, model="tfidf"))
    for model in ("text-cnn", {"name": "tfidf", "params": {"words": "hashed"}}):
        build(run_of("mpc", task=task, model=model))  # they read no vocabulary


def test_too_few_truncations_are_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(*arguments: Any) -> Any:
        raise InputError("it would train now")

    monkeypatch.setattr("uedp_bench.mechanisms.noiseless.Noiseless.train", train)
    params = {"truncation": "local", "value_range": 4096.0}
    few = result_of(tmp_path, NOISELESS, {"name": "mpc", "params": {**params, "truncations": 1}})
    assert few.status == "failed"
    assert "--set mechanism.mpc.truncations=2" in str(few.error)
    enough = result_of(tmp_path, NOISELESS, {"name": "mpc", "params": {**params, "truncations": 2}})
    assert "it would train now" in str(enough.error)


def test_a_check_leaves_a_network_as_it_is() -> None:
    text_task = tasks.create("text-classification", {}, model=models.create(*LINEAR))
    (learner,) = text_task.stages(corpus_of(), None, Run(1, STATS))
    before = {name: x.clone() for name, x in learner.module.state_dict().items()}
    assert learner.module.training
    _check_served((learner,), (mechanisms.create("mpc", {}),))
    assert learner.module.training
    for name, after in learner.module.state_dict().items():
        assert (after == before[name]).all()


def test_nothing_is_refused_early_that_may_be_computed() -> None:
    for model in ("text-cnn", "sentence-encoder", "tfidf"):
        build(run_of("mpc", task="text-classification", model=model))
    # Vectors that were published are classified without the model's encoder.
    build(
        run_of(
            {"name": "deepcandidate", "params": {"epsilon": 5}}, "mpc", task="text-classification"
        )
    )


def run_of(*parts: Any, **more: Any) -> RunSpec:
    spec = {"source": "embedded", "mechanisms": [list(parts)], "seeds": [1], **more}
    (run,) = expand(parse_spec(spec))
    return run


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"texts": 5}, "truncations.*texts.*'local'"),
        ({"input_range": 64.0, "value_range": 16.0}, "above value_range"),
        ({"reveals": "logits", "sigmoid": True}, "sigmoid.*label"),
    ],
)
def test_parameters_that_contradict_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        mechanisms.create("mpc", params)


def test_ranges_and_networks_that_do_not_fit_are_refused_when_it_is_served() -> None:
    with pytest.raises(InputError, match="value_range"):
        served(classifier(), value_range=33.0)
    with pytest.raises(InputError, match="input_range"):
        served(classifier(CNN), input_range=0.01).labels(corpus_of())
    with pytest.raises(CapabilityError, match=r"mpc.*object.*text-classification"):
        served(object())


def test_parameters_become_the_parties_configuration() -> None:
    mechanism = mechanisms.create("mpc", {"processes": True, "sigmoid": True, "batch_rows": 9})
    config = mechanism.params.config()
    assert (config.processes, config.keep_sigmoid, config.batch_rows) == (True, True, 9)
    assert (config.truncation, config.reveals) == ("dealer", "label")


def test_what_was_saved_draws_anew(tmp_path: Path) -> None:
    release, corpus = classifier(), corpus_of()
    served_release = served(release, batch_rows=5)
    served_release.save(tmp_path)
    task = tasks.create("text-classification", {}, model=models.create(*LINEAR))
    again = load_release(task, tmp_path)
    assert again.mechanism.params == served_release.mechanism.params
    assert again.labels(corpus).tolist() == served_release.labels(corpus).tolist()
    assert again._draw("a").source == "os"
    assert again._draw("a").key != again._draw("a").key


# --------------------------------------------------------------------------------------- in a run

FILE = "user,text,label,split\n"
NOISELESS = {"name": "noiseless", "params": {"epochs": 8, "learning_rate": 0.05}}
DP_SGD = {"name": "dp-sgd", "params": {"steps": 6, "batch_size": 30, "records": 180}}


def result_of(folder: Path, *mechanism: Any, attacks: tuple[Any, ...] = ()) -> Result:
    rng = np.random.default_rng(3)
    lines = []
    for user in range(100):
        split = "public" if user < 10 else "train" if user < 70 else "test"
        for _ in range(3):
            label = int(rng.integers(2))
            words = rng.choice(["up", "rise", "gain"] if label else ["down", "fall", "loss"], 3)
            lines.append(f"{user},{' '.join(words)} w{rng.integers(50)},{label},{split}")
    file = folder / "rows.csv"
    file.write_text(FILE + "\n".join(lines) + "\n")
    spec = parse_spec({
        "task": "text-classification",
        "source": {"name": "text", "params": {
            "path": str(file), "user_column": "user", "label_column": "label",
            "split_column": "split", "label_names": ["0", "1"],
        }},
        "model": {"name": LINEAR[0], "params": LINEAR[1]},
        "mechanisms": [list(mechanism)],
        "attacks": list(attacks),
        "seeds": [1],
    })  # fmt: skip
    (run,) = expand(spec)
    return execute(run, Execution(out=folder / "runs", device="cpu", keep_release=False))


def finished(folder: Path, *mechanism: Any, attacks: tuple[Any, ...] = ()) -> Result:
    result = result_of(folder, *mechanism, attacks=attacks)
    assert result.status == "finished", result.error
    return result


def test_noiseless_training_behind_it_protects_nobody_and_is_computed_privately(
    tmp_path: Path,
) -> None:
    attacks = (
        {"name": "membership", "params": {"held_out_users": 10, "shadow_models": 2}},
        {"name": "model-extraction", "params": {"queries": 30}},
        {"name": "transcript", "params": {"executions": 10, "bytes": 256}},
        "embedding-inversion",
    )
    result = finished(tmp_path, NOISELESS, {"name": "mpc"}, attacks=attacks)
    by_unit = {g.unit: g for g in result.guarantees if g.kind != "claimed"}
    assert (by_unit["user"].kind, by_unit["user"].epsilon) == ("proven", math.inf)
    computed = by_unit["computation"]
    # The model is one of the tests, which nobody reviewed.
    assert (computed.kind, computed.epsilon, computed.delta) == ("stated", 0.0, 0.0)
    assert computed.notion == "simulation"
    assert any("computes it alone" in text for text in computed.assumptions)
    assert result.utility["accuracy"].value > 0.9
    assert result.cost.model_dump()["mpc_texts"] > 90
    assert result.leakage["model-extraction"]["agreement"].value > 0.8
    assert {"auc_inputs", "p_inputs", "p_uniform"} == set(result.leakage["transcript"])
    assert 0.0 <= result.leakage["membership"]["auc"].value <= 1.0
    (skipped,) = result.skipped_attacks
    assert skipped.name == "embedding-inversion"
    assert "LabelOnly" in skipped.reason


def test_the_protocol_answers_with_the_model_of_the_plaintext(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    alone = finished(tmp_path / "alone", NOISELESS)
    result = finished(tmp_path, NOISELESS, {"name": "mpc"})
    for metric in ("accuracy", "macro_f1"):
        assert result.utility[metric] == alone.utility[metric]


def test_dp_training_behind_it_keeps_its_epsilon(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    alone = finished(tmp_path / "alone", DP_SGD)
    result = finished(tmp_path, DP_SGD, {
        "name": "mpc",
        "params": {"truncation": "local", "truncations": 2, "value_range": 4096.0},
    })  # fmt: skip
    of_data = [g for g in result.guarantees if g.unit != "computation"]
    assert of_data == list(alone.guarantees)
    by_unit = {g.unit: g for g in result.guarantees if g.kind != "claimed"}
    computed = by_unit["computation"]
    assert (computed.kind, computed.epsilon) == ("stated", 0.0)
    assert computed.delta == pytest.approx(2 * 4096 * 2.0**-31)
    assert result.utility["accuracy"].value > 0.7
