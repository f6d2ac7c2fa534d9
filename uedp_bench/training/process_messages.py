"""What processes that compute updates say to each other, however they are connected."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import NamedTuple

import torch

from uedp_bench.errors import InputError
from uedp_bench.registry import load_plugins, loaded_plugins
from uedp_bench.training.unit_sums import WorkerSetup


class Begin(NamedTuple):
    """The first message of a training: what is computed, and how to do it as the sender does.

    Attributes:
        threads: of torch.
        plugins: files, imported before what they define can be read.
        setup: a pickled `WorkerSetup`.
    """

    threads: int
    plugins: tuple[Path, ...]
    setup: bytes

    @staticmethod
    def of(setup: WorkerSetup, way_out: str) -> Begin:
        """The message for a training.

        Args:
            setup: of the training.
            way_out: what a user can do who trains what cannot be sent.

        Raises:
            InputError: if the learner or the local work cannot be sent to another process.
        """
        try:
            sent = as_bytes(setup)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise InputError(
                f"what is trained cannot be sent to another process ({error}); {way_out}"
            ) from error
        return Begin(torch.get_num_threads(), loaded_plugins(), sent)

    def read(self) -> WorkerSetup:
        """What is to be computed, in the process that computes it."""
        torch.set_num_threads(self.threads)
        load_plugins(self.plugins)
        setup: WorkerSetup = pickle.loads(self.setup)  # noqa: S301 - of the process that leads
        return setup


def as_bytes(message: object) -> bytes:
    """A message; plain pickle, for that of `multiprocessing` sends handles of shared memory."""
    return pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
