"""A masked language model: how it reads rows, what it loses on each, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from uedp_bench.api import BoolArray, Corpus, FloatArray, InputError, IntArray
from uedp_bench.api.capabilities import TokenScores
from uedp_bench.api.networks import Batch, HasOutputLayer, Losses, Reader
from uedp_bench.contracts.learner import example_ids, numbers_per_call
from uedp_bench.tasks.masked_language.masks import hidden_counts, hide
from uedp_bench.tasks.tokens.reader import SupervisedRelease, batches_by_length
from uedp_bench.tasks.tokens.rows import IGNORED, Columns, TextRows, no_nan, token_columns

if TYPE_CHECKING:
    from torch import Tensor, nn

Tokens = Sequence[int]

_NUMBERS_AT_ONCE = 2**23
"""Numbers in the largest tensor of one batch (32 MB)."""

_Finish = Callable[["Tensor", Any], Any]
"""Reduces logits (all places, vocabulary) of a batch, which are too large to keep."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskedReader(Reader):
    """Reader of a masked language model's text, which hides tokens of it.

    The loss of a row is the mean over its hidden tokens, whatever their number: long rows weigh no
    more than short ones, and the bound on a row's gradient means the same for all. A row without a
    token (an empty text) has no hidden token, the loss 0 and no gradient.

    Which tokens are hidden, and what stands for them, is drawn from the seed of the row, which is
    another one at every visit (dynamic masking: Liu et al. 2019, section 4.1): nobody's text is in
    the data several times, and the unit is the text.

    Attributes:
        rate: share of the tokens that are hidden.
        scored_tokens: tokens of a text that its pseudo-log-likelihood is made of, at most.
    """

    max_tokens: int
    rate: float
    scored_tokens: int | None = None

    FILE: ClassVar[str] = "masked_language_model.json"
    similar: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self.vocabulary, "mask", -1) < 0:
            raise InputError("a masked language model needs a vocabulary with a mask, as BERT's is")
        # A mask in a row is there to hide a token, and never what somebody typed.
        object.__setattr__(self, "vocabulary", self.vocabulary.literal())

    @property
    def room(self) -> int:
        """Most tokens between the begin and the end of a row."""
        return (self.limit or self.max_tokens) - 2

    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `Reader`: every row."""
        return np.ones(len(corpus), dtype=bool)

    def read(self, corpus: Corpus) -> Mapping[str, TextRows]:
        """See `Reader`."""
        return {"tokens": self.framed(corpus.texts)}

    def examples(self, corpus: Corpus) -> Mapping[str, TextRows]:
        """See `Reader`: random tokens."""
        ids = example_ids(self.vocabulary.size, self.room)
        return {"tokens": TextRows.framed(ids, self.vocabulary, self.room)}

    def batch(self, columns: Mapping[str, Any], rows: IntArray, seeds: IntArray) -> dict[str, Any]:
        """`tokens` (rows, longest), `lengths` (rows,), `places` and `targets` (rows, hidden).

        Tokens are as the network reads them; the seeds (rows,) hid some.
        """
        tokens, lengths = columns["tokens"].table(rows, self.padding, 2), columns["tokens"].lengths
        hidden = hide(tokens, lengths[rows], seeds, self.rate, self.vocabulary)
        return {**hidden._asdict(), "lengths": lengths[rows]}

    def row_size(self, columns: Columns, longest: int, module: nn.Module) -> int:
        """See `Reader`."""
        longest = max(longest, 2)
        hidden = int(hidden_counts(np.array([longest - 2]), self.rate)[0])
        logits = hidden * int(self.vocabulary.size)
        return max(logits, longest * int(self.model.token_numbers()), 1)

    def network(self, seed: int, head_seed: int) -> nn.Module:
        """See `Reader`."""
        module: nn.Module = self.model.build_masked(self.vocabulary, seed)
        return module

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Cross-entropy of the hidden tokens of each row."""
        from uedp_bench.models.fast.output_nats import output_nats, token_nats
        from uedp_bench.models.networks.modules import OutputLayer

        read = batch["tokens"], batch["lengths"], batch["places"]
        targets, network = batch["targets"], module
        layer = network.output_layer() if isinstance(network, HasOutputLayer) else None
        if layer is None:
            nats = token_nats(module(*read), targets)
        else:
            nats = output_nats(network.outputs(*read), OutputLayer(*layer), targets)  # type: ignore[operator]
        return Losses(nats.sum(dim=1), (targets != IGNORED).sum(dim=1).to(nats.dtype))

    def release(self, module: nn.Module) -> MaskedLanguageModelRelease:
        """See `Reader`."""
        return MaskedLanguageModelRelease(self, module)

    def save_network(self, module: nn.Module, folder: Path) -> None:
        """See `Reader`."""
        self.model.save_masked(module, folder)

    def load_network(self, folder: Path) -> nn.Module:
        """See `Reader`."""
        module: nn.Module = self.model.load_masked(self.vocabulary, folder)
        return module


