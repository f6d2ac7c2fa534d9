"""Processes for runs: what they begin with, and what they do not share."""

from __future__ import annotations

import os
import sys
from multiprocessing import Pipe

import pytest

from uedp_bench.io.fresh_processes import start_fresh


def tell(there, name):
    there.send((os.getpid(), os.environ.get(name), "torch" in sys.modules, _SET))
    there.close()


_SET = False


def told(name, **options):
    here, there = Pipe()
    process = start_fresh(tell, there, name, **options)
    there.close()
    answer = here.recv()
    process.join()
    assert process.exitcode == 0
    return answer


def test_environment_is_that_of_now_and_memory_is_not(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "_SET", True)
    monkeypatch.setenv("UEDP_BENCH_TEST", "first")
    first = told("UEDP_BENCH_TEST")
    monkeypatch.setenv("UEDP_BENCH_TEST", "second")  # the server, if there is one, runs already
    second = told("UEDP_BENCH_TEST", daemon=True)
    monkeypatch.delenv("UEDP_BENCH_TEST")
    third = told("UEDP_BENCH_TEST")
    assert [each[1] for each in (first, second, third)] == ["first", "second", None]
    assert len({os.getpid(), first[0], second[0], third[0]}) == 4
    assert not any(each[3] for each in (first, second, third))


@pytest.mark.skipif(sys.platform != "linux", reason="the server is for Linux")
def test_processes_begin_with_torch():
    assert told("PATH")[2]
