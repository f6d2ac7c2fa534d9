"""Networks of `transformers` with every weight that they were saved with, their head among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from uedp_bench.errors import InputError, nearest, shown
from uedp_bench.models.adapters import base_folder, with_adapters
from uedp_bench.models.networks.transformer_encoders import (
    PaddedTransformer,
    Projection,
    WordTransformer,
)
from uedp_bench.text.pretrained import no_progress_bars, readable

FIELD = "checkpoint.pretrained"

Kind = Literal["causal", "masked", "classifier", "tagger"]
"""Kind that a network of the library was saved as."""


class _OfKind(NamedTuple):
    """Names of a kind of network in the library.

    Attributes:
        auto: class that reads a folder of this kind.
        names: name of the table of its classes, in `modeling_auto`.
        task: task that learns such a network.
    """

    auto: str
    names: str
    task: str


_KINDS: dict[Kind, _OfKind] = {
    "causal": _OfKind("AutoModelForCausalLM", "CAUSAL_LM", "next-word"),
    "masked": _OfKind("AutoModelForMaskedLM", "MASKED_LM", "masked-language-model"),
    "classifier": _OfKind(
        "AutoModelForSequenceClassification", "SEQUENCE_CLASSIFICATION", "text-classification"
    ),
    "tagger": _OfKind("AutoModelForTokenClassification", "TOKEN_CLASSIFICATION", "tagging"),
}

_LEFT_OUT = ("pooler", "seq_relationship")
"""Parts of weights that networks of a kind may leave out: they have no say in what it predicts."""

_NEAR = 1e-4
"""Distance of logits, relative to the largest, that rounding explains."""


def whole_network(where: str, kind: Kind, dtype: torch.dtype = torch.float32) -> Any:
    """The network of a folder or hub id, on the CPU, in evaluation mode.

    Code that comes with a model is never run. LoRA adapters in place of a network are merged into
    theirs.

    Args:
        where: folder or hub id.
        kind: kind that it was saved as.
        dtype: dtype of its weights.

    Raises:
        InputError: if it cannot be read, is of another kind, or its weights are not those of its
            configuration: none may be missing, have another shape, or be left over.
    """
    import transformers

    if (base := base_folder(where, FIELD)) is not None:
        if dtype != torch.float32:  # merged weights would be rounded: another model
            raise InputError(
                f"{FIELD} {where!r} holds adapters, which are merged in float32 alone: give the "
                "network that they change as pretrained, and this folder as checkpoint.adapter"
            )
        adapted = with_adapters(where, base, lambda folder: whole_network(folder, kind), FIELD)
        return adapted.merge_and_unload()
    _check_kind(where, configuration(where), kind)
    auto = getattr(transformers, _KINDS[kind].auto)
    with readable(where, FIELD), no_progress_bars(), _no_reports():
        network, info = auto.from_pretrained(
            where,
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            trust_remote_code=False,
        )
    mismatched = [each[0] if isinstance(each, tuple) else each for each in info["mismatched_keys"]]
    over = [key for key in info["unexpected_keys"] if not any(part in key for part in _LEFT_OUT)]
    for names, problem in (
        (info["missing_keys"], "lack"),
        (mismatched, "have another shape than its configuration says for"),
        (over, "have, and its configuration does not,"),
    ):
        if names:
            first = sorted(map(str, names))[0]
            raise InputError(
                f"{FIELD} {where!r}: the weights {problem} {first} ({len(names)} such in all): "
                "weights and configuration are not of one model"
            )
    return network.eval()


def configuration(where: str) -> Any:
    """The configuration of a folder or hub id."""
    from transformers import AutoConfig

    where = base_folder(where, FIELD) or where
    with readable(where, FIELD):
        return AutoConfig.from_pretrained(where, trust_remote_code=False)


def positions(config: Any) -> int | None:
    """Most tokens of a row by the configuration; None where it names no limit.

    Networks of RoBERTa's kind count positions from the one after padding's, which their table of
    positions shows.
    """
    from transformers import AutoModel

    limits = [getattr(config, name, None) for name in ("max_position_embeddings", "max_seq_len")]
    limit = next((each for each in limits if each is not None), None)
    if limit is None:
        return None
    try:
        with torch.device("meta"):  # shapes alone: no memory, no numbers
            network = AutoModel.from_config(config)
    except (ValueError, RuntimeError, TypeError):  # not a network of its own, without its head
        return int(limit)
    tables = [
        getattr(module, "padding_idx", None)
        for name, module in network.named_modules()
        if name.endswith("position_embeddings")
    ]
    return int(limit) - max((at + 1 for at in tables if at is not None), default=0)


def _check_kind(where: str, config: Any, kind: Kind) -> None:
    """Refuse a network that was saved as another kind: its head would be drawn at random."""
    from transformers.models.auto import modeling_auto

    saved = list(config.architectures or ())
    fits = {
        other: {
            name
            for value in getattr(
                modeling_auto, f"MODEL_FOR_{names_of_kind.names}_MAPPING_NAMES"
            ).values()
            for name in ([value] if isinstance(value, str) else value)
        }
        for other, names_of_kind in _KINDS.items()
    }
    if any(name in fits[kind] for name in saved):
        return
    saved_as = (
        saved[0] if saved else "model of no known kind (its configuration has no architectures)"
    )
    other = [
        names_of_kind.task
        for other_kind, names_of_kind in _KINDS.items()
        if any(name in fits[other_kind] for name in saved)
    ]
    hint = f"; the task {other[0]} learns such a model" if other else ""
    raise InputError(
        f"{FIELD} {where!r} is a {saved_as}, and the task {_KINDS[kind].task} needs what "
        f"{_KINDS[kind].auto} reads with its head{hint}"
    )


@contextmanager
def _no_reports() -> Iterator[None]:
    """Keep the library from printing a table of weights: what does not fit is refused here."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


