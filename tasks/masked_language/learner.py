"""What mechanisms train as a masked language model: rows of text, and the loss of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.corpus import Corpus, IntArray, some_texts
from uedp_bench.errors import InputError
from uedp_bench.learner import Batch, Learner, Losses, Schedule, example_ids, row_seeds
from uedp_bench.model import HasOutputLayer
from uedp_bench.tasks.masked_language.masks import hidden_counts, hide
from uedp_bench.tasks.tokens.pretraining import Pretraining, private_rows, public_stage
from uedp_bench.tasks.tokens.rows import IGNORED, encoded_rows

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.masked_model import MaskedLanguageModel, MaskedVocabulary
    from uedp_bench.model import Vocabulary
    from uedp_bench.run_context import Run
    from uedp_bench.tasks.masked_language.release import MaskedLanguageModelRelease


@dataclass(frozen=True, eq=False)
class MaskedReader:
    """How a masked language model reads text, in training and when it is asked.

    Attributes:
        model: made the network.
        vocabulary: its tokens.
        max_tokens: tokens of a row past this many are left out of training, begin and end among
            them.
        rate: share of the tokens that are hidden.
        score_rows: rows that are scored at once, at most.
        scored_tokens: tokens of a text that its pseudo-log-likelihood is made of, at most.
    """

    model: MaskedLanguageModel[Any]
    vocabulary: MaskedVocabulary
    max_tokens: int
    rate: float
    score_rows: int = 512
    scored_tokens: int | None = None

    def __post_init__(self) -> None:
        # A mask in a row is there to hide a token, and never what somebody typed.
        object.__setattr__(self, "vocabulary", self.vocabulary.literal())

    @property
    def limit(self) -> int:
        """Most tokens of a training row, begin and end included."""
        return min(n for n in (self.max_tokens, self.model.max_length()) if n is not None)


class _Rows(NamedTuple):
    """Tokens of many rows, begin and end among them: row i has `flat[offsets[i]:offsets[i + 1]]`.

    Attributes:
        flat: (tokens,) ids.
        offsets: (rows + 1,).
        truncated: rows that lost tokens to a limit.
    """

    flat: IntArray
    offsets: IntArray
    truncated: int

    @staticmethod
    def read(texts: Sequence[str], reader: MaskedReader) -> _Rows:
        """The tokens of texts."""
        vocabulary, room = reader.vocabulary, reader.limit - 2
        return _Rows.framed(vocabulary.encode(texts), vocabulary, room)

    @staticmethod
    def framed(ids: Sequence[Sequence[int]], vocabulary: Vocabulary, room: int) -> _Rows:
        """Rows of at most so many ids, each with its begin and its end."""
        rows = [[vocabulary.begin, *row[:room], vocabulary.end] for row in ids]
        ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
        flat = np.fromiter((t for row in rows for t in row), dtype=np.int64)
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), ends])
        return _Rows(flat, offsets, sum(len(row) > room for row in ids))

    @property
    def lengths(self) -> IntArray:
        """(rows,) number of tokens."""
        return np.diff(self.offsets)

    def padded(self, rows: IntArray, padding: int) -> tuple[IntArray, IntArray]:
        """Tokens (rows, longest of these rows), padded on the right, and lengths (rows,)."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        columns = np.arange(lengths.max(initial=2))
        inside = columns < lengths[:, None]
        at = starts[:, None] + np.where(inside, columns, 0)
        return np.where(inside, self.flat[at], padding), lengths


