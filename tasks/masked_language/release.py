"""A released masked language model: everything that an adversary with its weights can ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.at_once import at_once
from uedp_bench.corpus import Corpus, FloatArray, IntArray
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.release import TokenScores, TrainedRelease
from uedp_bench.tasks.masked_language.fillers import Gap, sums_of
from uedp_bench.tasks.masked_language.learner import MaskedLearner, MaskedReader
from uedp_bench.tasks.tokens.saved_model import (
    TrainedModel,
    batches_by_length,
    load_model,
    save_model,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.masked_model import MaskedVocabulary

_FILE = "masked_language_model.json"
_KEPT = ("max_tokens", "rate", "score_rows", "scored_tokens")
_NUMBERS_AT_ONCE = 2**23
"""Numbers in the largest tensor of one batch (32 MB)."""


_Finish = Callable[["Tensor", Any], Any]
"""Reduces logits (all places, vocabulary) of a batch, which are too large to keep."""


class MaskedLanguageModelRelease(TrainedRelease):
    """MaskFiller, Scorer, Completer and RowScorer; `events` are set by the harness.

    Args:
        reader: reads rows.
        module: the network; it is put into evaluation mode.
    """

    view = "model weights"

    def __init__(self, reader: MaskedReader, module: nn.Module) -> None:
        self.reader, self.module = reader, module.eval()

    @property
    def vocabulary(self) -> MaskedVocabulary:
        """The tokens of the model."""
        return self.reader.vocabulary

    def encode(self, text: str) -> list[int]:
        """See `MaskFiller`."""
        return self.vocabulary.encode([text])[0]

    def masked_logprobs(
        self, rows: Sequence[Sequence[int]], hidden: Sequence[IntArray]
    ) -> list[TokenScores]:
        """See `MaskFiller`.

        Raises:
            InputError: if a row is longer than the model allows.
            UedpBenchError: if a log-probability is NaN.
        """
        masked, wanted = [], []
        for row, at in zip(rows, hidden, strict=True):
            ids = np.asarray(row, dtype=np.int64)
            wanted.append(ids[at])
            masked.append(ids.copy())
            masked[-1][at] = self.vocabulary.mask
        out: list[Any] = [None] * len(rows)
        for rows_of, found in self._answers(masked, hidden, _scores, wanted):
            ends = np.cumsum([len(wanted[i]) for i in rows_of])[:-1]
            parts = (np.split(each, ends) for each in found)
            for i, part in zip(rows_of, zip(*parts, strict=True), strict=True):
                out[i] = TokenScores(*part)
        return out

    def token_logprobs(self, texts: Sequence[str]) -> list[TokenScores]:
        """See `Scorer`: the score of each token is that of the token hidden by itself.

        Together they are the text's pseudo-log-likelihood (Salazar et al. 2020, section 2.1).
        Of a text with more than `scored_tokens` tokens, every k-th one is hidden, k being the
        smallest number by which there are no more than that. The end token is no target: nobody
        hides it. A text without tokens is asked about its end all the same, so that it has a score.

        A text past the model's limit is scored in windows.

        Raises:
            UedpBenchError: if a log-probability is NaN.
        """
        rows: list[list[int]] = []
        hidden: list[IntArray] = []
        owner: list[int] = []
        most, room = self.reader.scored_tokens, self._room
        for text, ids in enumerate(self.vocabulary.encode(list(texts))):
            tokens = ids or [self.vocabulary.end]
            step = 1 if most is None else -(-len(tokens) // most)
            for at in range(0, len(tokens), step):
                start = at - at % room
                rows.append(tokens[start : start + room])
                hidden.append(np.array([at - start]))
                owner.append(text)
        scores = self.masked_logprobs(rows, hidden)
        ends = np.searchsorted(owner, np.arange(1, len(texts)))
        columns = [np.concatenate(column) for column in zip(*scores, strict=True)]
        parts = zip(*(np.split(column, ends) for column in columns), strict=True)
        return [TokenScores(*part) for part in parts]

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> FloatArray:
        """See `Completer`: the loss of each filler alone, given what stands on both sides.

        A filler of several tokens is filled in from left to right, those to the right still hidden
        (within-word l2r: Kauf and Ivanova 2023): the loss is that of a sequence of so many tokens,
        and no token gives another away. Texts are joined as they stand. Where they are longer than
        the model allows, what is farthest from the gap is left out, and a filler that is longer by
        itself is asked in windows.

        Raises:
            InputError: if a filler has no token.
            UedpBenchError: if a loss is NaN.
        """
        if not len(fillers):
            return np.empty(0)
        encoded = self.vocabulary.encode([before, after, *(before + f + after for f in fillers)])
        gap = Gap.of(encoded[0], encoded[1], encoded[2:]).within(self._room)
        asked = gap.questions(self.vocabulary.mask, self._room)
        nats, order = np.empty(len(asked.tokens)), np.argsort(asked.question, kind="stable")
        starts = np.searchsorted(asked.question[order], np.arange(len(asked.rows) + 1))
        rows = [np.array(row, dtype=np.int64) for row in asked.rows]
        places = [asked.places[i : i + 1] for i in range(len(rows))]
        answers = [order[starts[i] : starts[i + 1]] for i in range(len(rows))]
        tokens = [asked.tokens[of_row] for of_row in answers]
        for rows_of, found in self._answers(rows, places, _losses, tokens):
            for i, values in zip(rows_of, found, strict=True):
                nats[answers[i]] = values
        return _no_nan(sums_of(asked, nats, len(fillers)))

    def learner(self, corpus: Corpus) -> MaskedLearner:
        """See `TrainedRelease`: masks of rows that are asked for are those of the seed 0."""
        return MaskedLearner(self.reader, self.module, corpus)

    def save(self, folder: Path) -> None:
        """Writes weights, vocabulary and how to read rows; `load` reads them."""
        reader = self.reader
        trained = TrainedModel(reader.model, reader.vocabulary, self.module)
        content = {name: getattr(reader, name) for name in _KEPT}
        save_model(folder / _FILE, trained, reader.model.save_masked, content)

    @staticmethod
    def load(folder: Path) -> MaskedLanguageModelRelease:
        """The release that `save` wrote, on the CPU.

        Raises:
            InputError: if there is none in the folder.
        """
        from uedp_bench.models.module_set import load_modules

        model, vocabulary, content = load_model(folder / _FILE, "masked language model")
        if vocabulary is None:
            raise InputError(f"{folder} holds no vocabulary: the saved model is damaged")
        known: Any = vocabulary
        reader = MaskedReader(model, known, **{name: content[name] for name in _KEPT})
        module = load_modules(folder, partial(model.load_masked, known))
        return MaskedLanguageModelRelease(reader, module)

    @property
    def _room(self) -> int:
        """Tokens of a text that the model reads at once."""
        return self.reader.limit - 2

    def _answers(
        self,
        rows: Sequence[IntArray],
        places: Sequence[IntArray],
        finish: _Finish,
        wanted: Sequence[IntArray],
    ) -> Iterator[tuple[list[int], Any]]:
        """Numbers of rows of similar length, and what is made of the logits at their places.

        Args:
            rows: without begin and end.
            places: of each row.
            finish: makes it, given what is wanted of each row.
            wanted: of each row.

        Raises:
            InputError: if a row is longer than the model allows.
        """
        import torch

        vocabulary, reader = self.vocabulary, self.reader
        device = next(self.module.parameters()).device
        lengths = np.array([len(row) for row in rows], dtype=np.int64) + 2
        if (over := int(lengths.max(initial=2)) - 2) > self._room:
            raise InputError(f"a row has {over} tokens, and the model reads {self._room}")
        counts = np.array([len(at) for at in places], dtype=np.int64)
        wide = int(counts.max(initial=1)) * vocabulary.size

        numbers = at_once(_NUMBERS_AT_ONCE, device)

        def rows_at_once(length: int) -> int:
            most = max(wide, length * reader.model.token_numbers())
            return max(1, min(reader.score_rows, numbers // most))

        for some in batches_by_length(lengths, rows_at_once):
            tokens = np.full((len(some), lengths[some].max()), vocabulary.end, dtype=np.int64)
            asked = np.zeros((len(some), max(1, counts[some].max())), dtype=np.int64)
            tokens[:, 0] = vocabulary.begin
            for at, i in enumerate(some.tolist()):
                tokens[at, 1 : 1 + len(rows[i])] = rows[i]
                asked[at, : counts[i]] = places[i] + 1
            used = np.arange(asked.shape[1]) < counts[some][:, None]
            read = (torch.from_numpy(each).to(device) for each in (tokens, lengths[some], asked))
            with torch.no_grad():
                logits = self.module(*read)[torch.from_numpy(used).to(device)]
                answer = finish(logits, [wanted[i] for i in some.tolist()])
            yield some.tolist(), answer


def _losses(logits: Tensor, tokens: Sequence[IntArray]) -> list[FloatArray]:
    """Nats of the tokens that are wanted of each row, whose one place is asked about."""
    logs = logits.float().log_softmax(dim=1).double().cpu().numpy()
    return [-of_row[ids] for of_row, ids in zip(logs, tokens, strict=True)]


def _scores(
    logits: Tensor, targets: Sequence[IntArray]
) -> tuple[FloatArray, FloatArray, FloatArray, Any]:
    """(places,) columns of `TokenScores`, given the targets of each row.

    Raises:
        UedpBenchError: if a log-probability is NaN.
    """
    import torch

    wanted = torch.from_numpy(np.concatenate(targets)).to(logits.device)[:, None]
    logs = logits.float().log_softmax(dim=1)
    p = logs.exp()
    # 0 log 0 = 0: an impossible token adds nothing to an expectation.
    logs_or_0 = torch.where(p > 0, logs, torch.zeros_like(logs))
    mean = (p * logs_or_0).sum(dim=1)
    std = (p * (logs_or_0 - mean[:, None]) ** 2).sum(dim=1).sqrt()
    found = (logs.gather(1, wanted)[:, 0], mean, std)
    correct = (logs.argmax(dim=1) == wanted[:, 0]).cpu().numpy()
    logp, expected, spread = (_no_nan(each.double().cpu().numpy()) for each in found)
    return logp, expected, spread, correct


def _no_nan(values: FloatArray) -> FloatArray:
    if np.isnan(values).any():
        raise UedpBenchError("the released model gives NaN: its weights or logits are not finite")
    return values
