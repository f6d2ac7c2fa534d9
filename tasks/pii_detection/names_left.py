"""Which labelled names still stand in a text after it was de-identified."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from uedp_bench.corpus import Corpus, Layer, or_alone
from uedp_bench.results import Estimate
from uedp_bench.statistics.intervals import ratio_estimate

_WORD = re.compile(r"\w+|[^\w\s]")


class NamesLeft(NamedTuple):
    """What a published text still names.

    Attributes:
        utility: `names_left` and `rows_left`, shares with intervals over users.
        details: counts, of all and by type.
    """

    utility: dict[str, Estimate]
    details: dict[str, Any]


def names_left(
    corpus: Corpus, gold: Layer, published: Corpus, rng: np.random.Generator
) -> NamesLeft | None:
    """Labelled mentions whose words still stand, in their order, in what was made of their row.

    Case and white space do not count. A name that is left once counts for all its mentions in the
    row, as it does for a reader.

    Args:
        corpus: original.
        gold: what people labelled in it; rows that it does not annotate completely, rows that an
            attack planted and public rows are left out.
        published: what was made of it; `origin` says of which row each was made.
        rng: of the resampling.

    Returns:
        None where no row with a label was published as text.
    """
    if published.vectors is not None:
        return None
    texts: dict[int, list[str]] = {}
    for text, origin in zip(published.texts, published.origin.tolist(), strict=True):
        if origin >= 0:
            texts.setdefault(origin, []).append(_words(text))
    counts = gold.rows & ~corpus.where("public") & (corpus.origin >= 0)
    asked = [
        (row, kind, int(corpus.origin[row]), _words(corpus.texts[row][start:end]))
        for row, start, end, kind in gold.spans.mentions()
        if counts[row] and int(corpus.origin[row]) in texts
    ]
    if not asked:
        return None
    left = np.array([any(words in text for text in texts[at]) for _, _, at, words in asked])
    rows = np.array([row for row, *_ in asked])
    users = or_alone(corpus.users)
    distinct, place = np.unique(rows, return_inverse=True)
    by_row = np.bincount(place, weights=left, minlength=len(distinct)) > 0
    utility = {
        "names_left": _share(left, users[rows], rng),
        "rows_left": _share(by_row, users[distinct], rng),
    }
    kinds = np.array([kind for _, kind, *_ in asked])
    by_type = {
        name: {"mentions": int((kinds == at).sum()), "left": int(left[kinds == at].sum())}
        for at, name in enumerate(gold.types)
        if (kinds == at).any()
    }
    return NamesLeft(utility, {
        "mentions": len(asked),
        "mentions_left": int(left.sum()),
        "rows": len(distinct),
        "rows_left": int(by_row.sum()),
        "types": by_type,
    })  # fmt: skip


def _words(text: str) -> str:
    """Case-folded words between single spaces, with one at either end."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


def _share(hits: Any, owners: Any, rng: np.random.Generator) -> Estimate:
    return ratio_estimate(hits.astype(np.float64), np.ones(len(hits)), rng, owners)
