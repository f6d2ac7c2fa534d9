"""GPT-2, and any causal language model of the `transformers` library."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from uedp_bench.api import InputError, MayBePath
from uedp_bench.api.networks import LanguageModel, Vocabulary
from uedp_bench.models.adapters import LoraParams, configured, load_adapted, save_adapted, whole
from uedp_bench.models.tokenizers import TokenizerVocabulary, words_of_bytes
from uedp_bench.text.pretrained import no_progress_bars, readable, tokenizer_of

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.models.networks.causal_transformer import TransformerNetwork

_FIELD = "gpt2.pretrained"
_SIZE_NAMES = ("n_layer", "n_embd", "n_head", "n_positions", "vocab_size")
_SIZES: dict[str, dict[str, int]] = {
    "tiny": dict(zip(_SIZE_NAMES, (4, 128, 4, 256, 2_000), strict=True)),
    "small": dict(zip(_SIZE_NAMES, (12, 768, 12, 1024, 50_257), strict=True)),
}


class GPT2Params(LoraParams):
    """Weights or size of the network, and the trained part of it."""

    pretrained: Annotated[str | None, MayBePath()] = Field(
        default=None,
        description="hub id or local directory of a causal language model and its tokenizer; "
        "`configuration` and `vocabulary_size` are then not used and must keep their defaults",
    )
    configuration: Literal["tiny", "small"] = Field(
        default="tiny",
        description="size when trained from scratch: 'small' is GPT-2 small (12 layers of 768, "
        "12 heads, 1,024 positions, up to 50,257 tokens), 'tiny' has 4 layers of 128, 4 heads, "
        "256 positions and up to 2,000 tokens",
    )
    vocabulary_size: int | None = Field(
        default=None,
        ge=257,
        description="most tokens of a tokenizer trained on public text; the configuration's own "
        "where not given",
    )

    @model_validator(mode="after")
    def _one_or_the_other(self) -> GPT2Params:
        own = (self.configuration, self.vocabulary_size)
        if self.pretrained is not None and own != ("tiny", None):
            raise ValueError(
                "pretrained brings its own size and tokenizer: leave out configuration and "
                "vocabulary_size"
            )
        return self


class GPT2(LanguageModel[GPT2Params]):
    """GPT-2 by pretrained weights, or from scratch with byte-pair encoding of public text.

    There is no dropout: a row's loss must not depend on the rows beside it, and the library draws
    masks for whole batches. Sequences are padded on the right under a causal mask, so padding
    never reaches a token that counts.

    Users train one after the other: side by side (`vmap`) is no faster, for attention leaves the
    fused kernel. With `lora_rank` they train adapters alone.
    """

    name = "gpt2"
    source = "Radford et al. 2019; Lai et al. 2022 (UeDP), section VI-c"
    Params = GPT2Params
    vectorised = False

    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> Vocabulary:
        """The pretrained tokenizer (the texts are not used), or one trained on the texts."""
        where = self.params.pretrained
        if where is None:
            size = self.params.vocabulary_size or _SIZES[self.params.configuration]["vocab_size"]
            return TokenizerVocabulary.train(texts, size, origin=origin, private=private)
        tokenizer = tokenizer_of(where, _FIELD)
        size = int(self._configuration(where).vocab_size)
        return TokenizerVocabulary(tokenizer, origin=f"tokenizer of {where}", size=size)

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """Words of each text with the space before them, signs and digits apart."""
        return words_of_bytes(texts)

    def load_vocabulary(self, folder: Path) -> Vocabulary:
        """See `LanguageModel`."""
        return TokenizerVocabulary.load(folder)

    def build(self, vocabulary: Vocabulary, seed: int) -> nn.Module:
        """See `LanguageModel`.

        Raises:
            InputError: if the pretrained model cannot be read, or has fewer tokens than its
                tokenizer.
        """
        import torch
        from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

        where = self.params.pretrained
        if where is not None:
            with readable(where, _FIELD), no_progress_bars():
                network = AutoModelForCausalLM.from_pretrained(where, dtype=torch.float32)
            if network.config.vocab_size < vocabulary.size:
                raise InputError(
                    f"gpt2.pretrained {where!r} has {network.config.vocab_size} tokens, its "
                    f"tokenizer {vocabulary.size}"
                )
            return self._adapted(network, seed)
        sizes = {**_SIZES[self.params.configuration], "vocab_size": vocabulary.size}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = GPT2LMHeadModel(
                GPT2Config(**sizes, bos_token_id=vocabulary.begin, eos_token_id=vocabulary.end)
            )
        return self._adapted(network, seed)

    def brings_vocabulary(self) -> bool:
        """A pretrained model comes with its tokenizer."""
        return self.params.pretrained is not None

    def max_length(self) -> int | None:
        """Positions that the network has."""
        if self.params.pretrained is None:
            return _SIZES[self.params.configuration]["n_positions"]
        limit = getattr(
            self._configuration(self.params.pretrained), "max_position_embeddings", None
        )
        return None if limit is None else int(limit)

    def on_public_text(self, module: nn.Module) -> nn.Module:
        """See `TextModel`: all of the network, without its adapters."""
        return whole(module)

    def save_network(self, module: nn.Module, folder: Path) -> None:
        """Write configuration and weights, in the library's own format where it can."""
        if self.params.lora_rank is None:
            module.save(folder / "network")  # type: ignore[operator]
        else:
            save_adapted(module.network, folder / "network")

    def load_network(self, vocabulary: Vocabulary, folder: Path) -> nn.Module:
        """Read what `save_network` wrote; what it was pretrained from is not needed again."""
        from transformers import AutoModelForCausalLM

        if self.params.lora_rank is not None:
            module = self._adapted(configured(AutoModelForCausalLM, folder / "network"), seed=0)
            load_adapted(module.network, folder / "network")
            return module
        with no_progress_bars():
            network = AutoModelForCausalLM.from_pretrained(
                folder / "network", local_files_only=True
            )
        return self._adapted(network, seed=0)

    def _adapted(self, network: Any, seed: int) -> TransformerNetwork:
        from uedp_bench.models.networks.causal_transformer import TransformerNetwork

        module = TransformerNetwork(network)
        self.params.adapt(module.network, seed)
        return module

    @staticmethod
    def _configuration(where: str) -> Any:
        from transformers import AutoConfig

        with readable(where, _FIELD):
            return AutoConfig.from_pretrained(where)
