"""The majority baseline: nothing of a text is left, and classifiers predict the largest class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from split import split_run, topic_corpus

from uedp_bench.accounting.ledger import check_plan
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.mechanisms.representations.majority import Majority
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

STATS = CorpusStats(users=4, rows=9, sensitive_rows=0, entities=0, public=False)


def test_every_row_is_published_as_the_same_vector_and_without_text() -> None:
    corpus = topic_corpus(40)
    published, events = Majority.create().publish(corpus, split_run())
    check_plan(Majority.create().plan(STATS), events)
    assert published.vectors is not None
    assert len(np.unique(published.vectors, axis=0)) == 1
    assert set(published.texts) == {""}
    assert published.labels is corpus.labels
    other, _ = Majority.create().publish(corpus.with_texts(["x"] * len(corpus)), split_run(7))
    assert other.fingerprint == published.fingerprint


def test_a_run_predicts_the_largest_class_of_the_training_rows(tmp_path: Path) -> None:
    # Rows of valid could choose an epoch in which their own largest class is predicted.
    training = {"epochs": 20, "keep": "last"}
    spec = {
        "task": {"name": "text-classification"},
        "source": {
            "name": "embedded",
            "params": {"users": 60, "valid_users": 8, "test_users": 12, "public_users": 15},
        },
        "model": {"name": "bilstm", "params": {"embedding_size": 8, "units": 4}},
        "mechanisms": [[{"name": "majority"}, {"name": "noiseless", "params": training}]],
    }
    (run,) = expand(parse_spec(spec))
    result = execute(run, Execution(out=tmp_path, device="cpu", keep_release=False))
    assert result.status == "finished", result.error
    assert result.utility["error"].value == result.utility["majority_error"].value
    assert result.headline is not None and result.headline.metric == "error"
    assert (set(result.floors), result.learned) == ({"majority", "random"}, False)
    (guarantee,) = result.guarantees
    assert (guarantee.kind, guarantee.unit, guarantee.epsilon) == ("proven", "word", 0.0)
    assert "labels" in guarantee.assumptions[0]
