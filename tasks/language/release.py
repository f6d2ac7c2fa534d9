"""A released language model: everything that an adversary with its weights can ask."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.at_once import at_once
from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray
from uedp_bench.errors import InputError
from uedp_bench.pool_completer import AskedByText
from uedp_bench.release import TokenScores, TrainedRelease
from uedp_bench.tasks.language.continuations import Continuations, no_nan, padded
from uedp_bench.tasks.language.word_pool import ENCODED, WordPool, common_prefix
from uedp_bench.tasks.tokens.rows import IGNORED, Preprocessing, TextRows, encode_targets, prepare
from uedp_bench.tasks.tokens.saved_model import (
    TrainedModel,
    batches_by_length,
    load_model,
    save_model,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.model import LanguageModel, Vocabulary
    from uedp_bench.tasks.language.learner import LanguageModelLearner

_FILE = "release.json"

_LOGITS_AT_ONCE = 2**23
"""Logits that one batch may make (32 MB), so that large vocabularies do not fill the memory."""


class LanguageModelRelease(TrainedRelease):
    """Scorer, Completer, Generator and RowScorer; `events` are set by the harness.

    Texts are preprocessed here in the way the model was trained; prefixes of token ids are not.

    Args:
        model: made the network.
        module: the network; it is put into evaluation mode.
        vocabulary: its tokens.
        preprocessing: what is done to every text.
        max_tokens: targets of a row after so many were left out of training, and of its loss.
        score_rows: rows scored at once, at most.
    """

    view = "model weights"

    def __init__(
        self,
        model: LanguageModel[Any],
        module: nn.Module,
        vocabulary: Vocabulary,
        *,
        preprocessing: Preprocessing = "none",
        max_tokens: int | None = None,
        score_rows: int = 512,
    ) -> None:
        self.model, self.module, self.vocabulary = model, module.eval(), vocabulary
        self.preprocessing, self.score_rows = preprocessing, score_rows
        self.max_tokens = max_tokens

    def token_logprobs(self, texts: Sequence[str]) -> list[TokenScores]:
        """See `Scorer`.

        A text past the model's limit is scored in windows, each from a begin token of its own. A
        model that was trained elsewhere sees, in each but the first, as many tokens of the text
        before as are half of a window: nobody here cut the rows that it was trained on.

        Raises:
            UedpBenchError: if a log-probability is NaN.
        """
        targets = encode_targets(texts, self.vocabulary, self.preprocessing)
        limit = self.model.max_length()
        width = None if limit is None else limit - 1
        context = width // 2 if width and self.model.trained_elsewhere else 0
        cuts = [(row, cut) for row in targets for cut in windows_of(len(row), width, context)]
        windows = [row[start:end] for row, (start, _, end) in cuts]
        rows = TextRows.build(windows, self.vocabulary)
        logp, mean, std = (np.empty(len(rows.flat)) for _ in range(3))
        correct = np.empty(len(rows.flat), dtype=bool)
        for chosen in batches_by_length(rows.lengths, self._rows_at_once):
            spans = [np.arange(rows.offsets[i], rows.offsets[i + 1]) for i in chosen]
            at = np.concatenate(spans)
            logp[at], mean[at], std[at], correct[at] = self._score(*rows.padded(chosen))
        counts = np.concatenate([
            np.arange(start, end) >= first for _, (start, first, end) in cuts
        ]) if cuts else np.zeros(0, dtype=bool)  # fmt: skip
        ends = np.cumsum([len(row) for row in targets])[:-1]
        parts = [np.split(values[counts], ends) for values in (logp, mean, std)]
        hits = np.split(correct[counts], ends)
        return [TokenScores(*values) for values in zip(*parts, hits, strict=True)][: len(texts)]

    def row_losses(self, corpus: Corpus) -> FloatArray:
        """See `RowScorer`; of a model that was trained elsewhere, of rows past its limit too."""
        if not self.model.trained_elsewhere or self.max_tokens is not None:
            return super().row_losses(corpus)
        scores = self.token_logprobs(corpus.texts)
        return np.array([-score.logp.mean() for score in scores], dtype=np.float64)

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> FloatArray:
        """See `Completer`; the end token is not counted, and texts are joined as they stand.

        Where a filler changes how the end of `before` is split into tokens, the loss starts at the
        first token that differs between fillers, the same for all of them.

        Raises:
            InputError: if filler and `after` are longer than the model allows.
            UedpBenchError: if a loss is NaN.
        """
        if not len(fillers):
            return np.empty(0)
        prefix, *full = self._encoded([before, *(before + filler + after for filler in fillers)])
        common = common_prefix(prefix, full)
        tails = [tokens[common:] for tokens in full]
        if not all(tails):
            raise InputError("filler: a filler without any token cannot be ranked")
        rows = padded(tails)
        return self._after(prefix[:common], rows.shape[1]).losses(rows)

    def pool_losses(self, before: str, words: Sequence[str], suffixes: IntArray) -> FloatArray:
        """See `PoolCompleter`; where they are fewer, words are split into tokens, not texts.

        Raises:
            InputError: if a suffix is longer than the model allows.
            UedpBenchError: if a loss is NaN.
        """
        used, numbers = np.unique(suffixes, return_inverse=True)
        pool = None
        if len(suffixes) > ENCODED * len(used):
            pool = WordPool.of(self._encoded, before, [words[i] for i in used.tolist()])
        if pool is None:
            return AskedByText(self).pool_losses(before, words, suffixes)
        rows = pool.rows(numbers.reshape(suffixes.shape))
        return self._after(pool.prefix, rows.shape[1]).losses(rows)

    def pool_rank(self, before: str, words: Sequence[str], suffix: IntArray) -> int:
        """See `PoolCompleter`; what suffixes share is computed once.

        Raises:
            InputError: if a suffix is longer than the model allows.
            UedpBenchError: if a loss is NaN.
        """
        pool = WordPool.of(self._encoded, before, words)
        if pool is None:
            return AskedByText(self).pool_rank(before, words, suffix)
        levels = pool.levels(len(suffix))
        longest = sum(level.tokens.shape[1] for level in levels)
        return self._after(pool.prefix, longest).rank(levels, suffix.tolist())

    def next_logprobs(self, prefixes: Sequence[Sequence[int]]) -> FloatArray:
        """See `Generator`; a prefix past the model's limit loses its oldest tokens.

        What prefixes share is computed once.

        Raises:
            UedpBenchError: if a log-probability is NaN.
        """
        import torch

        from uedp_bench.models.networks.token_tree import TokenTree

        table = np.asarray(prefixes, dtype=np.int64).reshape(len(prefixes), -1)
        limit = self.model.max_length()
        if limit is not None:
            table = table[:, max(0, table.shape[1] - limit + 2) :]
        tree, ends = TokenTree.of(table)
        asked = np.zeros(tree.size, dtype=bool)
        asked[ends] = True
        place = np.cumsum(asked) - 1
        found = np.empty((int(asked.sum()), self.vocabulary.size))
        start = self._tensor(np.array([[self.vocabulary.begin]]))
        rows = self._rows_at_once(1 + table.shape[1])
        with torch.no_grad():
            for nodes, logits in Continuations(self.module, start, rows).logits(tree, asked):
                found[place[nodes]] = torch.log_softmax(logits.double(), dim=-1).cpu().numpy()
        return no_nan(found[place[ends]])

    def encode(self, text: str) -> list[int]:
        """See `Generator`."""
        return self._encoded([text])[0]

    def decode(self, tokens: Sequence[int]) -> str:
        """See `Generator`."""
        return self.vocabulary.decode(tokens)

    def learner(self, corpus: Corpus) -> LanguageModelLearner:
        """See `TrainedRelease`."""
        from uedp_bench.tasks.language.learner import LanguageModelLearner

        return LanguageModelLearner(
            self.model,
            self.module,
            self.vocabulary,
            corpus,
            preprocessing=self.preprocessing,
            max_tokens=self.max_tokens,
            score_rows=self.score_rows,
        )

    def save(self, folder: Path) -> None:
        """Writes weights, vocabulary and the model's name and parameters; `load` reads them."""
        trained = TrainedModel(self.model, self.vocabulary, self.module)
        content = {"preprocessing": self.preprocessing, "max_tokens": self.max_tokens}
        save_model(folder / _FILE, trained, self.model.save_network, content)

    @staticmethod
    def load(folder: Path) -> LanguageModelRelease:
        """The release that `save` wrote.

        Raises:
            InputError: if there is none in the folder.
        """
        from uedp_bench.models.module_set import load_modules

        model, vocabulary, content = load_model(folder / _FILE, "language model")
        if vocabulary is None:
            raise InputError(f"{folder} holds no vocabulary: the saved language model is damaged")
        module = load_modules(folder, partial(model.load_network, vocabulary))
        return LanguageModelRelease(
            model,
            module,
            vocabulary,
            preprocessing=content["preprocessing"],
            max_tokens=content.get("max_tokens"),
        )

    def _score(
        self, tokens: IntArray, targets: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
        import torch

        with torch.no_grad():
            inside = self._tensor(targets != IGNORED)
            wanted = self._tensor(targets)[inside][:, None]
            logs = torch.log_softmax(self.module(self._tensor(tokens))[inside].float(), dim=-1)
            p = logs.exp()
            # 0 log 0 = 0: an impossible token adds nothing to an expectation.
            logs_or_0 = torch.where(p > 0, logs, torch.zeros_like(logs))
            mean = (p * logs_or_0).sum(dim=-1)
            centred = (logs_or_0 - mean[:, None]) ** 2
            std = (p * centred).sum(dim=-1).sqrt()
            values = [v.double().cpu().numpy() for v in (logs.gather(1, wanted)[:, 0], mean, std)]
            correct = (logs.argmax(dim=-1) == wanted[:, 0]).cpu().numpy()
        return no_nan(values[0]), no_nan(values[1]), no_nan(values[2]), correct

    def _rows_at_once(self, length: int) -> int:
        logits = length * self.vocabulary.size
        most = at_once(_LOGITS_AT_ONCE, self._device)
        return max(1, min(self.score_rows, most // max(logits, 1)))

    def _tensor(self, values: Any) -> Tensor:
        import torch

        return torch.from_numpy(np.ascontiguousarray(values)).to(self._device)

    @property
    def _device(self) -> Any:
        return next(self.module.parameters()).device

    def _fitting_prefix(self, prefix: list[int], tail: int) -> list[int]:
        """Begin token and prefix, without the oldest tokens where all would be too long."""
        start = [self.vocabulary.begin, *prefix]
        limit = self.model.max_length()
        if limit is None:
            return start
        if tail + 1 > limit:
            raise InputError(f"filler: {tail} tokens do not fit the model's {limit}")
        return start[-(limit - tail) :]

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        return self.vocabulary.encode(prepare(texts, self.preprocessing))

    def _after(self, prefix: list[int], tail: int) -> Continuations:
        """What follows the prefix; its continuations have at most `tail` tokens."""
        start = self._fitting_prefix(prefix, tail)
        rows = self._rows_at_once(len(start) + tail)
        return Continuations(self.module, self._tensor(np.array([start])), rows)


def windows_of(length: int, width: int | None, context: int) -> list[tuple[int, int, int]]:
    """Windows of a row: where each starts, its first token that counts, and where it ends.

    Args:
        length: tokens of the row; each counts in one window.
        width: most tokens of a window; None for any number.
        context: tokens of each window but the first that count in the one before; fewer than
            `width`.
    """
    windows, first = [], 0
    while first < length:
        start = max(0, first - context)
        end = length if width is None else min(length, start + width)
        windows.append((start, first, end))
        first = end
    return windows
