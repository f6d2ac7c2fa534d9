"""Word-level CIFG-LSTM language models, at the size of the federated papers and a small one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field

from uedp_bench.api.networks import Vocabulary, WordModel, WordParams

if TYPE_CHECKING:
    from torch import nn


class CIFGParams(WordParams):
    """Sizes of a one-layer CIFG-LSTM with a recurrent projection and tied embedding."""

    embedding: int = Field(
        default=96, ge=1, description="size of embeddings and of the recurrent projection"
    )
    units: int = Field(default=670, ge=1, description="memory cells")
    output_bias: bool = Field(default=False, description="a bias for every word of the output")


class LSTMSmallParams(CIFGParams):
    """Sizes that two CPU cores train in seconds."""

    vocabulary_size: int = Field(
        default=2_000, ge=4, description="most words, three special ones included"
    )
    embedding: int = Field(
        default=32, ge=1, description="size of embeddings and of the recurrent projection"
    )
    units: int = Field(default=64, ge=1, description="memory cells")
    output_bias: bool = Field(default=True, description="a bias for every word of the output")


P = TypeVar("P", bound=CIFGParams)


class _CIFG(WordModel[P]):
    """Common parts of both sizes."""

    def build(self, vocabulary: Vocabulary, seed: int) -> nn.Module:
        """The network; its output is the projection times the shared embedding."""
        from uedp_bench.models.networks.lstm import LayerShape, NetworkShape, RecurrentNetwork

        size, units = self.params.embedding, self.params.units
        shape = NetworkShape(
            vocabulary=vocabulary.size,
            embedding=size,
            layers=(LayerShape(size, units, projection=size, coupled=True),),
            output_bias=self.params.output_bias,
            # Unit-length embeddings on average: tied, they are the output weights as well.
            embedding_range=math.sqrt(3.0 / size),
        )
        return RecurrentNetwork(shape, seed)


class CIFGLSTM(_CIFG[CIFGParams]):
    """The word-level model of federated keyboards: 1,412,250 parameters at 10,000 words.

    One layer of 670 cells with coupled input and forget gates, a recurrent projection to 96, and
    embeddings of 96 shared between input and output. The papers round it to 1.3 or 1.4 million.
    """

    name = "cifg-lstm"
    source = "Hard et al. 2018 (arXiv:1811.03604); Thakkar et al. 2020 (arXiv:2006.07490)"
    Params = CIFGParams


class LSTMSmall(_CIFG[LSTMSmallParams]):
    """Small sibling of cifg-lstm with about 80,000 parameters, for benchmarks on two cores."""

    name = "lstm-small"
    source = "the architecture of cifg-lstm, scaled down"
    Params = LSTMSmallParams
