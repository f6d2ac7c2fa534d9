"""Word-level recurrent language models: CIFG-LSTM of two sizes, and the AWD-LSTM."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field

from uedp_bench.api.networks import TextEncoder, Vocabulary, WordModel, WordParams

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.models.networks.lstm import NetworkShape


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


class AWDLSTMParams(WordParams):
    """Sizes and rates of dropout; the defaults are the paper's."""

    embedding: int = Field(
        default=100, ge=1, description="size of embeddings and of the last layer's output"
    )
    units: int = Field(default=1150, ge=1, description="memory cells of every layer but the last")
    layers: int = Field(default=3, ge=1, description="recurrent layers")
    embedding_dropout: float = Field(
        default=0.1, ge=0, lt=1, description="fraction of words dropped, each wherever it stands"
    )
    recurrent_dropout: float = Field(
        default=0.3, ge=0, lt=1, description="fraction of each layer's recurrent outputs dropped"
    )
    output_dropout: float = Field(
        default=0.5, ge=0, lt=1, description="fraction of the last layer's outputs dropped"
    )


class AWDLSTM(WordModel[AWDLSTMParams], TextEncoder[AWDLSTMParams]):
    """Three LSTM layers of 1,150 units, embeddings of 100 shared with the output, dropout.

    As in Merity et al., the last layer comes back to the size of the embedding, so that input and
    output share it. Embeddings start uniform in [-0.1, 0.1], other weights in +-1 / sqrt(units of
    the layer).

    One thing differs from Merity et al.: they drop entries of the hidden-to-hidden *matrix*, one
    draw for a whole batch (DropConnect), which would couple the rows of a batch. Here each row
    draws its own mask on the recurrent *output*, kept for all its time steps (Gal and Ghahramani
    2016), from its own seed: what a row contributes depends on that row alone, as clipping and
    accounting by user or record need. The other two masks are by row as well.

    As an encoder it is the same network without the output's bias; a text's representation is the
    last layer's last, largest and mean output, side by side (Howard and Ruder 2018).
    """

    name = "awd-lstm"
    source = "Merity et al. 2018; sizes and rates of Lai et al. 2022 (UeDP), section VI-c"
    Params = AWDLSTMParams

    def build(self, vocabulary: Vocabulary, seed: int) -> nn.Module:
        """See `LanguageModel`."""
        from uedp_bench.models.networks.lstm import RecurrentNetwork

        return RecurrentNetwork(self._shape(vocabulary, output_bias=True), seed)

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """See `TextEncoder`."""
        from uedp_bench.models.networks.recurrent_encoders import ConcatPooling

        if vocabulary is None:
            raise TypeError(f"{self.name} reads a vocabulary of words")
        return ConcatPooling(self._shape(vocabulary, output_bias=False), seed)

    def _shape(self, vocabulary: Vocabulary, *, output_bias: bool) -> NetworkShape:
        from uedp_bench.models.networks.lstm import Dropout, LayerShape, NetworkShape

        params = self.params
        sizes = [params.embedding, *[params.units] * (params.layers - 1), params.embedding]
        return NetworkShape(
            vocabulary=vocabulary.size,
            embedding=params.embedding,
            layers=tuple(
                LayerShape(inputs, units, projection=None, coupled=False)
                for inputs, units in pairwise(sizes)
            ),
            output_bias=output_bias,
            embedding_range=0.1,
            dropout=Dropout(
                params.embedding_dropout, params.recurrent_dropout, params.output_dropout
            ),
        )
