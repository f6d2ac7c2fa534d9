"""What docs/reproductions/federated-secret-sharer.md says is what the results say."""

from __future__ import annotations

import contextlib
import io
import math
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from references import bundle_lines

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.leaderboard.loading import load_results

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "federated_sharer_table.py"
FOLDER = ROOT / "leaderboard" / "results" / "reproductions" / "federated-secret-sharer"
PAGE = (ROOT / "docs" / "reproductions" / "federated-secret-sharer.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def found(script: dict[str, Any]) -> Any:
    return script["arms"](FOLDER)


@pytest.fixture(scope="module")
def printed(script: dict[str, Any], found: Any) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        script["show"](found)
    return told.getvalue()


@pytest.fixture(scope="module")
def changes(script: dict[str, Any], found: Any) -> dict[tuple[str, str], dict[int, float]]:
    """Mean bits by which canaries are more exposed, by comparison and seed.

    Models that are no better than unigrams are left out: they have learnt nothing to remember.
    """
    return {
        (group, name): {
            seed: math.fsum(bits) / len(bits)
            for seed, bits in script["differences"](found[more], found[less]).items()
            if found[more][seed].learned and found[less][seed].learned
        }
        for group, name, more, less in script["compared"](found)
    }


def rows(printed: str, first: str) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table whose first row begins so."""
    (table,) = {t for t in re.findall(r"(?:^\|.*\n)+", printed + "\n", re.M) if first in t[:200]}
    head, _, *lines = [[c.strip() for c in line.split("|")[1:-1]] for line in table.splitlines()]
    return head, lines


def test_runs_are_of_one_commit_and_of_the_packaged_spec(found: Any) -> None:
    results = [one for seeds in found.values() for one in seeds.values()]
    assert len(results) == len(load_results([FOLDER])) == 66
    assert all(set(seeds) == {1, 2, 3} for seeds in found.values())
    assert len({one.provenance["commit"] for one in results}) == 1
    spec = read_spec("paper/federated-secret-sharer-quick")
    spec["source"]["params"]["path"] = "data/ubuntu_irc"
    planned = {str(run) for run in expand(parse_spec(spec))}
    for one in results:
        (run,) = expand(parse_spec(one.spec.model_dump(mode="json")))
        assert str(run) in planned


def test_the_page_holds_tables_that_the_command_prints(printed: str) -> None:
    measured = PAGE[PAGE.index("## What was measured") :]
    tables = re.findall(r"(?:^\|.*\n)+", measured, re.M)
    assert len(tables) == 7
    for table in tables:
        assert table.strip() in printed


def test_every_pair_says_that_rows_kept_by_user_are_remembered_less(changes: Any) -> None:
    pairs = {name: bits for (group, name), bits in changes.items() if group == "non-IID − IID"}
    assert len(pairs) == 11
    assert [name for name, bits in pairs.items() if not bits] == ["FedAvg, 160 users, equal epochs"]
    for bits in pairs.values():
        assert all(value < -0.85 for value in bits.values())


def test_clipping_lowers_exposure_and_noise_on_top_does_not(changes: Any) -> None:
    for kind in ("IID", "non-IID"):
        assert all(bits < -3 for bits in changes["FedAvg, clipped − FedAvg", kind].values())
        assert all(bits < -2 for bits in changes["DP-FedAvg − FedAvg", kind].values())
        assert all(bits > -0.2 for bits in changes["DP-FedAvg − FedAvg, clipped", kind].values())


def test_dp_claims_what_the_paper_does_and_proves_less(found: Any) -> None:
    dp = [one for arm, seeds in found.items() if arm.how == "DP-FedAvg" for one in seeds.values()]
    assert len(dp) == 6
    for one in dp:
        epsilons = {(g.kind, g.adjacency): g.epsilon for g in one.guarantees}
        assert epsilons["claimed", "add-or-remove"] == pytest.approx(18.77, abs=0.01)
        assert epsilons["proven", "replace-one"] == pytest.approx(65.95, abs=0.01)


def test_one_model_extracts_at_the_lowest_share_of_messages(printed: str) -> None:
    head, lines = rows(printed, "|  | p_u")
    lowest = [at for at, name in enumerate(head) if name.endswith("p_e 5 %")]
    arms = [row for row in lines if " of " in row[1]]
    assert len(lowest) == 3
    assert len(arms) == 22
    leak = {row[0] for row in arms if any(not row[at].startswith("0 of") for at in lowest)}
    assert leak == {"SGD, IID, 64 rows"}


def test_a_model_that_learnt_nothing_of_canaries_has_no_onset(script: Any, found: Any) -> None:
    (arm, *_) = found
    each = list(found[arm].values())
    pairs = script["levels"](found)
    place = script["onset"](each, pairs)
    assert place is not None
    blank = [one.model_copy(deep=True) for one in each]
    for one in blank:
        for at, row in enumerate(one.details["secret-sharer"]["canaries"]):
            row["exposure"] = 1.0 + at % 2 * 0.8
    assert script["onset"](blank, pairs) is None


def test_a_repeated_run_is_the_same_but_for_times(script: Any, tmp_path: Path) -> None:
    (first, *_) = bundle_lines("reproductions/federated-secret-sharer")
    again = tmp_path / first.id
    again.mkdir()
    for old, sections in (("train_seconds", []), ("rank", ["details"])):
        text = first.text.replace(f'"{old}":', f'"{old}":1')
        (again / "result.json").write_text(text, encoding="utf-8")
        assert script["repeated"](FOLDER, tmp_path) == {first.id: sections}
