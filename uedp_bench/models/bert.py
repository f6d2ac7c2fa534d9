"""BERT, and any encoder of its kind of the `transformers` library."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from uedp_bench.api import FeatureArray, InputError
from uedp_bench.api.networks import (
    MaskedLanguageModel,
    MaskedVocabulary,
    TextEncoder,
    TokenEncoder,
    Vocabulary,
    WordRows,
    load_weights,
)
from uedp_bench.io.files import state_of
from uedp_bench.models.adapters import configured, load_adapted, save_adapted, whole
from uedp_bench.models.bert_params import SIZES, TOKENS, BERTParams
from uedp_bench.models.tokenizers import TokenizerVocabulary
from uedp_bench.text.pretrained import (
    SHAPES,
    cached_vectors,
    model_identity,
    readable,
    revision,
    tokenizer_of,
)

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.models.networks.transformer_encoders import (
        MaskedTransformer,
        PaddedTransformer,
        PooledTransformer,
        Projection,
        WordTransformer,
    )
    from uedp_bench.models.word_rows import PieceRows, VectorRows

    M = TypeVar("M", bound=PaddedTransformer)

_FIELD, _FOLDER = "bert.pretrained", "encoder"


class BERT(TextEncoder[BERTParams], TokenEncoder[BERTParams], MaskedLanguageModel[BERTParams]):
    """A bidirectional transformer, fine-tuned, frozen or from scratch.

    A word, in token form, has the vector of its first piece. As a masked language model it has the
    head of BERT (a dense layer, its activation, a layer norm, and the table of token vectors with a
    bias): that of the pretrained weights, or a fresh one where they have none.

    There is no dropout: a row's vector must not depend on the rows beside it, and the library draws
    masks for whole batches. Attention sees the tokens of a row, never its padding.

    Users train one after the other: side by side (`vmap`), attention would leave its fused kernel.
    """

    name = "bert"
    source = "Devlin et al. 2019; Lyu et al. 2020 (DPNR), section 4"
    Params = BERTParams
    vectorised = False

    @cached_property
    def mask(self) -> str:
        """The tokenizer's mask."""
        if self.params.configuration is not None:
            return "[MASK]"
        return str(_tokenizer(self.params.pretrained).mask_token)

    def frozen(self) -> bool:
        """As the parameters say."""
        return self.params.frozen

    def has_plain_layers(self) -> bool:
        """Frozen without a projection: what a projection gives is normalised."""
        return self.frozen() and self.params.projection is None

    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> MaskedVocabulary:
        """The pretrained tokenizer (the texts are not used), or one trained on the texts."""
        if self.params.configuration is not None:
            from uedp_bench.models.tokenizers import train_wordpiece

            size = self.params.vocabulary_size or TOKENS[self.params.configuration]
            return TokenizerVocabulary(train_wordpiece(texts, size), origin=origin, private=private)
        where = self.params.pretrained
        size = int(self._configuration.vocab_size)
        return TokenizerVocabulary(
            _tokenizer(where), origin=f"tokenizer of {where}", private=False, size=size
        )

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """Words of each text before they are cut into pieces: in lower case, signs apart."""
        from uedp_bench.models.tokenizers import words_of_bert

        return words_of_bert(texts)

    def load_vocabulary(self, folder: Path) -> MaskedVocabulary:
        """See `TextModel`."""
        return TokenizerVocabulary.load(folder)

    def brings_vocabulary(self) -> bool:
        """A pretrained encoder comes with its tokenizer."""
        return self.params.configuration is None

    def max_length(self) -> int | None:
        """`max_length`, or fewer where the encoder or its tokenizer takes fewer."""
        limits: list[int | None] = [self.params.max_length]
        if self.params.configuration is not None:
            limits.append(SIZES[self.params.configuration]["max_position_embeddings"])
        else:
            limits.append(self._positions)
            limits.append(_tokenizer(self.params.pretrained).model_max_length)
        return min((n for n in limits if n is not None and n > 0), default=None)

    @cached_property
    def _positions(self) -> int | None:
        from uedp_bench.models.networks.whole_checkpoint import positions

        return positions(self._configuration)

    def features(self, texts: Sequence[str], device: str, *, cache: bool = True) -> FeatureArray:
        """Pooled vectors of the pretrained encoder; see `TextEncoder`."""
        import numpy as np

        if not self.frozen():
            return super().features(texts, device, cache=cache)
        if not texts:
            return np.empty((0, self.feature_size()), dtype=np.float32)
        where, pooling, limit = self.params.pretrained, self.params.pooling, self.max_length()
        identity = model_identity(where, _FIELD)
        key = (version("transformers"), identity, pooling, limit, device.split(":")[0], SHAPES)

        def compute(some: list[str]) -> FeatureArray:
            from uedp_bench.models.networks.transformer_encoders import pooled_features

            network = _frozen_network(where, identity, pooling, device)
            vocabulary = self.vocabulary([], origin="", private=False)
            return pooled_features(network, vocabulary, some, limit, alone=cache)

        return cached_vectors(("transformers", *key), texts, compute, cache=cache)

    def feature_size(self) -> int:
        """Size of the last layer; see `TextEncoder`."""
        return int(self._configuration.hidden_size) if self.frozen() else super().feature_size()

    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """See `TextEncoder`.

        Raises:
            InputError: if the pretrained encoder cannot be read, or has fewer tokens than its
                tokenizer.
        """
        from uedp_bench.models.networks.transformer_encoders import PooledTransformer

        if self.frozen():
            return self._projection(self.feature_size(), seed)
        network, projection = self._started(vocabulary, seed)
        module = PooledTransformer(network, self.params.pooling, projection)
        self.params.adapt(module.network, seed)
        return module

    def read_words(
        self,
        words: Sequence[Sequence[str]],
        vocabulary: Vocabulary | None,
        max_tokens: int,
        device: str,
    ) -> WordRows:
        """See `TokenEncoder`: pieces past `max_tokens`, or past `max_length`, are left out."""
        from uedp_bench.models.word_rows import read_pieces

        limit = min(n for n in (max_tokens, self.max_length()) if n is not None)
        if self.frozen():
            return self._vectors_of_words(words, limit, device)
        if vocabulary is None:
            raise TypeError(f"{self.name} needs a vocabulary unless it is frozen")
        return read_pieces(words, vocabulary, limit, numbers=self.token_numbers())

    def token_numbers(self) -> int:
        """Numbers between the two layers of a block; see `MaskedLanguageModel`."""
        if self.params.configuration is not None:
            return SIZES[self.params.configuration]["intermediate_size"]
        return int(getattr(self._configuration, "intermediate_size", 3072))

    def build_token_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """See `TokenEncoder`.

        Raises:
            InputError: if the pretrained encoder cannot be read, or has fewer tokens than its
                tokenizer; if a pooling is asked for.
        """
        from uedp_bench.models.networks.transformer_encoders import GivenWords, WordTransformer

        if self.params.pooling != "cls":
            raise InputError(
                f"bert.pooling is {self.params.pooling!r}: every word has the vector of its first "
                "piece; leave it out"
            )
        if self.frozen():
            return GivenWords(self._projection(self.feature_size(), seed))
        module = WordTransformer(*self._started(vocabulary, seed))
        self.params.adapt(module.network, seed)
        return module

    def build_masked(self, vocabulary: MaskedVocabulary, seed: int) -> nn.Module:
        """See `MaskedLanguageModel`; the encoder has the weights of `build_token_encoder`.

        Raises:
            InputError: if the pretrained encoder cannot be read, has fewer tokens than its
                tokenizer, or a head of another kind than BERT's; if it is frozen, or something is
                asked for on top of it.
        """
        from uedp_bench.models.networks.transformer_encoders import (
            MaskedTransformer,
            WordTransformer,
            fresh_head,
        )

        p = self.params
        for field, is_set in (("frozen", p.frozen), ("projection", p.projection is not None)):
            if is_set:
                raise InputError(
                    f"bert.{field} is {getattr(p, field)!r}: a masked language model trains the "
                    "encoder and nothing on top of it but its own head; leave it out"
                )
        if p.configuration is None:
            module = _pretrained_masked(p.pretrained, seed)
            _check_tokens(p.pretrained, module.encoder.network, vocabulary)
        else:
            encoder = WordTransformer(*self._started(vocabulary, seed))
            module = MaskedTransformer(encoder, fresh_head(encoder.network.config, seed))
        p.adapt(module.encoder.network, seed)
        return module

    def save_masked(self, module: nn.Module, folder: Path) -> None:
        """Write configuration and weights, in the library's own format where it can."""
        from uedp_bench.models.networks.transformer_encoders import save_library

        network: Any = module
        folder.mkdir(parents=True, exist_ok=True)
        if self.params.lora_rank is None:
            save_library(network, folder / _FOLDER)
            return
        save_adapted(network.encoder.network, folder / _FOLDER)
        network.head.save(folder)

    def load_masked(self, vocabulary: MaskedVocabulary, folder: Path) -> nn.Module:
        """Read what `save_masked` wrote."""
        from transformers import AutoModel

        from uedp_bench.models.networks.transformer_encoders import (
            MaskedTransformer,
            WordTransformer,
            fresh_head,
        )

        inside = folder / _FOLDER
        if self.params.lora_rank is None:
            return _pretrained_masked(str(inside), seed=0)
        network = configured(AutoModel, inside)
        encoder = WordTransformer(network, self._projection(network.config.hidden_size, seed=0))
        module = MaskedTransformer(self._adapted(encoder, folder), fresh_head(network.config, 0))
        module.head.load(folder)
        return module

    def on_public_text(self, module: nn.Module) -> nn.Module:
        """See `TextModel`: all of the network, without its adapters."""
        return whole(module)

    def save_encoder(self, module: nn.Module, folder: Path) -> None:
        """Write configuration and weights, in the library's own format where it can."""
        super().save_encoder(module, folder) if self.frozen() else self._save(module, folder)

    def save_token_encoder(self, module: nn.Module, folder: Path) -> None:
        """As `save_encoder`."""
        super().save_token_encoder(module, folder) if self.frozen() else self._save(module, folder)

    def load_encoder(self, vocabulary: Vocabulary | None, folder: Path) -> nn.Module:
        """Read what `save_encoder` wrote; only a frozen encoder needs its original again."""
        from uedp_bench.models.networks.transformer_encoders import PooledTransformer

        if self.frozen():
            return super().load_encoder(vocabulary, folder)
        network, projection = self._saved(folder)
        return self._adapted(PooledTransformer(network, self.params.pooling, projection), folder)

    def load_token_encoder(self, vocabulary: Vocabulary | None, folder: Path) -> nn.Module:
        """As `load_encoder`."""
        from uedp_bench.models.networks.transformer_encoders import WordTransformer

        if self.frozen():
            return super().load_token_encoder(vocabulary, folder)
        return self._adapted(WordTransformer(*self._saved(folder)), folder)

    def _save(self, module: Any, folder: Path) -> None:
        if self.params.lora_rank is None:
            module.save(folder)
            return
        folder.mkdir(parents=True, exist_ok=True)
        save_adapted(module.network, folder / _FOLDER)
        module.projection.save(folder)

    def _saved(self, folder: Path) -> tuple[Any, Projection]:
        """The network that `_save` wrote, without its adapters, and what is on top of it."""
        from transformers import AutoModel

        adapted = self.params.lora_rank is not None
        inside = folder / _FOLDER
        network = configured(AutoModel, inside) if adapted else _pretrained(str(inside))
        projection = self._projection(network.config.hidden_size, seed=0)
        load_weights(projection, folder / "projection.pt")
        return network, projection

    def _adapted(self, module: M, folder: Path) -> M:
        """The module with the adapters that were saved, if there are any."""
        if self.params.lora_rank is not None:
            self.params.adapt(module.network, seed=0)
            load_adapted(module.network, folder / _FOLDER)
        return module

    def _started(self, vocabulary: Vocabulary | None, seed: int) -> tuple[Any, Projection]:
        """The network as training starts from it, without adapters, and what is on top of it."""
        if vocabulary is None:
            raise TypeError(f"{self.name} needs a vocabulary unless it is frozen")
        if self.params.configuration is None:
            network = _pretrained(self.params.pretrained)
        else:
            network = _fresh(self.params.configuration, vocabulary, seed)
        _check_tokens(self.params.pretrained, network, vocabulary)
        return network, self._projection(network.config.hidden_size, seed)

    def _vectors_of_words(
        self, words: Sequence[Sequence[str]], limit: int, device: str
    ) -> VectorRows:
        """Vectors of the frozen encoder, kept by the words of a row and the place of each there."""
        from uedp_bench.models.networks.transformer_encoders import vectors_of_rows
        from uedp_bench.models.word_rows import read_pieces, read_vectors

        where, size = self.params.pretrained, self.feature_size()
        vocabulary = self.vocabulary([], origin="", private=False)
        identity = model_identity(where, _FIELD)

        def read(rows: Sequence[Sequence[str]]) -> PieceRows:
            return read_pieces(rows, vocabulary, limit, numbers=size)

        def compute(rows: Sequence[Sequence[str]]) -> FeatureArray:
            return vectors_of_rows(_frozen_words(where, identity, device), read(rows))

        key = (version("transformers"), identity, "words", limit, device.split(":")[0], SHAPES)
        return read_vectors(words, read(words), ("transformers", *key), compute, size)

    def _projection(self, size: int, seed: int) -> Projection:
        from uedp_bench.models.networks.transformer_encoders import Projection

        return Projection(size, self.params.projection, seed)

    @cached_property
    def _configuration(self) -> Any:
        from transformers import AutoConfig

        with readable(self.params.pretrained, _FIELD):
            return AutoConfig.from_pretrained(self.params.pretrained)


