"""All mistakes of a spec are said at once, each with the settings that mend it; and they do."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from uedp_bench.cli.main import run_cli
from uedp_bench.errors import InputError, setting
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import apply_setting, parse_setting, parse_spec, read_spec

BAD = {
    "task": "next-wrd",
    "source": {"name": "embedded", "params": {"user": 60, "sentences": 0}},
    "mechanisms": [
        {"name": "noiseless", "params": {"epoch": 3}},
        {"name": "user-pd", "params": {"rounds": 3}},
        {
            "name": "dp-sgd",
            "params": {"clip_policy": "flt", "steps": "many", "noise_multiplier": -1},
        },
    ],
    "attacks": [{"name": "membership", "params": {"held_out_users": 3}}],
}  # fmt: skip


def complaints(capsys, *arguments: str) -> tuple[list[str], list[str]]:
    """Errors, and the settings that mend them."""
    assert run_cli(["run", *arguments]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    mends = [shlex.split(command) for command in re.findall("[;?] mend: (.*)", err)]
    return re.findall("^error: (.*)", err, re.M), [
        s for each in mends for s in each if s != "--set"
    ]


def test_all_are_said_and_what_is_suggested_mends_them(tmp_path: Path, capsys) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(json.dumps(BAD))
    errors, mends = complaints(capsys, str(file), "--out", str(tmp_path / "out"))
    assert len(errors) == 9
    assert {"task.name=next-word", "mechanism.user-pd.name=user-dp", "source.users=60",
            "mechanism.noiseless.epoch=null", "mechanism.noiseless.epochs=3",
            "mechanism.dp-sgd.clip_policy=flat", "attack.membership.held_out_users=10",
            "source.sentences=2", "mechanism.dp-sgd.noise_multiplier=0"} <= {*mends}  # fmt: skip
    spec = parse_spec(BAD)
    for mend in mends:
        spec = apply_setting(spec, *parse_setting(mend))
    assert {run.mechanism[0].name for run in expand(spec)} == {"noiseless", "user-dp", "dp-sgd"}
    assert not (tmp_path / "out").exists()


def test_settings_mend_what_settings_can_say(tmp_path: Path, capsys) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(json.dumps({"mechanisms": ["noiseless"], "seeds": [-1], "delta": 2, "a": 1}))
    errors, mends = complaints(capsys, str(file))
    assert (len(errors), mends) == (3, ["delta=1e-05"])
    file.write_text(json.dumps({"mechanisms": ["noiseless"], "delta": 2, "task": "next-wrd"}))
    typed = ["--set", "delta=3", "--set", mends[0]]  # as who adds it to what was typed before
    errors, _ = complaints(capsys, str(file), *typed)
    assert len(errors) == 1 and "next-wrd" in errors[0]
    file.write_text(json.dumps({"mechanisms": ["noiseless"], "clients": {"count": 0}}))
    errors, mends = complaints(capsys, str(file))
    assert (len(errors), mends) == (1, ["clients.count=1"])


def test_settings_mend_values_of_grids(capsys) -> None:
    typed = ["--set", "mechanism.epochs=[1,many]", "--set", "source.users=[100,-1]"]
    typed += ["--mechanism", "noiseless", "--attack", "membership"]
    typed += ["--set", "attack.held_out_users=[20,3]"]
    errors, mends = complaints(capsys, *typed)
    assert len(errors) == 3
    names = ["source.users=50", "mechanism.noiseless.epochs=10"]
    assert mends == [*names, "attack.membership.held_out_users=10"]


def test_wrong_values_hide_no_wrong_names(tmp_path: Path, capsys) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(json.dumps(BAD | {"delta": 2, "seeds": [1, 1], "colour": "red"}))
    errors, mends = complaints(capsys, str(file))
    assert len(errors) == 9 + 3
    assert {"delta=1e-05", "task.name=next-word", "mechanism.user-pd.name=user-dp"} <= {*mends}
    assert "spec.seeds is [1, 1]" in errors[0]


def test_the_nearest_spec_and_command_are_named(tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "chat.yaml").write_text("{}")
    monkeypatch.chdir(tmp_path)
    for arguments, near in (
        (["run", "chat.yml"], "'chat.yaml'"),
        (["run", str(tmp_path / "chat.yml")], f"'{tmp_path}/chat.yaml'"),
        (["run", "quickstart.yml"], "'quickstart'"),
        (["rnu", "quickstart"], "'run'"),
        (["data", "descrbe", "text"], "'describe'"),
        (["benchmark"], "leaderboard, list"),
    ):
        assert run_cli(arguments) == 2
        assert near in capsys.readouterr().err


def test_mistakes_of_flags_and_of_the_spec_are_said_together(tmp_path: Path, capsys) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(json.dumps(BAD | {"task": "next-word"}))
    typed = ["--set", "mechanism.noisless.epochs=3", "--set", "what.is=this"]
    errors, _ = complaints(capsys, str(file), *typed)
    assert len(errors) == 10
    assert "--set mechanism.noiseless.epochs=3" in errors[0]


def test_what_only_the_data_show_is_said_of_all_runs_at_once(tmp_path: Path, capsys) -> None:
    file = tmp_path / "mail.csv"
    file.write_text("body,who\n" + "".join(f"text number {n},u{n}\n" for n in range(40)))
    spec = tmp_path / "spec.yaml"
    source = {"name": "text", "params": {"path": str(file), "text_column": "bdy",
                                         "user_column": "woh"}}  # fmt: skip
    spec.write_text(json.dumps({"source": source, "mechanisms": ["noiseless"]}))
    errors, mends = complaints(capsys, str(spec))
    assert len(errors) == 2
    assert mends == ["source.text_column=body", "source.user_column=who"]
    right = source["params"] | {"text_column": "body", "user_column": "who"}
    fixed = {"users": 10, "users_per_round": 5, "sampling": "fixed"}
    spec.write_text(json.dumps({
        "source": {"name": "text", "params": right},
        "mechanisms": [{"name": "user-dp", "params": fixed}, ["noiseless", "deidentify"],
                       {"name": "user-dp", "params": fixed | {"users_per_round": 20}}],
    }))  # fmt: skip
    errors, mends = complaints(capsys, str(spec))
    assert len(errors) == 3
    assert "order" in errors[0]  # what needs no data comes first
    assert "and more train" in errors[1]
    assert mends == ["mechanism.user-dp.users=30", "mechanism.user-dp.users_per_round=10"]


@pytest.mark.parametrize(
    ("value", "text"),
    [("user-dp", "user-dp"), ("yes", '"yes"'), ("two words", '"two words"'), (None, "null"),
     (1e-5, "1e-05"), ([1, 2], "[1, 2]"), ("5", '"5"'), ("", '""')],
)  # fmt: skip
def test_values_are_written_as_settings_read_them(value: object, text: str) -> None:
    assert setting("a.b", value) == f"a.b={text}"
    assert parse_setting(setting("a.b", value)) == (("a", "b"), value)


@pytest.mark.parametrize("name", ["", ".", "/", "./.", "a\0b", "x" * 5_000])
def test_a_name_of_no_file_is_no_spec(name: str) -> None:
    with pytest.raises(InputError, match=r"spec '.*bloggers-gpt2"):
        read_spec(name)


@pytest.mark.parametrize(
    ("name", "mended"),
    [
        ("budget", ()),
        ("clients", ()),
        ("dropouts", ()),
        ("noise_multipler", ("mechanism.dp-sgd.noise_multiplier=4",)),
        ("step", ("mechanism.dp-sgd.steps=4",)),
    ],
)
def test_a_value_moves_only_to_a_name_that_is_alike(name, mended, capsys) -> None:
    typed = ["--mechanism", "dp-sgd", "--set", f"mechanism.dp-sgd.{name}=4"]
    errors, mends = complaints(capsys, *typed)
    assert len(errors) == 1 and f"'{name}'" in errors[0]
    assert {*mends} == {*mended, f"mechanism.dp-sgd.{name}=null"}


def test_settings_of_an_unlike_component_move_nowhere(capsys) -> None:
    errors, _ = complaints(capsys, "--mechanism", "user-dp", "--set", "mechanism.dp-ftrl.rounds=3")
    assert "instead" not in errors[0]
