"""Tables of docs/reproductions/translation-fragments.md: phrases, reassembly, and noisy unions.

    python benchmarks/fragments.py counts data/nmt_confidential
    python benchmarks/fragments.py data data/nmt_confidential
    python benchmarks/fragments.py reassembly data/nmt_confidential
    python benchmarks/fragments.py facts
    python benchmarks/fragments.py union data/nmt_confidential
    python benchmarks/fragments.py translations runs/translation-fragments
    python benchmarks/fragments.py domains runs/translation-fragments-small
    python benchmarks/fragments.py seeds runs/translation-fragments-small-emea
    python benchmarks/fragments.py floors data/nmt_confidential

They are: phrases beside the authors' files, what data and files show, the attack against what is
kept and against lengths of phrases, the same for pairs of facts of the generated source, what a
noisy vote of documents lets through, results of paper/translation-fragments-quick, results of
paper/translation-fragments-small, one domain of those over seeds, and what takes no training on
the test sentences of those.
Each prints a table in Markdown and, with --json FILE, writes it as it is stored in
docs/reproductions/translation-fragments.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from uedp_bench.accounting.ledger import proven
from uedp_bench.attacks.fragment_reassembly.attack import FragmentReassembly
from uedp_bench.budget.mechanisms_and_systems import NOISE
from uedp_bench.corpus import Corpus
from uedp_bench.files.text_files import open_text
from uedp_bench.harness.publishing import publish
from uedp_bench.leaderboard.bundles import holds_results
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row as Seeds
from uedp_bench.leaderboard.rows import Stat, aggregate
from uedp_bench.leakage import Leakage, Planted
from uedp_bench.mechanism import CorpusStats
from uedp_bench.mechanisms.fragments.phrase_fragments import PhraseFragments
from uedp_bench.mechanisms.fragments.phrase_union import PhraseUnion
from uedp_bench.mechanisms.fragments.votes import Counts, phrases_of_voters
from uedp_bench.release import PublishedOnly
from uedp_bench.results import Estimate, Result
from uedp_bench.run_context import Run
from uedp_bench.tasks.sources.nmt_confidential import NMTConfidential
from uedp_bench.tasks.sources.parallel_embedded.source import ParallelEmbedded
from uedp_bench.tasks.sources.reading.pairs import holds_text
from uedp_bench.tasks.translation.scores import Lexicon, Translations, clusters_of, metrics

DOMAINS = ("EMEA", "GNOME", "JRC")
PRINTED = {"EMEA": 93_981, "GNOME": 93_982, "JRC": 111_965}
LONGEST = {"EMEA": 4, "GNOME": 5, "JRC": 5}
"""Words of the longest phrase of the published files, which the names of the files call 4."""

ATTACKED = (
    *((4, keep) for keep in (0.1, 0.25, 0.5, 1.0)),
    *((words, 0.5) for words in (2, 3, 5, 6, 7)),
)
"""Words of a phrase and the share that is kept: shares at 4 words, and lengths at a half."""
FACTS = ((4, 0.1), (4, 0.25), (4, 0.5), (4, 1.0), (3, 0.5), (5, 0.5), (6, 0.5))
RECOVERED = ("sentences_recovered", "sentences_recovered_floor", "longest_run_median",
             "longest_run_90", "longest_run_median_floor", "run_precision")  # fmt: skip
JOINED = ("facts_joined", "facts_joined_floor", *RECOVERED[:2])
DELTA, EPSILONS = 1e-5, (1.0, 3.0, 8.0)
SCORES = ("bleu", "chrf", "loss", "term_recall", "length_ratio")
NAMED = {"public-only": "nothing", "noiseless": "whole sentences", "phrase-union":
         "phrases by a noisy vote", "dp-sgd": "whole sentences, DP-SGD",
         "k-document": "phrases of 3 rows"}  # fmt: skip
ADAPTED = ("nothing", "fragments of 4 words", "fragments of 4 words, tagged",
           "fragments of 7 words", "whole sentences", "phrases by a noisy vote",
           "whole sentences, DP-SGD")  # fmt: skip
SMALL_SCORES = ("loss", "other_text_loss", "chrf", "bleu", "length_ratio")
FREQUENCIES = {"frequencies of public tokens": "unigram_loss",
               "frequencies of private tokens": "train_unigram_loss"}  # fmt: skip
PUBLISHED = "JRC as published"
TABLE_2 = {
    "EMEA": (35.5, 39.1, 40.5, 41.5, 37.2, 45.2),
    "GNOME": (29.8, 36.0, 37.0, 35.8, 36.8, 38.9),
    PUBLISHED: (29.0, 29.4, 30.0, 29.2, 29.7, 54.7),
}
"""BLEU of the paper, by domain, for the first of `ADAPTED_SMALL`."""
ADAPTED_SMALL = ("nothing", "fragments of 4 words", "fragments of 4 words, tagged",
                 "fragments of 7 words", "fragments of 7 words, tagged", "whole sentences",
                 "phrases of 3 rows")  # fmt: skip
MAX_WORDS = 16
"""Words of a German sentence, at most, in paper/translation-fragments-small."""
MOST = (10, 30, 100, 300)
"""Phrases that a document votes for, at most; the best of them is shown."""

Row = dict[str, Any]


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", choices=sorted(TABLES))
    parser.add_argument("data", type=Path, nargs="?", default=Path("data/nmt_confidential"))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(argv)
    rows = list(TABLES[asked.table](asked.data))
    print(markdown(rows))
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def markdown(rows: Sequence[Row]) -> str:
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([_cell(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        middle, low, high = value
        return f"{middle:.3g}" if low is None else f"{middle:.3g} ({low:.3g} to {high:.3g})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def source(data: Path, domain: str, **params: Any) -> Corpus:
    return NMTConfidential.create({"path": data, "domain": domain, **params}).read()


def run_of(corpus: Corpus) -> Run:
    return Run(0, CorpusStats(corpus.user_count, len(corpus), 0, 0, public=False), delta=DELTA)


def counts(data: Path) -> Iterator[Row]:
    """Half of the phrases of the train split, for limits on both sides and on the German one."""
    for domain in DOMAINS:
        rows = source(data, domain, clean=False).only("train")
        found: dict[str, int] = {}
        for limited, words in (("both", 4), ("both", 5), ("text", 4)):
            mechanism = PhraseFragments.create({"max_words": words, "limited": limited})
            every = mechanism.phrases(rows, run_of(rows))
            found[f"{words} words, {limited}"] = len(every.phrases) // 2
        longest = (max(map(len, side)) for side in published_files(data, domain))
        told = " / ".join(str(words) for words in longest)
        yield {"domain": domain, "published": PRINTED[domain], "longest": told, **found}


def data_findings(data: Path) -> Iterator[Row]:
    """Pairs whose English side holds the German one, duplicates, and what fragments publish."""
    for domain in DOMAINS:
        corpus = source(data, domain, clean=False)
        row: Row = {"domain": domain}
        for split in ("train", "valid", "test"):
            pairs = pairs_of(corpus.only(split))
            row[f"copied in {split}"] = float(np.mean([holds_text(pair) for pair in pairs]))
            if split != "valid":
                row[f"distinct pairs in {split}"] = len(set(pairs))
        seen = set(pairs_of(corpus.only("train")))
        test = pairs_of(corpus.only("test"))
        row["test pairs in train"] = float(np.mean([pair in seen for pair in test]))
        texts = [text.split() for text in corpus.only("train").targets or ()]
        phrases, false = published_files(data, domain)[1], set[tuple[str, ...]]()
        for size in range(1, 5):
            ours, theirs = (ngrams(words, size) for words in (texts, phrases))
            row[f"{size}-grams published"] = len(ours & theirs) / len(ours)
            false |= theirs - ours
        row["n-grams of no text"] = len(false)
        yield row


def reassembly(data: Path) -> Iterator[Row]:
    """The attack against the share that is kept and against the length of phrases."""
    for domain in DOMAINS:
        corpus = source(data, domain).only("train")
        for words, keep in ATTACKED:
            found = attacked(corpus, words, keep)
            row = {"domain": domain, "words": words, "keep": keep}
            yield {**row, **listed(found.metrics, RECOVERED)}


def facts(_: Path) -> Iterator[Row]:
    """A patient and a medicine of one generated sentence that one run has both of."""
    corpus = ParallelEmbedded.create({}).read().only("train")
    for words, keep in FACTS:
        found = attacked(corpus, words, keep)
        row = {"words": words, "keep": keep, "pairs": found.details["facts_looked_for"]}
        yield {**row, **listed(found.metrics, JOINED)}


def attacked(corpus: Corpus, words: int, keep: float) -> Leakage:
    """What reassembly measures on fragments of the training rows."""
    mechanism, run = PhraseFragments.create({"max_words": words, "keep": keep}), run_of(corpus)
    out, _ = publish(mechanism, corpus, run)
    release = PublishedOnly().showing(published=out)
    found = FragmentReassembly.create({}).run(release, Planted(), corpus, run)
    print(words, keep, found.metrics, file=sys.stderr)
    return found


def union(data: Path) -> Iterator[Row]:
    """Phrases that pass a noisy vote of documents, beside those that k documents have."""
    for name, corpus in unions(data):
        train = corpus.only("train", "public")
        mechanism, run = PhraseUnion.create({NOISE: 1.0}), run_of(train)
        every = mechanism.phrases(train, run)
        voters = phrases_of_voters(train, every, "user", mechanism.name)
        having = Counter(phrase for counts in voters.values() for phrase in counts)
        row: Row = {"data": name, "documents": len(voters), "different phrases": len(having)}
        for k in (2, 5, 20):
            row[f"of {k} documents"] = sum(count >= k for count in having.values())
        for epsilon in EPSILONS:
            noise = noise_for(epsilon)
            tried = [passed(voters, noise, most, run) for most in MOST]
            row[f"ε = {epsilon:g}"], row[f"of 2 words, ε = {epsilon:g}"] = max(tried)
        print(row, file=sys.stderr)
        yield row


def unions(data: Path) -> Iterator[tuple[str, Corpus]]:
    yield "EMEA", source(data, "EMEA", general=("GNOME",))
    yield "GNOME", source(data, "GNOME", general=("EMEA",))
    for documents in (100, 300, 1000, 3000):
        sizes = {"documents": documents, "untranslated": 0}
        yield "generated", ParallelEmbedded.create(sizes).read()


def translations(results: Path) -> Iterator[Row]:
    """Scores of whole sentences after each adaptation; a folder of results in place of the data."""
    found = {named(result): result for result in load_results([results])}
    for name in ADAPTED:
        result = found[name]
        proved = ((g.unit, g.epsilon) for g in result.guarantees if g.kind == "proven")
        unit, epsilon = min(proved, key=lambda one: one[1])
        told = "none" if math.isinf(epsilon) else f"{epsilon:.3g}, {unit}"
        yield {"adapted on": name, "proven ε": told, **listed(result.utility, SCORES)}


def domains(results: Path) -> Iterator[Row]:
    """The authors' short sentences after each adaptation; JRC as published is in a folder beside.

    A variant that was not run is left out.
    """
    found: dict[tuple[str, str], Result] = {}
    folders = (results, results.with_name(f"{results.name}-jrc"))
    for result in load_results(filter(holds_results, folders)):
        params = result.spec.source.params
        domain = str(params["domain"]) if params["clean"] else PUBLISHED
        found[domain, named(result)] = result
    for domain in (*DOMAINS, PUBLISHED):
        printed = dict(zip(ADAPTED_SMALL, TABLE_2.get(domain, ()), strict=False))
        if (domain, ADAPTED_SMALL[0]) not in found:
            continue
        first = found[domain, ADAPTED_SMALL[0]].utility
        for name, score in FREQUENCIES.items():
            row: Row = {"domain": domain, "adapted on": name, "paper's BLEU": ""}
            yield {**row, **listed({"loss": first[score]}, SMALL_SCORES)}
        for name in ADAPTED_SMALL:
            if (domain, name) in found:
                row = {"domain": domain, "adapted on": name, "paper's BLEU": printed.get(name, "")}
                yield {**row, **listed(found[domain, name].utility, SMALL_SCORES)}


def seeds(results: Path) -> Iterator[Row]:
    """The same of one domain, with means and 95 % intervals over seeds."""
    found = {named(row): row for row in aggregate(load_results([results]))}
    for name in ADAPTED_SMALL:
        row = found[name]
        yield {"adapted on": name, "seeds": len(row.seeds), **listed(row.utility, SMALL_SCORES)}


def floors(data: Path) -> Iterator[Row]:
    """chrF and BLEU of what takes no training, on the test sentences of `domains`."""
    metric = metrics()
    for domain in (*DOMAINS, PUBLISHED):
        asked = {"clean": domain != PUBLISHED, "general": "others", "max_words": MAX_WORDS}
        corpus = source(data, domain.split()[0], **asked)
        test = corpus.only("test")
        made = {"the text itself": list(test.texts)}
        for split in ("public", "train"):
            lexicon = Lexicon(pairs_of(corpus.only(split)))
            made[f"lexicon of {split} pairs"] = [lexicon.translate(text) for text in test.texts]
        for name, texts in made.items():
            told = Translations(texts, test.targets or (), clusters_of(test)).scores(metric)
            yield {"domain": domain, "floor": name, **listed(told, SCORES[:2])}


def named(result: Result | Seeds) -> str:
    """The text that the translator of a result, or of a row over seeds, was adapted on."""
    first = result.spec.mechanism[0]
    if first.name != "phrase-fragments":
        return NAMED[first.name]
    tagged = ", tagged" if first.params["tags"] else ""
    return f"fragments of {first.params['max_words']} words{tagged}"


def noise_for(epsilon: float) -> float:
    """The noise whose proven epsilon is at most this, by bisection."""
    stats = CorpusStats(1, 1, 0, 0, public=True)
    low, high = 0.1, 50.0
    while high - low > 1e-3:
        noise = (low + high) / 2
        events = PhraseUnion.create({NOISE: noise}).plan(stats)
        meets = proven(events, delta=DELTA)[0].epsilon <= epsilon
        low, high = (low, noise) if meets else (noise, high)
    return high


def passed(voters: dict[int, Counts], noise: float, most: int, run: Run) -> tuple[int, int]:
    """How many phrases pass, and how many of them have two words or more."""
    found = PhraseUnion.create({NOISE: noise, "most": most}).select(voters, run)
    return len(found), sum(len(text.split()) > 1 for text, _ in found)


def published_files(data: Path, domain: str) -> list[list[list[str]]]:
    """The words of the authors' phrases, German and English."""
    folder = data / "phrase_pairs" / domain
    found = []
    for side in ("de", "en"):
        file = next(folder.glob(f"train_phrase_4_0.5.{side}*"))
        with open_text(file, "data") as lines:
            found.append([line.split() for line in lines])
    return found


def pairs_of(rows: Corpus) -> list[tuple[str, str]]:
    return list(zip(rows.texts, rows.targets or (), strict=True))


def ngrams(texts: Sequence[list[str]], size: int) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + size]) for words in texts for at in range(len(words) - size + 1)}


def listed(metrics: Mapping[str, Estimate | Stat], names: Sequence[str]) -> Row:
    """Value, lower and upper end of each; nothing where it was left out."""
    found = {name: metrics[name] for name in names if name in metrics}
    ends = {name: [of.value, of.low, of.high] for name, of in found.items()}
    return {name: ends.get(name, "") for name in names}


TABLES = {
    "counts": counts,
    "data": data_findings,
    "reassembly": reassembly,
    "facts": facts,
    "union": union,
    "translations": translations,
    "domains": domains,
    "seeds": seeds,
    "floors": floors,
}

if __name__ == "__main__":
    main(sys.argv[1:])
