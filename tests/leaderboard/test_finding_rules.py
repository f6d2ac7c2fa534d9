"""Every rule says what made-up results bear out, and nothing where they do not."""

from __future__ import annotations

import math

import pytest
from board_results import INVENTED, bound, promise, seeds

from uedp_bench.accounting.events import DECLARED
from uedp_bench.leaderboard import finding_rules
from uedp_bench.leaderboard.boards import boards
from uedp_bench.leaderboard.findings import LONG_LABEL, Dot, DotPlot, Mark, spread
from uedp_bench.leaderboard.rows import aggregate

NOTHING = promise("proven", math.inf)


def bare(**more):
    return seeds("noiseless", 50.0, 9.0, guarantees=(NOTHING,), **more)


def findings_of(rule, *rows):
    board_list = boards(aggregate([run for row in rows for run in row]))
    return [one for board in board_list for one in rule(board)]


def refuted(claimed, least, **more):
    claim = promise("claimed", claimed, status="refuted", reason="audit")
    return seeds("uedp", 60.0, guarantees=(claim,), lower_bounds=(bound(2 * least, least),),
                 **more)  # fmt: skip


# -------------------------------------------------------------------------------------- each rule


def test_a_refuted_claim_has_its_number_and_the_bound_that_no_chance_fails():
    (one,) = findings_of(finding_rules.refuted_claims, refuted(0.5, 1.5))
    assert one.sentence == (
        "uedp claims ε = 0.50 for a person. The attack audit shows that ε is at least 1.50 "
        "(99.9999 % sure): the claim does not hold."
    )
    assert one.strength == pytest.approx(3.0)
    dots = {dot.label: dot.text for dot in one.plot.dots}
    # Over three seeds, the other bound has what confidence is left.
    assert dots.pop("at least, 85 % sure") == "3.00"
    assert dots == {"claimed": "0.50", "at least, 99.9999 % sure": "1.50"}
    assert [row.label for row in one.rows] == ["uedp"]


def test_a_claim_that_a_user_declared_is_no_claim_of_a_paper():
    claim = promise("claimed", 0.5, status="refuted", reason="audit", accountant=DECLARED)
    row = seeds("it", 60.0, guarantees=(claim,), lower_bounds=(bound(3.0, 1.5),))
    (one,) = findings_of(finding_rules.refuted_claims, row)
    assert "for a person (declared by the user). The attack" in one.sentence


def test_a_claim_that_stands_is_none_whatever_attacks_found():
    stands = seeds("uedp", 500.0, guarantees=(promise("claimed", 0.5),),
                   lower_bounds=(bound(2.0, 1.5),))  # fmt: skip
    assert findings_of(finding_rules.refuted_claims, stands) == []


def test_best_for_persons_is_between_public_text_and_no_protection():
    floors = {"unigrams": 100.0, "public-only": 90.0}
    one, other = (
        seeds("user-dp", score, guarantees=(promise("proven", epsilon),), floors=floors,
              apart={"z": epsilon})
        for score, epsilon in ((60.0, 9.0), (70.0, 8.0))
    )  # fmt: skip
    board = (bare(floors=floors), one, other)
    (best,) = findings_of(finding_rules.best_for_persons, *board)
    # Better rows promise too little.
    assert best.rows[0].spec.mechanism[0].params == {"z": 8.0}
    assert best.strength == pytest.approx(0.5, abs=0.01)
    assert "at a proven ε of 8.00 for a person, user-dp reaches perplexity 70.0" in best.sentence
    assert "Public text alone gives 90.0, ordinary training 50.0" in best.sentence
    records = seeds("dp-sgd", 60.0, guarantees=(promise("proven", 1.0, "record"),), floors=floors)
    assert findings_of(finding_rules.best_for_persons, bare(floors=floors), records) == []
    assert (
        findings_of(finding_rules.best_for_persons, bare(), one) == []
    )  # nothing says what public text gives


def test_the_cheapest_row_at_the_floor_of_exposure_proves_something_and_learned_something():
    def row(name, score, exposure, *guarantees):
        return seeds(name, score, exposure, guarantees=guarantees)

    proven = promise("proven", 4.0)
    cheap, dear = row("user-dp", 60.0, 1.6, proven), row("uedp-group", 80.0, 1.5, proven)
    unproven, idle = row("deidentify", 55.0, 1.5), row("uedp", 500.0, 1.4, proven)
    leaky = row("dp-sgd", 52.0, 2.5, proven)
    (one,) = findings_of(
        finding_rules.leak_at_the_floor, bare(), cheap, dear, unproven, idle, leaky
    )
    assert one.rows[0].label == "user-dp"
    assert "1.62 bits (proven ε = 4.00 for a person), where ordinary training has 9.02 bits" in (
        one.sentence
    )
    assert "It costs perplexity 60.0 instead of 50.0." in one.sentence
    assert [mark.label for mark in one.plot.marks] == ["where nothing leaks"]
    assert findings_of(finding_rules.leak_at_the_floor, bare(), unproven, idle, leaky) == []
    quiet = seeds("noiseless", 50.0, 1.5, guarantees=(NOTHING,))
    assert (
        findings_of(finding_rules.leak_at_the_floor, quiet, cheap) == []
    )  # there was nothing to stop


