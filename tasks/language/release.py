"""A released language model: everything that an adversary with its weights can ask."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.release import TokenScores, TrainedRelease
from uedp_bench.tasks.tokens.rows import (
    IGNORED,
    Preprocessing,
    TextRows,
    encode_targets,
    prepare,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.model import LanguageModel, Vocabulary
    from uedp_bench.tasks.language.learner import LanguageModelLearner

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

        A text past the model's limit is scored in windows, each from a begin token of its own.

        Raises:
            UedpBenchError: if a log-probability is NaN.
        """
        targets = encode_targets(texts, self.vocabulary, self.preprocessing)
        limit = self.model.max_length()
        width = None if limit is None else limit - 1
        windows = [
            row[at : at + (width or len(row))]
            for row in targets
            for at in range(0, len(row), width or len(row))
        ]
        rows = TextRows.build(windows, self.vocabulary)
        logp, mean, std = (np.empty(len(rows.flat)) for _ in range(3))
        correct = np.empty(len(rows.flat), dtype=bool)
        for chosen in self._batches(rows):
            at = np.concatenate([np.arange(rows.offsets[i], rows.offsets[i + 1]) for i in chosen])
            logp[at], mean[at], std[at], correct[at] = self._score(*rows.padded(chosen))
        ends = np.cumsum([len(row) for row in targets])[:-1]
        parts = [np.split(values, ends) for values in (logp, mean, std)]
        hits = np.split(correct, ends)
        return [TokenScores(*values) for values in zip(*parts, hits, strict=True)][: len(texts)]

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> FloatArray:
        """See `Completer`; the end token is not counted, and texts are joined as they stand.

        Where a filler changes how the end of `before` is split into tokens, the loss starts at the
        first token that differs between fillers, the same for all of them.

        Raises:
            InputError: if filler and `after` are longer than the model allows.
            UedpBenchError: if a loss is NaN.
        """
        import torch

        if not len(fillers):
            return np.empty(0)
        texts = prepare([before, *(before + filler + after for filler in fillers)],
                        self.preprocessing)  # fmt: skip
        prefix, *full = self.vocabulary.encode(texts)
        common = _common_prefix(prefix, full)
        tails = [tokens[common:] for tokens in full]
        if not all(tails):
            raise InputError("filler: a filler without any token cannot be ranked")
        rows = TextRows.build(tails, self.vocabulary)
        start = self._fitting_prefix(prefix[:common], int(rows.lengths.max()))
        out = np.empty(len(fillers))
        with torch.no_grad():
            state = self._prefix_state(start[:-1])
            for chosen in self._batches(rows):
                tokens, targets = rows.padded(chosen)
                tokens[:, 0] = start[-1]
                logits = self._resume(tokens, start[:-1], state)
                losses = torch.nn.functional.cross_entropy(
                    logits.reshape(-1, logits.shape[-1]).float(),
                    self._tensor(targets).reshape(-1),
                    reduction="none",
                    ignore_index=IGNORED,
                )
                out[chosen] = losses.reshape(targets.shape).double().sum(dim=1).cpu().numpy()
        return _no_nan(out)

    def next_logprobs(self, prefixes: Sequence[Sequence[int]]) -> FloatArray:
        """See `Generator`; a prefix past the model's limit loses its oldest tokens.

        Raises:
            UedpBenchError: if a log-probability is NaN.
        """
        import torch

        table = np.asarray(prefixes, dtype=np.int64).reshape(len(prefixes), -1)
        limit = self.model.max_length()
        if limit is not None:
            table = table[:, max(0, table.shape[1] - limit + 2) :]
        begin = np.full((len(table), 1), self.vocabulary.begin, dtype=np.int64)
        tokens = np.concatenate([begin, table], axis=1)
        size = self._rows_at_once(tokens.shape[1])
        parts = []
        with torch.no_grad():
            for at in range(0, len(tokens), size):
                logits = self.module(self._tensor(tokens[at : at + size]))[:, -1]
                parts.append(torch.log_softmax(logits.double(), dim=-1).cpu().numpy())
        return _no_nan(np.concatenate(parts) if parts else np.empty((0, self.vocabulary.size)))

    def encode(self, text: str) -> list[int]:
        """See `Generator`."""
        return self.vocabulary.encode(prepare([text], self.preprocessing))[0]

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
        from uedp_bench.models.module_set import save_modules

        folder.mkdir(parents=True, exist_ok=True)
        self.vocabulary.save(folder / "vocabulary")
        save_modules(self.module, folder, self.model.save_network)
        content = {
            "model": {
                "name": self.model.name,
                "params": self.model.params.model_dump(mode="json"),
            },
            "preprocessing": self.preprocessing,
            "max_tokens": self.max_tokens,
        }
        (folder / "release.json").write_text(json.dumps(content, indent=1), encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> LanguageModelRelease:
        """The release that `save` wrote.

        Raises:
            InputError: if there is none in the folder.
        """
        from uedp_bench.models.module_set import load_modules
        from uedp_bench.registry import models

        path = folder / "release.json"
        if not path.is_file():
            raise InputError(f"{folder} holds no saved language model: {path.name} is missing")
        content = json.loads(path.read_text(encoding="utf-8"))
        model = models.create(content["model"]["name"], content["model"]["params"])
        vocabulary = model.load_vocabulary(folder / "vocabulary")
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
        return _no_nan(values[0]), _no_nan(values[1]), _no_nan(values[2]), correct

    def _batches(self, rows: TextRows) -> Iterator[IntArray]:
        """Row numbers, rows of similar length together."""
        order = np.argsort(rows.lengths, kind="stable")
        at = 0
        while at < len(order):
            size = self._rows_at_once(int(rows.lengths[order[at]]))
            # Later rows are longer: shrink until the batch fits with its own longest row.
            while size > 1 and size > self._rows_at_once(
                int(rows.lengths[order[min(at + size, len(order)) - 1]])
            ):
                size = max(1, size // 2)
            yield order[at : at + size]
            at += size

    def _rows_at_once(self, length: int) -> int:
        logits = length * self.vocabulary.size
        return max(1, min(self.score_rows, _LOGITS_AT_ONCE // max(logits, 1)))

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

    def _prefix_state(self, prefix: list[int]) -> Any:
        """What a network that can continue a prefix remembers of it; None for others."""
        if not prefix or not hasattr(self.module, "prefix_state"):
            return None
        start: Any = self.module.prefix_state
        return start(self._tensor(np.array([prefix])))

    def _resume(self, tokens: IntArray, prefix: list[int], state: Any) -> Tensor:
        """Logits (rows, length, vocabulary) of tokens that follow the prefix."""
        if state is not None:
            resume: Any = self.module.resume
            logits: Tensor = resume(self._tensor(tokens), state)
            return logits
        before = np.tile(np.array(prefix, dtype=np.int64), (len(tokens), 1))
        full = self.module(self._tensor(np.concatenate([before, tokens], axis=1)))
        return full[:, len(prefix) :]  # type: ignore[no-any-return]


def _common_prefix(prefix: list[int], full: list[list[int]]) -> int:
    """Length of the longest part of `prefix` with which every sequence begins."""
    common = len(prefix)
    for tokens in full:
        while tokens[:common] != prefix[:common]:
            common -= 1
    return common


def _no_nan(values: FloatArray) -> FloatArray:
    if np.isnan(values).any():
        raise UedpBenchError("the released model gives NaN: its weights or logits are not finite")
    return values
