"""Sentences of texts, by a rule or a tokenizer, and their vectors by a pretrained encoder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.corpus import IntArray
from uedp_bench.errors import InputError
from uedp_bench.io.files import open_text
from uedp_bench.text.pretrained import (
    SHAPES,
    cached_vectors,
    full_batches,
    model_identity,
    no_progress_bars,
    readable,
    revision,
)

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from spacy.language import Language

    from uedp_bench.corpus import FeatureArray

_READ = 1024  # sentences that are cut into tokens together

_PARAGRAPH = re.compile(r"<br\s*/?>|\u2029|\n\s*\n", re.IGNORECASE)


def split_sentences(texts: Sequence[str]) -> list[list[str]]:
    """Sentences of each text with single spaces, without blank ones.

    They end at full stops, question and exclamation marks by the rules of spaCy's `sentencizer`
    (its English tokenizer knows abbreviations), and at blank lines and `<br />`; single line
    breaks are space, for many a text is wrapped.
    """
    parts = [
        (part, row)
        for row, text in enumerate(texts)
        for part in (" ".join(paragraph.split()) for paragraph in _PARAGRAPH.split(text))
        if part
    ]
    sentences: list[list[str]] = [[] for _ in texts]
    for doc, row in _sentencizer().pipe(parts, as_tuples=True):
        stripped = (sentence.text.strip() for sentence in doc.sents)
        sentences[row] += [sentence for sentence in stripped if sentence]
    return sentences


@lru_cache(maxsize=1)
def _sentencizer() -> Language:
    import spacy

    language = spacy.blank("en")
    language.add_pipe("sentencizer")
    language.max_length = 2**31  # the limit is for parsers, which take memory by the character
    return language


class SentenceEmbedder:
    """Vectors of sentences by a pretrained encoder of sentence-transformers.

    The encoder is loaded when the first vector is computed: what is on disk needs none. Sentences
    longer than the encoder takes are cut off at its limit.

    Args:
        name: hub id or local directory.
        device: torch device to compute on.
        field: the parameter that names it, for messages.

    Attributes:
        key: everything but the sentences that the vectors depend on; no path is in it.

    Raises:
        InputError: if there is no such model.
    """

    def __init__(self, name: str, device: str, field: str = "pretrained") -> None:
        self.name, self.device, self.field = name, device, field
        software = version("sentence-transformers")
        self._identity = model_identity(name, field)
        self.key = ("sentence-transformers", software, self._identity, device.split(":")[0], SHAPES)

    @cached_property
    def size(self) -> int:
        """Size of a vector."""
        return int(self.embed(["size"]).shape[1])

    def embed(self, sentences: Sequence[str], *, cache: bool = True) -> FeatureArray:
        """(sentences, size) vectors, float32.

        Args:
            sentences: equal ones are computed once.
            cache: keep the vectors on disk for the next run, and read those that are there. Those
                that are not kept depend on their neighbours in the last bits, and take less time.

        Raises:
            InputError: if the encoder cannot be read, or gives vectors that are not finite.
        """
        if not sentences:
            return np.empty((0, self.size), dtype=np.float32)
        return cached_vectors(self.key, sentences, partial(self._compute, alone=cache), cache=cache)

    def _compute(self, sentences: list[str], *, alone: bool) -> FeatureArray:
        model = _load(self.name, self.device, self._identity, self.field)
        vectors: FeatureArray | None = None
        for rows, wanted in full_batches(_token_counts(model, sentences), self.device, alone=alone):
            batch_vectors = model.encode(
                [sentences[row] for row in rows],
                batch_size=len(rows), convert_to_numpy=True, show_progress_bar=False,
            )  # fmt: skip
            if vectors is None:
                vectors = np.empty((len(sentences), batch_vectors.shape[1]), dtype=np.float32)
            vectors[rows[:wanted]] = batch_vectors[:wanted]
        if vectors is None:
            raise ValueError("at least one sentence is needed")
        return vectors


def _token_counts(model: SentenceTransformer, sentences: Sequence[str]) -> IntArray:
    """Tokens of each sentence; 0 of all where the encoder pads none."""
    read = model.preprocess if hasattr(model, "preprocess") else model.tokenize
    counts = np.zeros(len(sentences), dtype=np.int64)
    for start in range(0, len(sentences), _READ):
        mask = read(list(sentences[start : start + _READ])).get("attention_mask")
        if mask is not None:
            counts[start : start + _READ] = mask.sum(dim=1).cpu().numpy()
    return counts


@lru_cache(maxsize=2)
def _load(name: str, device: str, identity: str, field: str) -> SentenceTransformer:
    # The identity is an argument so that files that were written anew are loaded anew.
    from sentence_transformers import SentenceTransformer

    with readable(name, field), no_progress_bars():
        return SentenceTransformer(name, device=device, revision=revision(identity)).eval()


def document_means(
    documents: Sequence[Sequence[str]], embedder: SentenceEmbedder, *, cache: bool = True
) -> FeatureArray:
    """(documents, size) means of the vectors of each document's sentences.

    Meehan et al. 2022 (DeepCandidate), equation 1. A document without sentences counts as one
    empty sentence.

    Args:
        documents: sentences of each document, as `split_sentences` returns them.
        embedder: embedder of the sentences.
        cache: see `SentenceEmbedder.embed`.
    """
    filled = [document or ("",) for document in documents]
    vectors = embedder.embed(
        [sentence for document in filled for sentence in document], cache=cache
    )
    if not filled:
        return vectors
    counts = np.array([len(document) for document in filled])
    sums = np.add.reduceat(vectors, np.cumsum(counts) - counts, axis=0, dtype=np.float64)
    return np.asarray(sums / counts[:, None], dtype=np.float32)


_END = re.compile(r"([.!?…]+[\"')\]’”]*)\s+")
_WORD = re.compile(r"[^\W_]")


def simple_sentences(text: str) -> Iterator[str]:
    """Sentences of a text whose words have single spaces between them.

    A sentence ends at full stops, question or exclamation marks (and closing quotes or brackets
    behind them) before white space. The rule knows no abbreviations: "Mr. Smith" becomes two
    sentences. A piece with neither a letter nor a digit is no sentence and is left out.
    """
    start = 0
    for end in _END.finditer(text):
        if _WORD.search(text, start, end.start()):
            yield text[start : end.end(1)]
        start = end.end()
    if _WORD.search(text, start):
        yield text[start:]


_LINE_BREAKS = re.compile(r"<br\s*/?>")


def read_public(files: tuple[Path, ...], room: int | None = None) -> list[str]:
    """Sentences of all files in order, at most `room`; every file must hold one.

    A file has a sentence a line; of a jsonl file, each line is an object whose `text` is split into
    sentences (`simple_sentences`; `<br />` counts as space).

    Raises:
        InputError: for a file that is missing, unreadable, a table or without a sentence, or a
            line of a jsonl file without a text.
    """
    texts: list[str] = []
    for path in files:
        with open_text(path, "public") as lines:
            name = path.name.removesuffix(".gz")
            if name.endswith((".csv", ".tsv", ".json", ".parquet")):
                raise InputError(
                    f"public: {path} is a table: give text with a sentence a line, or jsonl whose "
                    "objects have a text"
                )
            jsonl = name.endswith((".jsonl", ".ndjson"))
            sentences = _of_records(lines, path) if jsonl else _sentences(lines)
            first = next(sentences, None)
            if first is None:
                raise InputError(f"public: {path} holds no sentence")
            left = None if room is None else room - len(texts)
            texts += islice(chain([first], sentences), left)
    return texts


def _sentences(lines: Iterable[str]) -> Iterator[str]:
    """Lines with single spaces; blank ones and WikiText headings (` = = Title = = `) are left out.

    A heading is a line that starts and ends with an equals sign.
    """
    for raw in lines:
        line = " ".join(raw.split())
        if line and not (line[0] == "=" == line[-1]):
            yield line


def _of_records(lines: Iterable[str], path: Path) -> Iterator[str]:
    """Sentences of the `text` of each line's object."""
    for number, line in enumerate(lines, start=1):
        try:
            words = _LINE_BREAKS.sub(" ", json.loads(line)["text"]).split()
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"public: {path}, line {number} is not an object with a text: {error!r}"
            ) from None
        yield from simple_sentences(" ".join(words))
