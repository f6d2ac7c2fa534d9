"""The loss of word substitution: closed forms, which words count, and a whole run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from word_tables import Table

from uedp_bench.contracts.release import PublishedOnly
from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import apply_setting, parse_spec
from uedp_bench.tasks.word_substitution import WordSubstitution
from uedp_bench.text.word_occurrences import word_labels

TEST, TRAIN = SPLITS.index("test"), SPLITS.index("train")


def corpus_of(texts, labels, splits=None):
    rows = len(texts)
    return Corpus(
        tuple(texts), {"user": np.arange(rows)}, np.array(splits or [TEST] * rows),
        labels=np.array(labels), label_names=("negative", "positive"),
    )  # fmt: skip


def score(corpus, channel, **params):
    release = PublishedOnly()
    release.published, release.word_channel = corpus, channel
    return WordSubstitution.create(params).score(release, corpus)


WORDS = ["good", "fine", "bad", "table"]
MATRIX = [[0.5, 0.2, 0.3, 0], [0, 0.4, 0, 0.6], [0, 0, 1, 0], [1, 0, 0, 0]]


def test_expected_loss_of_a_known_channel():
    """Sum over words of prior times the probability of another label."""
    corpus = corpus_of(["good"] * 300 + ["fine"] * 100 + ["bad"] * 100, [1] * 400 + [0] * 100)
    vectors = [[0, 0], [3, 4], [0, 1], [3, 3]]
    metrics = score(corpus, Table(WORDS, MATRIX, vectors), samples=4000)
    assert metrics["misclassified"].value == pytest.approx(0.6 * 0.3 + 0.2 * 0.6, abs=0.01)
    assert metrics["unchanged"].value == pytest.approx(0.6 * 0.5 + 0.2 * 0.4 + 0.2, abs=0.01)
    assert metrics["distance"].value == pytest.approx(0.6 * (0.2 * 5 + 0.3) + 0.2 * 0.6, abs=0.02)
    assert metrics["unknown"].value == 0
    interval = metrics["misclassified"]
    assert interval.low < interval.value < interval.high


def test_substitutes_without_a_label():
    corpus = corpus_of(["fine"] * 10 + ["good"] * 10, [1] * 20)
    channel = Table(WORDS, MATRIX)
    wrong = score(corpus, channel, samples=4000)["misclassified"].value
    skip = score(corpus, channel, samples=4000, unlabelled="skip")["misclassified"].value
    # "bad" and "table" carry no label here.
    assert wrong == pytest.approx((0.6 + 0.3) / 2, abs=0.02)
    assert skip == 0


def test_labels_are_those_of_most_occurrences():
    corpus = corpus_of(["good fine bad", "good fine", "good bad"], [1, 0, 1])
    assert word_labels(corpus, Table(WORDS, MATRIX)).tolist() == [1, -1, 1, -1]


def test_test_rows_or_all_and_words_without_a_substitute():
    corpus = corpus_of(["good", "bad", "chair"], [1, 0, 1], [TEST, TRAIN, TEST])
    still = Table(WORDS, np.eye(4)[[2, 1, 0, 3]])
    assert score(corpus, still)["unknown"].value == 0.5
    assert score(corpus, still, rows="all")["unknown"].value == pytest.approx(1 / 3)
    assert score(corpus, still, rows="all")["misclassified"].value == 1.0


def test_bad_corpora():
    channel = Table(WORDS, MATRIX)
    with pytest.raises(InputError, match=r"corpus.*labels"):
        score(corpus_of(["good"], [-1]), channel)
    with pytest.raises(InputError, match=r"1 rows.*vocabulary"):
        score(corpus_of(["chair", "good"], [1, 1], [TEST, TRAIN]), channel)
    with pytest.raises(InputError, match=r"task\.rows=test"):
        score(corpus_of(["good"], [1], [TRAIN]), channel)
    with pytest.raises(InputError, match=r"substitute.*labels"):
        score(corpus_of(["table", "good"], [-1, 1], [TEST, TRAIN]), channel)


# ---------------------------------------------------------------------------- in a run


@pytest.fixture
def lexicon(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for name, centre in (("negative", -2.0), ("positive", 2.0)):
        words = [f"{name[:3]}{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(60)]
        (tmp_path / f"{name}-words.txt").write_text("\n".join(words) + "\n")
        for word in words:
            x, y = rng.normal(size=2)
            lines.append(f"{word} {x + centre} {y}\n")
    (tmp_path / "vectors.txt").write_text("".join(lines))
    return tmp_path


def spec_of(lexicon, mechanism, **fields):
    params = {"embedding": str(lexicon / "vectors.txt"), "epsilon": 1.0}
    return parse_spec(
        {
            "task": {"name": "word-substitution", "params": {"rows": "all", "samples": 40}},
            "source": {"name": "opinion-lexicon", "params": {"path": str(lexicon)}},
            "mechanisms": [{"name": mechanism, "params": params}],
            **fields,
        }
    )


def test_runs_without_a_model(lexicon, tmp_path):
    spec = spec_of(lexicon, "metric-dp", seeds=[1, 2])
    first, second = (execute(run, Execution(tmp_path / "out", "cpu")) for run in expand(spec))
    assert first.error is None, first.error
    assert first.spec.model == ComponentSpec(name="none")
    assert 0.01 < first.utility["misclassified"].value < 0.5
    assert first.utility["misclassified"] != second.utility["misclassified"]
    again = execute(expand(spec)[0], Execution(tmp_path / "again", "cpu"))
    assert again.utility == first.utility
    strict = apply_setting(spec, ("mechanism", "epsilon"), 50.0)
    loose = execute(expand(strict)[0], Execution(tmp_path / "out", "cpu"))
    assert loose.utility["misclassified"].value < first.utility["misclassified"].value
    proven = [g for g in first.guarantees if g.kind == "proven"]
    assert [(g.unit, g.status) for g in proven] == [("word", "given")]
    assert math.isclose(proven[0].epsilon, 1.0)


def test_proof_is_refused_for_what_was_published_alone(lexicon, tmp_path):
    """Nothing was trained, so nothing that a trainer would have done is missing."""
    result = execute(expand(spec_of(lexicon, "vickrey"))[0], Execution(tmp_path / "out", "cpu"))
    assert result.utility["unchanged"].value == 0
    (proven,) = [g for g in result.guarantees if g.kind == "proven"]
    assert proven.epsilon == math.inf
    assert "candidates is others" in str(proven)
    assert "planned" not in str(proven)


def test_result_is_a_spec_again(lexicon):
    (run,) = expand(spec_of(lexicon, "vickrey"))
    assert expand(parse_spec(run.model_dump(mode="json"))) == [run]


def test_a_model_is_refused(lexicon):
    with pytest.raises(InputError, match="lstm-small"):
        expand(spec_of(lexicon, "vickrey", model="lstm-small"))
    with pytest.raises(InputError, match=r"word-substitution.*model none"):
        expand(apply_setting(spec_of(lexicon, "vickrey"), ("model", "units"), 8))


def test_a_mechanism_without_words_is_refused(lexicon, tmp_path):
    spec = spec_of(lexicon, "metric-dp", mechanisms=["noiseless"])
    result = execute(expand(spec)[0], Execution(tmp_path / "out", "cpu"))
    assert result.error is not None
    assert result.error.type == CapabilityError.__name__
    assert "mechanism" in result.error.message
