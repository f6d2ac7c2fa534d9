"""Re-identification: whose document is this? Published documents are linked to known authors.

The attacker has some original documents of each author, and ranks the authors for every published
document by how similar it is to theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import Attack, CapabilityError, Estimate, InputError, Leakage, Metric, Planted
from uedp_bench.api.capabilities import Encoder, Published
from uedp_bench.api.statistics import mean_estimate
from uedp_bench.attacks._language_model import (
    METRICS,
    LanguageModel,
    LanguageModelParams,
    check_destination,
    unread,
)
from uedp_bench.attacks.reidentify.linking import (
    Division,
    TextProfiles,
    VectorProfiles,
    divide,
    judge,
    link_metrics,
    recalls,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from uedp_bench.api import BoolArray, Corpus, FloatArray, IntArray, Release, Run

RANKS = (1, 10)


class ReidentifyParams(LanguageModelParams):
    """Parameters of `reidentify`."""

    known: float = Field(
        default=0.5, gt=0.0, lt=1.0, description="share of each author's rows that are known"
    )
    authors: int = Field(
        default=1000, ge=2, description="candidates at most: drawn among users with two rows"
    )
    rows: int = Field(
        default=20, ge=2, description="rows of an author that are used at most, known ones included"
    )


class _Linked(NamedTuple):
    """The attack's data.

    Attributes:
        division: authors, known and hidden rows of the corpus.
        known_rows: the known rows, original.
        known_versions: their published versions.
        queries: published versions of the hidden rows.
        originals: the hidden rows, original.
        owner: (known_rows,) index of the author.
        version_owner: (known_versions,) index of the author.
        hidden_row: (queries,) hidden row that each was made from.
        truth: (hidden,) index of the author.
    """

    division: Division
    known_rows: Corpus
    known_versions: Corpus
    queries: Corpus
    originals: Corpus
    owner: IntArray
    version_owner: IntArray
    hidden_row: IntArray
    truth: IntArray

    def recalls(self, similarities: Iterator[FloatArray]) -> FloatArray:
        """(hidden, ranks) hits of each hidden row: the mean of its published versions.

        A row that was not published cannot be linked: it is a miss.
        """
        size = len(self.truth)
        hits = recalls(similarities, self.truth[self.hidden_row], RANKS)
        counts = np.maximum(np.bincount(self.hidden_row, minlength=size), 1)
        sums = [np.bincount(self.hidden_row, weights=each, minlength=size) for each in hits.T]
        return np.stack(sums, axis=1) / counts[:, None]


class Reidentify(Attack[ReidentifyParams]):
    """Links published documents back to their authors by retrieval.

    Similarity is the cosine of TF-IDF vectors (words and characters), or of representations where
    vectors were published. The same attack on the original text is the ceiling. Authors and
    documents are drawn from the original train split, so that they are the same for all mechanisms
    of a seed; a document that a mechanism dropped is a miss. With `attacker: llm`, a language model
    links people, too.
    """

    name = "reidentify"
    version = 3
    source = (
        "authorship attribution by profiles, on n-grams: Stamatatos 2009; "
        "Narayanan et al. 2012 (linking at scale)"
    )
    Params = ReidentifyParams
    metrics = (
        Metric.rate("recall_at_1", "recall at 1", "share of documents whose author ranks "
                    "first", "lower", main=True),
        Metric.rate("recall_at_10", "recall at 10", "share of documents whose author is "
                    "among the first ten", "lower", main=True),
        Metric.rate("recall_at_1_unprotected", "recall at 1, unprotected", "the same attack on the "
                    "original text", main=True),
        Metric.rate("recall_at_1_representation", "recall at 1, representation", "of the published "
                    "representation, where text was published too", "lower"),
        Metric.rate("recall_at_1_chance", "recall at 1, chance", "of guessing blindly"),
        Metric.rate("recall_at_1_llm", "recall at 1, LLM", "share of people whom a language model "
                    "links", "lower"),
        Metric.rate("recall_at_1_llm_unprotected", "recall at 1, LLM, unprotected", "of the same "
                    "language model that reads the original text"),
        Metric.rate("recall_at_1_person", "recall at 1, person", "share of people whose own known "
                    "text is the most similar", "lower"),
        Metric.rate("recall_at_1_person_unprotected", "recall at 1, person, unprotected", "the "
                    "same of the original text"),
        Metric.rate("recall_at_90_precision", "recall at 90 % precision", "share of people whom a "
                    "language model links where its confidence was right nine times in ten",
                    "lower", no_leak=0.0),
        Metric.rate("recall_at_90_precision_unprotected", "recall at 90 % precision, unprotected",
                    "of the same language model that reads the original text"),
        *METRICS,
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Published,)

    def refuses(self, release: Release, corpus: Corpus) -> str | None:
        """The reason why a language model cannot read what was published; None if it can."""
        return unread(self.params, release)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Plants nothing; refuses before training what could not be attacked after it.

        Raises:
            InputError: if fewer than two authors have two rows in the train split.
        """
        if self.params.attacker == "llm":
            check_destination(self.params, self.name)
        rows = corpus.users[_usable(corpus) & (corpus.users >= 0)]
        _check_authors(int((np.bincount(rows, minlength=1) >= 2).sum()))
        return corpus, Planted()

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """Recall at 1 and at 10, of published and of original documents.

        Raises:
            InputError: if fewer than two authors have two rows in the train split, or none of the
                documents to link was published.
        """
        if not isinstance(release, Published):
            raise CapabilityError(f"reidentify needs a Published, not {type(release).__name__}")
        linked = self._link(release.published, corpus, run)
        authors = len(linked.division.authors)
        run.progress("reidentify: original text", 0, 2)
        text = TextProfiles(linked.known_rows.texts, linked.owner, authors)
        hits = {"unprotected": recalls(
            text.similarities(linked.originals.texts), linked.truth, RANKS
        )}  # fmt: skip
        run.progress("reidentify: published", 1, 2)
        vectors = _by_vectors(release, linked)
        if linked.queries.vectors is None:
            hits["text"] = linked.recalls(text.similarities(linked.queries.texts))
        if vectors is not None:
            hits["representation"] = vectors
        main = "text" if "text" in hits else "representation"
        measured = self._measured(hits, main, linked, run)
        if self.params.attacker == "llm":
            metrics, details = self._judged(linked, run)
            measured = Leakage(measured.metrics | metrics, measured.details | details)
        return measured

    def _judged(self, linked: _Linked, run: Run) -> tuple[dict[str, Estimate], dict[str, Any]]:
        """Links of people by a language model, from published and from original text."""
        authors = len(linked.division.authors)
        order = run.shared("reidentify", "people").permutation(authors)
        people = np.sort(order[: self.params.people])
        known_texts = _by_author(linked.known_rows.texts, linked.owner, authors)
        model = LanguageModel(self.params, run.shared_seed("reidentify", "llm") % 2**31, self.name)
        sides = {
            "": _by_author(linked.queries.texts, linked.truth[linked.hidden_row], authors),
            "_unprotected": _by_author(linked.originals.texts, linked.truth, authors),
        }
        metrics: dict[str, Estimate] = {}
        for suffix, texts in sides.items():
            links = judge(model, known_texts, [texts[one] for one in people], people, run)
            metrics |= link_metrics(links, suffix, run.shared("reidentify", "halves"))
        return metrics | model.metrics(), {"people": len(people), "language_model": model.report()}

    def _link(self, published: Corpus, corpus: Corpus, run: Run) -> _Linked:
        """Joins published rows with the rows that they were made from; canaries have none."""
        p = self.params
        division = divide(
            corpus, _usable(corpus), p.known, (p.authors, p.rows), run.shared("reidentify")
        )
        _check_authors(len(division.authors))
        known_versions, of_known = _made_from(published, corpus, division.known_rows)
        queries, hidden_row = _made_from(published, corpus, division.hidden)
        if not len(queries):
            raise InputError("reidentify: none of the documents to link was published")

        def author(rows: IntArray) -> IntArray:
            return np.searchsorted(division.authors, corpus.users[rows])

        return _Linked(
            division,
            corpus.take(division.known_rows),
            published.take(known_versions),
            published.take(queries),
            corpus.take(division.hidden),
            author(division.known_rows),
            author(division.known_rows[of_known]),
            hidden_row,
            author(division.hidden),
        )

    def _measured(
        self, hits_by_view: dict[str, FloatArray], main: str, linked: _Linked, run: Run
    ) -> Leakage:
        """Metrics and details from (queries, ranks) hits by what was compared."""
        authors, rng = len(linked.division.authors), run.shared("reidentify", "bootstrap")
        table = {
            name: {
                f"recall_at_{k}": mean_estimate(hits[:, i], rng, linked.truth)
                for i, k in enumerate(RANKS)
            }
            for name, hits in hits_by_view.items()
        }
        chance = {f"recall_at_{k}": min(1.0, k / authors) for k in RANKS}
        metrics = {
            **table[main],
            "recall_at_1_unprotected": table["unprotected"]["recall_at_1"],
            "recall_at_1_chance": Estimate(value=chance["recall_at_1"]),
        }
        if main == "text" and "representation" in table:
            metrics["recall_at_1_representation"] = table["representation"]["recall_at_1"]
        details: dict[str, Any] = {
            "compared": main,
            "recalls": {
                name: {metric: value.model_dump(mode="json") for metric, value in row.items()}
                for name, row in table.items()
            },
            "chance": chance,
            "authors": authors,
            "known_rows": len(linked.division.known_rows),
            "queries": len(linked.truth),
            "not_published": len(linked.truth) - len(np.unique(linked.hidden_row)),
        }
        return Leakage(metrics, details)


