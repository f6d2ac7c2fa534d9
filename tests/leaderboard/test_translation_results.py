"""What the stored comparison of translators must show, and that it is that of the packaged spec."""

from __future__ import annotations

from pathlib import Path

import pytest

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.validate import check
from uedp_bench.results import Result

FOLDER = Path(__file__).parents[2] / "leaderboard" / "results" / "translation" / "parallel-embedded"


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return load_results([FOLDER])


def found(results: list[Result], label: str, **params: object) -> Result:
    """The result of a mechanism whose first part has these parameters."""
    (one,) = (
        each
        for each in results
        if (first := each.spec.mechanism[0]).name == label
        and all(first.params[name] == value for name, value in params.items())
    )
    return one


def bleu(result: Result) -> float:
    return result.utility["bleu"].value


def test_they_are_the_runs_of_the_packaged_spec_and_valid(results: list[Result]) -> None:
    wanted = expand(parse_spec(read_spec("translation")))
    again = [expand(parse_spec(each.spec.model_dump(mode="json")))[0] for each in results]
    assert len(again) == len(wanted)
    assert all(run in again for run in wanted)
    files = sorted(FOLDER.rglob("result.json"))
    assert len(files) == len(wanted)
    assert all(check(file).valid for file in files)


def test_whole_sentences_are_worth_most_then_fragments_and_then_no_adaptation(
    results: list[Result],
) -> None:
    whole, public = found(results, "noiseless"), found(results, "public-only")
    long = found(results, "phrase-fragments", max_words=7)
    short = found(results, "phrase-fragments", max_words=4, tags=False)
    assert bleu(whole) > bleu(long) > bleu(short) > bleu(public)
    without = public.utility["bleu"]
    assert without.low is not None and without.high is not None
    for adapted in (whole, long):
        low = adapted.utility["bleu"].low
        assert low is not None and low > without.high
    assert without.low > public.floors["lexicon"] > public.floors["copy"]


def test_a_private_vote_of_few_documents_changes_nothing(results: list[Result]) -> None:
    voted, public = found(results, "phrase-union"), found(results, "public-only")
    assert voted.cost.model_dump()["rows_train"] < 100
    score = voted.utility["bleu"]
    assert score.low is not None and score.high is not None
    assert score.low < bleu(public) < score.high


def test_longer_fragments_give_more_sentences_away(results: list[Result]) -> None:
    long, short, voted = (
        each.leakage["fragment-reassembly"]["sentences_recovered"].value
        for each in (
            found(results, "phrase-fragments", max_words=7),
            found(results, "phrase-fragments", max_words=4, tags=False),
            found(results, "phrase-union"),
        )
    )
    assert long > 5 * short > 0.0 == voted


def test_canaries_are_remembered_from_sentences_and_from_fragments(results: list[Result]) -> None:
    exposures = {
        each.id: each.leakage["secret-sharer"]["exposure_max_repeats"].value for each in results
    }
    of = {label: exposures[found(results, label).id]
          for label in ("public-only", "noiseless", "phrase-union", "dp-sgd")}  # fmt: skip
    fragments = [exposures[each.id] for each in results
                 if each.spec.mechanism[0].name == "phrase-fragments"]  # fmt: skip
    assert of["noiseless"] > min(fragments) > 4.0
    assert max(of["public-only"], of["phrase-union"]) < 1.44