class MaskedLearner(Learner):
    """A masked language model and the rows that it learns from; see `uedp_bench.learner.Learner`.

    The loss of a row is the mean over its hidden tokens, whatever their number: long rows weigh no
    more than short ones, and the bound on a row's gradient means the same for all. A row without a
    token (an empty text) has no hidden token, the loss 0 and no gradient.

    Which tokens are hidden, and what stands for them, is drawn from the seed of the row, which is
    another one at every visit (dynamic masking: Liu et al. 2019, section 4.1): nobody's text is in
    the data several times, and the unit is the text.

    Args:
        reader: reads rows.
        module: the network.
        corpus: the rows, numbered from 0.
        schedule: of the stage on public rows, how to train it; None for the private stage.

    Attributes:
        truncated: rows that lost tokens to a limit; None where nobody counts them, for rows that
            stay in a file are tokenised when they are asked for.
    """

    def __init__(
        self,
        reader: MaskedReader,
        module: nn.Module,
        corpus: Corpus,
        *,
        schedule: Schedule | None = None,
    ) -> None:
        self.module = module if schedule is None else reader.model.on_public_text(module)
        self.corpus, self.vocabulary = corpus, reader.vocabulary
        self.vectorised: bool = reader.model.vectorised
        self.role = "private" if schedule is None else "public"
        self.schedule = schedule
        self._reader, vocabulary = reader, reader.vocabulary
        self._rows, self.row_lengths = encoded_rows(corpus, partial(_some, corpus.texts, reader))
        self.truncated = None if corpus.stored else self._rows.known.truncated
        longest = self.row_lengths.max(initial=2)
        hidden = int(hidden_counts(np.array([longest - 2]), reader.rate)[0])
        self.row_size = max(
            hidden * vocabulary.size, int(longest) * reader.model.token_numbers(), 1
        )

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        """`tokens` (rows, longest), `lengths` (rows,), `places` and `targets` (rows, hidden).

        Tokens are as the network reads them; the seeds (rows,) hid some.
        """
        found_rows, place = self._rows.some(np.asarray(rows, dtype=np.int64))
        return self._hidden(found_rows, place, seeds)

    def example_batch(self) -> Batch:
        """See `Learner`: random tokens."""
        vocabulary, room = self._reader.vocabulary, self._reader.limit - 2
        rows = _Rows.framed(example_ids(vocabulary.size, room), vocabulary, room)
        every = np.arange(len(rows.lengths))
        return self._hidden(rows, every, row_seeds(np.random.default_rng(0), every.shape))

    def _hidden(self, rows: _Rows, place: IntArray, seeds: IntArray) -> Batch:
        import torch

        tokens, lengths = rows.padded(place, self._reader.vocabulary.end)
        hidden = hide(tokens, lengths, seeds, self._reader.rate, self._reader.vocabulary)
        found = {**hidden._asdict(), "lengths": lengths}
        return {name: torch.from_numpy(value) for name, value in found.items()}

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Cross-entropy of the hidden tokens of each row."""
        from uedp_bench.models.fast.cross_entropy import token_nats
        from uedp_bench.models.fast.output_nats import output_nats
        from uedp_bench.models.networks.output_layer import OutputLayer

        read = batch["tokens"], batch["lengths"], batch["places"]
        targets, network = batch["targets"], module
        layer = network.output_layer() if isinstance(network, HasOutputLayer) else None
        if layer is None:
            nats = token_nats(module(*read), targets)
        else:
            nats = output_nats(network.outputs(*read), OutputLayer(*layer), targets)  # type: ignore[operator]
        return Losses(nats.sum(dim=1), (targets != IGNORED).sum(dim=1).to(nats.dtype))

    def release(self, module: nn.Module) -> MaskedLanguageModelRelease:
        """The model as anybody with its weights can ask it."""
        from uedp_bench.tasks.masked_language.release import MaskedLanguageModelRelease

        return MaskedLanguageModelRelease(self._reader, module)


def _some(texts: Sequence[str], reader: MaskedReader, rows: IntArray) -> _Rows:
    return _Rows.read(some_texts(texts, rows), reader)


def masked_stages(
    reader: MaskedReader, params: Pretraining, corpus: Corpus, run: Run
) -> list[MaskedLearner]:
    """The learners of public text, where that is asked for, and of private text.

    Args:
        reader: reads rows.
        params: say how public text is learnt.
        corpus: its splits public and train.
        run: around them.

    Raises:
        InputError: if there is nothing to train on, or public pre-training is asked for without
            public text.
    """
    module = reader.model.build_masked(reader.vocabulary, run.shared_seed("init"))
    stages = []
    missing = "the corpus has no public text: give source.public files, or set it to 0"
    if (before := public_stage(params, corpus, missing)) is not None:
        stages.append(MaskedLearner(reader, module, before[0], schedule=before[1]))
    train = private_rows(corpus)
    stages.append(MaskedLearner(reader, module, train))
    for learner in stages:
        run.count({"rows_truncated": learner.truncated})
    return stages


def with_mask(vocabulary: Vocabulary | None) -> MaskedVocabulary:
    """The vocabulary, if it has a mask.

    Raises:
        InputError: if it has none.
    """
    known: Any = vocabulary
    if getattr(known, "mask", -1) < 0:
        raise InputError("a masked language model needs a vocabulary with a mask, as BERT's is")
    masked: MaskedVocabulary = known
    return masked
