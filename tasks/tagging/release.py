"""A released tagger: the entities that it finds, and the loss of rows that somebody annotated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.corpus import BoolArray, Corpus, Spans
from uedp_bench.learner import on_device
from uedp_bench.release import TrainedRelease
from uedp_bench.tasks.tagging.labels import mentions_of_labels
from uedp_bench.tasks.tagging.learner import TaggerLearner, TaggerReader
from uedp_bench.tasks.tokens.saved_model import (
    TrainedModel,
    batches_by_length,
    load_model,
    load_weights,
    save_model,
    save_weights,
)

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.model import TokenEncoder, Vocabulary

_FILE = "tagger.json"
_KEPT = ("layer", "types", "rule", "max_tokens", "reduction")


class TaggerRelease(TrainedRelease):
    """Tagger and RowScorer; `events` are set by the harness.

    Args:
        reader: reads rows.
        module: the network; it is put into evaluation mode.
        score_rows: rows at once, at most.
    """

    view = "model weights"

    def __init__(self, reader: TaggerReader, module: nn.Module, *, score_rows: int) -> None:
        self.reader, self.module, self.score_rows = reader, module.eval(), score_rows

    @property
    def types(self) -> tuple[str, ...]:
        """See `Tagger`."""
        return self.reader.types

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary of the encoder."""
        return self.reader.vocabulary

    def spans(self, corpus: Corpus) -> Spans:
        """See `Tagger`; words past `max_tokens` are outside of all entities."""
        from uedp_bench.models.networks.tagger import best_labels

        words = self.reader.words(corpus)
        labels = np.zeros(len(words.words), dtype=np.int64)
        rows = self.reader.model.read_words(
            words.by_row(), self.vocabulary, self.reader.max_tokens, self.reader.device
        )
        device = str(next(self.module.parameters()).device)
        for chosen in batches_by_length(rows.lengths, lambda _: self.score_rows, least=1):
            best = best_labels(self.module, on_device(rows.batch(chosen), device)).cpu().numpy()
            positions = np.arange(best.shape[1])
            inside = positions < rows.lengths[chosen][:, None]
            at = words.offsets[chosen][:, None] + positions
            labels[at[inside]] = best[inside]
        return Spans.build(corpus.texts, mentions_of_labels(words, labels))

    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `RowScorer`: rows with a word that the layer it learnt annotates completely."""
        return self.reader.learnable(corpus)

    def learner(self, corpus: Corpus) -> TaggerLearner:
        """See `TrainedRelease`."""
        return TaggerLearner(self.reader, self.module, corpus, score_rows=self.score_rows)

    def save(self, folder: Path) -> None:
        """Writes weights, vocabulary and how to read rows; `load` reads them."""
        from uedp_bench.models.module_set import modules_of

        reader = self.reader
        crf = modules_of(self.module)[0].crf is not None
        content = {
            "decoder": "crf" if crf else "softmax",
            "score_rows": self.score_rows,
            **{name: getattr(reader, name) for name in _KEPT},
        }
        trained = TrainedModel(reader.model, reader.vocabulary, self.module)
        save_model(folder / _FILE, trained, partial(_save_network, reader.model), content)

    @staticmethod
    def load(folder: Path) -> TaggerRelease:
        """The release that `save` wrote, on the CPU.

        Raises:
            InputError: if there is none in the folder.
        """
        from uedp_bench.models.module_set import load_modules

        model, vocabulary, content = load_model(folder / _FILE, "tagger")
        kept = {name: content[name] for name in _KEPT} | {"types": tuple(content["types"])}
        reader = TaggerReader(model, vocabulary, **kept, device="cpu")
        load = partial(_load_network, reader, content)
        return TaggerRelease(reader, load_modules(folder, load), score_rows=content["score_rows"])


def _save_network(model: TokenEncoder[Any], module: nn.Module, folder: Path) -> None:
    network: Any = module
    model.save_token_encoder(network.encoder, folder / "encoder")
    for name in ("head", "crf"):
        if (part := getattr(network, name)) is not None:
            save_weights(part, folder / f"{name}.pt")


def _load_network(reader: TaggerReader, content: Mapping[str, Any], folder: Path) -> nn.Module:
    from uedp_bench.models.networks.tagger import TaggerNetwork

    encoder = reader.model.load_token_encoder(reader.vocabulary, folder / "encoder")
    crf = content["decoder"] == "crf"
    module = TaggerNetwork(encoder, reader.labels, crf=crf, seed=0)
    for name, part in (("head", module.head), ("crf", module.crf)):
        if part is not None:
            load_weights(part, folder / f"{name}.pt")
    return module
