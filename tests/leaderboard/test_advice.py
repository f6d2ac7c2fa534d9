"""Advice recommends a proven row that learned and is unbroken, and says what it does not know."""

from __future__ import annotations

import math
from typing import Any

import pytest
from board_results import bound, members, promise, seeds

from uedp_bench.contracts.results import ComponentSpec, Estimate, Result, RunError
from uedp_bench.leaderboard.advice import Advice, advise
from uedp_bench.leaderboard.comparisons import BETTER, FOUND_ELSEWHERE, NOTHING_SHOWN
from uedp_bench.leaderboard.rows import aggregate

NOTHING = (promise("proven", math.inf),)
FLOORS = {"unigrams": 100.0, "public-only": 90.0}


def row(name: str, score: float, epsilon: float, rate: float = 0.01, **more: Any) -> list[Result]:
    unit, ceiling = more.pop("unit", "user"), more.pop("ceiling", 0.08)
    fields = {"guarantees": (promise("proven", epsilon, unit),), "apart": {"epsilon": epsilon},
              "floors": FLOORS, **members(rate, ceiling), **more}  # fmt: skip
    return seeds(name, score, **fields)


def bare(score: float = 50.0, rate: float = 0.2, **more: Any) -> list[Result]:
    return seeds(
        "noiseless", score, **{"guarantees": NOTHING, "floors": FLOORS, **members(rate), **more}
    )


def free(score: float = 55.0) -> list[Result]:
    return seeds("deidentify", score, guarantees=NOTHING, floors=FLOORS, **members(0.19))


def advice(*rows: list[Result], **more: Any) -> Advice:
    return advise(aggregate([run for group in rows for run in group]), **more)


def epsilon_of(answer: Advice) -> float | None:
    return None if answer.row is None else answer.row.guarantees[0].epsilon


def test_the_smallest_epsilon_that_keeps_half_is_recommended() -> None:
    answer = advice(
        bare(), free(), row("user-dp", 80.0, 1.0), row("user-dp", 65.0, 4.0),
        row("user-dp", 60.0, 8.0), column="author",
    )  # fmt: skip
    assert epsilon_of(answer) == 4.0
    head, *others = answer.sentences
    for part in ("person (column 'author')", "user-dp", "4.00", "65.0", "50.0", "90", "62 %"):
        assert part in head, part
    text = "\n".join(others)
    assert FOUND_ELSEWHERE in text
    assert "unprotected 20.0, at most 8.00" in text
    (cheaper,) = [line for line in others if line.startswith("Cheaper")]
    assert "user-dp at a proven ε of 8.00 for a person" in cheaper
    assert "deidentify" in cheaper
    assert "no proof for persons or rows; membership: leaks" in cheaper
    (also,) = [line for line in others if line.startswith("Also measured")]
    assert "1.00" in also
    assert "keeps 25 %" in also


def test_where_none_keeps_half_the_row_that_keeps_most() -> None:
    answer = advice(bare(), row("user-dp", 85.0, 1.0), row("user-dp", 80.0, 4.0))
    assert epsilon_of(answer) == 4.0


def test_persons_come_before_rows() -> None:
    record = row("dp-sgd", 52.0, 1.0, unit="record", ceiling=None)
    assert epsilon_of(advice(bare(), record, row("user-dp", 80.0, 4.0))) == 4.0
    answer = advice(bare(), record, row("user-dp", 95.0, 4.0), column="author")
    assert epsilon_of(answer) == 1.0
    assert "each row, not the person behind it" in answer.sentences[0]
    assert any(
        line.startswith("Learned nothing") and "user-dp" in line for line in answer.sentences
    )


def test_a_row_near_its_floor_is_never_recommended() -> None:
    near = row("user-dp", 89.97, 4.0, learned=False)
    assert advice(bare(), near).row is None
    assert advice(bare(), row("user-dp", 89.97, 4.0, learned=None)).row is None


def test_what_needs_no_private_text_is_no_recommendation() -> None:
    public = row("public-only", 88.0, 0.0, learned=True)
    answer = advice(bare(), public)
    assert answer.row is None
    assert "public-only" not in "\n".join(answer.sentences)


