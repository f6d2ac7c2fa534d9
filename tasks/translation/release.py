"""A released translator: what it makes of texts, and how likely it finds a translation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.at_once import at_once
from uedp_bench.corpus import BoolArray, Corpus, FloatArray
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.learner import on_device
from uedp_bench.release import TrainedRelease
from uedp_bench.tasks.tokens.saved_model import (
    TrainedModel,
    batches_by_length,
    load_model,
    save_model,
)
from uedp_bench.tasks.translation.learner import PairReader, TranslationLearner, translated_rows

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.model import PairVocabulary

_FILE = "translator.json"
_KEPT = ("max_tokens", "beams", "score_rows")
_NUMBERS_AT_ONCE = 2**23
"""Logits of one batch, at most (32 MB)."""


class TranslatorRelease(TrainedRelease):
    """Translator, PairScorer and RowScorer; `events` are set by the harness.

    Args:
        reader: reads texts and translations.
        module: the network; it is put into evaluation mode.
    """

    view = "model weights"

    def __init__(self, reader: PairReader, module: nn.Module) -> None:
        self.reader, self.module = reader, module.eval()

    @property
    def vocabulary(self) -> PairVocabulary:
        """The vocabulary of both languages."""
        return self.reader.vocabulary

    def translate(self, texts: Sequence[str]) -> list[str]:
        """See `Translator`; a text without words has an empty translation."""
        rows = self.reader.sources(texts)
        # The end alone is no text: nothing is asked about it.
        lengths = np.array([len(row) if len(row) > 1 else 0 for row in rows], dtype=np.int64)
        translations = [""] * len(texts)
        for chosen in batches_by_length(lengths, self._rows_at_once, least=1):
            numbers = chosen.tolist()
            for row, ids in zip(numbers, self._translated([rows[i] for i in numbers]), strict=True):
                translations[row] = self.vocabulary.decode(ids)
        return translations

    def pair_losses(self, texts: Sequence[str], targets: Sequence[str]) -> FloatArray:
        """See `PairScorer`.

        Raises:
            InputError: if there are not as many texts as targets.
            UedpBenchError: if a loss is NaN.
        """
        import torch

        if len(texts) != len(targets):
            raise InputError(f"pair_losses: {len(texts)} texts and {len(targets)} targets")
        rows = np.zeros(len(texts), dtype=np.int64)
        corpus = Corpus(tuple(texts), {"user": rows - 1}, rows, targets=tuple(targets))
        learner, out = self.learner(corpus), np.empty(len(texts))
        lengths = learner.lengths[np.arange(len(texts))]
        device = str(_device(self.module))
        with torch.no_grad():
            for chosen in batches_by_length(lengths, self._rows_at_once):
                batch = on_device(learner.batch(chosen, np.zeros_like(chosen)), device)
                out[chosen] = learner.losses(self.module, batch).nats.double().cpu().numpy()
        if np.isnan(out).any():
            raise UedpBenchError(f"the loss of pair {int(np.isnan(out).argmax())} is NaN")
        return out

    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `RowScorer`: rows with a translation."""
        return translated_rows(corpus)

    def learner(self, corpus: Corpus) -> TranslationLearner:
        """See `TrainedRelease`."""
        return TranslationLearner(self.reader, self.module, corpus)

    def save(self, folder: Path) -> None:
        """Writes weights, vocabulary and how to read pairs; `load` reads them."""
        reader = self.reader
        content = {name: getattr(reader, name) for name in _KEPT}
        trained = TrainedModel(reader.model, reader.vocabulary, self.module)
        save_model(folder / _FILE, trained, reader.model.save_translator, content)

    @staticmethod
    def load(folder: Path) -> TranslatorRelease:
        """The release that `save` wrote, on the CPU.

        Raises:
            InputError: if there is none in the folder.
        """
        from uedp_bench.models.module_set import load_modules

        model, vocabulary, content = load_model(folder / _FILE, "translator")
        read: Any = vocabulary
        reader = PairReader(model, read, **{name: content[name] for name in _KEPT})
        module = load_modules(folder, partial(model.load_translator, vocabulary))
        return TranslatorRelease(reader, module)

    def _rows_at_once(self, length: int) -> int:
        numbers = max(length, 1) * self.vocabulary.size * self.reader.beams
        most = at_once(_NUMBERS_AT_ONCE, _device(self.module))
        return max(1, min(self.reader.score_rows, most // numbers))

    def _translated(self, rows: list[list[int]]) -> list[list[int]]:
        """Tokens of the translations of some rows, which are not empty."""
        import torch

        from uedp_bench.models.module_set import modules_of
        from uedp_bench.models.networks.translation_search import Search, translated

        vocabulary, reader, device = self.vocabulary, self.reader, _device(self.module)
        search = Search(
            vocabulary.start, vocabulary.end, vocabulary.never, reader.beams, reader.max_tokens
        )
        networks: Any = modules_of(self.module)
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        table = np.full((len(rows), int(lengths.max())), vocabulary.end)
        for place, row in enumerate(rows):
            table[place, : len(row)] = row
        given, sizes = torch.from_numpy(table), torch.from_numpy(lengths)
        return translated(networks, given.to(device), sizes.to(device), search)


def _device(module: nn.Module) -> Any:
    return next(module.parameters()).device
