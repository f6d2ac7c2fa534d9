"""Options of a cluster that cannot be: refused before anything is loaded."""

from __future__ import annotations

import signal
import sys

import pytest

from uedp_bench.cli.grid_run import Options, run_grid
from uedp_bench.cli.main import run_cli
from uedp_bench.cluster import connection
from uedp_bench.cluster.node_runs import difference
from uedp_bench.cluster.sigterm import ends_on_sigterm


@pytest.fixture
def there(monkeypatch):
    """Ray is installed."""
    monkeypatch.setattr(connection, "find_spec", lambda name: object())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--on", "rya"], "--on 'rya': allowed are ray"),
        (["--on", "http://here:1"], "allowed are ray"),
        (["--on", "ray", "--workers", "2"], "--workers 2 with --on"),
        (["--on", "ray", "--gpus-per-run", "1.5"], "--gpus-per-run 1.5: allowed is 0, a share"),
        (["--on", "ray", "--gpus-per-run", "-1"], "--gpus-per-run -1"),
        (["--on", "ray", "--cpus-per-run", "0"], "--cpus-per-run 0: allowed is a number above 0"),
        (["--on", "ray", "--cpus-per-run", "nan"], "--cpus-per-run nan"),
        (["--on", "ray", "--device", "cuda:1"], "use --device cuda"),
        (["--on", "ray", "--device", "cuda"], "with --gpus-per-run"),
        (["--gpus-per-run", "1"], "--gpus-per-run speaks of a cluster: give --on too"),
    ],
)
def test_what_cannot_be_is_refused(options, said, there, capsys, tmp_path):
    assert run_cli(["run", "--mechanism", "user-dp", "--out", str(tmp_path), *options]) == 2
    assert said in capsys.readouterr().err


def test_a_missing_ray_names_its_extra(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(connection, "find_spec", lambda name: None)
    assert run_cli(["run", "--mechanism", "user-dp", "--out", str(tmp_path), "--on", "ray"]) == 2
    assert "--on: Ray is not installed" in (said := capsys.readouterr().err)
    assert "uedp-bench[cluster]" in said


def test_nodes_with_another_package_are_told_apart():
    assert difference(("0.2", "a"), ("0.2", "a")) == ""
    assert difference(("0.1", "a"), ("0.2", "a")) == "has uedp-bench 0.1, and this machine 0.2"
    assert "other code" in difference(("0.2", "b"), ("0.2", "a"))


def test_options_of_python_are_those_of_the_command(tmp_path):
    with pytest.raises(ValueError, match="allowed are ray"):
        run_grid({"mechanisms": ["user-dp"]}, Options(tmp_path, on="nothing"), None)


@pytest.fixture
def sigterm():
    """What the signal did before is put back."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_sigterm_closes_what_is_open_and_then_does_what_it_did_before(sigterm):
    seen = []
    signal.signal(signal.SIGTERM, lambda number, frame: seen.append("before"))
    with pytest.raises(KeyboardInterrupt), ends_on_sigterm() as ending:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))  # as Ray does
        ending.heed()
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)  # a second one does not interrupt the closing
            seen.append("closed")
    assert seen == ["closed", "before"]
    with pytest.raises(KeyboardInterrupt), ends_on_sigterm():
        sys.exit(signal.SIGTERM)  # while it connects, Ray answers the signal
    assert seen == ["closed", "before", "before"]
    with pytest.raises(SystemExit), ends_on_sigterm():
        sys.exit(3)


def test_sigterm_that_was_ignored_still_is(sigterm):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with ends_on_sigterm() as ending:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        ending.heed()
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
