"""A model that somebody trained elsewhere, as the `transformers` library saved it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from pydantic import Field, model_validator

from uedp_bench.api import InputError, MayBePath, Params, equals
from uedp_bench.api.networks import (
    LanguageModel,
    MaskedLanguageModel,
    MaskedVocabulary,
    TextEncoder,
    TokenEncoder,
    Vocabulary,
    WordRows,
    load_weights,
    save_weights,
)
from uedp_bench.models.tokenizers import ChatVocabulary, TokenizerVocabulary
from uedp_bench.text.pretrained import snapshot, tokenizer_of

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.models.networks.causal_transformer import TransformerNetwork
    from uedp_bench.models.networks.probes import Outputs, Probe

_NETWORK, _WEIGHTS, _TOKENIZER = "network", "weights.pt", "tokenizer_config.json"


class CheckpointParams(Params):
    """Folders or hub ids of the model."""

    pretrained: Annotated[str, MayBePath()] = Field(
        description="hub id or local directory of the model that was trained elsewhere, with its "
        "tokenizer; code that comes with it is never run"
    )
    base: Annotated[str | None, MayBePath()] = Field(
        default=None,
        description="hub id or local directory of the model before it learnt the private rows, "
        "which attacks compare with; of LoRA adapters, the network that they change unless given",
    )
    base_revision: str | None = Field(
        default=None, min_length=1,
        description="commit, tag or branch of `base`, where that is a hub id; its main branch "
        "where not given",
        exclude_if=equals(None),
    )  # fmt: skip
    labels: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="names of the classes of a classifier or tagger in its order, where its "
        "configuration (id2label) does not name them as the source does; those of a tagger are O, "
        "B-TYPE and I-TYPE",
    )
    max_length: int | None = Field(
        default=None,
        ge=3,
        description="tokens of a text past this many are left out, the first and last special "
        "token among them; the model's own limit where not given; a causal model reads longer "
        "texts in windows of so many",
    )
    stride: int | None = Field(
        default=None, ge=1,
        description="tokens of each window of a causal model but the first that count, its last "
        "ones; half of them where not given",
        exclude_if=equals(None),
    )  # fmt: skip
    adapter: Annotated[str | None, MayBePath()] = Field(
        default=None,
        description="folder of LoRA adapters, which stay beside the weights of the causal model "
        "`pretrained`; attacks compare with that model without them",
        exclude_if=equals(None),
    )
    dtype: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32",
        description="type of a causal model's weights; log-probabilities are computed in float32",
        exclude_if=equals("float32"),
    )
    format: Literal["plain", "chat"] = Field(
        default="plain",
        description="'chat': a causal model reads rows through the chat template of its "
        "tokenizer; a text is a JSON list of messages with role and content, or one answer",
        exclude_if=equals("plain"),
    )
    answer_only: bool = Field(
        default=False,
        description="attacks see the scores of the tokens of answers alone; needs format 'chat'",
        exclude_if=equals(False),
    )

    @model_validator(mode="after")
    def _revision_is_of_the_hub(self) -> CheckpointParams:
        if self.base_revision and (self.base is None or Path(self.base).is_dir()):
            raise ValueError(
                f"base_revision is {self.base_revision!r}, and base is {self.base!r}; allowed are "
                "revisions of a hub id: give it as base, or leave base_revision out"
            )
        return self

    @model_validator(mode="after")
    def _of_chats(self) -> CheckpointParams:
        if self.answer_only and self.format != "chat":
            raise ValueError("answer_only is true, and rows have no answers; give format: chat")
        return self


class Checkpoint(
    LanguageModel[CheckpointParams],
    TextEncoder[CheckpointParams],
    TokenEncoder[CheckpointParams],
    MaskedLanguageModel[CheckpointParams],
):
    """A model folder or hub id, every weight of which was trained elsewhere, its head too.

    The task decides what it must be: a causal language model (next-word), a masked one, a
    classifier or a tagger of BERT's kind. Classes are matched by name. The tokenizer is the
    model's own; a row is read as begin, text, end.

    Its weights saw the training rows, so that no mechanism here may train it any further: it goes
    with `trained-elsewhere`.
    """

    name = "checkpoint"
    version = 2
    source = "any model saved by the transformers library"
    Params = CheckpointParams
    vectorised = False
    trained_elsewhere: ClassVar[bool] = True

    @property
    def mask(self) -> str:
        """The tokenizer's mask; its unknown token where it has none."""
        return str(self._tokenizer.mask_token or self._tokenizer.unk_token)

    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> MaskedVocabulary:
        """The model's tokenizer, whatever the texts are."""
        kind, options = self._reading
        return kind(
            self._tokenizer,
            origin=f"tokenizer of {self._where}",
            size=int(self._configuration.vocab_size),
            **options,
        )

    def load_vocabulary(self, folder: Path) -> MaskedVocabulary:
        """See `TextModel`."""
        kind, options = self._reading
        return kind.load(folder, **options)

    def brings_vocabulary(self) -> bool:
        """Always."""
        return True

    def max_length(self) -> int | None:
        """`max_length`, or fewer where the network or its tokenizer takes fewer."""
        limits = [self.params.max_length, self._positions, self._tokenizer.model_max_length]
        return min((n for n in limits if n is not None and n > 0), default=None)

    def token_numbers(self) -> int:
        """See `MaskedLanguageModel`."""
        return int(getattr(self._configuration, "intermediate_size", None) or 3072)

    def before_training(self) -> Checkpoint | None:
        """The model `base`, or the network that adapters change; None where neither is known."""
        from uedp_bench.models.adapters import base_folder

        p = self.params
        base = p.base or base_folder(self._where, "checkpoint.pretrained")
        base = base or (None if p.adapter is None else self._where)
        if base is None:
            return None
        if p.base_revision is not None:
            base = snapshot(base, p.base_revision, "checkpoint.base_revision")
        before = {"pretrained": base, "base": None, "base_revision": None, "adapter": None}
        model = Checkpoint(p.model_copy(update=before))
        if p.format == "chat" and not model._tokenizer.chat_template:  # one format for both
            model._tokenizer.chat_template = self._tokenizer.chat_template
        return model

    def window_overlap(self, width: int) -> int:
        """See `LanguageModel`: nobody here cut the rows that it was trained on."""
        stride = self.params.stride
        return width // 2 if stride is None else width - min(stride, width)

    # ---------------------------------------------------------------------- causal language models

    def build(self, vocabulary: Vocabulary, seed: int) -> nn.Module:
        """See `LanguageModel`; nothing is drawn.

        Raises:
            InputError: if a prediction of the network changes with a later token.
        """
        from uedp_bench.models.networks.probes import log_probabilities

        module = self._causal(self._where, self.params.adapter)
        self._fitting(module.network, vocabulary)
        probe = self._probe(module, log_probabilities(module), vocabulary)
        probe.check_causal()
        probe.check_rows()
        return module

    def save_network(self, module: nn.Module, folder: Path) -> None:
        """In the library's own format."""
        module.save(folder / _NETWORK)  # type: ignore[operator]

    def load_network(self, vocabulary: Vocabulary, folder: Path) -> nn.Module:
        """Read what `save_network` wrote."""
        from uedp_bench.models.networks.causal_transformer import ADAPTERS

        adapter = folder / _NETWORK / ADAPTERS
        return self._causal(str(folder / _NETWORK), str(adapter) if adapter.is_dir() else None)

    def _causal(self, where: str, adapter: str | None) -> TransformerNetwork:
        import torch

        from uedp_bench.models.adapters import with_adapters
        from uedp_bench.models.networks.causal_transformer import TransformerNetwork
        from uedp_bench.models.networks.whole_checkpoint import whole_network

        load = partial(whole_network, kind="causal", dtype=getattr(torch, self.params.dtype))
        if adapter is None:
            return TransformerNetwork(load(where))
        adapted = with_adapters(adapter, where, load, "checkpoint.adapter")
        return TransformerNetwork(adapted.get_base_model(), adapted)

    # ---------------------------------------------------------------------- masked language models

    def build_masked(self, vocabulary: MaskedVocabulary, seed: int) -> nn.Module:
        """See `MaskedLanguageModel`; nothing is drawn.

        Raises:
            InputError: if the model has no head of BERT's kind, or reads rows in another way.
        """
        self._check_rows(vocabulary)
        module: Any = _masked(self._where, self._fitting, vocabulary)
        encoder = module.encoder
        self._probe(module, lambda *rows: encoder.last_layer(*rows)[0], vocabulary).check_rows()
        return cast("nn.Module", module)

    def save_masked(self, module: nn.Module, folder: Path) -> None:
        """In the library's own format."""
        from uedp_bench.models.networks.transformer_encoders import save_library

        save_library(module, folder / _NETWORK)  # type: ignore[arg-type]

    def load_masked(self, vocabulary: MaskedVocabulary, folder: Path) -> nn.Module:
        """Read what `save_masked` wrote."""
        return _masked(str(folder / _NETWORK), self._fitting, vocabulary)

    # ------------------------------------------------------------------------------- classifiers

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """See `TextEncoder`; the encoder `BringsHead`."""
        from uedp_bench.models.networks.whole_checkpoint import classifier_of

        module = classifier_of(self._where, self.params.labels)
        read = self._check_rows(vocabulary)
        self._fitting(module.network, read)
        self._probe(module, module, read).check_rows()
        return module

    def save_encoder(self, module: nn.Module, folder: Path) -> None:
        """Configuration and weights of what stands before the head."""
        _save(module, folder)

    def load_encoder(self, vocabulary: Vocabulary | None, folder: Path) -> nn.Module:
        """Read what `save_encoder` wrote."""
        from transformers import AutoModelForSequenceClassification

        from uedp_bench.models.networks.whole_checkpoint import CheckpointClassifier

        return _load(folder, AutoModelForSequenceClassification, CheckpointClassifier)

    # ---------------------------------------------------------------------------------- taggers

    def read_words(
        self,
        words: Sequence[Sequence[str]],
        vocabulary: Vocabulary | None,
        max_tokens: int,
        device: str,
    ) -> WordRows:
        """See `TokenEncoder`: a word has the vector of its first piece."""
        from uedp_bench.models.word_rows import read_pieces

        limit = min(n for n in (max_tokens, self.max_length()) if n is not None)
        return read_pieces(words, self._check_rows(vocabulary), limit, numbers=self.token_numbers())

    def build_token_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """See `TokenEncoder`; the encoder `BringsHead`."""
        from uedp_bench.models.networks.whole_checkpoint import tagger_of

        module = tagger_of(self._where, self.params.labels)
        read = self._check_rows(vocabulary)
        self._fitting(module.network, read)
        self._probe(module, lambda *rows: module.last_layer(*rows)[0], read).check_rows()
        return module

    def save_token_encoder(self, module: nn.Module, folder: Path) -> None:
        """Configuration and weights of what stands before the head."""
        _save(module, folder)

    def load_token_encoder(self, vocabulary: Vocabulary | None, folder: Path) -> nn.Module:
        """Read what `save_token_encoder` wrote."""
        from transformers import AutoModelForTokenClassification

        from uedp_bench.models.networks.whole_checkpoint import CheckpointTagger

        return _load(folder, AutoModelForTokenClassification, CheckpointTagger)

    @property
    def _where(self) -> str:
        return self.params.pretrained

    @property
    def _reading(self) -> tuple[type[TokenizerVocabulary], dict[str, Any]]:
        if self.params.format == "plain":
            return TokenizerVocabulary, {}
        return ChatVocabulary, {"answer_only": self.params.answer_only}

    @cached_property
    def _tokenizer(self) -> Any:
        from uedp_bench.models.adapters import base_folder

        where, field = self._where, "checkpoint.pretrained"
        if (adapter := self.params.adapter) and (Path(adapter) / _TOKENIZER).is_file():
            where, field = adapter, "checkpoint.adapter"
        elif (base := base_folder(where, field)) and not (Path(where) / _TOKENIZER).is_file():
            where = base
        return tokenizer_of(where, field)

    @cached_property
    def _configuration(self) -> Any:
        from uedp_bench.models.networks.whole_checkpoint import configuration

        return configuration(self._where)

    @cached_property
    def _positions(self) -> int | None:
        from uedp_bench.models.networks.whole_checkpoint import positions

        return positions(self._configuration)

    def _probe(self, module: nn.Module, outputs: Outputs, vocabulary: Vocabulary) -> Probe:
        from uedp_bench.models.networks.probes import Probe

        name = f"checkpoint.pretrained {self._where!r}"
        return Probe(name, module, outputs, vocabulary, self.max_length())

    def _fitting(self, network: Any, vocabulary: Vocabulary) -> Any:
        """The network, if it knows all tokens.

        Raises:
            InputError: if the tokenizer has more.
        """
        if network.config.vocab_size < vocabulary.size:
            raise InputError(
                f"checkpoint.pretrained {self._where!r} knows {network.config.vocab_size} tokens, "
                f"and its tokenizer has {vocabulary.size}: they are not of one model"
            )
        return network

    def _check_rows(self, vocabulary: Vocabulary | None) -> Vocabulary:
        """The vocabulary, if the tokenizer reads a row as this package does: begin, text, end.

        Raises:
            InputError: if it does not.
        """
        if vocabulary is None:
            raise TypeError(f"{self.name} needs its vocabulary")
        for name in ("adapter", "dtype", "format", "stride"):
            value, field = getattr(self.params, name), CheckpointParams.model_fields[name]
            if value != field.default:
                raise InputError(
                    f"checkpoint.{name} is {value!r}, and the task learns no causal language "
                    f"model; allowed is {field.default!r}"
                )
        text = "a b"
        own = list(self._tokenizer(text)["input_ids"])
        (inside,) = vocabulary.encode([text])
        if own != [vocabulary.begin, *inside, vocabulary.end]:
            raise InputError(
                f"checkpoint.pretrained {self._where!r}: its tokenizer does not read a row as "
                "begin, text and end, as encoders of BERT's kind do"
            )
        return vocabulary


def _masked(where: str, fitting: Any, vocabulary: Vocabulary) -> nn.Module:
    from uedp_bench.models.networks.transformer_encoders import of_library
    from uedp_bench.models.networks.whole_checkpoint import FIELD, whole_network

    network = fitting(whole_network(where, "masked"), vocabulary)
    if (module := of_library(network)) is None:
        raise InputError(
            f"{FIELD} {where!r} is a {type(network).__name__}: its head is not that of BERT or "
            "RoBERTa, tied to the table of token vectors"
        )
    return module.eval()


def _save(module: Any, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    module.network.config.save_pretrained(folder)
    save_weights(module, folder / _WEIGHTS)


def _load(folder: Path, auto: Any, kind: Any) -> nn.Module:
    from uedp_bench.models.adapters import configured

    return load_weights(kind(configured(auto, folder)), folder / _WEIGHTS)
