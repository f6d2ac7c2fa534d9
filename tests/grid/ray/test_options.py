"""Options of a cluster that cannot be: refused before anything is loaded."""

from __future__ import annotations

import pytest

from uedp_bench.cli.main import run_cli
from uedp_bench.grid import grid_on_ray
from uedp_bench.grid.ray_nodes import difference
from uedp_bench.grid.scheduler import Runs
from uedp_bench.models import fast
from uedp_bench.one_run.preparing import Execution
from uedp_bench.python_api.run_grid import Options, run_grid


@pytest.fixture
def cluster(monkeypatch):
    """Ray is installed."""
    monkeypatch.setattr(grid_on_ray, "find_spec", lambda name: object())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--on", "rya"], "--on 'rya':"),
        (["--on", "http://here:1"], "ray"),
        (["--on", "ray", "--workers", "2"], "--workers 2 with --on"),
        (["--on", "ray", "--gpus-per-run", "1.5"], "--gpus-per-run 1.5:"),
        (["--on", "ray", "--gpus-per-run", "-1"], "--gpus-per-run -1"),
        (["--on", "ray", "--cpus-per-run", "0"], "--cpus-per-run 0:"),
        (["--on", "ray", "--cpus-per-run", "nan"], "--cpus-per-run nan"),
        (["--on", "ray", "--device", "cuda:1"], "--device"),
        (["--on", "ray", "--device", "cuda"], "with --gpus-per-run"),
        (["--gpus-per-run", "1"], "--gpus-per-run"),
    ],
)
def test_what_cannot_be_is_refused(options, message, cluster, capsys, tmp_path):
    assert run_cli(["run", "--mechanism", "user-dp", "--out", str(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_ray_names_its_extra(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(grid_on_ray, "find_spec", lambda name: None)
    assert run_cli(["run", "--mechanism", "user-dp", "--out", str(tmp_path), "--on", "ray"]) == 2
    assert "--on: Ray is not installed" in (error_text := capsys.readouterr().err)
    assert "uedp-bench[cluster]" in error_text


def test_nodes_with_another_package_are_told_apart():
    assert difference(("0.2", "a"), ("0.2", "a")) == ""
    assert difference(("0.1", "a"), ("0.2", "a")) == "has uedp-bench 0.1, and this machine 0.2"
    assert "other code" in difference(("0.2", "b"), ("0.2", "a"))


def test_options_of_python_are_those_of_the_command(tmp_path):
    with pytest.raises(ValueError, match="allowed are ray"):
        run_grid({"mechanisms": ["user-dp"]}, Options(tmp_path, on="nothing"), None)


def test_nodes_compute_with_the_kernels_of_the_command(monkeypatch, tmp_path):
    for switch in ("0", None):
        if switch is None:
            monkeypatch.delenv(fast.SWITCH)
        else:
            monkeypatch.setenv(fast.SWITCH, switch)
        order = grid_on_ray._order(Runs(Execution(tmp_path)), (), tmp_path / "probe", None)
        assert order.environment[fast.SWITCH] == switch
