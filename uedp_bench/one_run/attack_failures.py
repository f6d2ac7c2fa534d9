"""Attacks that fail: alone once a release is there, and before training with the whole run."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uedp_bench.contracts.results import FailedAttack
from uedp_bench.errors import InputError, PrivacyError, UedpBenchError, described
from uedp_bench.io.folders import disk_is_full

if TYPE_CHECKING:
    from uedp_bench.contracts.leakage import Attack


def failure_of_attack(name: str, error: Exception, out: Path) -> FailedAttack:
    """Record of an attack that failed, while its error is handled.

    Args:
        name: name of the attack.
        error: error that ended it.
        out: folder on the disk that the run writes to.

    Raises:
        Exception: the error, if no attack is to blame: memory or the disk is full, or a model that
            the attack had trained did not keep to its plan.
    """
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError | PrivacyError):
        raise error
    if disk_is_full(error, out):
        raise error
    kind = type(error).__name__
    expected = isinstance(error, UedpBenchError)
    trace = "" if expected else traceback.format_exc()
    return FailedAttack(name=name, type=kind, message=str(error) or kind, traceback=trace)


@contextmanager
def before_training(attack: Attack[Any], step: str) -> Iterator[None]:
    """Refuse a run whose attack fails before anything is trained.

    What it plants decides what all mechanisms train on, so that nothing can go on without it.

    Args:
        attack: attack that may fail inside the block.
        step: its step inside the block, for the message ("plant").

    Raises:
        InputError: for any error but of memory, with the place where it was raised.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"the attack {attack.name} cannot {step}: {described(error)}; mend it, or leave the "
            "attack out"
        ) from error
