"""Topics of texts by latent Dirichlet allocation, for sources without labels.

Fitting takes minutes on real corpora, so shares are cached on disk: in `$UEDP_BENCH_CACHE`, else in
`~/.cache/uedp-bench`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
from pydantic import Field

from uedp_bench.components.component import Params
from uedp_bench.corpus import FloatArray
from uedp_bench.errors import InputError
from uedp_bench.io.folders import cache_folder
from uedp_bench.io.sealed_files import load_arrays, save_arrays
from uedp_bench.randomness.streams import shared_stream

_FORMAT = 1  # of the cached files; raised when the same key would mean something else
_WORD = r"[^\W\d_]{3,}"
# What the word pattern leaves of "don't" and its like, and marks that the web left in the text.
_NO_WORDS = ("ain", "aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn",
             "nbsp", "shouldn", "urllink", "wasn", "weren", "won", "wouldn")  # fmt: skip


class TopicParams(Params):
    """The topic model."""

    topics: int = Field(default=10, ge=2, description="topics of the model, which are the labels")
    topic_share: float = Field(
        default=0.8, ge=0, lt=1, description="rows are kept if one topic has more than this share"
    )
    max_features: int = Field(
        default=10_000, ge=2, description="words that the topic model counts: the most frequent"
    )
    passes: int = Field(default=5, ge=1, description="passes of the topic model over its text")


def topic_shares(
    texts: Sequence[str], fit_on: Sequence[str], params: TopicParams, seed: int
) -> FloatArray:
    """Share of each topic in each text, from the cache if it is there.

    The model is that of Blei, Ng and Jordan, Latent Dirichlet Allocation, JMLR 2003, fitted by
    online variational Bayes (Hoffman, Blei and Bach, NIPS 2010) on counts of words of three letters
    and more, English stop words left out.

    Args:
        texts: texts whose shares are wanted.
        fit_on: the text that the model, its vocabulary included, is fitted on.
        params: the model; `topic_share` plays no part.
        seed: seed of the start of the fit and the order of its batches.

    Returns:
        (texts, topics) shares that sum to 1; all 0 for a text without a counted word.

    Raises:
        InputError: if there is not a word to count in `fit_on`.
    """
    file = cache_folder() / "topics" / f"{_key(texts, fit_on, params, seed)}.npz"
    cached = load_arrays(file, lambda data: np.asarray(data["shares"], dtype=np.float64))
    if cached is not None:
        return cached
    shares = _fit(texts, fit_on, params, seed)
    save_arrays(file, "topics", shares=shares)
    return shares


def _fit(texts: Sequence[str], fit_on: Sequence[str], params: TopicParams, seed: int) -> FloatArray:
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    counter = CountVectorizer(
        stop_words=sorted(ENGLISH_STOP_WORDS.union(_NO_WORDS)),
        token_pattern=_WORD,
        max_features=params.max_features,
    )
    try:
        seen = counter.fit_transform(fit_on)
    except ValueError:
        raise InputError(
            f"topics: the {len(fit_on)} texts that they are fitted on hold no word to count"
        ) from None
    model = LatentDirichletAllocation(
        n_components=params.topics,
        learning_method="online",
        batch_size=1024,
        max_iter=params.passes,
        random_state=int(shared_stream(seed, "source", "topics").generate_state(1)[0]),
    )
    model.fit(seen)
    counts = counter.transform(texts)
    shares = np.asarray(model.transform(counts), dtype=np.float64)
    shares[counts.getnnz(axis=1) == 0] = 0.0
    return shares


def _key(texts: Sequence[str], fit_on: Sequence[str], params: TopicParams, seed: int) -> str:
    """Hash of the texts and of everything that decides their shares."""
    model = params.model_dump(include={"topics", "max_features", "passes"})
    head = [_FORMAT, model, seed, len(texts), version("scikit-learn")]
    digest = hashlib.sha256(json.dumps(head).encode())
    for text in (*texts, *fit_on):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
