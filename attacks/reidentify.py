"""Re-identification: whose document is this? Published documents are linked to known authors.

The attacker has some original documents of each author, and ranks the authors for every published
document by how similar it is to theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.attack import Attack, Leakage, Planted
from uedp_bench.attacks._linking import Division, TextProfiles, VectorProfiles, divide, recalls
from uedp_bench.component import Params
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.release import Encoder, Published
from uedp_bench.results import Estimate
from uedp_bench.statistics import mean_estimate

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus, FloatArray, IntArray
    from uedp_bench.release import Release
    from uedp_bench.run import Run

RANKS = (1, 10)


class ReidentifyParams(Params):
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
        known: the known rows, original.
        told: their published versions.
        queries: published versions of the hidden rows.
        originals: what each of them was made from.
        owner: (known,) index of the author.
        told_owner: (told,) index of the author.
        truth: (queries,) index of the author.
    """

    division: Division
    known: Corpus
    told: Corpus
    queries: Corpus
    originals: Corpus
    owner: IntArray
    told_owner: IntArray
    truth: IntArray


class Reidentify(Attack[ReidentifyParams]):
    """Links published documents back to their authors by retrieval.

    Similarity is the cosine of TF-IDF vectors (words and characters), or of representations where
    vectors were published. The same attack on the original text is the ceiling.
    """

    name = "reidentify"
    source = (
        "authorship attribution by profiles, on n-grams: Stamatatos 2009; "
        "Narayanan et al. 2012 (linking at scale)"
    )
    Params = ReidentifyParams
    needs: ClassVar[tuple[type, ...]] = (Published,)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Nothing."""
        return corpus, Planted()

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """Recall at 1 and at 10, of published and of original documents.

        Raises:
            InputError: if fewer than two authors have two published rows.
        """
        if not isinstance(release, Published):
            raise CapabilityError(f"reidentify needs a Published, not {type(release).__name__}")
        linked = self._link(release.published, corpus, run)
        authors = len(linked.division.authors)
        run.progress("reidentify: original text", 0, 2)
        text = TextProfiles(linked.known.texts, linked.owner, authors)
        found = {"unprotected": recalls(
            text.similarities(linked.originals.texts), linked.truth, RANKS
        )}  # fmt: skip
        run.progress("reidentify: published", 1, 2)
        vectors = _by_vectors(release, linked)
        if linked.queries.vectors is None:
            found["text"] = recalls(text.similarities(linked.queries.texts), linked.truth, RANKS)
        if vectors is not None:
            found["representation"] = vectors
        main = "text" if "text" in found else "representation"
        return self._measured(found, main, linked, run)

    def _link(self, published: Corpus, corpus: Corpus, run: Run) -> _Linked:
        """Joins published rows with the rows that they were made from; canaries have none."""
        last = max(int(each.origin.max(initial=-1)) for each in (corpus, published))
        at = np.full(last + 1, -1, dtype=np.int64)
        original = np.flatnonzero((corpus.origin >= 0) & ~corpus.where("public"))
        at[corpus.origin[original]] = original
        row = np.where(published.origin >= 0, at[published.origin], -1)
        usable = np.zeros(len(corpus), dtype=bool)
        usable[row[row >= 0]] = True
        p = self.params
        division = divide(corpus, usable, p.known, (p.authors, p.rows), run.rng("reidentify"))
        if len(division.authors) < 2:
            raise InputError(
                f"reidentify: {len(division.authors)} authors have two published rows; at least 2 "
                "are needed"
            )
        told, asked = (np.flatnonzero(np.isin(row, of)) for of in division[1:])

        def author(rows: IntArray) -> IntArray:
            return np.searchsorted(division.authors, corpus.users[rows])

        return _Linked(
            division,
            corpus.take(division.known),
            published.take(told),
            published.take(asked),
            corpus.take(row[asked]),
            author(division.known),
            author(row[told]),
            author(row[asked]),
        )

    def _measured(
        self, found: dict[str, FloatArray], main: str, linked: _Linked, run: Run
    ) -> Leakage:
        """Metrics and details from (queries, ranks) hits by what was compared."""
        authors, rng = len(linked.division.authors), run.rng("reidentify", "bootstrap")
        table = {
            name: {
                f"recall_at_{k}": mean_estimate(hits[:, i], rng, linked.truth)
                for i, k in enumerate(RANKS)
            }
            for name, hits in found.items()
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
            "known_rows": len(linked.division.known),
            "queries": len(linked.truth),
        }
        return Leakage(metrics, details)


def _by_vectors(release: Release, linked: _Linked) -> FloatArray | None:
    """Hits by representations; None where the release shows none.

    Where vectors were published, those of known rows are recognised: only the mechanism can make
    them. Where text was, the attacker asks the released encoder for both sides.
    """
    told, queries, owner = linked.told.vectors, linked.queries.vectors, linked.told_owner
    if told is None or queries is None:
        if not isinstance(release, Encoder):
            return None
        told, owner = release.representations(linked.known), linked.owner
        queries = release.representations(linked.queries)
    profiles = VectorProfiles(told, owner, len(linked.division.authors))
    return recalls(profiles.similarities(queries), linked.truth, RANKS)
