"""A Marian model of `transformers` behind the interface of this package's translators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from uedp_bench.models.networks.output_layer import OutputLayer


class MarianNetwork(nn.Module):
    """See `TranslationModule`.

    The wrapped network stays in evaluation mode: the library draws dropout for whole batches, and
    the loss of a row must not depend on the rows beside it. Position embeddings are not trained.

    Args:
        network: a `MarianMTModel`.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network: Any = network.eval()
        for part in (network.get_encoder(), network.get_decoder()):
            # They are sinusoids; the library would let them be trained.
            part.embed_positions.weight.requires_grad_(False)

    def train(self, mode: bool = True) -> MarianNetwork:
        """Set the mode of this module, not of the wrapped network."""
        self.training = mode
        return self

    def encode(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """(rows, source length, size); see `TranslationModule`."""
        output = self.network.get_encoder()(input_ids=tokens, attention_mask=_mask(tokens, lengths))
        return output.last_hidden_state  # type: ignore[no-any-return]

    def decode(self, inputs: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """(rows, target length, size); see `TranslationModule`."""
        output = self.network.get_decoder()(
            input_ids=inputs,
            encoder_hidden_states=memory,
            encoder_attention_mask=_mask(memory, lengths),
            use_cache=False,
        )
        return output.last_hidden_state  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor, lengths: Tensor, inputs: Tensor) -> Tensor:
        """(rows, target length, vocabulary) logits of the tokens that follow the inputs."""
        features = self.decode(inputs, self.encode(tokens, lengths), lengths)
        return nn.functional.linear(features, *self.output_layer())

    def output_layer(self) -> OutputLayer:
        """The layer that makes logits; its bias is not trained."""
        bias = self.network.final_logits_bias
        return OutputLayer(self.network.lm_head.weight, bias.reshape(-1))

    def token_embedding(self) -> Tensor:
        """See `EmbedsTokens`."""
        return self.network.get_input_embeddings().weight  # type: ignore[no-any-return]


def _mask(rows: Tensor, lengths: Tensor) -> Tensor:
    """(rows, length) 1 where a row has a token."""
    columns = torch.arange(rows.shape[1], device=rows.device)
    return (columns < lengths[:, None]).long()
