"""Cost of a private vocabulary: its words, tokens, pieces a word, and rare names.

    python benchmarks/vocabulary_cost.py conll2003 DATA/conll2003
    python benchmarks/vocabulary_cost.py blog-authorship DATA/blog_authorship

The training rows of a source are counted at several epsilons and for several units
(docs/mechanisms/dp-vocabulary.md). A row of the table says how many words pass, which share of the
words of test rows these are, how many pieces the WordPiece tokenizer of `bert` (tiny) that is
trained on them cuts a test word into, which share of test words it cannot read at all, and which
share of planted names is a word.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from uedp_bench.attacks.vocabulary_membership import VocabularyMembership
from uedp_bench.components import registry
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.contracts.task import WordCounts
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.dp_vocabulary import DPVocabulary
from uedp_bench.models.word_vocabularies import WordVocabulary

DELTA, EPSILONS = 1e-5, (1.0, 4.0, 10.0)
SOURCES: dict[str, dict[str, Any]] = {
    "conll2003": {},
    "blog-authorship": {"rows": "sentences", "rows_per_user": 10, "topics_from": "none"},
}
UNITS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("row, `laplace`", {"variant": "laplace", "words_per_unit": 128}),
    ("row, `gaussian-union`", {"unit": "record", "words_per_unit": 128}),
    ("user, `gaussian-union`", {"words_per_unit": 200}),
)


class Kept(NamedTuple):
    """Words and names of test rows that a vocabulary keeps.

    Attributes:
        words: number of released words.
        tokens: share of test words that are among them.
        pieces: pieces of a test word, by WordPiece; words with an unknown piece are left out.
        unread: share of test words that WordPiece cannot read.
        names: share of planted names that are words, of one user and of a hundred.
    """

    words: int
    tokens: float
    pieces: float
    unread: float
    names: tuple[float, float]


def chosen(corpus: Corpus, params: dict[str, Any], words: list[list[str]]) -> WordCounts | None:
    """The words of a mechanism; None where none passes."""
    mechanism = DPVocabulary.create({"vocabulary_delta": DELTA, **params})
    try:
        return mechanism.choose(corpus, words, Run(1, CorpusStats(1, 1, 0, 0, public=True)))[0]
    except InputError:
        return None


def kept(counts: WordCounts, test: list[list[str]], planted: Any) -> Kept:
    """See `Kept`."""
    model = registry.models.create("bert", {"configuration": "tiny"})
    texts = sorted({word for row in test for word in row})
    often = dict.fromkeys(texts, 0)
    for row in test:
        for word in row:
            often[word] += 1
    weights = np.array([often[word] for word in texts], dtype=np.float64)
    pieces = model.vocabulary(counts.texts(), origin=counts.origin, private=False)
    cut = pieces.encode(texts)
    unread = np.array([not ids or pieces.unknown in ids for ids in cut])
    lengths = np.array([len(ids) for ids in cut], dtype=np.float64)
    inside = np.array([word in counts.counts for word in texts])
    vocabulary = WordVocabulary(tuple(counts.counts), origin=counts.origin)
    shares = [
        np.mean([row != [vocabulary.unknown] for row in vocabulary.encode(planted.names[users])])
        for users in (1, 100)
    ]
    return Kept(
        len(counts.counts),
        float(weights[inside].sum() / weights.sum()),
        float((weights * lengths)[~unread].sum() / max(weights[~unread].sum(), 1.0)),
        float(weights[unread].sum() / weights.sum()),
        (float(shares[0]), float(shares[1])),
    )


def rows(corpus: Corpus) -> Iterator[tuple[str, str, Kept | None]]:
    """Unit, epsilon and what is kept."""
    model = registry.models.create("bert", {"configuration": "tiny"})
    attack = VocabularyMembership.create({"users": [1, 100], "names": 20})
    corpus, planted = attack.plant(corpus, np.random.default_rng(1))
    words = model.words(corpus.texts)
    test = [words[row] for row in np.flatnonzero(corpus.where("test")).tolist()]
    train: dict[str, float] = {}
    for row in np.flatnonzero(corpus.where("train")).tolist():
        for word in words[row]:
            train[word] = train.get(word, 0.0) + 1.0
    yield "nothing is protected", "inf", kept(WordCounts(train, "train split"), test, planted)
    for unit, params in UNITS:
        for epsilon in EPSILONS:
            counts = chosen(corpus, {"epsilon": epsilon, **params}, words)
            yield unit, f"{epsilon:g}", None if counts is None else kept(counts, test, planted)


def main(name: str, path: str) -> None:
    """Print the table of a source."""
    corpus = registry.sources.create(name, {"path": path, **SOURCES[name]}).load()
    train = corpus.only("train")
    users = len(np.unique(train.users))
    print(f"{name}: {len(train):,} rows of {users:,} users; delta {DELTA:g}\n")
    columns = ("unit", "ε", "words", "of test words %", "pieces a word", "unread %")
    print(f"| {' | '.join(columns)} | names of 1, 100 users % |")
    print("|---|---|---|---|---|---|---|")
    for unit, epsilon, cost in rows(corpus):
        if cost is None:
            print(f"| {unit} | {epsilon} | 0 | 0 | – | 100 | 0, 0 |")
            continue
        names = ", ".join(f"{100 * share:.0f}" for share in cost.names)
        print(
            f"| {unit} | {epsilon} | {cost.words:,} | {100 * cost.tokens:.1f} | "
            f"{cost.pieces:.2f} | {100 * cost.unread:.1f} | {names} |"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