class MaskedLanguageModelRelease(SupervisedRelease):
    """MaskFiller, Scorer, Completer and RowScorer; `events` are set by the harness.

    Masks of rows whose losses are asked for are those of the seed 0.
    """

    reader: MaskedReader

    def encode(self, text: str) -> list[int]:
        """See `MaskFiller`."""
        ids: list[int] = self.vocabulary.encode([text])[0]
        return ids

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
        for rows_of, scores in self._answers(masked, hidden, _scores, wanted):
            ends = np.cumsum([len(wanted[i]) for i in rows_of])[:-1]
            parts = (np.split(each, ends) for each in scores)
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
        most, room = self.reader.scored_tokens, self.reader.room
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
        gap = Gap.between(encoded[0], encoded[1], encoded[2:]).within(self.reader.room)
        questions = gap.questions(self.vocabulary.mask, self.reader.room)
        nats, order = np.empty(len(questions.tokens)), np.argsort(questions.question, kind="stable")
        starts = np.searchsorted(questions.question[order], np.arange(len(questions.rows) + 1))
        rows = [np.array(row, dtype=np.int64) for row in questions.rows]
        places = [questions.places[i : i + 1] for i in range(len(rows))]
        answers = [order[starts[i] : starts[i + 1]] for i in range(len(rows))]
        tokens = [questions.tokens[of_row] for of_row in answers]
        for rows_of, losses in self._answers(rows, places, _losses, tokens):
            for i, values in zip(rows_of, losses, strict=True):
                nats[answers[i]] = values
        return no_nan(sums_of(questions, nats, len(fillers)))

    def _answers(
        self,
        rows: Sequence[IntArray],
        places: Sequence[IntArray],
        finish: _Finish,
        wanted: Sequence[IntArray],
    ) -> Iterator[tuple[list[int], Any]]:
        """Numbers of rows of similar length, with `finish` of logits at their places and `wanted`.

        Rows have neither begin nor end.

        Raises:
            InputError: if a row is longer than the model allows.
        """
        import torch

        vocabulary, reader = self.vocabulary, self.reader
        lengths = np.array([len(row) for row in rows], dtype=np.int64) + 2
        if (over := int(lengths.max(initial=2)) - 2) > self.reader.room:
            raise InputError(f"a row has {over} tokens, and the model reads {self.reader.room}")
        counts = np.array([len(at) for at in places], dtype=np.int64)
        wide = int(counts.max(initial=1)) * int(vocabulary.size)

        numbers = numbers_per_call(_NUMBERS_AT_ONCE, self.device)

        def rows_at_once(length: int) -> int:
            most = max(wide, length * int(reader.model.token_numbers()))
            return max(1, min(reader.score_rows, numbers // most))

        for some in batches_by_length(lengths, rows_at_once):
            tokens = np.full((len(some), lengths[some].max()), vocabulary.end, dtype=np.int64)
            positions = np.zeros((len(some), max(1, counts[some].max())), dtype=np.int64)
            tokens[:, 0] = vocabulary.begin
            for at, i in enumerate(some.tolist()):
                tokens[at, 1 : 1 + len(rows[i])] = rows[i]
                positions[at, : counts[i]] = places[i] + 1
            used = np.arange(positions.shape[1]) < counts[some][:, None]
            read = (
                torch.from_numpy(each).to(self.device)
                for each in (tokens, lengths[some], positions)
            )
            with torch.no_grad():
                logits = self.module(*read)[torch.from_numpy(used).to(self.device)]
                answer = finish(logits, [wanted[i] for i in some.tolist()])
            yield some.tolist(), answer


def _losses(logits: Tensor, tokens: Sequence[IntArray]) -> list[FloatArray]:
    """Nats of the tokens that are wanted of each row, whose one place is asked about."""
    logs = logits.float().log_softmax(dim=1).double().cpu().numpy()
    return [-of_row[ids] for of_row, ids in zip(logs, tokens, strict=True)]


def _scores(logits: Tensor, targets: Sequence[IntArray]) -> Any:
    """(places,) columns of `TokenScores`, given the targets of each row."""
    return token_columns(logits, np.concatenate(targets))


class Questions(NamedTuple):
    """Questions to a masked language model, with the answers that count.

    Attributes:
        rows: token ids of each question, without begin and end, masks in the gap.
        places: (questions,) position of the hidden token.
        question: (answers,) question of each answer.
        tokens: (answers,) token whose log-probability is wanted.
        fillers: (answers,) filler to whose loss the answer contributes.
    """

    rows: list[list[int]]
    places: IntArray
    question: IntArray
    tokens: IntArray
    fillers: IntArray


@dataclass(frozen=True)
class Gap:
    """A gap in a text and what may fill it, as tokens.

    Attributes:
        before: on the left of the gap.
        after: on the right of it.
        fillers: none is empty.
    """

    before: Tokens
    after: Tokens
    fillers: Sequence[Tokens]

    @staticmethod
    def between(before: Tokens, after: Tokens, full: Sequence[Tokens]) -> Gap:
        """The gap of texts that begin and end alike.

        Where a filler changes how the texts beside it are split into tokens, the gap is that much
        wider, for all fillers.

        Args:
            before: tokens on the left.
            after: tokens on the right.
            full: tokens of the texts with each filler, one at least.

        Raises:
            InputError: for a filler that has no token.
        """
        left = min(_alike(before, row) for row in full)
        right = min(_alike(after[::-1], row[left:][::-1]) for row in full)
        fillers = [row[left : len(row) - right] for row in full]
        if not all(len(filler) for filler in fillers):
            raise InputError("filler: a filler without any token cannot be ranked")
        return Gap(before[:left], after[len(after) - right :], fillers)

    def within(self, room: int) -> Gap:
        """Gap in a text of at most `room` tokens, those nearest to it."""
        left = max(0, room - max(map(len, self.fillers)))
        after = min(len(self.after), max(left // 2, left - len(self.before)))
        before = min(len(self.before), left - after)
        return replace(
            self, before=self.before[len(self.before) - before :], after=self.after[:after]
        )

    def questions(self, mask: int, room: int) -> Questions:
        """Each token of a filler, given those to its left; those to its right are hidden.

        Args:
            mask: mask that stands for hidden tokens.
            room: tokens of a question, at most. Longer fillers are cut into parts, and each part
                is asked by itself.
        """
        row_of_question: dict[tuple[int, tuple[int, ...]], int] = {}
        rows: list[list[int]] = []
        places: list[int] = []
        answers: list[tuple[int, int, int]] = []
        parts = (
            (number, filler[start : start + room])
            for number, filler in enumerate(self.fillers)
            for start in range(0, len(filler), room)
        )
        for number, filler in parts:
            for at, token in enumerate(filler):
                key = len(filler), tuple(filler[:at])
                if key not in row_of_question:
                    row_of_question[key] = len(rows)
                    hidden = [mask] * (len(filler) - at)
                    rows.append([*self.before, *filler[:at], *hidden, *self.after])
                    places.append(len(self.before) + at)
                answers.append((row_of_question[key], token, number))
        table = np.array(answers, dtype=np.int64).reshape(-1, 3)
        return Questions(rows, np.array(places, dtype=np.int64), *table.T)


def sums_of(questions: Questions, nats: FloatArray, fillers: int) -> FloatArray:
    """(fillers,) losses, of those of the answers (answers,)."""
    return np.bincount(questions.fillers, nats, minlength=fillers).astype(np.float64)


def _alike(one: Tokens, other: Tokens) -> int:
    """Length of the longest beginning that two sequences share."""
    most = min(len(one), len(other))
    return next((at for at in range(most) if one[at] != other[at]), most)
