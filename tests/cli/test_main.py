"""The command line: one clear line and the right exit code for every mistake."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest

import uedp_bench
from uedp_bench.cli import main as cli
from uedp_bench.cli.main import run_cli
from uedp_bench.components.registry import attacks
from uedp_bench.errors import CapabilityError, PluginError, PrivacyError
from uedp_bench.spec.descriptions import summary


@pytest.fixture
def failing(monkeypatch):
    """Makes the command `list` raise an error."""

    def arrange(error):
        def load(files):
            raise error

        monkeypatch.setattr("uedp_bench.components.registry.load_plugins", load)
        return run_cli(["list"])

    return arrange


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (CapabilityError("needs a Scorer"), 2, "error: needs a Scorer"),
        (PluginError("does not load"), 1, "error: does not load"),
        (PrivacyError("two\nlines"), 1, "error: two lines"),
        (OSError(errno.ENOSPC, "No space left on device", "x/result.json"), 1, "disk is full"),
        (KeyboardInterrupt(), 130, "stopped; run the same command again to resume"),
    ],
)
def test_errors_become_one_line_and_an_exit_code(failing, capsys, error, code, message):
    assert failing(error) == code
    printed = capsys.readouterr()
    assert message in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert "results written so far are kept" in printed.err or "disk" not in message


def test_bugs_are_not_hidden(failing):
    with pytest.raises(ZeroDivisionError):
        failing(ZeroDivisionError())


@pytest.mark.parametrize("path", [None, "some/file"])
def test_every_error_of_the_system_is_one_line(failing, capsys, path):
    for number in sorted({*errno.errorcode} - {errno.EPIPE, errno.ESHUTDOWN}):
        error = OSError(number, os.strerror(number), *([] if path is None else [path]))
        assert failing(error) in (1, 2), number
        assert len(capsys.readouterr().err.strip().splitlines()) == 1, number


@pytest.mark.parametrize("value", ["", " ", "two", "-1", "1e3"])
def test_a_strange_world_size_is_one_process(monkeypatch, capsys, value):
    monkeypatch.setattr(sys, "argv", ["uedp-bench", "--version"])
    monkeypatch.setenv("WORLD_SIZE", value)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_narrow_terminal_gets_what_it_can_print(monkeypatch, encoding):
    monkeypatch.setattr(sys, "argv", ["uedp-bench", "describe", "uedp"])
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    printed, errors = (stream.buffer for stream in (sys.stdout, sys.stderr))
    sys.stdout.flush()
    assert b"?" in printed.getvalue()
    assert errors.getvalue() == b""


@pytest.mark.parametrize("closed", [1, 2])
def test_a_closed_output_is_no_error(closed):
    line = f"{sys.executable} -m uedp_bench list {closed}>&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_while_commands_are_imported_prints_no_traceback(tmp_path):
    (tmp_path / "typer.py").write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    running = subprocess.Popen(
        [sys.executable, "-m", "uedp_bench", "list"], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": paths},
        # In the background of a shell, Ctrl-C is ignored, and so it is by what is started there.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert running.stdout is not None
    assert running.stdout.readline() == "here\n"
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "Traceback" not in errors


def test_version_and_help(capsys):
    assert run_cli(["--version"]) == 0
    assert capsys.readouterr().out == f"uedp-bench {uedp_bench.__version__}\n"
    for arguments in ([], ["--help"]):
        assert run_cli(arguments) == 0
        out = capsys.readouterr().out
        for command in ("quickstart", "run", "list", "describe", "data", "leaderboard"):
            assert f"\n  {command} " in out
        assert "uedp-bench describe uedp" in out


def test_main_exits_with_the_code_of_the_command(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["uedp-bench", "bogus"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2


def test_output_that_nobody_reads_on_is_no_error():
    """As under `uedp-bench list | head -1`."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "uedp_bench", "list"], stdout=write, stderr=subprocess.PIPE,
        text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


PLUGIN = textwrap.dedent('''
    from pydantic import Field
    from uedp_bench.components.component import Params
    from uedp_bench.contracts.mechanism import PublishingMechanism
    from uedp_bench.components.registry import mechanisms

    class MaskParams(Params):
        """."""
        rate: float = Field(default=0.5, ge=0, le=1, description="share of words")
        where: tuple[int, ...] | None = Field(default=None, description="places")
        seed: int = Field(description="has no default")

    @mechanisms.register
    class Mask(PublishingMechanism):
        """Masks words at random."""
        name, Params, source, unit = "test-mask", MaskParams, "here", "word"
        def plan(self, stats): return ()
        def publish(self, corpus, run): return corpus, ()
''')


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    from uedp_bench.components import registry

    monkeypatch.setattr(registry.mechanisms, "_plugins", {})
    file = tmp_path / f"mask_{tmp_path.name}.py"
    file.write_text(PLUGIN)
    return str(file)


