"""A network that rank 0 gives out to all ranks in parts."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import nn

from uedp_bench.learner import Learner
from uedp_bench.rank_group import Failed, gathered, told
from uedp_bench.registry import loaded_plugins
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.server import ServerStep, SgdServer
from uedp_bench.training.sharded.network import weights_of
from uedp_bench.training.sharded.skeleton import without_weights
from uedp_bench.training.sharded.spread import Keep, kept
from uedp_bench.training.sharded.worker import Begin, Part, Rest


class Leading:
    """Within it, all ranks hold a learner's network in parts, and wait for what rank 0 says.

    Args:
        learner: of the network, which stays as it is.
        local: how a unit trains.
        server: how the weights move.
        device: torch device; its kind is that of all ranks.

    Attributes:
        part: of rank 0.

    Raises:
        InputError: if the learner cannot be sent to another process.
    """

    def __init__(
        self, learner: Learner, local: LocalTraining, server: ServerStep, device: str
    ) -> None:
        self._network = learner.module
        self._begin = Begin(
            without_weights(learner), weights_of(learner.module), local, pickle.dumps(server),
            torch.device(device).type, torch.get_num_threads(), loaded_plugins(),
        )  # fmt: skip

    def __enter__(self) -> Self:
        told(self._begin)
        try:
            raise_failed(gathered(self._made()))
            told("weights")
            named = dict(self._network.named_parameters())
            self.part.receive(named[weight.name].detach().cpu() for weight in self._begin.weights)
        except Exception:
            told(Rest())
            raise
        return self

    def _made(self) -> Failed | None:
        """Makes the part of rank 0; if it fails, the others learn that where they wait for it."""
        try:
            self.part = Part(self._begin)
        except Exception as error:
            return Failed.of(error)
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, Exception):  # ranks are where they were
            told(Rest())

    def kept(self) -> nn.Module:
        """The network as it is now, which stays in parts."""
        message = Keep.new()
        told(message)
        return kept(message, self.part.module)


def in_parts(learner: Learner, device: str) -> nn.Module:
    """A learner's network as it stands, in parts on devices of a kind, to be asked."""
    with Leading(learner, LocalTraining(), SgdServer(), device) as now:
        return now.kept()


def raise_failed(of_ranks: Sequence[Any]) -> None:
    """Raises what a rank raised."""
    for one in of_ranks:
        if isinstance(one, Failed):
            raise one.again()