def test_a_protection_without_a_proof_leaks_where_it_surely_does():
    entity = (NOTHING, promise("proven", math.inf, "entity"))
    leaky = seeds("deidentify + noiseless", 55.0, 8.0, guarantees=entity)
    (one,) = findings_of(finding_rules.unproven_leaks, bare(), leaky)
    assert "(secret-sharer) is 8.02 bits, where ordinary training has 9.02 bits and 1.44" in (
        one.sentence
    )
    quiet = seeds("deidentify", 55.0, 1.5, guarantees=entity)
    assert findings_of(finding_rules.unproven_leaks, bare(), quiet) == []
    both = (promise("proven", 8.0), entity[1])
    assert (
        findings_of(finding_rules.unproven_leaks, bare(), seeds("it", 60.0, 8.0, guarantees=both))
        == []
    )
    trained = seeds("fedavg", 60.0, 8.0, guarantees=(NOTHING,))
    assert (
        findings_of(finding_rules.unproven_leaks, bare(), trained) == []
    )  # promises no more than training
    assert findings_of(finding_rules.unproven_leaks, leaky) == []


def test_learned_nothing_has_the_floor_that_is_hardest_to_beat():
    claim = promise("claimed", 0.5, "user-entity")
    idle = seeds("uedp", 400.0, guarantees=(claim,), floors={"unigrams": 200.0, "bigrams": 100.0})
    (one,) = findings_of(finding_rules.learned_nothing, idle)
    assert one.sentence == (
        "At the ε = 0.50 that it claims for a person with an entity, uedp learns nothing of "
        "next-word on CoNLL-2003: perplexity 400, where counting pairs of words reaches 100."
    )
    assert one.strength == pytest.approx(4.0, abs=0.01)
    able = seeds("uedp", 80.0, guarantees=(claim,))
    hardly = seeds("uedp", 400.0, guarantees=(promise("claimed", 500.0),))
    assert (
        findings_of(finding_rules.learned_nothing, able)
        == findings_of(finding_rules.learned_nothing, hardly)
        == []
    )
    assert findings_of(finding_rules.learned_nothing, seeds("public-only", 400.0)) == []


def test_a_private_row_above_the_unprotected_one_is_no_price_of_privacy():
    floors = {"public-only": 90.0}
    private = seeds("user-dp", 40.0, 1.6, guarantees=(promise("proven", 4.0),), floors=floors)
    assert findings_of(finding_rules.best_for_persons, bare(floors=floors), private) == []
    (one,) = findings_of(finding_rules.under_trained, bare(floors=floors), private)
    assert one.sentence == (
        "next-word on CoNLL-2003: user-dp reaches perplexity 40.0, ordinary training 50.0. It is "
        "better than the unprotected row: the unprotected row is under-trained, and nothing there "
        "says what privacy costs."
    )
    assert [row.label for row in one.rows] == ["user-dp", "noiseless"]
    near = seeds("user-dp", 50.0, guarantees=(promise("proven", 4.0),))
    assert findings_of(finding_rules.under_trained, bare(), near) == []  # within the interval
    assert (
        findings_of(finding_rules.under_trained, bare(), seeds("deidentify", 40.0)) == []
    )  # promises nothing


def test_the_card_of_the_price_says_what_attacks_still_find():
    floors = {"public-only": 90.0}
    proven = (promise("proven", 4.0),)
    attacked, alone = (
        seeds("user-dp", 60.0, exposure, guarantees=proven, floors=floors)
        for exposure in (1.6, None)
    )
    (one,) = findings_of(finding_rules.best_for_persons, bare(floors=floors), attacked)
    assert "Attacks still find: secret-sharer: exposure 1.62 ±0.02 bits; 1.44 where" in one.sentence
    (one,) = findings_of(finding_rules.best_for_persons, bare(floors=floors), alone)
    assert one.sentence.endswith("No attack was run on it.")


@pytest.mark.parametrize("score", [math.inf, 3.46e30, 100.1 * 100.0])
def test_a_model_that_diverged_is_no_finding(score):
    claim = promise("claimed", 0.5)
    all_boards = boards(aggregate(seeds("uedp", score, guarantees=(claim,))))
    assert finding_rules.findings(all_boards) == []


def test_one_seed_is_no_finding():
    claim = (promise("claimed", 0.5),)
    runs = seeds("uedp", 400.0, guarantees=claim)
    for count, keys in ((1, []), (2, ["learned-nothing"])):
        assert [one.key for one in finding_rules.findings(boards(aggregate(runs[:count])))] == keys
    several = [*bare(), *seeds("deidentify", 55.0, 8.0)[:1]]
    assert finding_rules.findings(boards(aggregate(several))) == []


