"""Text classification from text and from published vectors, under any training mechanism."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import text_encoders
import torch

from uedp_bench.attacks._true_classes import true_classes
from uedp_bench.contracts.capabilities import Classifier, Encoder, RowScorer, capabilities
from uedp_bench.contracts.learner import SplitLearner
from uedp_bench.contracts.results import Result
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import apply_setting, parse_spec
from uedp_bench.tasks.classification.classifier import ClassifierReader, ClassifierRelease
from uedp_bench.tasks.classification.text_classification import TextClassification

PUBLIC = CorpusStats(users=10, rows=60, sensitive_rows=0, entities=0, public=True)
WORDS = {"good": 1, "fine": 1, "bad": 0, "poor": 0}


def words(seed: int = 0, rows: int = 90) -> Corpus:
    """Rows whose label follows from one of their words; attribute `first` from another."""
    rng = np.random.default_rng(seed)
    names = list(WORDS)
    chosen = rng.integers(4, size=rows)
    who = rng.integers(2, size=rows)
    fill = rng.integers(5, size=(rows, 4))
    texts = [
        " ".join(["we" if who[i] else "i", *(f"w{j}" for j in fill[i]), names[chosen[i]]])
        for i in range(rows)
    ]
    split = np.array([SPLITS.index(("train", "valid", "test")[i % 6 // 4 + (i % 6 == 5)])
                      for i in range(rows)])  # fmt: skip
    public = [f"i we {' '.join(names)} w0 w1 w2 w3 w4"]
    return Corpus(
        texts=(*texts, *public),
        groups={"user": np.append(np.arange(rows) % 10, 10)},
        split=np.append(split, SPLITS.index("public")),
        labels=np.append([WORDS[names[c]] for c in chosen], -1),
        label_names=("negative", "positive"),
        attributes={"who": np.append(who, -1)},
        attribute_names={"who": ("i", "we")},
    )


def task(model: str = "mean-of-words", **params: Any) -> TextClassification:
    kind = text_encoders.MeanOfWords if model == "mean-of-words" else text_encoders.HashedWords
    text_task: TextClassification = TextClassification.create(params)
    text_task.model = kind.create({"width": 12})
    return text_task


def learner_of(text_task: TextClassification, corpus: Corpus, seed: int = 1) -> Any:
    run = Run(seed, PUBLIC)
    visible = corpus.only("train", "valid", "public")
    *_, last = text_task.stages(visible, text_task.vocabulary(visible), run)
    return last


def trained(text_task: TextClassification, corpus: Corpus) -> ClassifierRelease:
    learner = learner_of(text_task, corpus)
    fit = Noiseless.create({"epochs": 60, "batch_size": 16, "learning_rate": 0.02})
    module, _ = fit.train(learner, learner.corpus, Run(1, PUBLIC))
    release = learner.release(module)
    assert isinstance(release, ClassifierRelease)
    return release


@pytest.mark.parametrize("model", ["mean-of-words", "hashed-words"])
def test_learns_what_can_be_learnt(model: str) -> None:
    text_task, corpus = task(model, dropout=0.0), words()
    metrics = text_task.score(trained(text_task, corpus), corpus)
    assert metrics["error"].value < 0.2 < metrics["random_error"].value
    assert metrics["accuracy"].value == pytest.approx(1 - metrics["error"].value)
    assert metrics["macro_f1"].value > 0.8


def test_baselines_are_those_of_the_training_classes() -> None:
    corpus = words()
    labels = np.where(corpus.where("train"), np.arange(len(corpus)) % 3 == 0, corpus.labels)
    labels = np.where(corpus.where("test"), 1, labels).astype(np.int64)
    corpus = replace(corpus, labels=np.where(corpus.where("public"), -1, labels))
    text_task = task()
    metrics = text_task.score(trained(text_task, corpus), corpus)
    share = np.bincount(labels[corpus.where("train")]) / corpus.where("train").sum()
    assert share.argmax() == 0
    assert metrics["majority_error"].value == 1.0
    assert metrics["random_error"].value == pytest.approx(1 - share[1])


def test_another_target_is_an_attribute() -> None:
    text_task, corpus = task(target="who"), words()
    assert text_task.score(trained(text_task, corpus), corpus)["error"].value < 0.1


def test_rows_without_a_label_take_no_part() -> None:
    corpus = words()
    labels = corpus.labels.copy()  # type: ignore[union-attr]
    labels[::4] = -1
    corpus = replace(corpus, labels=labels)
    learner = learner_of(task(), corpus)
    assert len(learner.corpus) == (corpus.where("train", "valid") & (labels >= 0)).sum()
    assert (learner.corpus.labels >= 0).all()


def test_losses_are_those_of_the_two_parts_and_of_each_row_alone() -> None:
    learner = learner_of(task(hidden=[7], dropout=0.3), words())
    assert isinstance(learner, SplitLearner)
    module = learner.module.train()
    batch = learner.batch(np.arange(12), np.arange(12))
    whole = learner.losses(module, batch).nats
    z = learner.encode(module, batch)
    assert z.shape == (12, learner.width)
    assert torch.equal(whole, learner.head_losses(module, z, batch).nats)
    for row in (0, 7):
        alone = {name: value[row : row + 1] for name, value in batch.items()}
        torch.testing.assert_close(learner.losses(module, alone).nats[0], whole[row])


def test_dropout_acts_in_training_only_and_by_seeds() -> None:
    learner = learner_of(task(dropout=0.5), words())
    batch = learner.batch(np.arange(8), np.arange(8))
    other = {**batch, "seeds": batch["seeds"] + 1}
    module = learner.module.train()
    first, again, moved = (learner.losses(module, b).nats for b in (batch, batch, other))
    assert torch.equal(first, again)
    assert not torch.equal(first, moved)
    module.eval()
    assert torch.equal(learner.losses(module, batch).nats, learner.losses(module, other).nats)


def test_texts_that_differ_in_a_dropped_word_give_one_batch() -> None:
    corpus = words()
    private = ~corpus.where("public")
    texts = ("we" + t[1:] if p and t[0] == "i" else t
             for t, p in zip(corpus.texts, private, strict=True))  # fmt: skip
    swapped = replace(corpus, texts=tuple(texts))
    pairs = [learner_of(task(), c) for c in (corpus, swapped)]
    rows = np.flatnonzero([text.startswith("i ") for text in pairs[0].corpus.texts])
    batches = [p.masked_batch(rows, np.random.default_rng(3), 0.6)["tokens"] for p in pairs]
    same = (batches[0] == batches[1]).all(dim=1)
    dropped = batches[0][:, 1] == pairs[0].vocabulary.unknown
    assert torch.equal(same, dropped)
    assert 0.4 < dropped.float().mean() < 0.8


def test_a_dropped_word_leaves_the_mask_even_if_preprocessing_removes_it() -> None:
    shown = []
    corpus = words()
    for sign in ("--", "fine"):
        texts = tuple(
            text if public else f"{sign} {text}"
            for text, public in zip(corpus.texts, corpus.where("public"), strict=True)
        )
        learner = learner_of(task(preprocessing="paper"), replace(corpus, texts=texts))
        rows = np.arange(len(learner.corpus))
        shown.append(learner.masked_batch(rows, np.random.default_rng(3), 0.5))
    same = [
        a[:m].tolist() == b[:n].tolist()
        for a, m, b, n in zip(shown[0]["tokens"], shown[0]["lengths"], shown[1]["tokens"],
                              shown[1]["lengths"], strict=True)
    ]  # fmt: skip
    assert 0.2 < np.mean(same) < 0.8
    assert all(s == (m == n) for s, m, n in zip(same, shown[0]["lengths"], shown[1]["lengths"],
                                                strict=True))  # fmt: skip


def test_masked_words_follow_the_rate_and_keep_their_number() -> None:
    learner = learner_of(task(), words(rows=600))
    rows = np.arange(400)
    plain = learner.batch(rows, np.arange(len(rows)))
    masked = learner.masked_batch(rows, np.random.default_rng(0), 0.3)
    assert torch.equal(plain["lengths"], masked["lengths"])
    changed = (plain["tokens"] != masked["tokens"])[:, 1:-1].float().mean()
    assert abs(float(changed) - 0.3) < 0.03


def test_published_vectors_train_the_head_alone() -> None:
    corpus = words()
    shown = np.eye(2)[np.maximum(corpus.labels, 0)] + 0.01  # type: ignore[arg-type]
    vectors = corpus.with_vectors(shown)
    text_task = task(dropout=0.0)
    assert text_task.vocabulary(vectors) is None
    release = trained(text_task, vectors)
    assert text_task.score(release, vectors)["error"].value == 0.0
    assert np.allclose(release.representations(vectors), shown)


@pytest.mark.parametrize("model", ["mean-of-words", "hashed-words", "vectors"])
def test_a_saved_release_answers_the_same(model: str, tmp_path: Path) -> None:
    corpus = words()
    if model == "vectors":
        corpus = corpus.with_vectors(np.random.default_rng(1).normal(size=(len(corpus), 5)))
    release = trained(task(model.replace("vectors", "mean-of-words"), hidden=[6]), corpus)
    release.save(tmp_path)
    loaded = TextClassification.create().load(tmp_path)
    assert isinstance(loaded, Classifier)
    assert isinstance(loaded, Encoder)
    test = corpus.only("test")
    assert np.array_equal(loaded.class_logprobs(test), release.class_logprobs(test))
    assert np.array_equal(loaded.representations(test), release.representations(test))
    assert np.allclose(np.exp(release.class_logprobs(test)).sum(axis=1), 1)


def test_the_loss_of_a_row_is_that_of_its_own_class_whatever_stands_beside_it(
    tmp_path: Path,
) -> None:
    corpus = words()
    release = trained(task(target="who"), corpus)
    test = corpus.only("test")
    truth = test.attributes["who"]
    losses = release.row_losses(test)
    nats = -release.class_logprobs(test)[np.arange(len(test)), truth]
    assert np.allclose(losses, nats, atol=1e-6)
    alone = [release.row_losses(test.take(np.array([row])))[0] for row in range(len(test))]
    assert np.allclose(losses, alone, atol=1e-6)
    release.save(tmp_path)
    loaded = TextClassification.create().load(tmp_path)
    assert isinstance(loaded, RowScorer)
    assert np.array_equal(loaded.row_losses(test), losses)


def test_a_row_without_a_class_has_no_loss() -> None:
    corpus = words()
    release = trained(task(), corpus)
    test = corpus.only("test")
    labels = test.labels.copy()  # type: ignore[union-attr]
    labels[1] = -1
    some = replace(test, labels=labels)
    assert release.scorable(some).tolist() == [row != 1 for row in range(len(test))]
    with pytest.raises(InputError, match=r"ClassifierRelease.*row 1"):
        release.row_losses(some)
    others = replace(test, label_names=tuple(reversed(test.label_names)))
    assert not release.scorable(others).any()
    assert release.row_losses(test.take(np.empty(0, dtype=np.int64))).shape == (0,)


def test_a_classifier_is_not_taken_for_a_language_model() -> None:
    assert capabilities(trained(task(), words())) == ("Classifier", "Encoder", "RowScorer")


def test_long_rows_are_cut_and_counted() -> None:
    corpus = words()
    run = Run(1, PUBLIC)
    text_task = task(max_tokens=4)
    visible = corpus.only("train", "valid", "public")
    (learner,) = text_task.stages(visible, text_task.vocabulary(visible), run)
    assert run.counts["rows_truncated"] == len(learner.corpus)
    assert int(learner.batch(np.arange(3), np.arange(3))["lengths"].max()) == 4


@pytest.mark.parametrize(
    ("change", "params", "words_of_message"),
    [
        ({"labels": None}, {}, ["labels", "who"]),
        ({}, {"target": "whom"}, ["task.target is 'whom'", "'who'"]),
        ({}, {"pretraining_epochs": 1}, ["pretraining_epochs is 1", "no public row"]),
    ],
)
def test_bad_input_is_one_clear_line(
    change: dict[str, Any], params: dict[str, Any], words_of_message: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        learner_of(task(**params), replace(words(), **change))
    assert all(word in str(error.value) for word in words_of_message)
    assert "\n" not in str(error.value)


def test_one_class_is_refused_by_name() -> None:
    corpus = words()
    labels = np.where(corpus.where("public"), -1, 1)
    with pytest.raises(InputError, match=r"'label'.*positive"):
        learner_of(task(), replace(corpus, labels=labels))


SOURCE = {"users": 90, "valid_users": 8, "test_users": 15, "public_users": 25}


def benchmark(out: Path, mechanism: Any, **fields: Any) -> Result:
    spec = {
        "task": {"name": "text-classification"},
        "source": {"name": "embedded", "params": SOURCE},
        "model": {"name": "mean-of-words", "params": {"width": 8}},
        "mechanisms": [mechanism],
        **fields,
    }
    (run,) = expand(parse_spec(spec))
    result = execute(run, Execution(out=out, device="cpu"))
    assert result.status == "finished", result.error
    return result


def test_an_audit_of_a_classifier_sees_the_update(tmp_path: Path) -> None:
    mechanism = {"name": "user-dp", "params": {"rounds": 2, "users_per_round": 30}}
    audit = {"name": "audit", "params": {"canary": "update", "canaries": 20}}
    result = benchmark(tmp_path, mechanism, attacks=[audit])
    assert not result.skipped_attacks
    assert result.lower_bounds


def test_a_spec_without_a_model_takes_one_that_encodes_text() -> None:
    spec = parse_spec({"task": "text-classification", "mechanisms": ["noiseless"]})
    (run,) = expand(spec)
    assert run.model.name == "bilstm"
    (changed,) = expand(apply_setting(spec, ["model", "units"], 5))
    assert (changed.model.name, changed.model.params["units"]) == ("bilstm", 5)


USER_DP = {"name": "user-dp", "params": {"rounds": 2, "users_per_round": 10}}
INFER = {"name": "attribute-inference", "params": {"attributes": ["gender"], "epochs": 1}}


@pytest.mark.parametrize("model", ["mean-of-words", "hashed-words"])
def test_vectors_behind_protected_training_are_scored_and_not_published(
    model: str, tmp_path: Path
) -> None:
    """Test rows are scored as they are sent, also where a frozen encoder could read their text."""
    membership = {"name": "membership", "params": {"held_out_users": 10}}
    result = benchmark(
        tmp_path, [{"name": "majority"}, USER_DP], attacks=[INFER, membership, "reidentify"],
        model={"name": model, "params": {"width": 8}},
    )  # fmt: skip
    shown = result.utility
    assert shown["macro_f1"].value < 0.11  # one class for all
    metrics = result.leakage["attribute-inference"]
    accuracy, most = metrics["accuracy_gender"].value, metrics["majority_gender"].value
    assert (
        min(abs(accuracy - most), abs(accuracy - (1 - most))) < 1e-9
    )  # one of the two for everybody
    why = {skipped.name: skipped.reason for skipped in result.skipped_attacks}
    assert "vectors" in why["membership"]
    assert "Published" in why["reidentify"]
    # The model is one of the tests, which nobody reviewed.
    assert [(g.kind, g.unit) for g in result.guarantees if g.kind != "claimed"] == [
        ("stated", "user")
    ]


def test_a_publisher_of_text_after_vectors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"deidentify.*entities.*majority"):
        benchmark(tmp_path, [{"name": "majority"}, {"name": "deidentify"}])


def test_a_release_knows_its_target(tmp_path: Path) -> None:
    corpus = words()
    release = trained(task(target="who"), corpus)
    release.save(tmp_path)
    loaded = ClassifierReader.load(tmp_path)
    assert (loaded.target, loaded.takes_vectors) == (release.target, False) == ("who", False)
    assert (true_classes(loaded, corpus, "x") == corpus.attributes["who"]).all()
    with pytest.raises(InputError, match=r"classifier.*vectors"):
        trained(task(), corpus.with_vectors(np.eye(len(corpus)))).class_logprobs(corpus)


def test_what_is_predicted_is_neither_hidden_nor_inferred(tmp_path: Path) -> None:
    infer = {"name": "attribute-inference", "params": {"epochs": 1, "hidden": 0}}
    task = {"name": "text-classification", "params": {"target": "gender"}}
    hide = {"name": "adversarial", "params": {"epochs": 1, "attacker_hidden": 2}}
    result = benchmark(tmp_path, hide, task=task, attacks=[infer])
    metrics = result.leakage["attribute-inference"]
    assert {"accuracy_region", "fairness_gap_region"} <= set(metrics)
    assert not {"accuracy_gender", "fairness_gap_gender"} & set(metrics)
    hide["params"] |= {"attributes": ["gender"]}  # type: ignore[operator]
    with pytest.raises(AssertionError, match=r"adversarial\.attributes.*'gender'"):
        benchmark(tmp_path, hide, task=task)


def test_a_cheap_strong_classifier_stands_beside_what_the_text_allows() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    text_task, corpus = task(), words()
    release = trained(text_task, corpus)
    metrics = text_task.score(release, corpus)
    assert set(metrics) == {one.name for one in text_task.metrics}
    assert metrics["tfidf_error"].value == 0.0 < metrics["majority_error"].value
    train, test = corpus.only("train"), corpus.only("test")
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=50_000)
    oracle = LogisticRegression(C=10.0, max_iter=200).fit(
        vectorizer.fit_transform(train.texts), train.labels
    )
    wrong = oracle.predict(vectorizer.transform(test.texts)) != test.labels
    assert metrics["tfidf_error"].value == wrong.mean()


def test_there_is_no_such_classifier_of_vectors_or_of_text_that_is_perturbed_at_inference() -> None:
    text_task, corpus = task(), words()
    release = trained(text_task, corpus)
    release.inputs = corpus.only("train", "test")  # type: ignore[attr-defined]
    assert set(text_task.score(release, corpus)) == {one.name for one in text_task.metrics} - set(
        text_task.optional
    )
    empty = corpus.with_texts([""] * len(corpus))
    assert "tfidf_error" not in text_task.score(trained(text_task, corpus), empty)
