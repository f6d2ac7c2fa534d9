"""The authors' German-English data: documents of rows, and the defect of JRC."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.nmt_confidential import (
    NMTConfidential,
    NMTConfidentialParams,
    documents_of_rows,
)
from uedp_bench.text.comparison import holds_text


def read(shared_data: Path, **params: object) -> Corpus:
    path = shared_data / "nmt_confidential"
    return NMTConfidential(NMTConfidentialParams(path=path, **params)).load()


def test_rows_go_to_documents_in_order() -> None:
    a, b, c, d = (("a", "1"), ("b", "2"), ("c", "3"), ("d", "4"))
    documents = [{a, b}, {b, c}, {a, d}]
    # A pair that no document has goes to the document before it.
    rows = [[a, ("?", "?"), b], [b, c, c], [d, a]]
    assert documents_of_rows(rows, documents) == [0, 0, 0, 1, 1, 1, 2, 2]
    # Rows never go back, and a pair at a border goes to the later document.
    assert documents_of_rows([[a, b, c, c, b, a, c, c]], documents) == [0, 1, 1, 1, 1, 1, 1, 1]
    with pytest.raises(InputError, match=r"1 documents.*2 splits"):
        documents_of_rows([[a], [b]], [{a}])


@pytest.mark.parametrize(("domain", "counts"), [("EMEA", (17, 3, 9)), ("GNOME", (110, 1, 31))])
def test_documents_of_the_authors(
    domain: str, counts: tuple[int, int, int], shared_data: Path
) -> None:
    corpus = read(shared_data, domain=domain, clean=False)
    by_split = [corpus.only(split) for split in ("train", "valid", "test")]
    assert [len(rows) for rows in by_split] == [10_001, 151, 2_001]
    assert tuple(len(np.unique(rows.users)) for rows in by_split) == counts
    assert all((np.diff(rows.users) >= 0).all() for rows in by_split)
    assert len(np.unique(corpus.users)) == sum(counts), "no document is in two splits"


def test_jrc_has_no_documents_and_targets_that_hold_their_text(shared_data: Path) -> None:
    every, clean = (read(shared_data, domain="JRC", clean=clean) for clean in (False, True))
    assert (every.users == -1).all()
    shares = {}
    for split in ("train", "valid", "test"):
        rows = every.only(split)
        pairs = zip(rows.texts, rows.targets or (), strict=True)
        shares[split] = np.mean([holds_text(pair) for pair in pairs])
    assert shares["train"] == pytest.approx(0.294, abs=0.002)
    assert shares["valid"] == pytest.approx(0.158, abs=0.002)
    assert shares["test"] == pytest.approx(0.340, abs=0.004)
    assert not any(holds_text(pair) for pair in zip(clean.texts, clean.targets or (), strict=True))
    assert len(every) - len(clean) == 2949 + 24 + 686


def test_other_domains_are_general_text(shared_data: Path) -> None:
    corpus = read(shared_data, domain="EMEA", general=["GNOME"])
    public = corpus.only("public")
    assert 9_990 < len(public) <= 10_001
    assert (public.users == -1).all()
    both, others = (
        read(shared_data, domain="EMEA", general=general, max_words=9)
        for general in (["GNOME", "JRC"], "others")
    )
    assert both.fingerprint == others.fingerprint
    with pytest.raises(ValueError, match="general: EMEA"):
        NMTConfidentialParams(path=shared_data, domain="EMEA", general=["EMEA"])


def test_pairs_with_long_texts_are_left_out_and_keep_their_documents(shared_data: Path) -> None:
    every, short = (read(shared_data, max_words=words) for words in (None, 16))
    kept = np.flatnonzero([len(text.split()) <= 16 for text in every.texts])
    assert short.texts == tuple(every.texts[row] for row in kept.tolist())
    np.testing.assert_array_equal(short.users, every.users[kept])
    np.testing.assert_array_equal(short.split, every.split[kept])
    assert len(short.only("train")) < len(every.only("train"))
