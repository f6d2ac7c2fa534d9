"""A classifier whose answers two parties compute."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uedp_bench.api import Corpus, FloatArray, IntArray, Stream
from uedp_bench.api.capabilities import PlainNetwork, ServedRelease
from uedp_bench.mechanisms.secure_inference.engine.compile import (
    ArgMax,
    SecureAnswer,
    SecureNetwork,
    Traffic,
    compile_network,
)
from uedp_bench.mechanisms.secure_inference.engine.dealer import CLIENT, SERVER

if TYPE_CHECKING:
    from uedp_bench.mechanisms.secure_inference.mpc import MPC, MPCParams

Draw = Callable[[str], Stream]
"""A fresh secret stream for a question of this digest."""

LAN = (0.25e-3, 6.4e9)
"""Seconds of a round and bits a second between two machines of one data centre."""

WAN = (40e-3, 100e6)
"""Seconds of a round and bits a second over a wide-area network."""


def costs(rows: int, traffic: Traffic) -> dict[str, float]:
    """Counters of the cost: what answering so many rows took, and would take on two networks."""
    return {
        "mpc_texts": rows,
        "mpc_rounds": traffic.rounds,
        "mpc_bytes_party": traffic.bytes_party,
        "mpc_bytes_dealer": traffic.bytes_dealer,
        "mpc_offline_seconds": traffic.offline_seconds,
        "mpc_online_seconds": traffic.online_seconds,
        "mpc_lan_seconds": traffic.seconds(*LAN),
        "mpc_wan_seconds": traffic.seconds(*WAN),
    }


def compiled(
    network: PlainNetwork, params: MPCParams, stream: Stream | None = None
) -> SecureNetwork:
    """The protocol of a classifier's layers, up to the class.

    Args:
        network: its plain layers.
        params: params of `mpc`.
        stream: secret, and for this protocol only; None for 32 bytes of the operating system.
    """
    ending = [nn.Sigmoid(), ArgMax()] if params.sigmoid else [ArgMax()]
    layers = nn.Sequential(*network.layers, *ending)
    return compile_network(layers, network.input_shape, replace(params.config(), stream=stream))


class ComputedAnswers(ServedRelease):
    """A classifier whose answers two parties compute; a subclass says what is revealed.

    Every question is answered with fresh randomness: by the run's streams, keyed by the question
    and by how often it was asked, or by the operating system's once it was saved.

    Args:
        behind: the classifier; nobody sees it.
        network: its plain layers, and what they read.
        mechanism: `mpc` at its parameters.
        draw: gives the stream of a question, from which the seeds of both parties come.

    Attributes:
        count: is called with what each question cost.
    """

    view: ClassVar[str] = "answers that two parties computed"

    def __init__(self, behind: Any, network: PlainNetwork, mechanism: MPC, draw: Draw) -> None:
        super().__init__(behind, mechanism)
        self._network, self._draw = network, draw
        self._params = mechanism.params
        self.count: Callable[[Mapping[str, float]], None] = lambda values: None

    @property
    def protocol(self) -> SecureNetwork:
        """The protocol that answers every question, with random numbers that no question uses."""
        return compiled(self._network, self._params)

    def compiled(self, question: str) -> SecureNetwork:
        """The protocol of one question, with a stream that nothing else uses."""
        return compiled(self._network, self._params, self._draw(question))

    def public_inputs(self, corpus: Corpus) -> NDArray[np.float32]:
        """See `PublicInputs`."""
        return self._network.read(corpus).numpy()

    def opened(
        self,
        corpus: Corpus,
        *,
        party: Literal["server", "client"],
        most: int,
        randomness: bool = False,
    ) -> NDArray[np.uint8]:
        """See `OpenedMessages`; these questions are not counted."""
        inputs, number = self._network.read(corpus), SERVER if party == "server" else CLIENT
        seen = []
        for at in range(len(inputs)):
            row = inputs[at : at + 1]
            answer = self.compiled(_digest(row)).infer(row, transcript_of=number)
            if randomness:
                halves = (
                    _evenly_drawn(answer.opened, most - most // 2),
                    _evenly_drawn(answer.own, most // 2),
                )
                seen.append(np.concatenate(halves))
            else:
                seen.append(_evenly_drawn(answer.opened, most))
        return np.stack(seen) if seen else np.empty((0, 0), dtype=np.uint8)

    def _answered(self, corpus: Corpus) -> SecureAnswer | None:
        inputs = self._network.read(corpus)
        if not len(inputs):
            return None
        answer = self.compiled(_digest(inputs)).infer(inputs)
        self.count(costs(len(inputs), answer.traffic))
        return answer


class ComputedLabels(ComputedAnswers):
    """`LabelOnly`: the label is all that is opened."""

    def labels(self, corpus: Corpus) -> IntArray:
        """See `LabelOnly`."""
        answer = self._answered(corpus)
        return np.empty(0, dtype=np.int64) if answer is None else answer.labels.numpy()


class ComputedScores(ComputedAnswers):
    """`Classifier`: the logits are opened."""

    def class_logprobs(self, corpus: Corpus) -> FloatArray:
        """See `Classifier`."""
        answer = self._answered(corpus)
        if answer is None or answer.logits is None:
            return np.empty((0, len(self.classes)))
        return torch.log_softmax(answer.logits.double(), dim=-1).numpy()


def _evenly_drawn(tensors: Sequence[Tensor], most: int) -> NDArray[np.uint8]:
    """At most `most` bytes of tensors, at even distances."""
    content = np.concatenate([x.contiguous().numpy().view(np.uint8).ravel() for x in tensors])
    return content[np.linspace(0, len(content) - 1, min(most, len(content))).astype(np.int64)]


def _digest(inputs: Tensor) -> str:
    return hashlib.sha256(inputs.contiguous().numpy().tobytes()).hexdigest()
