"""Membership on classifiers: shadow models that are asked for, records that count, what is seen."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import runs

from uedp_bench.attacks.membership.attack import VECTORS, Membership
from uedp_bench.attacks.membership.records import Records
from uedp_bench.attacks.membership.shadow_models import base_scores, ez, wbc
from uedp_bench.attacks.secret_sharer.attack import SecretSharer
from uedp_bench.contracts.capabilities import Classifier, Completer, Scorer, TokenScores
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus, FloatArray
from uedp_bench.errors import InputError
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

RunMaker = Callable[..., Run]
CLASSES = ("news", "sport", "other")


class FakeClassifier(Release):
    """Each record has a difficulty of its own; `users` are those that it was trained on."""

    classes: tuple[str, ...] = CLASSES

    def __init__(self, users: np.ndarray, gain: float, seed: int, column: str = "label") -> None:
        self.users, self.gain, self.seed, self.column = users, gain, seed, column

    def class_logprobs(self, corpus: Corpus) -> FloatArray:
        truth = corpus.labels if self.column == "label" else corpus.attributes[self.column]
        hard = np.array([zlib.crc32(text.encode()) / 2**32 for text in corpus.texts]) * 6.0 - 2.0
        odds = hard + np.random.default_rng(self.seed).normal(size=len(corpus))
        odds += self.gain * (self.users[corpus.users] & corpus.where("train", "held_out"))
        scores = np.zeros((len(corpus), len(CLASSES)))
        scores[np.arange(len(corpus)), truth] = odds
        return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


class Lab:
    """An attack on a fake release with shadow models of the same kind."""

    def __init__(self, corpus: Corpus, make_run: RunMaker, gain: float = 2.0, **params) -> None:
        self.calls: list[dict[str, object]] = []
        self.attack = Membership.create(params)
        self.corpus, self.planted = self.attack.plant(corpus, np.random.default_rng(1))
        self.gain, self.column = gain, "label"
        self.run = make_run(3, self._retrain)
        mask = np.zeros(corpus.user_count, dtype=bool)
        mask[self.corpus.users[self.corpus.where("train")]] = True
        self.target = self._classifier(mask, seed=999)

    def _classifier(self, users: np.ndarray, seed: int) -> FakeClassifier:
        return FakeClassifier(users.copy(), self.gain, seed, self.column)

    def _retrain(self, users, *, mechanism, seed, public_seed, splits):
        self.calls.append({"users": users.copy(), "mechanism": mechanism, "seed": seed,
                           "public": public_seed, "splits": splits})  # fmt: skip
        return self._classifier(users, seed % 2**31)

    def leakage(self, corpus: Corpus | None = None):
        return self.attack.run(self.target, self.planted, corpus or self.corpus, self.run)


def labelled(corpus: Corpus, share: float = 1.0) -> Corpus:
    """Random labels, and none for some of the rows."""
    rng = np.random.default_rng(5)
    labels = rng.integers(len(CLASSES), size=len(corpus))
    labels[rng.random(len(corpus)) >= share] = -1
    return replace(corpus, labels=labels, label_names=CLASSES)


@pytest.fixture
def lab(development_corpus: Corpus, make_run: RunMaker) -> Callable[..., Lab]:
    return lambda share=1.0, **more: Lab(labelled(development_corpus, share), make_run, **more)


def test_the_double_is_a_classifier_and_nothing_else():
    fake = FakeClassifier(np.zeros(1, dtype=bool), 0.0, 0)
    assert isinstance(fake, Classifier)
    assert not isinstance(fake, Scorer | Completer)


def test_a_classifier_that_remembers_is_caught_by_the_score_fixed_in_advance(lab):
    leakage = lab().leakage()
    tables = leakage.details["scores"]
    beside = {"calibrated", "lira", "lira_offline", "lira_shrunk", "rmia"}
    assert set(tables) == {"loss", *beside}
    main = tables[leakage.details["main_score"]]
    assert leakage.details["main_score"] == "lira_shrunk"
    for name in ("auc", "auc_user"):
        assert leakage.metrics[name].value == main[name]["value"]
    for name in ("tpr_at_1pct_fpr", "tpr_user_at_1pct_fpr", "tpr_user_at_0.1pct_fpr"):
        assert leakage.metrics[name].value == main[name]
    for name in ("rmia", "lira_shrunk"):
        assert tables[name]["auc"]["low"] > tables["loss"]["auc"]["high"] > 0.6, name
    assert leakage.metrics["tpr_user_at_1pct_fpr"].low > 0.3  # of users, three records each
    assert leakage.details["shadows"]["auc_user_of_half"] == pytest.approx(
        main["auc_user"]["value"], abs=0.1
    )
    assert leakage.metrics["auc_bag_of_words"].value == pytest.approx(0.5, abs=0.06)
    assert leakage.details["shadows"]["population_rows"] == 200


def test_shadow_models_are_as_large_as_the_release_and_split_both_sides(lab):
    bench = lab()
    bench.leakage()
    judged = [*bench.planted.members, *bench.planted.non_members]
    others = np.setdiff1d(np.unique(bench.corpus.users[bench.corpus.where("train")]), judged)
    masks = np.array([call["users"] for call in bench.calls])
    assert len(masks) == 4
    assert (masks.sum(axis=1) == bench.target.users.sum()).all()
    assert masks[:, others].all()
    assert (masks[:, judged].sum(axis=0) == 2).all()
    unjudged = np.setdiff1d(np.arange(masks.shape[1]), [*judged, *others])
    assert not masks[:, unjudged].any()
    assert {call["mechanism"] for call in bench.calls} == {"same"}
    assert {call["splits"] for call in bench.calls} == {("train", "held_out")}
    assert len({call["seed"] for call in bench.calls}) == 4
    assert {call["public"] for call in bench.calls} == {bench.run.seed}
    # Which half a user is in says nothing of its side.
    inside = masks[:, list(bench.planted.members)].sum(axis=1)
    assert ((inside > 60) & (inside < 140)).all()


def test_shadow_models_may_be_trained_without_the_mechanism(lab):
    bench = lab(shadow_mechanism="none", shadow_models=2)
    bench.leakage()
    assert [call["mechanism"] for call in bench.calls] == ["none", "none"]


def test_rows_without_a_class_and_replaced_rows_are_left_out_and_counted(lab):
    bench = lab(share=0.8)
    sharer = SecretSharer.create({"p_u": (0.05,), "references": 256, "word_pool": 60})
    both, _ = sharer.plant(bench.corpus, np.random.default_rng(2))
    leakage = bench.leakage(both)
    rows = np.array(bench.planted.rows)
    gone = both.origin[rows] < 0
    unlabelled = both.labels[rows] < 0
    details = leakage.details
    assert details["records_replaced_by_other_attacks"] == gone.sum() > 20
    assert details["records_without_class"] == (unlabelled & ~gone).sum() > 300
    assert sum(details["records"].values()) == (~unlabelled & ~gone).sum()


def test_a_release_may_have_learnt_an_attribute(lab):
    bench = lab()
    other = np.random.default_rng(9).integers(3, size=len(bench.corpus))
    twin = np.zeros_like(other)  # of the same classes, and not what was learnt
    bench.corpus = replace(
        bench.corpus, attributes={"twin": twin, "place": other},
        attribute_names={"twin": CLASSES, "place": CLASSES},
    )  # fmt: skip
    bench.target.column = bench.column = bench.target.target = "place"
    assert bench.leakage().metrics["auc"].low > 0.8
    bench.target.classes = ("x", "y")
    with pytest.raises(InputError, match="x, y apart"):
        bench.leakage()


def test_the_loss_is_left_where_no_shadow_model_is_trained(lab):
    bench = lab(shadow_models=0)
    leakage = bench.leakage()
    assert not bench.calls
    assert leakage.details["main_score"] == "loss"
    assert "shadow_models is 0" in leakage.details["notes"][0]
    alone = lab()
    alone.run = alone.run.retraining(None)
    assert "retrain" in alone.leakage().details["notes"][0]


def test_rmia_is_left_out_where_no_test_row_has_a_class(lab):
    bench = lab()
    bare = replace(
        bench.corpus, labels=np.where(bench.corpus.where("test"), -1, bench.corpus.labels)
    )
    leakage = bench.leakage(bare)
    assert "rmia" not in leakage.details["scores"]
    assert any("rmia" in note for note in leakage.details["notes"])


def test_published_vectors_are_no_question_for_held_out_records(lab):
    bench = lab()
    bench.target.published = bench.corpus.only("train").with_vectors(
        np.zeros((bench.corpus.where("train").sum(), 2))
    )
    leakage = bench.leakage()
    assert leakage.metrics == {}
    assert leakage.details["notes"] == [VECTORS]


def test_nothing_is_seen_where_nothing_leaks(lab):
    leakage = lab(gain=0.0).leakage()
    for score in leakage.details["scores"].values():
        assert score["auc"]["low"] < 0.52
        assert score["auc"]["high"] > 0.48


@pytest.mark.parametrize("models", [1, 3, -2])
def test_odd_numbers_of_shadow_models_are_refused(models):
    with pytest.raises(InputError, match="shadow_models"):
        Membership.create({"shadow_models": models})


def test_parameters_of_shadow_models_leave_older_results_their_identity():
    assert "shadow_models" not in Membership.create().params.model_dump(mode="json")
    assert Membership.create({"shadow_models": 8}).params.model_dump()["shadow_models"] == 8


def test_shadow_models_of_a_run_are_trained_once_and_paid_for(tmp_path: Path) -> None:
    sizes = {"users": 60, "valid_users": 2, "test_users": 10, "public_users": 20}
    (spec,) = runs(
        {"name": "noiseless", "params": {"epochs": 2, "batch_size": 16}},
        source={"name": "embedded", "params": sizes},
        task="text-classification",
        model={"name": "bilstm", "params": {"vocabulary_size": 200, "units": 8}},
        attacks=[{"name": "membership", "params": {"held_out_users": 20, "shadow_models": 2}}],
    )
    results = [execute(spec, Execution(tmp_path, "cpu", keep_release=False)) for _ in range(2)]
    for result in results:
        assert result.error is None
        assert result.cost.model_dump()["reference_models"] == 2
    assert len(list(tmp_path.glob("cache/retrain-*/done.json"))) == 2
    assert results[0].leakage == results[1].leakage
    details = results[0].details["membership"]
    assert details["main_score"] == "lira_shrunk"
    assert 0.0 <= details["shadows"]["rmia_a"] <= 1.0


TARGET = np.array([-0.1, -2.3, -0.5, -4, -1.2, -0.05, -3.3, -0.7, -0.9, -0.2])
BASE = np.array([-0.2, -3, -0.4, -5.5, -1, -0.1, -3.1, -1.7, -0.9, -0.6])
RIGHT = np.isin(np.arange(10), [0, 2, 5, 9])


def scored(logp: np.ndarray, right: np.ndarray) -> TokenScores:
    return TokenScores(logp, np.zeros(len(logp)), np.ones(len(logp)), right)


def test_scores_have_their_worked_values() -> None:
    gains = TARGET - BASE
    records = Records(np.array([0]), ["x"], np.array([0]), np.array([True]))
    scores = base_scores(records, [scored(TARGET, RIGHT)], [scored(BASE, RIGHT)])
    assert scores["ratio_base"].records[0] == pytest.approx(0.325)
    assert scores["ez"].records[0] == pytest.approx(2.077257, abs=1e-6)
    assert scores["wbc"].records[0] == pytest.approx(0.965278, abs=1e-6)
    shares = [wbc(gains, (width,)) for width in (1, 2, 3, 4)]
    assert shares == pytest.approx([0.6, 0.777778, 0.875, 1.0], abs=1e-6)


def test_a_text_whose_tokens_all_gained_is_the_strongest_evidence() -> None:
    rises, falls = np.array([3.2, 3.2, 0.0]), np.array([0.0, 0.4, 3.2])
    assert np.argsort(ez(rises, falls)).tolist() == [2, 1, 0]


def test_users_pool_their_tokens() -> None:
    # One user with a long and a short record: as if it were one record.
    halves = [scored(TARGET[:7], RIGHT[:7]), scored(TARGET[7:], RIGHT[7:])]
    bases = [scored(BASE[:7], RIGHT[:7]), scored(BASE[7:], RIGHT[7:])]
    records = Records(np.arange(2), ["x", "y"], np.array([4, 4]), np.array([True, True]))
    scores = base_scores(records, halves, bases)
    assert scores["ratio_base"].users == pytest.approx([0.325])
    assert scores["ez"].users == pytest.approx([2.077257], abs=1e-6)


def test_a_base_of_other_tokens_is_refused() -> None:
    records = Records(np.array([0]), ["x"], np.array([0]), np.array([True]))
    with pytest.raises(InputError, match="membership"):
        base_scores(records, [scored(TARGET, RIGHT)], [scored(BASE[:9], RIGHT[:9])])


@pytest.mark.parametrize(("mechanism", "gain"), [("public-only", False), ("noiseless", True)])
def test_the_base_is_the_model_before_private_rows(
    tmp_path: Path, mechanism: str, gain: bool
) -> None:
    sizes = {"users": 80, "valid_users": 4, "test_users": 10, "public_users": 30}
    (spec,) = runs(
        mechanism,
        source={"name": "embedded", "params": sizes},
        task={"name": "next-word", "params": {"pretraining_epochs": 1}},
        attacks=[{"name": "membership", "params": {"held_out_users": 30, "shadow_models": 0}}],
    )
    result = execute(spec, Execution(tmp_path, "cpu", keep_release=False))
    assert result.error is None
    details = result.details["membership"]
    assert details["base"]
    assert details["reference"] is None
    assert details["main_score"] == "ez"
    # Public text alone: the release is the base, bit for bit, and tells nobody apart.
    assert (result.leakage["membership"]["auc"].value == 0.5) is not gain
