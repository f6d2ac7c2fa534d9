"""A language model: how it reads rows, what it loses on each, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.api import BoolArray, Corpus, FloatArray, InputError, IntArray
from uedp_bench.api.capabilities import TokenScores
from uedp_bench.api.networks import Batch, FeatureModule, Losses, Reader, StopsAtEnds
from uedp_bench.contracts.learner import example_ids, numbers_per_call
from uedp_bench.contracts.model import CountsTargets
from uedp_bench.statistics.exposure import TextPoolCompleter
from uedp_bench.tasks.language.continuations import (
    ENCODED,
    Continuations,
    WordPool,
    common_prefix,
    padded,
)
from uedp_bench.tasks.tokens.reader import SupervisedRelease, batches_by_length
from uedp_bench.tasks.tokens.rows import (
    IGNORED,
    Columns,
    Preprocessing,
    TextRows,
    encode_targets,
    no_nan,
    prepare,
    token_columns,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

_LOGITS_AT_ONCE = 2**23
"""Logits that one batch may make (32 MB), so that large vocabularies do not fill the memory."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LanguageReader(Reader):
    """Reader of a language model's text: a row's targets are its tokens and one end.

    Attributes:
        max_tokens: targets of a row after the first so many are left out of training and of its
            loss; None for no limit but the model's own.
        preprocessing: change made to every text, in training and in questions to the release.
    """

    preprocessing: Preprocessing = "none"

    sized = ("targets",)

    @property
    def limit(self) -> int | None:
        """Most targets of a row; its inputs are as many, and the model's limit counts both ends."""
        own = self.model.max_length()
        limits = (self.max_tokens, None if own is None else own - 1)
        return min((value for value in limits if value is not None), default=None)

    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `Reader`: every row."""
        return np.ones(len(corpus), dtype=bool)

    def read(self, corpus: Corpus) -> Mapping[str, TextRows]:
        """See `Reader`."""
        rows = encode_targets(corpus.texts, self.vocabulary, self.preprocessing)
        train, limit = corpus.where("train").tolist(), self.limit
        cut = sum(
            own and limit is not None and len(row) > limit
            for own, row in zip(train, rows, strict=True)
        )
        return {"targets": TextRows.build([row[:limit] for row in rows], self.vocabulary, cut)}

    def examples(self, corpus: Corpus) -> Mapping[str, TextRows]:
        """See `Reader`: random targets."""
        ids = example_ids(self.vocabulary.size, self.limit)
        return {"targets": TextRows.build(ids, self.vocabulary)}

    def batch(self, columns: Mapping[str, Any], rows: IntArray, seeds: IntArray) -> dict[str, Any]:
        """`tokens` and `targets` (rows, longest of these rows) and dropout `seeds` (rows,)."""
        tokens, targets = columns["targets"].padded(rows)
        return {"tokens": tokens, "targets": targets, "seeds": seeds}

    def truncated(self, columns: Columns, corpus: Corpus) -> int | None:
        """See `Reader`: training rows; none of a model whose own rows are scored whole."""
        if self.model.trained_elsewhere:
            return None
        if corpus.stored:
            return None if self.limit else 0
        return columns.truncated

    def row_size(self, columns: Columns, longest: int, module: nn.Module) -> int:
        """See `Reader`: its logits."""
        return longest * int(self.vocabulary.size)

    def network(self, seed: int, head_seed: int) -> nn.Module:
        """See `Reader`.

        Raises:
            InputError: if the network sees the token that it is to predict, or rows beside a row
                change its output.
        """
        from uedp_bench.models.networks.probes import Probe, log_probabilities

        model = self.model
        module: nn.Module = model.build(self.vocabulary, seed)
        name, limit = f"the network of the model {model.name!r}", model.max_length()
        probe = Probe(name, module, log_probabilities(module), self.vocabulary, limit)
        probe.check_causal()
        probe.check_padding()
        return module

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Cross-entropy of each row; dropout acts where the module is in training mode."""
        from uedp_bench.models.fast.output_nats import output_nats, token_nats
        from uedp_bench.models.networks.modules import OutputLayer

        targets = batch["targets"]
        seeds = batch["seeds"] if module.training else None
        network: Any = module
        layer = network.output_layer() if isinstance(network, FeatureModule) else None
        if layer is None:
            nats = token_nats(module(batch["tokens"], seeds), targets)
        else:
            features = _features(network, batch["tokens"], seeds, targets)
            nats = output_nats(features, OutputLayer(*layer), targets)
        return Losses(nats.sum(dim=1), (targets != IGNORED).sum(dim=1).to(nats.dtype))

    def release(self, module: nn.Module) -> LanguageModelRelease:
        """See `Reader`."""
        return LanguageModelRelease(self, module)

    def save_network(self, module: nn.Module, folder: Path) -> None:
        """See `Reader`."""
        self.model.save_network(module, folder)

    def load_network(self, folder: Path) -> nn.Module:
        """See `Reader`."""
        module: nn.Module = self.model.load_network(self.vocabulary, folder)
        return module