def test_a_lone_file_is_listed_and_described(capsys, plugin):
    assert run_cli(["list", "mechanisms", "--json", "--plugin", plugin]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)["mechanisms"]}
    assert listed["test-mask"]["summary"] == "Masks words at random."
    assert listed["test-mask"]["package"] == plugin
    assert listed["noiseless"]["package"].startswith("uedp-bench ")
    assert listed["noiseless"]["summary"].startswith("Ordinary training")
    assert run_cli(["describe", "mechanism/test-mask", "--json", "--plugin", plugin]) == 0
    described = json.loads(capsys.readouterr().out)
    assert (described["unit"], described["stage"]) == ("word", "publishing")
    parameters = {parameter["name"]: parameter for parameter in described["parameters"]}
    assert parameters["rate"] == {
        "name": "rate", "type": "number", "required": False, "default": 0.5,
        "range": "≥ 0, ≤ 1", "description": "share of words",
    }  # fmt: skip
    assert parameters["where"]["type"] == "list of integer | null"
    assert parameters["seed"]["required"] is True


def test_describe_prints_declared_metrics_as_boards_show_them(capsys):
    assert run_cli(["describe", "attack/membership"]) == 0
    printed = capsys.readouterr().out
    (rate,) = [line for line in printed.splitlines() if " tpr_user_at_1pct_fpr " in line]
    cells = [cell.strip() for cell in rate.strip("│").split("│")]
    assert cells[2:5] == ["%", "lower", "1"]
    assert run_cli(["describe", "attack/membership", "--json"]) == 0
    metrics = {one["name"]: one for one in json.loads(capsys.readouterr().out)["metrics"]}
    assert metrics["loss_gap"]["unit"] == "nats"
    assert (metrics["auc"]["better"], metrics["auc"]["no_leak"]) == ("lower", 0.5)


@pytest.mark.long
def test_describe_prints_every_parameter_of_every_component(capsys):
    from uedp_bench.components.registry import REGISTRIES

    for registry in REGISTRIES.values():
        for name in registry.names():
            if registry.group.startswith("uedp_bench"):
                assert run_cli(["describe", f"{registry.kind}/{name}"]) == 0, name
                out = capsys.readouterr().out
                for parameter in registry.get(name).Params.model_fields:
                    assert f" {parameter} " in out, (name, parameter)


def test_a_name_of_two_kinds_needs_its_kind(capsys, monkeypatch):
    from uedp_bench.components import registry

    twin = {"membership": registry.Origin("twin.py:Twin", lambda: None)}
    monkeypatch.setattr(registry.tasks, "_plugins", twin)
    assert run_cli(["describe", "membership"]) == 2
    err = capsys.readouterr().err
    assert "attack/membership" in err
    assert "task/membership" in err


def test_listing_imports_no_plugin_and_survives_a_broken_one(tmp_path, capsys, monkeypatch):
    from uedp_bench.components import registry

    package = tmp_path / "broken_pkg_for_listing"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    (package / "mod.py").write_text('class Broken:\n    """Never imported."""\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    origin = registry.Origin("broken_pkg_for_listing.mod:Broken (broken 0.1)", lambda: 1 / 0)
    monkeypatch.setattr(registry.attacks, "_plugins", {"broken": origin})
    assert run_cli(["list", "attacks"]) == 0
    assert "Never imported." in capsys.readouterr().out
    assert run_cli(["describe", "broken"]) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_data_describe_says_the_published_sizes(capsys, shared_data):
    path = str(shared_data / "conll2003")
    assert run_cli(["data", "describe", "conll2003", "--path", path, "--json"]) == 0
    train = json.loads(capsys.readouterr().out)["splits"]["train"]
    assert (train["users"], train["rows"], train["entities"]) == (946, 14_041, 7_747)
    only = ["--set", "source.entity_types=[PER]"]
    assert run_cli(["data", "describe", "conll2003", "--path", path, *only]) == 0
    out = capsys.readouterr().out
    assert "4,373" in out
    assert "LOC" not in out


def test_a_list_says_what_each_is_for_and_cuts_nothing(capsys):
    assert run_cli(["list", "attacks"]) == 0
    out = capsys.readouterr().out
    assert "…" not in out
    text = " ".join(out.split())
    for name in attacks.names():
        assert f"{name} {summary(attacks, name)}" in text
    assert max(map(len, out.splitlines())) <= 120


def test_shells_can_complete(capsys):
    assert run_cli(["--help"]) == 0
    assert "--install-completion" in capsys.readouterr().out
