"""Command lines that nobody means well, each of them answered; nothing is trained."""

from __future__ import annotations

import random

import pytest
from hostile import NAMES, VALUES, answer, rounds

pytestmark = pytest.mark.long

WORDS = (
    *NAMES,
    "1",
    "0",
    "-1",
    "0.5",
    "1e-5",
    "8",
    "nan",
    "inf",
    "1,2,3",
    "1,,2",
    "3,all",
    "[1,2]",
    "true",
    "user-dp",
    "deidentify+user-dp",
    "uedp-group",
    "dpnr",
    "metric-dp",
    "conll2003",
    "next-word",
    "lstm-small",
    "membership",
    "quickstart",
    "rounds=50",
    "mechanism.rounds=[1,2]",
    "users=100",
    "noise_multiplier=1",
    "[" * 1500,
    "9" * 4400,
    "a: &a [*a]",
    "!!int x",
)

COMMANDS: dict[str, tuple[str, ...]] = {
    "list": ("--json", "--plugin"),
    "describe": ("--json", "--plugin"),
    "data describe": ("--path", "--set", "--json"),
    "account": ("--set", "--delta", "--spread", "--events", "--json"),
    "calibrate": ("--epsilon", "--delta", "--set", "--solve", "--spread", "--json"),
    "bound": ("--members", "--nonmembers", "--delta", "--confidence", "--method"),
    "bound one-run": ("--canaries", "--guesses", "--correct", "--delta", "--confidence", "--f-dp"),
    "run": (
        "--task",
        "--source",
        "--path",
        "--model",
        "--mechanism",
        "--attack",
        "--set",
        "--seeds",
        "--delta",
        "--device",
        "--workers",
        "--threads",
        "--max-runs",
        "--plugin",
        "--no-tracking",
    ),
    "leaderboard": ("--results", "--task", "--source", "--json", "--csv", "--markdown"),
    "leaderboard validate": ("--json", "--plugin"),
    "report": ("--out", "--mechanism", "--plugin"),
}

USUAL: dict[str, tuple[list[str], ...]] = {
    "list": (["mechanisms"],),
    "describe": (["uedp"], ["source/text"]),
    "data describe": (["embedded"], ["text", "--path", "x.csv"]),
    "account": (["user-dp", "--set", "users=100"], ["dpnr", "--set", "epsilon=1"]),
    "calibrate": (["user-dp", "--epsilon", "8", "--set", "users=4000"],),
    "bound": (["--members", "a.txt", "--nonmembers", "b.txt"],),
    "bound one-run": (["--canaries", "100", "--guesses", "9", "--correct", "8", "--delta", "0"],),
    "run": (["quickstart"], ["--mechanism", "user-dp"]),
    "leaderboard": (["--results", "."],),
    "leaderboard validate": (["."],),
    "report": ([".", "--out", "report.md"],),
}


@pytest.fixture
def nothing_runs(monkeypatch, tmp_path):
    from uedp_bench.spec.grid import expand
    from uedp_bench.spec.spec import parse_spec

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "uedp_bench.cli.run.benchmark",
        lambda data, options, as_json: expand(parse_spec(data), options.max_runs) and None,
    )
    (tmp_path / "a.txt").write_text("1\n2\n")
    (tmp_path / "b.txt").write_text("0\n1\n")
    (tmp_path / "x.csv").write_text("text,user\na b,1\nc,2\nd,3\ne,4\n")


def some_words(command: str, rng: random.Random) -> list[str]:
    words = list(rng.choice(USUAL[command]))
    for _ in range(rng.randint(1, 4)):
        option = rng.choice(COMMANDS[command])
        value = rng.choice(WORDS)
        if option == "--set" and rng.random() < 0.7:
            name = rng.choice(
                (
                    "rounds",
                    "mechanism.user-dp.clip",
                    "users",
                    "source.path",
                    "delta",
                    "epsilon",
                    "noise_multiplier",
                    "public",
                    "x.y.z",
                    "",
                    ".",
                )
            )
            value = f"{name}={rng.choice(VALUES)}"
        put = (
            [option]
            if option.startswith(("--json", "--no", "--csv", "--markdown"))
            else [option, value]
        )
        where = rng.randint(0, len(words))
        words[where:where] = put
    if rng.random() < 0.3 and words:
        words[rng.randrange(len(words))] = rng.choice(WORDS)
    if rng.random() < 0.1:
        del words[rng.randrange(len(words))]
    return [*command.split(), *words]


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("command", COMMANDS)
def test_any_options(command):
    for _, rng in rounds(command, part=4):
        answer(some_words(command, rng))