class LanguageModelRelease(SupervisedRelease):
    """Scorer, Completer, Generator and RowScorer; `events` are set by the harness.

    Texts are preprocessed here in the way the model was trained; prefixes of token ids are not.
    """

    reader: LanguageReader

    def token_logprobs(self, texts: Sequence[str]) -> list[TokenScores]:
        """See `Scorer`; of the targets that count (`CountsTargets`).

        Raises:
            InputError: if a text has none.
            UedpBenchError: if a log-probability is NaN.
        """
        scores, counted = self.scores_of_all_targets(texts), None
        if isinstance(self.vocabulary, CountsTargets):
            counted = self.vocabulary.counted(prepare(texts, self.reader.preprocessing))
        if counted is None:
            return scores
        pairs = zip(scores, counted, strict=True)
        return [
            TokenScores(one.logp[some], one.mean[some], one.std[some], one.correct[some])
            for one, some in pairs
        ]

    def scores_of_all_targets(self, texts: Sequence[str]) -> list[TokenScores]:
        """Scores of every text, by which utility is measured.

        A text past the model's limit is scored in windows, each from a begin token of its own. All
        but the first see `LanguageModel.window_overlap` tokens of the text before.

        Raises:
            UedpBenchError: if a log-probability is NaN.
        """
        targets = encode_targets(texts, self.vocabulary, self.reader.preprocessing)
        limit = self.reader.model.max_length()
        width = None if limit is None else limit - 1
        context = self.reader.model.window_overlap(width) if width else 0
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
        cut = self.reader.max_tokens is not None and not isinstance(self.vocabulary, CountsTargets)
        if not self.reader.model.trained_elsewhere or cut:
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
            pool = WordPool.build(self._encoded, before, [words[i] for i in used.tolist()])
        if pool is None:
            return TextPoolCompleter(self).pool_losses(before, words, suffixes)
        rows = pool.rows(numbers.reshape(suffixes.shape))
        return self._after(pool.prefix, rows.shape[1]).losses(rows)

    def pool_rank(self, before: str, words: Sequence[str], suffix: IntArray) -> int:
        """See `PoolCompleter`; what suffixes share is computed once.

        Raises:
            InputError: if a suffix is longer than the model allows.
            UedpBenchError: if a loss is NaN.
        """
        pool = WordPool.build(self._encoded, before, words)
        if pool is None:
            return TextPoolCompleter(self).pool_rank(before, words, suffix)
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
        limit = self.reader.model.max_length()
        if limit is not None:
            table = table[:, max(0, table.shape[1] - limit + 2) :]
        tree, ends = TokenTree.from_rows(table)
        is_end = np.zeros(tree.size, dtype=bool)
        is_end[ends] = True
        place = np.cumsum(is_end) - 1
        logprobs = np.empty((int(is_end.sum()), self.vocabulary.size))
        start = self._tensor(np.array([[self.vocabulary.begin]]))
        rows = self._rows_at_once(1 + table.shape[1])
        with torch.no_grad():
            for nodes, logits in Continuations(self.module, start, rows).logits(tree, is_end):
                logprobs[place[nodes]] = torch.log_softmax(logits.double(), dim=-1).cpu().numpy()
        return no_nan(logprobs[place[ends]])

    def encode(self, text: str) -> list[int]:
        """See `Generator`."""
        return self._encoded([text])[0]

    def decode(self, tokens: Sequence[int]) -> str:
        """See `Generator`."""
        return str(self.vocabulary.decode(tokens))

    def _score(self, tokens: IntArray, targets: IntArray) -> Any:
        """Columns of `TokenScores` of all targets of padded rows."""
        import torch

        inside = targets != IGNORED
        with torch.no_grad():
            logits = self.module(self._tensor(tokens))[self._tensor(inside)]
            return token_columns(logits, targets[inside])

    def _rows_at_once(self, length: int) -> int:
        logits = length * int(self.vocabulary.size)
        most = numbers_per_call(_LOGITS_AT_ONCE, self.device)
        return max(1, min(self.reader.score_rows, most // max(logits, 1)))

    def _tensor(self, values: Any) -> Tensor:
        import torch

        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device)

    def _fitting_prefix(self, prefix: list[int], tail: int) -> list[int]:
        """Begin token and prefix, without the oldest tokens where all would be too long."""
        start = [self.vocabulary.begin, *prefix]
        limit = self.reader.model.max_length()
        if limit is None:
            return start
        if tail + 1 > limit:
            raise InputError(f"filler: {tail} tokens do not fit the model's {limit}")
        return start[-(limit - tail) :]

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self.vocabulary.encode(prepare(texts, self.reader.preprocessing))
        return ids

    def _after(self, prefix: list[int], tail: int) -> Continuations:
        """Continuations of the prefix, of at most `tail` tokens."""
        start = self._fitting_prefix(prefix, tail)
        rows = self._rows_at_once(len(start) + tail)
        return Continuations(self.module, self._tensor(np.array([start])), rows)


def _features(network: Any, tokens: Tensor, seeds: Tensor | None, targets: Tensor) -> Tensor:
    """Inputs of the output layer; positions after a row's last target may hold anything."""
    if not isinstance(network, StopsAtEnds):
        outputs: Tensor = network.outputs(tokens, seeds)
        return outputs
    import torch

    places = torch.arange(1, targets.shape[1] + 1, device=targets.device)
    lengths = torch.where(targets == IGNORED, 0, places).amax(dim=1)
    return network.outputs_until(tokens, seeds, lengths)


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
