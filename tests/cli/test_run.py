"""`uedp-bench run`: what it prints, what it exits with, and every bad input in one line."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
from tiny import MODEL, SOURCE, SPIES, flags, plugged

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import read_result
from uedp_bench.io.folders import only_process
from uedp_bench.python_api.results import load_release
from uedp_bench.python_api.run_grid import Options

DP = ["--mechanism", "user-dp", "--set", "mechanism.rounds=2",
      "--set", "mechanism.users_per_round=10"]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def spies():
    with plugged(SPIES):
        yield


def run(capsys, *arguments):
    """(exit code, standard output, standard error)."""
    code = run_cli(arguments)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return code, printed.out, printed.err


def results(out):
    return [read_result(path) for path in sorted(out.glob("*/result.json"))]


# ---------------------------------------------------------------------------------- what it prints


def test_json_is_the_rows_and_nothing_else(tmp_path, capsys):
    code, out, err = run(capsys, *flags(tmp_path, *DP, "--seeds", "1,2", "--json"))
    assert code == 0
    (row,) = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert (row["mechanism"], row["seeds"]) == ("user-dp", [1, 2])
    assert {r["path"] for r in row["runs"]} == {
        str(tmp_path / r.id / "result.json") for r in results(tmp_path)
    }
    assert "finished: user-dp, seed 2" in err
    # Everything is there already: the same rows again, without a run.
    again, same, err = run(capsys, *flags(tmp_path, *DP, "--seeds", "1,2", "--json"))
    assert (again, json.loads(same)) == (0, [row])
    assert "finished:" not in err


def test_the_table_says_where_things_are(tmp_path, capsys):
    code, out, _ = run(capsys, *flags(tmp_path, *DP))
    assert code == 0
    assert "user-dp" in out
    assert f"{tmp_path}/<id>/result.json" in out
    assert f"uedp-bench leaderboard --results {tmp_path}" in out
    assert "mlflow" not in out.lower()


def test_a_spec_file_and_flags_over_it(tmp_path, capsys):
    spec = {"source": {"name": "embedded", "params": SOURCE},
            "model": {"name": "lstm-small", "params": MODEL},
            "mechanisms": ["noiseless"], "attacks": ["membership"], "seed": 4}  # fmt: skip
    file = tmp_path / "spec.yaml"
    file.write_text(json.dumps(spec))
    out = tmp_path / "out"
    options = ["--workers", "0", "--no-tracking"]
    arguments = ["run", str(file), *DP, "--attack", "needs-published", "--seeds", "5",
                 "--delta", "1e-6", "--out", str(out), *options]  # fmt: skip
    assert run(capsys, *arguments)[0] == 0
    (result,) = results(out)
    assert (result.label, result.spec.seed, result.spec.delta) == ("user-dp", 5, 1e-6)
    assert [skipped.name for skipped in result.skipped_attacks] == ["needs-published"]
    # The spec of a result is a spec: it leads to the same run.
    file.write_text(json.dumps(json.loads((out / result.id / "result.json").read_text())["spec"]))
    _, printed, err = run(capsys, "run", str(file), "--out", str(out), *options, "--json")
    assert len(json.loads(printed)) == 1
    assert "finished:" not in err
    assert len(results(out)) == 1


def test_the_help_shows_what_can_be_written(capsys):
    _, out, _ = run(capsys, "run", "--help")
    for text in (
        "--mechanism deidentify+user-dp", "mechanism.user-dp.rounds=20", "[0.5,1,2]",
        "attack.membership.held_out_users=300", "uedp-bench describe NAME", "--plugin FILE",
        "[default: next-word]", "uedp-bench run conll2003 --path",
    ):  # fmt: skip
        assert text in out, text


def test_runs_use_one_thread_unless_told(tmp_path, capsys):
    arguments = flags(tmp_path, "--mechanism", "spy-training")
    assert run(capsys, *arguments)[0] == 0
    assert results(tmp_path)[0].diagnostics["threads"] == 1
    assert run(capsys, *arguments, "--threads", "2", "--seeds", "2")[0] == 0
    assert {r.diagnostics["threads"] for r in results(tmp_path)} == {1, 2}
    assert Options(tmp_path).threads == 1


# ---------------------------------------------------------------------------------------- failures


def test_a_failing_run_is_told_and_the_others_go_on(tmp_path, capsys):
    spy = ["--mechanism", "spy-training", "--set", "mechanism.does=raise", "--seeds", "1,2,3",
           "--set", "mechanism.seed=2"]  # fmt: skip
    code, out, err = run(capsys, *flags(tmp_path, *spy))
    assert code == 1
    assert "failed: spy-training, seed 2: it broke on purpose" in err.splitlines()
    assert "1 failed" in out
    assert sorted(r.status for r in results(tmp_path)) == ["failed", "finished", "finished"]


def test_one_mistake_in_many_runs_is_one_line(tmp_path, capsys):
    spy = ["--mechanism", "spy-training", "--set", "mechanism.does=refuse", "--seeds", "1,2"]
    code, _, err = run(capsys, *flags(tmp_path, *spy))
    assert code == 1
    assert (
        "failed: spy-training, seed 1; spy-training, seed 2: the learning rate is too high"
        in err.splitlines()
    )
    assert [r.status for r in results(tmp_path)] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("number", "fragment"),
    [(errno.ENOSPC, "disk is full.*run the same command again"), (errno.EROFS, "--out {}:")],
)
def test_a_result_that_cannot_be_written_is_one_line(
    tmp_path, capsys, monkeypatch, number, fragment
):
    def fail(result, path):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr("uedp_bench.one_run.private_data.write_result", fail)
    code, out, err = run(capsys, *flags(tmp_path, *DP))
    assert (code, out) == (1, "")
    (line,) = [line for line in err.splitlines() if line.startswith("error:")]
    assert re.search(fragment.format(tmp_path), line)


def test_a_run_that_failed_three_times_is_told_and_left_out(tmp_path, capsys):
    spy = flags(tmp_path, "--mechanism", "spy-training", "--set", "mechanism.does=raise")
    for _ in range(3):
        code, _, err = run(capsys, *spy)
    assert code == 1
    hint = "it broke on purpose (failed 3 times; now only --retry-failed runs it again)"
    assert f"failed: spy-training, seed 1: {hint}" in err.splitlines()
    code, _, err = run(capsys, *spy)
    assert (code, hint in err, "failed: spy-training, seed 1 (" in err) == (1, True, False)
    assert results(tmp_path)[0].error.failures == 3
    assert run(capsys, *spy, "--retry-failed")[0] == 1
    assert results(tmp_path)[0].error.failures == 4


def test_a_component_that_exits_while_it_is_planned_is_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("uedp_bench.grid.scheduler.build", lambda spec: sys.exit(0))
    code, out, err = run(capsys, *flags(tmp_path, *DP))
    assert (code, out) == (1, "")
    assert err == "error: a component called sys.exit(0): nothing was done\n"


@pytest.mark.long
def test_what_components_print_comes_between_no_json(tmp_path):
    """In a command of its own: processes of this one print where the first of them was told to."""
    noisy = flags(tmp_path, "--mechanism", "spy-training", "--set", "mechanism.does=print")
    command = [sys.executable, "-m", "uedp_bench", *noisy, "--workers", "1"]
    printed = subprocess.run(
        [*command, "--plugin", SPIES, "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(printed.stdout)[0]["mechanism"] == "spy-training"
    assert "not JSON" in printed.stderr


def test_a_full_disk_in_a_process_is_one_line(tmp_path, capsys):
    full = flags(tmp_path, "--mechanism", "spy-training", "--set", "mechanism.does=full-disk")
    code, out, err = run(capsys, *full, "--workers", "1", "--plugin", str(SPIES))
    assert (code, out) == (1, "")
    assert "disk" in err


@pytest.mark.long
def test_an_unreachable_tracking_server_hides_no_result(tmp_path, capsys):
    arguments = flags(tmp_path, *DP, "--json", "--tracking-uri", "http://127.0.0.1:9")
    arguments.remove("--no-tracking")
    code, out, err = run(capsys, *arguments)
    assert code == 1
    assert json.loads(out)[0]["mechanism"] == "user-dp"
    (line,) = [line for line in err.splitlines() if line.startswith("error:")]
    assert "http://127.0.0.1:9" in line
    assert f"{tmp_path}" in line
    assert [r.status for r in results(tmp_path)] == ["finished"]


@pytest.mark.long
def test_another_tracking_server_gets_what_is_finished_already(tmp_path, capsys):
    """Its release too, as a model that is the folder of a run."""
    from mlflow.tracking import MlflowClient

    out, arguments = tmp_path / "out", flags(tmp_path / "out", *DP)
    assert run(capsys, *arguments)[0] == 0
    arguments.remove("--no-tracking")
    assert results(out)[0].tracking == {}
    for name in ("a.db", "b.db"):
        uri = f"sqlite:///{tmp_path}/{name}"
        assert run(capsys, *arguments, "--tracking-uri", uri)[0] == 0
        assert results(out)[0].tracking["tracking_uri"] == uri
    (result,) = results(out)
    client = MlflowClient(uri)
    (output,) = client.get_run(result.tracking["mlflow_run_id"]).outputs.model_outputs
    model = client.get_logged_model(output.model_id)
    folder = Path(unquote(urlparse(model.artifact_location).path))
    assert load_release(folder).events == result.events


# --------------------------------------------------------------------------------------- bad input


def csv(tmp_path, *lines):
    file = tmp_path / "mail.csv"
    file.write_text("\n".join(lines) + "\n")
    return ["run", "--source", "text", "--path", str(file), "--mechanism", "noiseless",
            "--out", str(tmp_path / "out"), "--no-tracking"]  # fmt: skip


def refused(capsys, arguments):
    """The one line on standard error."""
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    (line,) = err.strip().splitlines()
    assert line.startswith("error: ")
    return line


def asking(*more):
    """A benchmark whose attacks ask for models to be trained beside the release."""
    return ["--mechanism", "noiseless", "--set", "mechanism.epochs=1", "--attack", "membership",
            "--set", "attack.membership.held_out_users=20", *more]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "most", "fragments"),
    [
        (["--attack", "audit", "--set", "attack.audit.canaries=20",
          "--set", "attack.audit.retrainings=6"], 6,
         ["attack.membership.shadow_models asks for 4 and attack.audit.retrainings asks for 6",
          "allow 10"]),
        (["--set", "attack.membership.shadow_models=0"], 0,
         ["attack.membership asks for 1 ", "0 allowed"]),
        (["--task", "text-classification", "--model", "bilstm"], 3,
         ["attack.membership.shadow_models asks for 4 ", "3 allowed", "allow 4"]),
    ],
)  # fmt: skip
def test_more_models_than_allowed_are_refused_before_any_training(
    tmp_path, capsys, arguments, most, fragments
):
    out = tmp_path / "out"
    sizes = [part for part in flags(out) if "model." not in part]
    sizes = [part for i, part in enumerate(sizes) if part != "--set" or "=" in sizes[i + 1]]
    line = refused(capsys, [*sizes, *asking(*arguments), "--max-retrain", str(most)])
    assert line.startswith(f"error: --max-retrain {most}: ")
    for part in fragments:
        assert part in line
    assert not out.exists()


def test_as_many_models_as_allowed_are_trained(tmp_path, capsys):
    two = ["--set", "attack.membership.shadow_models=2", "--max-retrain"]
    assert run(capsys, *flags(tmp_path, *asking(*two, "2")))[0] == 0
    (result,) = results(tmp_path)
    assert result.cost.model_dump()["reference_models"] == 2
    # What is there already trains nothing.
    assert run(capsys, *flags(tmp_path, *asking(*two, "0")))[0] == 0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["text,user"], "text"),
        (["user,body", "a,hello"], "text"),
        (["text,user", "hello,a", ",b"], "null"),
        ([""], "text"),
    ],
)
def test_files_that_hold_no_corpus(tmp_path, capsys, lines, message):
    assert message in refused(capsys, csv(tmp_path, *lines))


def test_no_public_text_is_said_once(tmp_path, capsys):
    lines = [f"some words {i},u{i}" for i in range(40)]
    arguments = [*csv(tmp_path, "text,user", *lines), "--set", "source.user_column=user"]
    code, _, err = run(capsys, *arguments, "--seeds", "1,2", "--workers", "0")
    assert code == 1
    (line,) = [line for line in err.splitlines() if "public text" in line]
    assert line.startswith("failed: noiseless, seed 1; noiseless, seed 2: task.vocabulary is")
    assert "source.valid_is_public=true" in line


def test_a_gpu_that_is_demanded_must_be_there(tmp_path, capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    line = refused(capsys, flags(tmp_path / "out", *DP, "--device", "cuda"))
    assert "GPU" in line
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    line = refused(capsys, flags(tmp_path / "out", *DP, "--device", "cuda:1"))
    assert "cuda:0" in line


def test_an_out_folder_that_cannot_be(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere")):
        assert f"--out {out}: " in refused(capsys, flags(out, *DP))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_nobody_may_write_is_found_before_training(tmp_path, capsys):
    tmp_path.chmod(0o500)
    assert "Permission denied" in refused(capsys, flags(tmp_path, *DP))
    tmp_path.chmod(0o700)


def test_two_processes_do_not_share_a_folder(tmp_path, capsys):
    with only_process(tmp_path):
        line = refused(capsys, flags(tmp_path, *DP))
    assert f"{os.getpid()} on '{socket.gethostname()}'" in line
    assert run(capsys, *flags(tmp_path, *DP))[0] == 0


# -------------------------------------------------------------------------------- a share of a grid


def test_parts_of_a_grid_are_the_grid(tmp_path, capsys):
    """Their folders lie in one, which the leaderboard reads; ids and numbers are those of one."""
    for part in ("1/2", "2/2", "5/9"):
        out = tmp_path / "parts" / part.replace("/", "-")
        code, output, _ = run(capsys, *flags(out, *DP, "--seeds", "1,2", "--share", part, "--json"))
        assert code == 0
        seeds = [one["seed"] for row in json.loads(output) for one in row["runs"]]
        assert seeds == {"1/2": [1], "2/2": [2], "5/9": [1]}[part]
    assert run(capsys, *flags(tmp_path / "whole", *DP, "--seeds", "1,2"))[0] == 0
    whole = {result.id: result.utility for result in results(tmp_path / "whole")}
    parts = [one for name in ("1-2", "2-2") for one in results(tmp_path / "parts" / name)]
    assert {result.id: result.utility for result in parts} == whole
    code, output, _ = run(capsys, "leaderboard", "--results", str(tmp_path / "parts"), "--json")
    assert code == 0
    (row,) = json.loads(output)
    assert row["seeds"] == [1, 2]


def test_a_part_without_runs_is_no_failure(tmp_path, capsys):
    out = tmp_path / "out"
    code, output, err = run(capsys, *flags(out, *DP, "--share", "1/3"))
    assert (code, output) == (0, "")
    assert "--share 1/3" in err
    assert not out.exists()
    code, _, err = run(capsys, *flags(out, *DP, "--share", "0/3"))
    assert code == 2
    assert "1 to 3" in err