def test_a_private_row_that_beats_the_unprotected_one_is_a_red_flag() -> None:
    answer = advice(bare(), row("user-dp", 40.0, 4.0), row("user-dp", 60.0, 1.0))
    assert answer.row is None
    assert "RED FLAG" in answer.sentences[0]
    assert BETTER in answer.sentences[0]


def test_an_attack_without_power_shows_nothing() -> None:
    answer = advice(bare(rate=0.01), row("user-dp", 60.0, 4.0))
    text = "\n".join(answer.sentences)
    assert answer.row is not None
    assert NOTHING_SHOWN in text
    assert "no evidence of safety" in text
    assert "no evidence of safety" not in "\n".join(
        advice(bare(), row("user-dp", 60.0, 4.0)).sentences
    )
    alone = advice(bare(), row("user-dp", 60.0, 4.0, leakage={}, details={}, ceilings={}))
    assert "No attack ran" in "\n".join(alone.sentences)


def test_an_exposure_that_is_chance_without_protection_shows_nothing() -> None:
    def text(exposure: float) -> str:
        proven = (promise("proven", 4.0),)
        return "\n".join(
            advice(
                seeds("noiseless", 50.0, exposure, guarantees=NOTHING, floors=FLOORS),
                seeds("user-dp", 60.0, 1.0, guarantees=proven, floors=FLOORS),
            ).sentences
        )

    assert "secret-sharer: exposure" in text(9.0)
    assert NOTHING_SHOWN not in text(9.0)
    assert NOTHING_SHOWN in text(0.5)


@pytest.mark.parametrize(
    "broken",
    [
        {"rate": 0.075, "ceiling": 0.08},
        {"failed_attacks": [{"name": "membership", "type": "ValueError", "message": "x"}]},
        {"guarantees": (promise("proven", 4.0), promise("claimed", 1.0, status="refuted"))},
    ],
)
def test_a_broken_row_is_named_and_not_recommended(broken: dict[str, Any]) -> None:
    answer = advice(bare(), row("user-dp", 60.0, 4.0, **broken))
    assert answer.row is None
    assert any(line.startswith("Not recommended: user-dp") for line in answer.sentences)
    assert not any(".)" in line for line in answer.sentences)


def test_a_failed_seed_is_no_recommendation() -> None:
    runs = row("user-dp", 60.0, 4.0)
    error = RunError(type="OSError", message="out of disk", phase="train")
    runs[0] = runs[0].model_copy(update={"status": "failed", "error": error, "utility": {}})
    assert advice(bare(), runs).row is None


def test_nothing_is_advised_without_an_upper_end() -> None:
    private = row("user-dp", 60.0, 4.0)
    assert advice().row is advice(private).row is None
    assert advice(bare(95.0), row("user-dp", 99.0, 4.0)).row is None
    error = RunError(type="OSError", message="out of disk", phase="train")
    failed = [run.model_copy(update={"status": "failed", "error": error, "utility": {}})
              for run in bare()]  # fmt: skip
    assert advice(failed, private).row is None


def test_a_cheap_baseline_above_the_upper_end_is_a_caution() -> None:
    cheap = Estimate(value=40.0)
    runs = [
        run.model_copy(update={"utility": {**run.utility, "bigram_perplexity": cheap}})
        for run in bare()
    ]
    answer = advice(runs, row("user-dp", 60.0, 4.0))
    assert any(line.startswith("Caution: bigrams") for line in answer.sentences)


def test_one_seed_and_what_was_left_out_are_said() -> None:
    answer = advice(bare()[:1], row("user-dp", 60.0, 4.0)[:1], left_out=["dp-sgd: a reason"])
    text = "\n".join(answer.sentences)
    assert "One seed" in text
    assert "Left out: dp-sgd: a reason." in text


@pytest.mark.parametrize(
    ("notion", "unit", "kind"),
    [("metric-dp", "word", "proven"), ("dp", "user", "stated"), ("dp", "word", "proven")],
)
def test_what_another_unit_or_notion_promises_is_no_empty_promise(
    notion: str, unit: str, kind: str
) -> None:
    other = promise(kind, 2.0, unit, notion=notion)
    answer = advice(bare(), row("plug-in", 60.0, 2.0, guarantees=(other,)))
    text = "\n".join(answer.sentences)
    assert answer.row is None
    assert ("no proof for persons or rows" in text, "promises nothing" in text) == (True, False)


