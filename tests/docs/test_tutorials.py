"""The tutorial on a mechanism of one's own works as printed, but for sizes."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from examples import commands, example, smaller
from tiny import plugged

from uedp_bench.api import Corpus, CorpusStats, Run, mechanisms
from uedp_bench.cli.main import run_cli
from uedp_bench.corpus.table import SPLITS

PAGE = "docs/tutorials/own-mechanism.md"
FILE = "word_response.py"
SMALL = {
    "source.users": 60, "source.valid_users": 5, "source.test_users": 10, "source.public_users": 40,
    "mechanism.noiseless.epochs": 1, "mechanism.word-response.epsilon": 6,
}  # fmt: skip


@pytest.mark.long
def test_a_mechanism_of_ones_own_gets_its_row(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    new, check, account, run = commands(PAGE)[:4]
    assert [one[0] for one in (new, check, account, run)] == ["new", "check", "account", "run"]
    assert run_cli(new) == 0
    assert Path(FILE).exists(), "`new` writes another file than the page replaces"
    assert check[1] == FILE  # which tests of the kit do: it takes seconds
    Path(FILE).write_text(example(FILE, PAGE))
    with plugged(Path(FILE)):
        assert run_cli(account) == 0
        assert "6" in capsys.readouterr().out
        assert run_cli([*smaller(run, SMALL), "--seeds", "1"]) == 0, capsys.readouterr().err
    records = [json.loads(one.read_text()) for one in tmp_path.glob("runs/*/*/result.json")]
    by_name = {result["spec"]["mechanism"][0]["name"]: result for result in records}
    assert set(by_name) == {"noiseless", "word-response"}
    (stated,) = by_name["word-response"]["guarantees"]
    assert (stated["kind"], stated["unit"]) == ("stated", "word")
    assert float(stated["epsilon"]) == 6.0
    assert "recall_at_1" in by_name["word-response"]["leakage"]["reidentify"]
    assert len(by_name["noiseless"]["skipped_attacks"]) == 1


def test_its_probabilities_are_those_of_its_epsilon(tmp_path: Path) -> None:
    """The ratio of what two words become is at most e^epsilon, and is attained."""
    file = tmp_path / FILE
    file.write_text(example(FILE, PAGE))
    many, epsilon = 40_000, 1.5
    texts = ("a a a b b c", *(" ".join([word] * many) for word in ("a", "b", "unknown")))
    rows = np.arange(4)
    corpus = Corpus(texts, {"user": rows}, np.array([SPLITS.index("public"), 0, 0, 0]))
    with plugged(file):
        mechanism = mechanisms.create("word-response", {"epsilon": epsilon, "words": 3})
        published, _ = mechanism.publish(corpus, Run(1, CorpusStats(3, 3, 0, 0, public=False)))
    assert published.texts[0] == texts[0]
    counters = [Counter(text.split()) for text in published.texts[1:]]
    keep, other = (x / (math.exp(epsilon) + 2) for x in (math.exp(epsilon), 1))
    for counts, true in zip(counters, "aba", strict=True):
        for word in "abc":
            share = keep if word == true else other
            assert abs(counts[word] / many - share) < 5 * math.sqrt(share * (1 - share) / many)
