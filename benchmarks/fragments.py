"""Data and files of Kim et al. 2021, and sentences put together from fragments of them.

    python benchmarks/fragments.py files data/nmt_confidential
    python benchmarks/fragments.py reassembly data/nmt_confidential
    python benchmarks/fragments.py vote data/nmt_confidential

Each prints a table of docs/reproductions/translation-fragments.md that is made from data: the
authors' files beside their text, sentences that fragments give back, and phrases that a noisy vote
of documents lets through.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from uedp_bench.accounting.ledger import proven
from uedp_bench.attacks.fragment_reassembly.attack import FragmentReassembly
from uedp_bench.contracts.leakage import Planted
from uedp_bench.contracts.release import PublishedOnly
from uedp_bench.contracts.results import Estimate
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import Corpus
from uedp_bench.io.files import open_text
from uedp_bench.mechanisms.fragments.extraction import phrases_of_voters
from uedp_bench.mechanisms.fragments.phrase_fragments import PhraseFragments
from uedp_bench.mechanisms.fragments.phrase_union import PhraseUnion
from uedp_bench.one_run.publishing import publish
from uedp_bench.spec.descriptions import NOISE
from uedp_bench.tasks.sources.nmt_confidential import NMTConfidential
from uedp_bench.tasks.sources.parallel_embedded.source import ParallelEmbedded
from uedp_bench.tasks.sources.reading.files import holds_text

DOMAINS = ("EMEA", "GNOME", "JRC")
PUBLISHED = ((4, 0.1), (4, 0.25), (4, 0.5), (4, 1.0), (5, 0.5), (6, 0.5), (7, 0.5))
"""Words of a phrase, at most, and the share of phrases that is published."""
DELTA, EPSILONS = 1e-5, (1.0, 3.0, 8.0)
VOTES = (10, 30, 100, 300)
"""Phrases that a document votes for, at most; the best of them is shown."""


def table(head: Sequence[str], rows: list[list[str]]) -> None:
    """Print a table in Markdown."""
    for row in (head, ["--:"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")


def source(data: Path, domain: str, **params: object) -> Corpus:
    return NMTConfidential.create({"path": data, "domain": domain, **params}).read()


def run_of(corpus: Corpus) -> Run:
    return Run(0, CorpusStats(corpus.user_count, len(corpus), 0, 0, public=False), delta=DELTA)


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def files(data: Path) -> None:
    """The authors' fragments, copies and duplicates in their text, and what fragments publish."""
    rows = []
    for domain in DOMAINS:
        corpus = source(data, domain, clean=False)
        train, test = (pairs_of(corpus.only(split)) for split in ("train", "test"))
        german, english = phrase_files(data, domain)
        longest = [max(map(len, side)) for side in (german, english)]
        mechanism = PhraseFragments.create({"max_words": longest[1]})
        ours = mechanism.phrases(corpus.only("train"), run_of(corpus.only("train"))).phrases
        texts = [target.split() for _, target in train]
        counts = [(ngrams(texts, size), ngrams(english, size)) for size in (1, 4)]
        rows.append([
            domain, f"{len(english):,}", " / ".join(map(str, longest)), f"{len(ours) // 2:,}",
            *(percent(sum(map(holds_text, pairs)) / len(pairs)) for pairs in (train, test)),
            percent(len(set(train)) / len(train)),
            percent(sum(pair in set(train) for pair in test) / len(test)),
            *(percent(len(text & phrases) / len(text)) for text, phrases in counts),
        ])  # fmt: skip
    table(["", "phrases", "longest, German / English", "ours", "train copied, %", "test copied, %",
           "distinct in train, %", "test in train, %", "words published, %",
           "4-grams published, %"], rows)  # fmt: skip


def reassembly(data: Path) -> None:
    """Sentences that come back whole, of documents whose fragments are published and of others."""
    train = {domain: source(data, domain).only("train") for domain in DOMAINS}
    rows = []
    for words, keep in PUBLISHED:
        cells = [str(words), f"{100 * keep:g}"]
        for corpus in train.values():
            mechanism, run = (
                PhraseFragments.create({"max_words": words, "keep": keep}),
                run_of(corpus),
            )
            published, _ = publish(mechanism, corpus, run)
            release = PublishedOnly().showing(published=published)
            metrics = FragmentReassembly.create({}).run(release, Planted(), corpus, run).metrics
            whole, floor = metrics["sentences_recovered"], metrics["sentences_recovered_floor"]
            cells += [interval(whole), percent(floor.value)]
        rows.append(cells)
    table(["words", "kept, %", *(f"{d}{end}" for d in DOMAINS for end in (", %", ", floor"))], rows)


def interval(share: Estimate) -> str:
    if share.low is None or share.high is None:
        return percent(share.value)
    return f"{percent(share.value)} ({percent(share.low)} to {percent(share.high)})"


def vote(data: Path) -> None:
    """Phrases that pass a noisy vote of documents, beside those that twenty documents have."""
    rows = []
    for name, corpus in vote_corpora(data):
        train = corpus.only("train", "public")
        mechanism, run = PhraseUnion.create({NOISE: 1.0}), run_of(train)
        voters = phrases_of_voters(train, mechanism.phrases(train, run), "user", mechanism.name)
        documents = Counter(phrase for counts in voters.values() for phrase in counts)
        passing = []
        for epsilon in EPSILONS:
            noise = noise_for(epsilon)
            votes = (PhraseUnion.create({NOISE: noise, "most": most}) for most in VOTES)
            passing.append(max(len(one.select(voters, run)) for one in votes))
        shared = sum(count >= 20 for count in documents.values())
        counts = (len(voters), len(documents), shared, *passing)
        rows.append([name, *(f"{count:,}" for count in counts)])
    table(["text", "documents", "different phrases", "of 20 documents",
           *(f"pass at ε = {epsilon:g}" for epsilon in EPSILONS)], rows)  # fmt: skip


def vote_corpora(data: Path) -> Iterator[tuple[str, Corpus]]:
    """Corpora with public pairs to align by."""
    yield "EMEA", source(data, "EMEA", general=("GNOME",))
    yield "GNOME", source(data, "GNOME", general=("EMEA",))
    for documents in (100, 300, 1000, 3000):
        sizes = {"documents": documents, "untranslated": 0}
        yield "generated", ParallelEmbedded.create(sizes).read()


def noise_for(epsilon: float) -> float:
    """The least noise whose proven epsilon is at most this, by bisection."""
    stats = CorpusStats(1, 1, 0, 0, public=True)
    low, high = 0.1, 50.0
    while high - low > 1e-3:
        noise = (low + high) / 2
        events = PhraseUnion.create({NOISE: noise}).plan(stats)
        enough = proven(events, delta=DELTA)[0].epsilon <= epsilon
        low, high = (low, noise) if enough else (noise, high)
    return high


def phrase_files(data: Path, domain: str) -> list[list[list[str]]]:
    """The words of the authors' phrases, German and English."""
    sides = []
    for side in ("de", "en"):
        file = next((data / "phrase_pairs" / domain).glob(f"train_phrase_4_0.5.{side}*"))
        with open_text(file, "data") as lines:
            sides.append([line.split() for line in lines])
    return sides


def pairs_of(rows: Corpus) -> list[tuple[str, str]]:
    return list(zip(rows.texts, rows.targets or (), strict=True))


def ngrams(texts: Sequence[list[str]], size: int) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + size]) for words in texts for i in range(len(words) - size + 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=("files", "reassembly", "vote"))
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    {"files": files, "reassembly": reassembly, "vote": vote}[options.table](options.data)
