"""Contract of masked language models, which predict hidden tokens from both sides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from uedp_bench.components.component import P
from uedp_bench.contracts.capabilities import TokenScores, Vocabulary, capability
from uedp_bench.contracts.model import TextModel, load_weights, save_weights
from uedp_bench.corpus import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor, nn


class MaskedVocabulary(Vocabulary, Protocol):
    """A vocabulary with a token that stands for hidden ones.

    Attributes:
        mask: id of that token.
        special: ids that are no part of a text, the mask's among them; the unknown token's too.
    """

    mask: int
    special: tuple[int, ...]

    def literal(self) -> MaskedVocabulary:
        """Copy that reads special tokens which somebody typed letter by letter."""
        ...


class MaskedModule(Protocol):
    """Module that `MaskedLanguageModel.build_masked` returns, as tasks call it.

    Row i of the logits depends on row i of the arguments and on the weights only, and on none of
    its padding. Where the module has `output_layer` and it is not None (`HasOutputLayer`), logits
    are its image of `outputs(tokens, lengths, places)` (rows, places, size).

    Attributes:
        encoder: the part that a `TokenEncoder` of the same model and seed has too, with weights of
            the same names: `take_over(target, source, "encoder")` passes it on.
    """

    encoder: nn.Module

    def __call__(self, tokens: Tensor, lengths: Tensor, places: Tensor) -> Tensor:
        """(rows, places, vocabulary) logits of the tokens at some places.

        Args:
            tokens: (rows, length) ids, begin and end included, padded on the right.
            lengths: (rows,) tokens of each row.
            places: (rows, places) positions in the row; those of padding may be any.
        """
        ...


class MaskedLanguageModel(TextModel[P]):
    """A network that predicts hidden tokens of a text from all others, on both sides."""

    @abstractmethod
    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> MaskedVocabulary:
        """See `TextModel`."""

    @abstractmethod
    def load_vocabulary(self, folder: Path) -> MaskedVocabulary:
        """See `TextModel`."""

    def token_numbers(self) -> int:
        """Numbers of the largest tensor for one token, its logits left out; see `Learner`."""
        return 1

    @abstractmethod
    def build_masked(self, vocabulary: MaskedVocabulary, seed: int) -> nn.Module:
        """A `MaskedModule` with fresh (by `seed`) or pretrained weights, on the CPU."""

    def save_masked(self, module: nn.Module, folder: Path) -> None:
        """Write the weights of a module that `build_masked` made."""
        save_weights(module, folder / "masked.pt")

    def load_masked(self, vocabulary: MaskedVocabulary, folder: Path) -> nn.Module:
        """The module with the weights that `save_masked` wrote, on the CPU."""
        return load_weights(self.build_masked(vocabulary, seed=0), folder / "masked.pt")


def _first_hidden(release: MaskFiller, texts: Sequence[str]) -> FloatArray:
    """Log-probabilities of the first token of each text."""
    rows = [ids[:8] for ids in map(release.encode, texts) if ids]
    scores = release.masked_logprobs(rows, [np.zeros(1, dtype=np.int64)] * len(rows))
    return np.concatenate([np.empty(0), *(score.logp for score in scores)])


@capability(lambda release, rows: _first_hidden(release, rows.texts))
@runtime_checkable
class MaskFiller(Protocol):
    """Release that scores tokens of a text when they are hidden."""

    def masked_logprobs(
        self, rows: Sequence[Sequence[int]], hidden: Sequence[IntArray]
    ) -> list[TokenScores]:
        """Scores of the hidden tokens of each row, given its other tokens alone.

        Args:
            rows: token ids, without begin and end; the release adds them. As many as the model
                allows, at most.
            hidden: (tokens,) positions of each row that the mask stands for, all at once.
        """
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without begin and end."""
        ...
