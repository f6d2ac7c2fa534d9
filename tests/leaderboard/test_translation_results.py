"""What the stored comparison of translators must show, and that it is that of the packaged spec."""

from __future__ import annotations

from pathlib import Path

import pytest
from board_rows import interval

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, aggregate
from uedp_bench.leaderboard.validate import check
from uedp_bench.results import Result

FOLDER = Path(__file__).parents[2] / "leaderboard" / "results" / "translation" / "parallel-embedded"
SEEDS = (1, 2, 3)


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return load_results([FOLDER])


@pytest.fixture(scope="module")
def rows(results: list[Result]) -> list[Row]:
    return aggregate(results)


def found(rows: list[Row], label: str, **params: object) -> Row:
    """The row of a mechanism whose first part has these parameters."""
    (one,) = (
        each
        for each in rows
        if (first := each.spec.mechanism[0]).name == label
        and all(first.params[name] == value for name, value in params.items())
    )
    return one


def bleu(row: Row) -> float:
    return row.utility["bleu"].value


def test_they_are_the_runs_of_the_packaged_spec_and_valid(results: list[Result]) -> None:
    wanted = expand(parse_spec(read_spec("translation")))
    again = [expand(parse_spec(each.spec.model_dump(mode="json")))[0] for each in results]
    assert len(again) == len(wanted) == 7 * len(SEEDS)
    assert all(run in again for run in wanted)
    files = sorted(FOLDER.rglob("result.json"))
    assert len(files) == len(wanted)
    assert all(check(file).valid for file in files)


def test_whole_sentences_are_worth_most_then_fragments_and_then_no_adaptation(
    rows: list[Row], results: list[Result]
) -> None:
    """Intervals over seeds show every step between neighbours but the last."""
    whole, public = found(rows, "noiseless"), found(rows, "public-only")
    long = found(rows, "phrase-fragments", max_words=7)
    short = found(rows, "phrase-fragments", max_words=4, tags=False)
    assert bleu(whole) > bleu(long) > bleu(short) > bleu(public)
    for better, worse in ((whole, long), (long, short)):
        assert interval(better.utility["bleu"])[0] > interval(worse.utility["bleu"])[1]
    assert interval(short.utility["bleu"])[0] < interval(public.utility["bleu"])[1]
    assert not short.learned
    for result in results:
        lowest = interval(public.utility["bleu"])[0]
        assert lowest > result.floors["lexicon"] > result.floors["copy"]


def test_what_whole_sentences_and_seven_words_gain_shows_in_every_seed(
    results: list[Result],
) -> None:
    """By intervals over test documents too, which tell the step from four words to seven."""
    for seed in SEEDS:
        bleus = {}
        for result in results:
            if result.spec.seed == seed:
                first = result.spec.mechanism[0]
                bleus[first.name, *map(first.params.get, ("max_words", "tags"))] = result.utility[
                    "bleu"
                ]
        whole, public = bleus["noiseless", None, None], bleus["public-only", None, None]
        short, long = (bleus["phrase-fragments", words, False] for words in (4, 7))
        assert whole.value > long.value
        assert long.low is not None and short.high is not None and public.high is not None
        assert long.low > short.high and long.low > 2 * public.high


def test_fragments_take_most_of_the_loss_in_every_seed(results: list[Result]) -> None:
    losses = {(result.spec.seed, result.spec.mechanism[0].name): [] for result in results}
    for result in results:
        name = result.spec.mechanism[0].name
        losses[result.spec.seed, name].append(result.utility["loss"].value)
    for seed in SEEDS:
        assert max(losses[seed, "phrase-fragments"]) < 3 < 6 < losses[seed, "public-only"][0]


def test_tags_show_no_gain(rows: list[Row]) -> None:
    tagged, plain = (
        interval(found(rows, "phrase-fragments", max_words=4, tags=tags).utility["bleu"])
        for tags in (True, False)
    )
    assert tagged[0] < plain[1] and plain[0] < tagged[1]


def test_a_private_vote_of_few_documents_changes_nothing(
    rows: list[Row], results: list[Result]
) -> None:
    votes = [each for each in results if each.spec.mechanism[0].name == "phrase-union"]
    passes = 2
    phrases = {each.cost.model_dump()["rows_train"] / passes for each in votes}
    assert phrases == {20, 23, 26}
    low, high = interval(found(rows, "phrase-union").utility["bleu"])
    assert low < bleu(found(rows, "public-only")) < high


def test_private_training_does_harm(rows: list[Row]) -> None:
    assert bleu(found(rows, "dp-sgd")) < bleu(found(rows, "public-only"))
    assert found(rows, "dp-sgd").learned is False


def test_longer_fragments_give_more_sentences_away(rows: list[Row]) -> None:
    long, short, voted = (
        each.leakage["fragment-reassembly"]["sentences_recovered"]
        for each in (
            found(rows, "phrase-fragments", max_words=7),
            found(rows, "phrase-fragments", max_words=4, tags=False),
            found(rows, "phrase-union"),
        )
    )
    assert interval(long)[0] > 5 * interval(short)[1] > 0.0 == voted.value


def test_canaries_are_remembered_from_sentences_and_from_fragments(rows: list[Row]) -> None:
    exposures = {
        row.spec.mechanism[0].name: row.leakage["secret-sharer"]["exposure_max_repeats"].value
        for row in rows
        if row.spec.mechanism[0].name != "phrase-fragments"
    }
    fragments = [
        row.leakage["secret-sharer"]["exposure_max_repeats"].value
        for row in rows
        if row.spec.mechanism[0].name == "phrase-fragments"
    ]
    assert exposures["noiseless"] > max(fragments) > min(fragments) > 6.0
    assert max(exposures["public-only"], exposures["phrase-union"]) < 1.44


def test_membership_shows_in_whole_sentences(rows: list[Row]) -> None:
    """Beside a model that saw no private row; the forty documents held out are a little harder."""
    whole, public = (
        interval(found(rows, label).leakage["membership"]["auc_user"])
        for label in ("noiseless", "public-only")
    )
    assert whole[0] > public[1] > 0.6
