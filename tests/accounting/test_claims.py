"""The numbers of docs/claims.md are what the code gives."""

from __future__ import annotations

import json
import math
import shlex
from fractions import Fraction
from pathlib import Path

import pytest

from uedp_bench.accounting.accountants.dp_accounting import rdp_epsilon, tf_privacy_epsilon
from uedp_bench.accounting.accountants.renyi import moments_epsilon
from uedp_bench.accounting.events import Gaussian, PoissonSampled, PrivacyEvent, Repeated
from uedp_bench.accounting.ledger import claimed, proven
from uedp_bench.accounting.published_systems import federated_ner_claim
from uedp_bench.cli.main import run_cli

DELTA = 1e-5
DOCUMENT = (Path(__file__).parents[2] / "docs" / "claims.md").read_text(encoding="utf-8")


def table(header: str) -> list[list[str]]:
    """The rows, in cells, of all tables whose header starts like this."""
    rows: list[list[str]] = []
    inside = False
    for line in DOCUMENT.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith(f"| {header} |"):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and set(cells[0]) != {"-"}:
            rows.append(cells)
    return rows


FIGURE_4 = table("data | estimator")
FIGURE_2 = table("category | q_u")
COMMANDS = table("system | command")
TABLE_2 = table("z | printed")
CLIENTS = table("clients | records of one")


def shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def rate_of(estimator: str, users: str, sentences: str) -> float:
    rate = float(Fraction(users))
    if estimator == "user level":
        return rate
    return rate * 0.5 * (float(Fraction(sentences)) if estimator == "f_E+" else 1.0)


def test_everything_is_there() -> None:
    assert (len(FIGURE_4), len(FIGURE_2), len(COMMANDS)) == (15, 6, 21)
    assert (len(TABLE_2), len(CLIENTS)) == (5, 4)
    printed = {row[5] for row in FIGURE_4}
    assert {"0.52", "0.62", "1.18", "0.50", "0.75", "1.48", "0.40", "0.71", "1.40"} <= printed
    assert {"0.19", "0.24", "0.26", "0.73", "0.81", "4.08"} <= printed


@pytest.mark.parametrize("row", FIGURE_4, ids=lambda row: f"{row[0]} {row[1]}")
def test_figure_4(row: list[str]) -> None:
    _, estimator, users, sentences, rounds, printed, ours, next_one = row
    rate, last = rate_of(estimator, users, sentences), int(rounds)
    assert f"{moments_epsilon(rate, 2.0, last, DELTA):.3f}" == ours
    assert f"{moments_epsilon(rate, 2.0, last + 1, DELTA):.3f}" == next_one
    # A round is 1/T of the moments, so between two of them they grow in proportion.
    between = 0.3 * moments_epsilon(rate, 2.0, last, DELTA)
    between += 0.7 * moments_epsilon(rate, 2.0, last + 1, DELTA)
    assert f"{between:.2f}" == printed


def test_twelve_of_figure_4_need_no_reading_between_rounds() -> None:
    exact = 0
    for _, estimator, users, sentences, rounds, printed, _, _ in FIGURE_4:
        rate = rate_of(estimator, users, sentences)
        exact += f"{moments_epsilon(rate, 2.0, int(rounds), DELTA):.2f}" == printed
    assert exact == 12


@pytest.mark.parametrize("row", FIGURE_2, ids=lambda row: f"{row[0]} {row[3]}")
def test_figure_2(row: list[str]) -> None:
    _, users, sentences, printed, rounds, ours, next_one = row
    rate = rate_of("f_E+", users, sentences)
    epsilon, later = (moments_epsilon(rate, 2.5, int(rounds) + more, DELTA) for more in (0, 1))
    assert (f"{epsilon:.4f}", f"{later:.4f}") == (ours, next_one)
    assert epsilon <= float(printed) < later


def in_three_ways(rate: float, noise: float, steps: int) -> list[str]:
    """Epsilon of TensorFlow Privacy's accountant, of today's, and what is proven."""
    event = PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise))
    epsilons = (
        tf_privacy_epsilon(event, steps, DELTA),
        rdp_epsilon([(event, steps)], "add-or-remove", DELTA),
        proven_epsilon(Repeated(count=steps, event=event)),
    )
    return [shown(epsilon) for epsilon in epsilons]


def proven_epsilon(event: Repeated) -> float:
    return proven([PrivacyEvent(unit="record", event=event)], delta=DELTA)[0].epsilon


@pytest.mark.parametrize("row", TABLE_2, ids=lambda row: row[0])
def test_table_2_of_federated_ner(row: list[str]) -> None:
    """Batches of one give the printed digits, batches of 32 do not."""
    noise, printed, one, *others = row
    claim = claimed([federated_ner_claim(14_987, 10, float(noise))], DELTA)[0]
    assert f"{claim.epsilon:.4f}" == one
    digits = len(printed.partition(".")[2])
    assert printed in (f"{float(one):.{digits}f}", one[: 2 + digits])
    unsampled = Repeated(count=10, event=Gaussian(noise_multiplier=float(noise)))
    assert others == [
        *in_three_ways(32 / 14_987, float(noise), 4_690),
        shown(proven_epsilon(unsampled)),
    ]


@pytest.mark.parametrize("row", CLIENTS, ids=lambda row: row[0])
def test_clients_of_federated_ner(row: list[str]) -> None:
    clients, rows, steps, printed, *epsilons = (cell.replace(",", "") for cell in row)
    assert (int(rows), printed) == (14_987 // int(clients), "0.688")
    assert int(steps) == 10 * math.ceil(math.ceil(14_987 / int(clients)) / 32)
    assert epsilons == in_three_ways(32 / int(rows), 1.0, int(steps))


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row[1].strip("`")[11:90])
def test_commands(row: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    _, command, protects, claim, proof = row
    arguments = shlex.split(command.strip("`"))
    assert arguments[0] == "uedp-bench"
    spread = ["--spread", "all"] if arguments[2] == "uedp" else []
    assert run_cli([*arguments[1:], *spread, "--json"]) == 0
    guarantees = json.loads(capsys.readouterr().out)["guarantees"]
    claimed, proven = (
        next(g for g in guarantees if g["kind"] == kind) for kind in ("claimed", "proven")
    )
    assert f"{proven['unit']}, {proven['adjacency']}" == protects
    assert f"{shown(claimed['epsilon'])}, {shown(claimed['delta'])}" == claim
    assert f"{shown(proven['epsilon'])}, {shown(proven['delta'])}" == proof
    assert claimed["source"]
    if claim != proof and arguments[2] in (
        "federated-ner",
        "dpnr",
        "dp-vocabulary",
        "federated-secret-sharer",
    ):
        assert claimed["note"]


def test_the_curve(capsys: pytest.CaptureFixture[str]) -> None:
    curve = table("other users that mention the entity")
    command = shlex.split(COMMANDS[0][1].strip("`"))
    assert run_cli([*command[1:], "--json", "--spread", ",".join(row[0] for row in curve)]) == 0
    proven = json.loads(capsys.readouterr().out)["guarantees"][1]
    assert [[str(p["spread"]), shown(p["epsilon"])] for p in proven["curve"]] == curve


@pytest.mark.parametrize("mechanism", ["cyclic", "pooled"])
def test_wikipii_claims_nothing_and_nothing_is_proven(
    mechanism: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page quotes the reasons."""
    assert f"uedp-bench account {mechanism}" in DOCUMENT
    assert run_cli(["account", mechanism, "--json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["guarantees"]
    assert (only["kind"], only["epsilon"]) == ("proven", "inf")
    assert only["reason"] in " ".join(DOCUMENT.split())
