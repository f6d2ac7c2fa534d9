"""Which mechanism for what: what qualifies, in which order, and what it says of attacks."""

from __future__ import annotations

import json
import math

import pytest
from board_results import INVENTED, promise, seeds

from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.leaderboard.boards import boards
from uedp_bench.leaderboard.front_page import choices, front_context
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.site_files import named


def test_rows_that_prove_something_stand_with_their_least_epsilon_of_every_unit():
    distance = promise("proven", 10.0, "word", notion="metric-dp")
    rows = aggregate([
        *seeds("noiseless", 50.0, guarantees=(promise("proven", math.inf),)),
        *seeds("user-dp", 60.0, 1.6, guarantees=(promise("proven", 8.0), promise("claimed", 1.0))),
        *seeds("vickrey", 70.0, guarantees=(distance,)),
        *seeds("refused", 55.0, guarantees=(
            promise("proven", math.inf, status="refused", reason="sizes"),)),
    ])  # fmt: skip
    found = choices(boards(rows))
    json.dumps(found, allow_nan=False)
    assert [row["name"] for row in found["rows"]] == ["user-dp", "vickrey"]
    protected, words = found["rows"]
    assert protected["e"] == {"user": (8.0, "8.00 user")}
    # Per unit of distance: it compares with no epsilon that somebody asks for.
    assert words["e"]["word"][0] is None
    assert protected["leaks"] == [
        ("secret-sharer: exposure", "1.62 ±0.02 bits; 1.44 where nothing leaks")
    ]
    assert found["units"] == [["user", "a person"], ["word", "a word"]]
    assert found["tasks"] == ["next-word"]


def test_sets_of_real_text_come_first_and_empty_results_make_a_page():
    proven = (promise("proven", 8.0),)
    runs = [seeds("user-dp", 60.0, source=source, guarantees=proven)
            for source in (INVENTED, "zoo", "conll2003")]  # fmt: skip
    rows = aggregate([run for row in runs for run in row])
    context = front_context(rows)
    assert [one["source"] for one in context["choices"]["sets"]] == ["conll2003", "zoo", INVENTED]
    assert [one["generated"] for one in context["sets"]] == [False, False, True]
    nothing = front_context([])
    assert (nothing["findings"], nothing["sets"], nothing["choices"]["rows"]) == ([], [], [])


def test_the_first_answer_holds_a_row_that_learned_something():
    def start(*rows):
        return choices(boards(aggregate([run for row in rows for run in row])))["start"]

    def row(score, epsilon, unit="user", **more):
        return seeds("m", score, guarantees=(promise("proven", epsilon, unit, **more),),
                     apart={"z": epsilon, "u": unit})  # fmt: skip

    assert start(row(60.0, 8.0), row(50.0, 1.0, "record")) == ["user", "next-word", "8"]
    assert start(row(500.0, 7.0), row(60.0, 12.0)) == ["user", "next-word", "16"]
    assert start(row(500.0, 7.0), row(60.0, 40.0)) == ["user", "next-word", "any"]
    assert start(row(500.0, 7.0), row(60.0, 1.0, "record")) == ["record", "next-word", "8"]
    assert start(row(60.0, 10.0, "word", notion="metric-dp")) == ["word", "next-word", "any"]
    assert start(row(500.0, 7.0)) == ["user", "next-word", "8"]
    assert start() == ["user", "8"]


@pytest.mark.parametrize(
    ("source", "name"),
    [({"name": "text", "params": {"path": "mail/sent.csv"}}, "sent.csv"),
     ({"name": "text", "params": {"path": "C:\\mail\\sent\\"}}, "sent"),
     ({"name": "text", "params": {}}, "text 0123abcd"),
     ({"name": "hub", "params": {"path": "owner/reviews"}}, "reviews"),
     ({"name": "conll2003", "params": {"path": "data/conll"}}, "conll2003")],
)  # fmt: skip
def test_data_are_called_by_a_name_that_says_something(source, name):
    runs = [
        run.model_copy(update={
            "spec": run.spec.model_copy(update={"source": ComponentSpec.model_validate(source)}),
            "provenance": {"corpus": {"fingerprint": "0123abcdef"}},
        })
        for run in seeds("user-dp", 60.0, guarantees=(promise("proven", 8.0),))
    ]  # fmt: skip
    context = front_context(aggregate(runs))
    assert context["choices"]["sets"][0]["name"] == f"next-word on {name}"
    assert context["sets"][0]["name"] == f"next-word on {name}"


def test_links_are_those_that_the_package_declares():
    assert named({}) == {"repository": "", "docs": "", "submit": ""}
    found = named({"repository": "https://example.org/x/"})
    assert found["docs"] == "https://example.org/x/tree/HEAD/docs"
    assert found["submit"] == "https://example.org/x/blob/HEAD/CONTRIBUTING.md"
    assert named({"repository": "javascript:alert(1)"})["repository"] == ""