def _tokenizer(where: str) -> Any:
    folder = Path(where)
    files = sorted(folder.iterdir()) if folder.is_dir() else []
    return _tokenizer_of(where, tuple(state_of(file) for file in files if file.is_file()))


@lru_cache(maxsize=4)
def _tokenizer_of(where: str, states: object) -> Any:
    # States are an argument so that files that were written anew are read anew.
    tokenizer = tokenizer_of(where, _FIELD)
    if tokenizer.mask_token is None:
        raise InputError(f"{_FIELD} {where!r} is no encoder of BERT's kind: it has no mask token")
    return tokenizer


def _pretrained(where: str, commit: str | None = None) -> Any:
    import torch
    from transformers import AutoModel

    from uedp_bench.text.pretrained import no_progress_bars

    with readable(where, _FIELD), no_progress_bars():
        return AutoModel.from_pretrained(where, dtype=torch.float32, revision=commit or "main")


def _check_tokens(where: str, network: Any, vocabulary: Vocabulary) -> None:
    if network.config.vocab_size < vocabulary.size:
        raise InputError(
            f"{_FIELD} {where!r} has {network.config.vocab_size} tokens, its tokenizer "
            f"{vocabulary.size}"
        )


def _pretrained_masked(where: str, seed: int) -> MaskedTransformer:
    """A pretrained network with its head; `seed` draws what the weights lack."""
    import torch
    from transformers import AutoModelForMaskedLM

    from uedp_bench.models.networks.transformer_encoders import of_library
    from uedp_bench.text.pretrained import no_progress_bars

    with readable(where, _FIELD), no_progress_bars(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = AutoModelForMaskedLM.from_pretrained(where, dtype=torch.float32)
    if (module := of_library(network)) is None:
        raise InputError(
            f"{_FIELD} {where!r} is a {type(network).__name__}: its head is not that of BERT or "
            "RoBERTa, tied to the table of token vectors"
        )
    return module


def _fresh(configuration: str, vocabulary: Vocabulary, seed: int) -> Any:
    import torch
    from transformers import BertConfig, BertModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = BertConfig(**SIZES[configuration], vocab_size=vocabulary.size)
        return BertModel(config, add_pooling_layer=False)


@lru_cache(maxsize=1)
def _frozen_network(
    where: str, identity: str, pooling: Literal["cls", "mean"], device: str
) -> PooledTransformer:
    # The identity is an argument so that files that were written anew are loaded anew.
    from uedp_bench.models.networks.transformer_encoders import PooledTransformer, Projection

    network = _pretrained(where, revision(identity))
    projection = Projection(network.config.hidden_size, None, seed=0)
    return PooledTransformer(network, pooling, projection).to(device)


@lru_cache(maxsize=1)
def _frozen_words(where: str, identity: str, device: str) -> WordTransformer:
    from uedp_bench.models.networks.transformer_encoders import Projection, WordTransformer

    network = _pretrained(where, revision(identity))
    return WordTransformer(network, Projection(network.config.hidden_size, None, seed=0)).to(device)