# ------------------------------------------------------------------------------------ all together


def test_every_rule_gives_its_strongest_finding_and_real_text_comes_first():
    all_boards = boards(aggregate([
        *refuted(0.5, 1.5, apart={"z": 1}), *refuted(0.5, 1.0, apart={"z": 2}),
        *refuted(0.01, 5.0, source=INVENTED),
        *seeds("uedp", 500.0, guarantees=(promise("claimed", 0.5),), apart={"z": 3}),
    ]))  # fmt: skip
    findings = finding_rules.findings(all_boards)
    assert [one.key for one in findings] == ["refuted-claim", "learned-nothing"]
    assert (findings[0].generated, findings[0].strength) == (False, pytest.approx(3.0))
    only = boards(aggregate(refuted(0.01, 5.0, source=INVENTED)))
    assert finding_rules.findings(only)[0].generated
    assert finding_rules.findings([]) == []


def test_numbers_of_sentences_are_those_at_odd_places():
    floors = {"unigrams": 100.0, "public-only": 90.0}
    proven, unproven = promise("proven", 4.0), promise("proven", math.inf, "entity")
    all_boards = boards(aggregate([
        *bare(floors=floors), *seeds("user-dp", 60.0, 1.6, guarantees=(proven,), floors=floors),
        *seeds("deidentify", 55.0, 8.0, floors=floors,
               guarantees=(unproven,)),
        *refuted(0.5, 1.5, floors=floors),
        *seeds("idle", 500.0, guarantees=(promise("claimed", 0.5),), floors=floors),
        *bare(floors=floors, source=INVENTED),
        *seeds("user-dp", 40.0, guarantees=(proven,), floors=floors, source=INVENTED),
    ]))  # fmt: skip
    findings = finding_rules.findings(all_boards)
    assert len(findings) == len(finding_rules.RULES)
    for one in findings:
        numbers = one.parts[1::2]
        assert 2 <= len(numbers) <= 3
        assert all(any(sign.isdigit() for sign in text) for text in numbers)
        assert one.plot.dots
        assert one.rows[0] in one.board


def test_numbers_that_are_no_numbers_stop_no_page():
    claim = promise("claimed", 0.5)
    endless = seeds("uedp", math.inf, math.inf, guarantees=(claim,))
    huge = seeds("noiseless", 1.7e308, 1.7e308, guarantees=(NOTHING,), floors={"f": 1e-300})
    tiny = seeds("user-dp", -1.7e308, -1.7e308, guarantees=(claim, promise("proven", 1.0)))
    for one in finding_rules.findings(boards(aggregate([*endless, *huge, *tiny]))):
        for placed in one.plot.placed:
            assert 0.0 <= placed.at <= 100.0
        assert all(0.0 <= at <= 100.0 for _, at in one.plot.ticks)


def plot(*values, marks=()):
    return DotPlot("axis", tuple(Dot("", value, str(value)) for value in values),
                   tuple(Mark("", value, "") for value in marks))  # fmt: skip


def test_values_are_in_order_and_more_than_a_decade_is_logarithmic():
    near, far = plot(20.0, 30.0, 40.0), plot(1.0, 10.0, 100.0)
    assert (near.logarithmic, far.logarithmic) == (False, True)
    for one in (near, far):
        places = [placed.at for placed in one.placed]
        assert places == sorted(places)
        assert places[1] == pytest.approx((places[0] + places[2]) / 2)
        assert places[0] > 0
        assert places[-1] < 100
    assert [text for text, _ in far.ticks] == ["1", "3", "10", "30", "100"]
    assert [text for text, _ in near.ticks] == ["20", "30", "40"]
    assert not plot(0.0, 100.0).logarithmic


def test_intervals_end_with_the_axis_and_marks_stand_on_it():
    dot = Dot("", 20.0, "", low=-1e9, high=25.0)
    one = DotPlot("", (dot, Dot("", 30.0, "")), (Mark("", 40.0, ""),))
    wide, alone = one.placed
    assert wide.left == 0.0
    assert wide.left + wide.width > wide.at
    assert (alone.left, alone.width) == (alone.at, 0.0)
    assert one.lines[0][1] > alone.at
    assert [placed.at for placed in plot(5.0).placed] == [50.0]


def test_a_long_label_is_cut_between_parameters():
    long = "user-dp (" + ", ".join(f"parameter{at}={at}" for at in range(9)) + ")"
    assert Dot(long, 1.0, "").short == "user-dp (parameter0=0, parameter1=1, …)"
    assert Dot("user-dp (rounds=3)", 1.0, "").short == "user-dp (rounds=3)"
    assert len(Dot("x" * 99, 1.0, "").short) == LONG_LABEL


def test_the_subject_stays_where_there_are_too_many():
    dots = [Dot(str(at), at, "", tone="subject" if at == 7 else "plain") for at in range(9)]
    assert [dot.label for dot in spread(dots, 3)] == ["0", "1", "7"]
