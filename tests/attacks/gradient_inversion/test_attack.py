"""A server reads the words of its clients in what was written; noise at the client hides them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import text_encoders
from scipy.stats import binom
from tiny import plugged, runs

from uedp_bench.attacks.gradient_inversion.attack import (
    COVERED,
    FIXED_EMBEDDING,
    FROZEN_TABLE,
    NOT_COVERED,
    GradientInversion,
    GradientInversionParams,
    Reading,
    Target,
)
from uedp_bench.attacks.gradient_inversion.seen_updates import Seen
from uedp_bench.contracts.transcript import Messages
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

ATTACK = {"name": "gradient-inversion", "params": {"order_messages": 0}}
FEDSGD = {"algorithm": "fedsgd", "rounds": 1, "users_per_round": 8, "server_learning_rate": 0.3}
PARTIES = Path(__file__).parents[2] / "support" / "parties.py"


def result_of(out, mechanism="fedavg", attack=ATTACK, **fields):
    params = fields.pop("params", FEDSGD)
    (spec,) = runs({"name": mechanism, "params": params}, attacks=[attack], **fields)
    result = execute(spec, Execution(out, "cpu", keep_release=False))
    assert result.error is None, result.error
    return result


@pytest.fixture(scope="module")
def met(tmp_path_factory):
    """What the attack meets in a run of next-word: release, corpus, run."""
    kept = []
    run = GradientInversion.run

    def keeping(self, release, planted, corpus, context):
        kept.append((release, planted, corpus, context))
        return run(self, release, planted, corpus, context)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GradientInversion, "run", keeping)
        result = result_of(tmp_path_factory.mktemp("run"))
    return result, kept[0]


def again(met, change, **params):
    """The attack on other messages."""
    _, (release, planted, corpus, run) = met
    messages = Messages(tuple(change(one) for one in release.transcript.sent))
    attack = GradientInversion(GradientInversionParams(**params))
    return attack.run(release.showing(transcript=messages), planted, corpus, run)


def test_no_word_is_found_that_is_not_there_and_no_name(met):
    result, _ = met
    metrics = result.leakage["gradient-inversion"]
    for what, most in (("words", 0.85), ("names", 0.8)):  # a vocabulary of 200 is soon expected
        assert metrics[f"{what}_precision"].value == 1.0
        assert metrics[f"{what}_recall"].value > most
        assert metrics[f"{what}_precision_guessed"].high < 0.85
    details = result.details["gradient-inversion"]
    assert (details["clients"], details["guarantee"]) == (8, NOT_COVERED)
    assert 0.0 < details["names_in_vocabulary"] < 1.0


@pytest.mark.parametrize("noisy", [True, False])
def test_in_noise_alone_names_are_found_as_often_as_by_chance(met, noisy):
    _, (release, _, corpus, _) = met
    hits = named = 0
    expected = 0.0
    for seed in range(6):
        rng = np.random.default_rng(seed)

        target = Target.from_release(release, corpus)
        reading = Reading(target, false_tokens=40.0)
        for one in release.transcript.sent:
            if one.name == "update":
                reading.read(Seen((one.sender,), 0, None, rng.normal(size=one.shape), noisy))
        counts = np.array(reading.names.counts)
        hits, named = hits + counts[:, 0].sum(), named + counts[:, 1].sum()
        expected += (counts[:, 1] * counts[:, 2]).sum() / target.public.names.sum()
    assert named > 100
    low, high = binom.interval(1 - 1e-6, int(named), expected / named)
    assert low <= hits <= high


def test_messages_that_carry_noise_are_covered(met):
    leakage = again(met, lambda one: one._replace(noisy=True))
    assert leakage.details["guarantee"] == COVERED
    # The weights that came before are the noise's own scale: words stand out all the same.
    assert leakage.metrics["words_precision"].value > 0.5


def test_rounds_in_which_nobody_sent_anything_are_told_and_no_failure(met):
    nobody = again(met, lambda one: one._replace(payload=None))
    assert not nobody.metrics
    assert "'server'" in nobody.details["notes"][0]


def test_text_that_is_sent_needs_no_attack(met):
    _, (_, _, corpus, _) = met
    train = corpus.only("train")

    def text(one):
        user = int(one.sender.split()[-1]) if one.name == "update" else -1
        rows = np.array(
            [text for text, of in zip(train.texts, train.users, strict=True) if of == user]
        )
        return one._replace(payload=rows) if one.name == "update" else one

    leakage = again(met, text)
    assert leakage.metrics["words_recall"].value == leakage.metrics["words_precision"].value == 1.0


def test_several_local_steps_show_no_word_that_is_not_there(tmp_path):
    local = {"local_epochs": 2, "local_batch_size": 2, "local_optimizer": "adam",
             "local_learning_rate": 0.01}  # fmt: skip
    result = result_of(tmp_path, params={"rounds": 1, "users_per_round": 8, **local})
    assert result.leakage["gradient-inversion"]["words_precision"].value == 1.0
    assert result.leakage["gradient-inversion"]["words_recall"].value > 0.5


def test_a_classifier_shows_words_and_labels(tmp_path):
    model = {"name": "bilstm", "params": {"vocabulary_size": 200, "units": 8, "embedding_size": 8}}
    metrics = result_of(tmp_path, task={"name": "text-classification"}, model=model)
    metrics = metrics.leakage["gradient-inversion"]
    for what in ("words_precision", "words_recall", "names_recall", "labels_precision"):
        assert metrics[what].value == 1.0
    assert metrics["labels_recall"].value >= metrics["labels_recall_guessed"].value


def test_a_row_of_its_own_is_read_word_by_word(tmp_path):
    attack = {"name": "gradient-inversion", "params": {"order_messages": 12, "orders": 1000}}
    params = {"rounds": 1, "users_per_round": 40, "rows_per_user": 1}
    metrics = result_of(tmp_path, attack=attack, params=params).leakage["gradient-inversion"]
    assert metrics["rows_recovered"].value > 0.3
    assert metrics["rows_rouge_l"].value > metrics["rows_rouge_l_random"].value + 0.2


def test_a_frozen_encoder_shows_labels_and_no_words(tmp_path):
    model = {"name": text_encoders.HashedWords.name, "params": {"width": 8}}
    task = {"name": "text-classification"}
    result = result_of(tmp_path / "plain", task=task, model=model)
    metrics = result.leakage["gradient-inversion"]
    # Nobody sees the model when it is asked; its updates were sent all the same.
    served = [{"name": "fedavg", "params": FEDSGD}, {"name": "mpc"}]
    (spec,) = runs(served, attacks=[ATTACK], task=task, model=model)
    behind = execute(spec, Execution(tmp_path / "served", "cpu", keep_release=False))
    assert behind.leakage["gradient-inversion"]["labels_precision"].value == 1.0
    assert metrics["labels_precision"].value == 1.0
    assert not [name for name in metrics if name.startswith(("words", "names", "rows"))]
    details = result.details["gradient-inversion"]
    assert details["embedding"] == FIXED_EMBEDDING
    assert details["words"] == "left out: the network reads no tokens of a vocabulary"


CLIENTS: dict[str, Any] = {
    "task": {"name": "tagging"},
    "clients": {"count": 2},
    "model": {"name": "bilstm", "params": {
        "vocabulary_size": 300, "units": 4, "embedding_size": 8, "character_filters": 0,
    }},
}  # fmt: skip


@pytest.mark.parametrize(
    ("compression", "recall"), [("none", 0.999), ("int8", 0.3)], ids=["float32", "int8"]
)
def test_a_tagger_that_travels_shows_the_operator_the_words_of_each_client(
    tmp_path, compression, recall
):
    attack = {"name": "gradient-inversion", "params": {"rounds": 2}}
    result = result_of(
        tmp_path, "cyclic", attack, params={"epochs": 1, "compression": compression}, **CLIENTS
    )
    metrics, details = result.leakage["gradient-inversion"], result.details["gradient-inversion"]
    assert (details["messages"], details["clients"]) == (2, 2)
    assert metrics["words_precision"].value == metrics["names_precision"].value == 1.0
    assert metrics["words_recall"].value > recall  # rounding hides small moves


@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
def test_only_a_trained_table_of_a_tagger_shows_words_and_names(tmp_path, frozen):
    params = {**CLIENTS["model"]["params"], "frozen_embedding": frozen}
    fields = {**CLIENTS, "model": {"name": "bilstm", "params": params}}
    local = {"rounds": 1, "batch_size": 16, "noise_multiplier": 0.0}
    result = result_of(tmp_path, "federated-dp-sgd", params=local, **fields)
    metrics, details = result.leakage["gradient-inversion"], result.details["gradient-inversion"]
    assert metrics["labels_precision"].value == 1.0  # both train the layer of labels
    if frozen:
        assert details["embedding"] == FROZEN_TABLE
        assert metrics["words_recall"].value == metrics["names_recall"].value == 0.0
    else:
        for what in ("words", "names"):
            assert metrics[f"{what}_precision"].value == 1.0
            assert metrics[f"{what}_recall"].value > 0.6


def test_few_words_of_a_frozen_table_are_read_in_the_next_layer(tmp_path):
    """Every user sends one row, which has fewer words than a vector has numbers."""
    sizes = {"vocabulary_size": 200, "units": 8, "embedding_size": 48, "frozen_embedding": True}
    params = {"rounds": 1, "users_per_round": 20, "rows_per_user": 1}
    result = result_of(tmp_path, params=params, task={"name": "text-classification"},
                       model={"name": "bilstm", "params": sizes})  # fmt: skip
    metrics = result.leakage["gradient-inversion"]
    assert metrics["words_precision"].value > 0.99
    assert metrics["words_recall"].value > 0.2  # a round uses one of a user's rows


def test_text_that_clients_give_away_is_read_as_it_is(tmp_path):
    result = result_of(tmp_path, "pooled", params={"epochs": 1}, **CLIENTS)
    metrics = result.leakage["gradient-inversion"]
    assert metrics["words_recall"].value == metrics["words_precision"].value == 1.0


def test_noise_at_the_client_hides_words_and_is_what_is_proven(tmp_path):
    params = {"rounds": 1, "batch_size": 16, "noise_multiplier": 1.0}
    result = result_of(tmp_path, "federated-dp-sgd", params=params, **CLIENTS)
    metrics, details = result.leakage["gradient-inversion"], result.details["gradient-inversion"]
    assert metrics["words_recall"].value < 0.1
    assert details["guarantee"] == COVERED


def test_central_noise_does_not_hide_what_the_server_is_sent(tmp_path):
    params = {"rounds": 1, "users_per_round": 8, "noise_multiplier": 5.0}
    result = result_of(tmp_path, mechanism="user-dp", params=params)
    assert result.leakage["gradient-inversion"]["words_precision"].value == 1.0
    assert result.details["gradient-inversion"]["guarantee"] == NOT_COVERED


def test_a_party_that_is_sent_nothing_of_others_is_an_error_that_names_it(met):
    with pytest.raises(ValueError, match=r"gradient-inversion\.party: 'client \d+'.*rounds"):
        _, (release, *_) = met
        again(met, lambda one: one, party=release.transcript.sent[0].receiver)


def test_a_network_that_says_nothing_of_its_layers_is_skipped(tmp_path, monkeypatch):
    from uedp_bench.attacks.gradient_inversion import layers

    class SomethingElse:
        """No network is one."""

    monkeypatch.setattr(layers, "EmbedsTokens", SomethingElse)
    monkeypatch.setattr(layers, "HasOutputLayer", SomethingElse)
    (skipped,) = result_of(tmp_path).skipped_attacks
    assert "RecurrentNetwork" in skipped.reason


def test_rows_that_were_dealt_anew_are_nobodys_and_it_is_skipped(tmp_path):
    (skipped,) = result_of(tmp_path, params=FEDSGD | {"iid": True}).skipped_attacks
    assert skipped.reason == (
        "fedavg.iid=true dealt the training rows anew among the users, so that nobody can tell "
        "whose words an update shows"
    )


def test_messages_of_another_kind_are_refused(tmp_path):
    with plugged(PARTIES):
        (spec,) = runs("travelling", attacks=[ATTACK])
        result = execute(spec, Execution(tmp_path, "cpu", keep_release=False))
    (failure,) = result.failed_attacks
    assert failure.name == "gradient-inversion"
    assert "shape" in failure.message
