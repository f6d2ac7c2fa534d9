"""This process as rank 0 of a few, for tests of what ranks compute together."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import torch

from uedp_bench import rank_group
from uedp_bench.training import ranks

FORKED = multiprocessing.get_context("fork")  # a fresh process would import torch for seconds


@contextmanager
def one_thread() -> Iterator[None]:
    """Threads of torch do not survive a fork."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _serve(how: dict[str, Any]) -> None:
    with rank_group.connected(**how):
        ranks.serve()


@pytest.fixture(scope="module", params=[2, 3])
def team(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """This process is rank 0 of 2, and of 3."""
    store = tmp_path_factory.mktemp("ranks") / "store"
    size: int = request.param
    how = {"init_method": f"file://{store}", "world_size": size}
    with one_thread(), pytest.MonkeyPatch.context() as patch:
        # A rank that is stuck fails the tests, where a run would wait for it for days.
        patch.setattr(rank_group, "_PATIENCE", timedelta(minutes=5))
        others = [
            FORKED.Process(target=_serve, args=({**how, "rank": rank},), daemon=True)
            for rank in range(1, size)
        ]
        for other in others:
            other.start()
        with rank_group.connected(**how, rank=0):
            assert rank_group.count() == size
            yield size
            rank_group.told(ranks._End())
        for other in others:
            other.join(240)
            assert other.exitcode == 0