def test_a_bound_above_a_proof_is_no_recommendation() -> None:
    surely = bound(9.0, 8.0)
    answer = advice(bare(), row("user-dp", 60.0, 4.0, lower_bounds=[surely]))
    assert answer.row is None
    assert "refuted" in "\n".join(answer.sentences)
    assert advice(bare(), row("user-dp", 60.0, 9.0, lower_bounds=[surely])).row is not None
    of_rows = bound(9.0, 8.0, "record")
    assert advice(bare(), row("user-dp", 60.0, 4.0, lower_bounds=[of_rows])).row is not None


def test_what_is_not_known_to_have_learned_is_not_called_idle() -> None:
    text = "\n".join(advice(bare(), row("user-dp", 80.0, 4.0, learned=None)).sentences)
    assert ("not known" in text, "Learned nothing" in text) == (True, False)
    failed = row("user-dp", 99.0, 4.0, learned=False, failed_attacks=[
        {"name": "membership", "type": "ValueError", "message": "x"}])  # fmt: skip
    assert "Not recommended: user-dp" in "\n".join(advice(bare(), failed).sentences)


@pytest.mark.parametrize("floor", [math.inf, -math.inf])
@pytest.mark.parametrize("larger", [True, False])
def test_no_share_is_kept_of_an_infinite_way(floor: float, larger: bool) -> None:
    ranked = {"headline": {"metric": "perplexity", "larger_is_better": larger}, "learned": True,
              "floors": {"unigrams": floor}}  # fmt: skip
    answer = advice(bare(**ranked), row("user-dp", 49.0, 4.0, **ranked))
    assert answer.row is None
    assert "nan" not in "\n".join(answer.sentences)


def test_huge_numbers_keep_no_share() -> None:
    ranked = {"headline": {"metric": "perplexity", "larger_is_better": True}, "learned": True,
              "floors": {"unigrams": -1.7e308}}  # fmt: skip
    answer = advice(bare(1.7e308, **ranked), row("user-dp", 1e308, 4.0, **ranked))
    assert "nan" not in "\n".join(answer.sentences)


def test_results_without_a_headline_are_no_ladder() -> None:
    spec = bare()[0].spec.model_copy(update={"task": ComponentSpec(name="mine")})
    runs = [run.model_copy(update={"headline": None, "learned": True, "spec": spec})
            for run in bare()[:1]]  # fmt: skip
    assert advise(aggregate(runs)).row is None


def test_rows_of_other_boards_are_named() -> None:
    other = seeds("user-dp", 60.0, source="embedded", guarantees=(promise("proven", 1.0),))
    text = "\n".join(advice(bare(), row("user-dp", 60.0, 4.0), other).sentences)
    assert "Left out: 1 row of another task" in text


def test_an_attack_that_finds_something_is_not_passed_over() -> None:
    proven = (promise("proven", 4.0),)

    def text(unprotected: float | None, private: float) -> str:
        rows = (seeds("noiseless", 50.0, unprotected, guarantees=NOTHING, floors=FLOORS),
                seeds("user-dp", 60.0, private, guarantees=proven, floors=FLOORS))  # fmt: skip
        return "\n".join(advice(*rows).sentences)

    assert "unprotected: leaks." in text(9.0, 5.0)
    assert f"unprotected: {FOUND_ELSEWHERE}." in text(9.0, 0.5)
    assert f"not measured unprotected: {NOTHING_SHOWN}." in text(None, 0.5)
    assert "or was not measured" in text(None, 0.5)


def test_only_a_column_of_people_makes_a_person() -> None:
    assert "Protect each user with" in advice(bare(), row("user-dp", 60.0, 4.0)).sentences[0]
    head = advice(bare(), row("user-dp", 60.0, 4.0), column="a\n[red]'b").sentences[0]
    assert "\n" not in head


def test_noise_of_a_seed_and_uncovered_rows_are_said() -> None:
    text = "\n".join(advice(bare(), row("user-dp", 60.0, 4.0)).sentences)
    assert "--noise-source os" in text
    assert "rows of the split test" in text
    assert "split valid" not in text
    chosen = advice(bare(diagnostics={"best_epoch": 2}), row("user-dp", 60.0, 4.0))
    assert "split valid" in "\n".join(chosen.sentences)
