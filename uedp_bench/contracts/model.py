"""Contract of models: networks that a task can learn, each by its paper's name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from uedp_bench.components.component import Component, P
from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.corpus import BoolArray, FeatureArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.contracts.learner import Batch


class TextModel(Component[P]):
    """Base of all models, with the vocabulary through which they read text.

    Attributes:
        vectorised: True if `torch.func.vmap` over rows of weights works on the module (no in-place
            state, no data-dependent control flow), so that many users train at once.
        trained_elsewhere: True if its weights were trained on rows of the corpus before the run:
            only a mechanism that declares it (`TrainingMechanism.elsewhere`) may release it.
    """

    vectorised: ClassVar[bool] = True
    trained_elsewhere: ClassVar[bool] = False

    def before_training(self) -> TextModel[P] | None:
        """Return the model before others trained it on private rows; None if nobody knows it."""
        return None

    @abstractmethod
    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> Vocabulary:
        """Make the vocabulary from texts (a pretrained model returns its own tokenizer's)."""

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """Split each text into words, from which `vocabulary` makes the same vocabulary.

        Words of a text depend on it alone. They are separated by white space by default.
        """
        return [text.split() for text in texts]

    @abstractmethod
    def load_vocabulary(self, folder: Path) -> Vocabulary:
        """Load the vocabulary that `Vocabulary.save` wrote."""

    def brings_vocabulary(self) -> bool:
        """True if the vocabulary is the model's own: no text is needed to make one."""
        return False

    def on_public_text(self, module: nn.Module) -> nn.Module:
        """Return the network as a stage on public text trains it; unchanged by default.

        A model with adapters returns one that trains all weights but these.

        Args:
            module: the network of the task, this model's alone or with a head on it. It is not
                changed, and the returned network has weights of the same names.
        """
        return module

    def max_length(self) -> int | None:
        """Most tokens a row may have, begin and end included; None for no limit."""
        return None

    def frozen(self) -> bool:
        """True if the model is pretrained and fixed: it then has no vocabulary here."""
        return False


class LanguageModel(TextModel[P]):
    """A network that predicts the next token.

    `build` returns a module whose `forward(tokens, seeds=None)` maps token ids (rows, length) to
    logits (rows, length, vocabulary). Row i of the output depends on row i of the input, on the
    weights and, with dropout, on `seeds[i]` only: no batch statistics, no state across rows.
    """

    @abstractmethod
    def build(self, vocabulary: Vocabulary, seed: int) -> nn.Module:
        """Build the network with freshly drawn (by `seed`) or pretrained weights, on the CPU."""

    def window_overlap(self, width: int) -> int:
        """Tokens of a long text that each window but its first sees again, as context alone.

        None by default: such a model was trained on rows that were cut there.

        Args:
            width: most targets of a window.
        """
        return 0

    def save_network(self, module: nn.Module, folder: Path) -> None:
        """Write the weights of a module that `build` made; `load_network` reads them."""
        save_weights(module, folder / "weights.pt")

    def load_network(self, vocabulary: Vocabulary, folder: Path) -> nn.Module:
        """Load the network with the weights that `save_network` wrote, on the CPU."""
        return load_weights(self.build(vocabulary, seed=0), folder / "weights.pt")


class NextTokenModule(Protocol):
    """Module that `LanguageModel.build` returns, as the learner calls it."""

    def __call__(self, tokens: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, length) token ids, (rows,) dropout seeds -> (rows, length, vocabulary) logits."""
        ...


@runtime_checkable
class CountsTargets(Protocol):
    """A vocabulary some of whose tokens attacks do not look at, such as those of questions."""

    def counted(self, texts: Sequence[str]) -> list[BoolArray] | None:
        """(targets,) of each text: True for targets whose scores count; None if all do.

        Raises:
            InputError: if a text has none.
        """
        ...


@runtime_checkable
class FeatureModule(Protocol):
    """A `NextTokenModule` that shows its output layer and the layer's inputs.

    Logits are `features @ weight.t() + bias`. The cross-entropy of tokens is
    then computed without a second table of all logits (`models.fast.output_nats`).
    """

    def outputs(self, tokens: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, length, size) features of ids (rows, length)."""
        ...

    def output_layer(self) -> tuple[Tensor, Tensor | None] | None:
        """Weight (vocabulary, size) and bias (vocabulary,) or None of the output layer.

        None where logits are not linear in the features.
        """
        ...


@runtime_checkable
class StopsAtEnds(Protocol):
    """A `FeatureModule` that spares itself the padding of rows that end before the longest."""

    def outputs_until(self, tokens: Tensor, seeds: Tensor | None, lengths: Tensor) -> Tensor:
        """(rows, length, size) features as of `outputs`, for the first `lengths` (rows,) tokens.

        Features after them are finite, and mean nothing.
        """
        ...


@runtime_checkable
class EmbedsTokens(Protocol):
    """Network, or a part of one, that shows the table of vectors in which it looks tokens up.

    Rows of the table that belong to no token of a text have no gradient, unless the table is that
    of the outputs too: a reader of an update must know its place (`gradient-inversion`).
    """

    def token_embedding(self) -> Tensor:
        """(vocabulary, size) the weight whose row i is the vector of token i."""
        ...


@runtime_checkable
class ReadsTokenVectors(Protocol):
    """Network, or a part of one, that shows the weights which multiply vectors of tokens.

    Where the table is not trained, these weights tell the tokens of a short text: the change
    of each is a sum of their vectors, row by row (`gradient-inversion`).
    """

    def token_readers(self) -> Sequence[Tensor]:
        """Weights (outputs, inputs) whose first inputs are a token's vector, up to a factor."""
        ...


@runtime_checkable
class HasOutputLayer(Protocol):
    """Network, or a part of one, that shows the weights of its logits; see `FeatureModule`."""

    def output_layer(self) -> tuple[Tensor, Tensor | None] | None:
        """Weight (outputs, size) and bias (outputs,) or None of the output layer.

        None where logits are not linear in the features.
        """
        ...


@runtime_checkable
class BringsHead(Protocol):
    """An encoder whose weights come with the linear layer on top of it.

    A task gives its own last layer these weights, in place of fresh ones. Its vectors are the
    layer's inputs as they are: the encoder is `normalised`.
    """

    def head(self, names: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Weight (names, d) and bias (names,) of the classes or labels of these names.

        Raises:
            InputError: if it tells other classes apart.
        """
        ...


class TextEncoder(TextModel[P]):
    """A network that maps a text to one vector, its representation.

    Most encoders are trained: `build_encoder` returns a module with the attribute `width` (d)
    whose `forward(tokens, lengths, seeds=None)` maps token ids (rows, length), padded on the right,
    and the number of tokens of each row (rows,), begin and end included, to (rows, d). Row i of the
    output depends on the first `lengths[i]` tokens of row i, on the weights and, with dropout, on
    `seeds[i]` only. Representations are normalised before they are classified, unless the module
    has the attribute `normalised` and it is true.

    A frozen encoder (`frozen()` is True) is pretrained and not trained any further: `features`
    gives its vectors, and `build_encoder` the part that is trained on top, a module with the
    attribute `width` whose `forward(vectors)` maps (rows, size) to (rows, d). A module with dropout
    has the attribute `seeded`, which is true, and `forward(vectors, seeds)`. A frozen encoder has
    no vocabulary here.
    """

    @property
    def mask(self) -> str:
        """Word that stands for a dropped word in a text that is to be encoded."""
        return "<unk>"

    def features(self, texts: Sequence[str], device: str, *, cache: bool = True) -> FeatureArray:
        """(texts, size) vectors of a frozen encoder.

        Args:
            texts: texts as they are.
            device: torch device to compute on.
            cache: True to keep vectors on disk for the next run (not for texts that occur once,
                such as those with dropped words).

        Raises:
            TypeError: of an encoder that is trained.
        """
        raise TypeError(f"{self.name} is trained: it has no fixed features")

    def has_plain_layers(self) -> bool:
        """True if its trained part is plain layers (`Compilable`), or nothing at all.

        Frozen encoders by default.
        """
        return self.frozen()

    def row_numbers(self, tokens: int, width: int) -> int:
        """Numbers in the largest tensor that a row of `tokens` tokens needs; see `Learner`.

        Args:
            tokens: number of tokens of the longest row.
            width: size of the representation, or the number of classes if there are more.
        """
        return tokens * width

    def feature_size(self) -> int:
        """Size of the vectors of `features`.

        Raises:
            TypeError: of an encoder that is trained.
        """
        raise TypeError(f"{self.name} is trained: it has no fixed features")

    @abstractmethod
    def build_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """Build the network, or the trained part on top of a frozen encoder, on the CPU."""

    def save_encoder(self, module: nn.Module, folder: Path) -> None:
        """Write the weights of a module that `build_encoder` made."""
        save_weights(module, folder / "encoder.pt")

    def load_encoder(self, vocabulary: Vocabulary | None, folder: Path) -> nn.Module:
        """Load the module with the weights that `save_encoder` wrote, on the CPU."""
        return load_weights(self.build_encoder(vocabulary, seed=0), folder / "encoder.pt")


class WordRows(Protocol):
    """Input of a token encoder: rows of words as it reads them."""

    @property
    def lengths(self) -> IntArray:
        """(rows,) words of each row that are read: its first ones."""
        ...

    @property
    def truncated(self) -> int:
        """Rows that lost words to a limit."""
        ...

    @property
    def row_size(self) -> int:
        """Numbers in the largest tensor that the longest row needs; see `Learner`."""
        ...

    def batch(self, rows: IntArray) -> Batch:
        """Make the network's input of some rows: tensors on the CPU, with rows as first dimension.

        They are padded on the right to the longest of these rows, to one word at least. `lengths`
        (rows,) is among them.
        """
        ...


class TokenEncoder(TextModel[P]):
    """A network that maps every word of a row to a vector.

    `build_token_encoder` returns a module with the attribute `width` (d), whose `forward(batch)`
    maps a batch of `WordRows.batch` to (rows, words, d); where the batch has `seeds` (rows,) and
    the module is in training mode, they draw its dropout. Row i of the output depends on row i of
    the batch and on the weights only. Everything after the first `lengths[i]` words is padding: its
    vectors are finite, mean nothing, and change no other vector.

    A word that is cut into pieces has the vector of its first piece.

    A frozen encoder (`frozen()` is True) is pretrained and not trained any further: `read_words`
    computes its vectors once and keeps them on disk, and `build_token_encoder` returns the part
    that is trained on top of them; the vocabulary is then None.
    """

    @abstractmethod
    def read_words(
        self,
        words: Sequence[Sequence[str]],
        vocabulary: Vocabulary | None,
        max_tokens: int,
        device: str,
    ) -> WordRows:
        """Prepare the network's input of each row.

        Args:
            words: words of each row, in order; a word may be any string, and a row may have none.
            vocabulary: vocabulary of this model; None for a frozen encoder.
            max_tokens: most tokens of a row; the rest is left out. They are words, or pieces of
                words with the first and last special token among them.
            device: torch device on which a frozen encoder computes.
        """

    @abstractmethod
    def build_token_encoder(self, vocabulary: Vocabulary | None, seed: int) -> nn.Module:
        """Build the network, or the trained part on top of a frozen encoder, on the CPU."""

    def save_token_encoder(self, module: nn.Module, folder: Path) -> None:
        """Write the weights of a module that `build_token_encoder` made."""
        save_weights(module, folder / "token_encoder.pt")

    def load_token_encoder(self, vocabulary: Vocabulary | None, folder: Path) -> nn.Module:
        """Load the module with the weights that `save_token_encoder` wrote, on the CPU."""
        return load_weights(
            self.build_token_encoder(vocabulary, seed=0), folder / "token_encoder.pt"
        )


class PairVocabulary(Vocabulary, Protocol):
    """A vocabulary of texts and of their translations.

    Attributes:
        start: id that a decoder begins with.
        never: ids that are in no translation: those that start or fill rows, and tags of fragments.
    """

    start: int
    never: tuple[int, ...]

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of translations, without begin and end."""
        ...


class TranslationModule(Protocol):
    """Module that `TranslationModel.build_translator` returns, as tasks call it.

    Row i of every output depends on row i of the inputs and on the weights only. Rows are padded on
    the right, and padding changes nothing else.
    """

    def encode(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Encode ids and their numbers to the decoder's input (rows, source length, size)."""
        ...

    def decode(self, inputs: Tensor, memory: Tensor, lengths: Tensor) -> Tensor:
        """(rows, target length, size) features of the tokens that follow each of the inputs.

        Args:
            inputs: (rows, target length) ids: start, and the target without its end.
            memory: (rows, source length, size) output of `encode`.
            lengths: (rows,) tokens of each source.
        """
        ...

    def output_layer(self) -> tuple[Tensor, Tensor | None]:
        """Weight (vocabulary, size) and bias (vocabulary,) or None: they make the logits."""
        ...


class TranslationModel(TextModel[P]):
    """A network with an encoder and a decoder, whose vocabulary covers both languages."""

    TAGS: ClassVar[tuple[str, str]] = ("<P>", "</P>")
    """Words that mark the begin and the end of a fragment: entries of every vocabulary."""

    @abstractmethod
    def vocabulary(self, texts: Sequence[str], *, origin: str, private: bool) -> PairVocabulary:
        """Make the vocabulary from texts of both languages, or return the pretrained one."""

    @abstractmethod
    def load_vocabulary(self, folder: Path) -> PairVocabulary:
        """See `TextModel`."""

    @abstractmethod
    def build_translator(self, vocabulary: PairVocabulary, seed: int) -> nn.Module:
        """Build a `TranslationModule` with fresh (by `seed`) or pretrained weights, on the CPU."""

    def save_translator(self, module: nn.Module, folder: Path) -> None:
        """Write the weights of a module that `build_translator` made."""
        save_weights(module, folder / "translator.pt")

    def load_translator(self, vocabulary: PairVocabulary, folder: Path) -> nn.Module:
        """Load the module with the weights that `save_translator` wrote, on the CPU."""
        return load_weights(self.build_translator(vocabulary, seed=0), folder / "translator.pt")


def save_weights(module: nn.Module, file: Path) -> None:
    """Write the weights of a network, or of a part of one, on the CPU."""
    import torch

    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save({name: value.cpu() for name, value in module.state_dict().items()}, file)


def load_weights(module: nn.Module, file: Path) -> nn.Module:
    """Load the weights that `save_weights` wrote into a module, and return it."""
    import torch

    module.load_state_dict(torch.load(file, weights_only=True))
    return module
