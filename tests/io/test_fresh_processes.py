"""Processes for runs: what they begin with, and what they do not share."""

from __future__ import annotations

import os
import sys
from collections import UserDict
from multiprocessing import Pipe

import pytest

from uedp_bench.io.fresh_processes import start_fresh


def tell(connection, name):
    connection.send((os.getpid(), os.environ.get(name), "torch" in sys.modules, _SET))
    connection.close()


_SET = False


def child_state(name, **options):
    receiving, sending = Pipe()
    process = start_fresh(tell, sending, name, **options)
    sending.close()
    answer = receiving.recv()
    process.join()
    assert process.exitcode == 0
    return answer


def test_environment_is_that_of_now_and_memory_is_not(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "_SET", True)
    monkeypatch.setenv("UEDP_BENCH_TEST", "first")
    first = child_state("UEDP_BENCH_TEST")
    monkeypatch.setenv("UEDP_BENCH_TEST", "second")  # the server, if there is one, runs already
    second = child_state("UEDP_BENCH_TEST", daemon=True)
    monkeypatch.delenv("UEDP_BENCH_TEST")
    third = child_state("UEDP_BENCH_TEST")
    assert [each[1] for each in (first, second, third)] == ["first", "second", None]
    assert len({os.getpid(), first[0], second[0], third[0]}) == 4
    assert not any(each[3] for each in (first, second, third))


class Changing(UserDict):
    """Environment that another thread takes a variable from while it is copied."""

    def __iter__(self):
        names = [*self.data]
        self.data.pop("UEDP_BENCH_TEST", None)
        return iter(names)


def test_a_variable_that_goes_while_a_process_starts_stops_nothing(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(os, "environ", Changing({**os.environ, "UEDP_BENCH_TEST": "gone"}))
        state = child_state("UEDP_BENCH_TEST")
    assert state[1] is None


@pytest.mark.skipif(sys.platform != "linux", reason="the server is for Linux")
def test_processes_begin_with_torch():
    assert child_state("PATH")[2]