def _by_author(texts: Sequence[str], owner: IntArray, authors: int) -> list[list[str]]:
    out: list[list[str]] = [[] for _ in range(authors)]
    for text, author in zip(texts, owner.tolist(), strict=True):
        out[author].append(text)
    return out


def _usable(corpus: Corpus) -> BoolArray:
    """(rows,) documents of the train split that no attack planted."""
    return corpus.where("train") & (corpus.origin >= 0)


def _check_authors(authors: int) -> None:
    if authors < 2:
        raise InputError(
            f"reidentify: {authors} authors have two rows in the train split; at least 2 are "
            "needed: give the source a column of users, or leave the attack out"
        )


def _by_vectors(release: Release, linked: _Linked) -> FloatArray | None:
    """Hits by representations; None where the release shows none.

    Where vectors were published, those of known rows are recognised: only the mechanism can make
    them. Where text was, the attacker asks the released encoder for both sides.
    """
    profiled, queries, owner = (
        linked.known_versions.vectors,
        linked.queries.vectors,
        linked.version_owner,
    )
    if profiled is None or queries is None:
        if not isinstance(release, Encoder):
            return None
        profiled, owner = release.representations(linked.known_rows), linked.owner
        queries = release.representations(linked.queries)
    profiles = VectorProfiles(profiled, owner, len(linked.division.authors))
    return linked.recalls(profiles.similarities(queries))


def _made_from(published: Corpus, corpus: Corpus, rows: IntArray) -> tuple[IntArray, IntArray]:
    """Published rows that were made from `rows` of the corpus, and the place in `rows` of each."""
    last = max(int(each.origin.max(initial=-1)) for each in (corpus, published))
    place = np.full(last + 2, -1, dtype=np.int64)  # an origin of -1 looks at the last
    place[corpus.origin[rows]] = np.arange(len(rows))
    places = place[published.origin]
    versions = np.flatnonzero(places >= 0)
    return versions, places[versions]
