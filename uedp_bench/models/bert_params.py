"""Parameters of `bert`: its weights or its size, and the trained part of it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from uedp_bench.components.component import MayBePath, Requirement, equals
from uedp_bench.models.adapters import LoraParams
from uedp_bench.text.pretrained import PretrainedModel

PRETRAINED = "bert-base-uncased"
_NAMES = (
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
SIZES: dict[str, dict[str, int]] = {
    "micro": dict(zip(_NAMES, (2, 128, 4, 256, 256), strict=True)),
    "tiny": dict(zip(_NAMES, (4, 128, 4, 512, 256), strict=True)),
    "small": dict(zip(_NAMES, (6, 384, 12, 1536, 512), strict=True)),
}
TOKENS = {"micro": 2_000, "tiny": 2_000, "small": 30_000}


class BERTParams(LoraParams):
    """The weights, which of them are trained, and how a text becomes one vector."""

    pretrained: Annotated[str, MayBePath()] = Field(
        default=PRETRAINED,
        description="hub id or local directory of an encoder and its tokenizer; not used, and at "
        "its default, where `configuration` is given",
    )
    configuration: Literal["micro", "tiny", "small"] | None = Field(
        default=None,
        description="size when trained from scratch, with a WordPiece tokenizer of public text: "
        "'tiny' has 4 layers of 128, 4 heads, 256 positions and up to 2,000 tokens, 'micro' 2 such "
        "layers with 256 units between them, 'small' 6 layers of 384, 12 heads, 512 positions and "
        "up to 30,000 tokens",
    )
    vocabulary_size: int | None = Field(
        default=None,
        ge=50,
        description="from scratch: most tokens of the tokenizer; the configuration's own where "
        "not given",
        exclude_if=equals(None),
    )
    frozen: bool = Field(
        default=False,
        description="keep the pretrained weights as they are: texts are encoded once, and what is "
        "on top is trained",
    )
    pooling: Literal["cls", "mean"] = Field(
        default="cls",
        description="the representation: the last layer's vector of the first token, or the mean "
        "over all tokens",
    )
    projection: int | None = Field(
        default=None,
        ge=1,
        description="size of the representation: a linear layer on top of the encoder, always "
        "trained; without it the representation is the encoder's own",
    )
    max_length: int | None = Field(
        default=None,
        ge=3,
        description="tokens of a text past this many are left out, the first and last special "
        "token among them; the encoder's own limit where not given",
    )

    def requires(self) -> tuple[Requirement, ...]:
        """The encoder, where it is not trained from scratch, and the library of adapters."""
        model = PretrainedModel(self.pretrained, "pretrained")
        return (*super().requires(), *((model,) if self.configuration is None else ()))

    @model_validator(mode="after")
    def _scratch_has_no_weights(self) -> BERTParams:
        if self.configuration is not None and self.pretrained != PRETRAINED:
            raise ValueError("configuration trains from scratch: leave out pretrained")
        if self.configuration is None and self.vocabulary_size is not None:
            raise ValueError("pretrained brings its own tokenizer: leave out vocabulary_size")
        if self.configuration is not None and self.frozen:
            raise ValueError("configuration trains from scratch: it cannot be frozen")
        if self.frozen and self.lora_rank is not None:
            raise ValueError("a frozen encoder has no adapters: leave out frozen or lora_rank")
        return self