class _Head(NamedTuple):
    """The layer that classifies, taken off a network.

    Attributes:
        weight: (classes, size).
        bias: (classes,).
        names: names of its classes, in order.
        where: the folder, for messages.
    """

    weight: Tensor
    bias: Tensor
    names: tuple[str, ...]
    where: str

    def ordered(self, names: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Weight and bias of the classes in another order; see `BringsHead`."""
        order = _order(names, self.names, self.where)
        return self.weight[order], self.bias[order]


class CheckpointClassifier(PaddedTransformer):
    """Saved classifier without its last layer: one vector for each row.

    Args:
        network: sequence classifier of `transformers`; its last layer is taken off.
        head: last layer, where it is needed.
    """

    normalised = True

    def __init__(self, network: Any, head: _Head | None = None) -> None:
        from uedp_bench.models.networks.transformer_encoders import counts_from_zero

        layer = _last_layer(network)
        nn.Module.__init__(self)
        self.network = network.eval()
        self.projection = Projection(layer.in_features, None, seed=0)
        self.width = layer.in_features
        self._positions = counts_from_zero(network.base_model)
        # The library finds the last token of a row by its padding token, or, in an encoder-decoder,
        # by end tokens, of which it wants equally many in every row of a batch.
        self._one_by_one = network.config.pad_token_id is None or network.config.is_encoder_decoder
        self._brought = head
        name = next(name for name, module in network.named_modules() if module is layer)
        network.set_submodule(name, nn.Identity())

    def forward(self, tokens: Tensor, lengths: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, width); see `TextEncoder`. Seeds have nothing to do."""
        rows, longest = tokens.shape
        if self._one_by_one and rows > 1:
            each = zip(tokens, lengths.tolist(), strict=True)
            return torch.cat([self._logits(row[None, :length]) for row, length in each])
        inside = torch.arange(longest, device=tokens.device) < lengths[:, None]
        if (padding := self.network.config.pad_token_id) is not None:
            tokens = tokens.masked_fill(~inside, padding)
        return self._logits(tokens, inside)

    def _logits(self, tokens: Tensor, inside: Tensor | None = None) -> Tensor:
        rows, longest = tokens.shape
        mask = torch.ones_like(tokens) if inside is None else inside.long()
        options = {}
        if self._positions:
            places = torch.arange(longest, device=tokens.device)
            options["position_ids"] = places.expand(rows, -1)
        logits: Tensor = self.network(input_ids=tokens, attention_mask=mask, **options).logits
        return logits

    def head(self, names: Sequence[str]) -> tuple[Tensor, Tensor]:
        """See `BringsHead`."""
        return _brought(self._brought).ordered(names)


class CheckpointTagger(WordTransformer):
    """Saved tagger without its last layer: one vector for each word.

    Args:
        network: token classifier of `transformers`.
        head: last layer, where it is needed.
    """

    normalised = True

    def __init__(self, network: Any, head: _Head | None = None) -> None:
        layer = _last_layer(network)
        super().__init__(network.base_model, Projection(layer.in_features, None, seed=0))
        self._brought = head

    def head(self, names: Sequence[str]) -> tuple[Tensor, Tensor]:
        """See `BringsHead`."""
        return _brought(self._brought).ordered(names)


def classifier_of(where: str, labels: Sequence[str] | None) -> CheckpointClassifier:
    """The saved classifier of a folder, in two parts.

    Args:
        where: folder or hub id.
        labels: names of its classes, where its configuration has none.

    Raises:
        InputError: as `whole_network`, and if its last layer is not a linear one on one vector.
    """
    network = whole_network(where, "classifier")
    tokens, lengths, logits = _probe(network)  # before its head is taken off
    head = _head(network, where, labels)
    module = CheckpointClassifier(network, head)
    with torch.no_grad():
        _check_split(logits, module(tokens, lengths), head)
    return module


def tagger_of(where: str, labels: Sequence[str] | None) -> CheckpointTagger:
    """The saved tagger of a folder, in two parts; arguments and errors as `classifier_of`."""
    network = whole_network(where, "tagger")
    tokens, lengths, logits = _probe(network)  # before its head is taken off
    head = _head(network, where, labels)
    module = CheckpointTagger(network, head)
    with torch.no_grad():
        _check_split(logits, module.last_layer(tokens, lengths)[0], head)
    return module


def _head(network: Any, where: str, labels: Sequence[str] | None) -> _Head:
    layer = _last_layer(network)
    saved = {int(number): str(name) for number, name in network.config.id2label.items()}
    names = tuple(saved[number] for number in sorted(saved))
    if labels is not None:
        if len(labels) != len(names):
            raise InputError(
                f"checkpoint.labels names {len(labels)} classes, and {where!r} tells {len(names)} "
                "apart"
            )
        names = tuple(labels)
    bias = torch.zeros(layer.out_features) if layer.bias is None else layer.bias.detach()
    return _Head(layer.weight.detach().clone(), bias.clone(), names, where)


def _last_layer(network: Any) -> nn.Linear:
    """The linear layer that gives the logits."""
    inside = {id(module) for module in network.base_model.modules()}
    layers = [
        module
        for module in network.modules()
        if isinstance(module, nn.Linear)
        and module.out_features == network.config.num_labels
        and id(module) not in inside
    ]
    if not layers:
        raise InputError(f"{FIELD}: a {type(network).__name__} has no linear layer for its labels")
    return layers[-1]


def _probe(network: Any) -> tuple[Tensor, Tensor, Tensor]:
    """One row of tokens, its length, and the logits that the whole network gives for it."""
    tokens = (torch.arange(1, 6) % int(network.config.vocab_size))[None]
    with torch.no_grad():
        logits = network(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits
    return tokens, torch.tensor([5]), logits


def _check_split(before: Tensor, z: Tensor, head: _Head) -> None:
    """Refuse a network whose logits are not those of the layer that was taken off."""
    after = nn.functional.linear(z, head.weight, head.bias)
    if after.shape == before.shape:
        scale = float(before.abs().max()) + 1.0
        if float((after - before).abs().max()) <= _NEAR * scale:
            return
    raise InputError(
        f"{FIELD} {head.where!r}: its logits are not one linear layer on the vectors before it, "
        "which this package takes apart; encoders of BERT's kind are read"
    )


def _brought(head: _Head | None) -> _Head:
    if head is None:
        raise TypeError("the head was saved beside its encoder, and is read from there")
    return head


def _order(names: Sequence[str], names_of_model: Sequence[str], where: str) -> list[int]:
    """Places of names among those of the model, upper and lower case aside where that is clear.

    Raises:
        InputError: if the two do not name the same classes.
    """
    folded = [name.casefold() for name in names_of_model]
    unclear = len(set(folded)) < len(folded)
    out = []
    for name in names:
        at = [i for i, other in enumerate(names_of_model) if other == name]
        if not at and not unclear:
            at = [i for i, other in enumerate(folded) if other == name.casefold()]
        if len(at) != 1:
            near = nearest(name, names_of_model)
            hint = f"; its nearest is {near!r}" if near else ""
            raise InputError(
                f"{FIELD} {where!r} has no class {shown(name)}{hint}: its configuration (id2label) "
                f"names {', '.join(names_of_model)}. Give checkpoint.labels, the names that the "
                "source uses, in this order"
            )
        out += at
    left = [name for at, name in enumerate(names_of_model) if at not in out]
    if left or len(set(out)) < len(out):
        raise InputError(
            f"{FIELD} {where!r} tells {len(names_of_model)} classes apart, and the source has "
            f"{len(names)}: {', '.join(left) or 'two that it calls the same'} would be left over; "
            "name all of its classes in the source (source.label_names, source.entity_types)"
        )
    return out
