"""What mechanisms train in translation: pairs of texts, and the loss of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.corpus import BoolArray, Corpus, IntArray, some_texts
from uedp_bench.learner import Batch, Learner, Losses, Schedule, example_ids, row_seeds
from uedp_bench.tasks.tokens.rows import IGNORED, TextRows, encoded_rows

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.model import PairVocabulary, TranslationModel
    from uedp_bench.tasks.translation.release import TranslatorRelease


class Pairs(NamedTuple):
    """Tokens of texts, and of their translations, row by row."""

    sources: TextRows
    targets: TextRows

    @property
    def lengths(self) -> IntArray:
        """(rows,) tokens of both sides."""
        return self.sources.lengths + self.targets.lengths


@dataclass(frozen=True, eq=False)
class PairReader:
    """How a translator reads texts and their translations, in training and when it is asked.

    Attributes:
        model: made the network.
        vocabulary: of both languages.
        max_tokens: tokens of a text, and of a translation, past this many are left out; the end of
            a text is kept.
        beams: hypotheses of a translation.
        score_rows: rows at once, at most.
    """

    model: TranslationModel[Any]
    vocabulary: PairVocabulary
    max_tokens: int
    beams: int = 1
    score_rows: int = 512

    def sources(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of texts, each with an end."""
        room = self.max_tokens - 1
        return [[*ids[:room], self.vocabulary.end] for ids in self.vocabulary.encode(texts)]

    def targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of translations, each with an end unless it is too long."""
        rows = self.vocabulary.encode_targets(texts)
        return [[*ids, self.vocabulary.end][: self.max_tokens] for ids in rows]

    def pairs(self, texts: Sequence[str], targets: Sequence[str], rows: IntArray) -> Pairs:
        """Tokens of some of the texts and of their translations, in the order of `rows`."""
        return Pairs(
            _rows(self.sources(some_texts(texts, rows)), self.vocabulary),
            _rows(self.targets(some_texts(targets, rows)), self.vocabulary),
        )

    def cut(self, texts: Sequence[str], targets: Sequence[str]) -> int:
        """How many pairs lose tokens to the limit."""
        sides = (self.vocabulary.encode(texts), self.vocabulary.encode_targets(targets))
        return sum(
            max(len(one), len(other)) >= self.max_tokens for one, other in zip(*sides, strict=True)
        )


def translated_rows(corpus: Corpus) -> BoolArray:
    """(rows,) True where a row has a text and a translation."""
    if corpus.targets is None:
        return np.zeros(len(corpus), dtype=bool)
    pairs = zip(corpus.texts, corpus.targets, strict=True)
    there = (bool(text.strip() and target.strip()) for text, target in pairs)
    return np.fromiter(there, dtype=bool, count=len(corpus))


class TranslationLearner(Learner):
    """A translator and the pairs that it learns from; see `uedp_bench.learner.Learner`.

    Args:
        reader: reads both sides.
        module: a `TranslationModule`, or several of them.
        corpus: the rows, numbered from 0, each with a translation.
        schedule: of the stage on public rows, how to train it; None for the private stage.

    Attributes:
        lengths: (rows,) tokens of both sides; those of rows in a file when they are asked for.
    """

    def __init__(
        self,
        reader: PairReader,
        module: nn.Module,
        corpus: Corpus,
        *,
        schedule: Schedule | None = None,
    ) -> None:
        self.module = module if schedule is None else reader.model.on_public_text(module)
        self.corpus, self.vocabulary = corpus, reader.vocabulary
        self.role = "private" if schedule is None else "public"
        self.schedule = schedule
        self.vectorised = reader.model.vectorised
        self._reader = reader
        sides = (corpus.texts, corpus.targets or ())
        self._rows, self.lengths = encoded_rows(corpus, partial(reader.pairs, *sides))
        self.row_lengths = self.lengths
        targets = int(self._rows.known.targets.lengths.max(initial=1))
        self.row_size = targets * reader.vocabulary.size

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        """`tokens` (rows, source length) and `lengths` (rows,); `inputs`, `targets` (rows, length).

        Both sides are padded to the longest of these rows; `seeds` (rows,) decide nothing.
        """
        return self._tensors(*self._rows.some(np.asarray(rows, dtype=np.int64)), seeds)

    def example_batch(self) -> Batch:
        """See `Learner`: random tokens on both sides."""
        vocabulary, most = self._reader.vocabulary, self._reader.max_tokens
        ids = example_ids(vocabulary.size, most)
        pairs = Pairs(_rows(ids, vocabulary), _rows(ids[::-1], vocabulary))
        every = np.arange(len(ids))
        return self._tensors(pairs, every, row_seeds(np.random.default_rng(0), every.shape))

    def _tensors(self, found_rows: Pairs, place: IntArray, seeds: IntArray) -> Batch:
        import torch

        _, sources = found_rows.sources.padded(place)
        inputs, targets = found_rows.targets.padded(place)
        found = {
            "tokens": np.where(sources == IGNORED, self._reader.vocabulary.end, sources),
            "lengths": found_rows.sources.lengths[place],
            "inputs": inputs,
            "targets": targets,
            "seeds": seeds,
        }
        return {name: torch.from_numpy(value) for name, value in found.items()}

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Cross-entropy of the target of each row and its end, given the text."""
        from uedp_bench.models.fast.cross_entropy import token_nats
        from uedp_bench.models.fast.output_nats import output_nats
        from uedp_bench.models.module_set import ModuleSet
        from uedp_bench.models.networks.output_layer import OutputLayer

        targets, lengths = batch["targets"], batch["lengths"]
        if isinstance(module, ModuleSet):
            nats = token_nats(module(batch["tokens"], lengths, batch["inputs"]), targets)
        else:
            network: Any = module
            memory = network.encode(batch["tokens"], lengths)
            features = network.decode(batch["inputs"], memory, lengths)
            nats = output_nats(features, OutputLayer(*network.output_layer()), targets)
        return Losses(nats.sum(dim=1), (targets != IGNORED).sum(dim=1).to(nats.dtype))

    def release(self, module: nn.Module) -> TranslatorRelease:
        """The translator as its users, and anybody with its weights, can ask it."""
        from uedp_bench.tasks.translation.release import TranslatorRelease

        return TranslatorRelease(self._reader, module)


def _rows(ids: list[list[int]], vocabulary: PairVocabulary) -> TextRows:
    flat = np.fromiter((token for row in ids for token in row), dtype=np.int64)
    ends = np.cumsum([0, *(len(row) for row in ids)])
    return TextRows(flat, ends.astype(np.int64), vocabulary.start, vocabulary.end)
