"""Which mechanism for what: what qualifies, in which order, and what it says of attacks."""

from __future__ import annotations

import json
import math

import pytest
from board_results import INVENTED, promise, seeds

from uedp_bench.contracts.clients import Clients
from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.leaderboard.boards import boards, labels
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
    answers = choices(boards(rows))
    json.dumps(answers, allow_nan=False)
    assert [row["name"] for row in answers["rows"]] == ["user-dp", "vickrey"]
    protected, words = answers["rows"]
    assert protected["e"] == {"user": (8.0, "8.00 user")}
    # Per unit of distance: it compares with no epsilon that somebody asks for.
    assert words["e"]["word"][0] is None
    assert protected["leaks"] == [
        ("secret-sharer: exposure", "1.62 ±0.02 bits; 1.44 where nothing leaks")
    ]
    assert answers["units"] == [["user", "a person"], ["word", "a word"]]
    assert answers["tasks"] == ["next-word"]


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


def test_the_unprotected_row_and_the_hardest_floor_stand_beside_each_set():
    rows = aggregate([
        *seeds("noiseless", 50.0, guarantees=(promise("proven", math.inf),)),
        *seeds("user-dp", 60.0, guarantees=(promise("proven", 8.0),),
               floors={"unigrams": 100.0, "public-only": 80.0}),
    ])  # fmt: skip
    (one,) = choices(boards(rows))["sets"]
    assert one["beside"] == [("unprotected", "50.0 ±0.0"), ("floor: public-only", "80.0")]


def test_the_task_with_most_rows_comes_first():
    def row(task, epsilon):
        runs = seeds("m", 60.0, guarantees=(promise("proven", epsilon),), apart={"z": epsilon})
        spec = runs[0].spec.model_copy(update={"task": ComponentSpec(name=task)})
        return [run.model_copy(update={"spec": spec, "group": f"{task}-{epsilon}"}) for run in runs]

    rows = aggregate([*row("tagging", 1.0), *row("next-word", 2.0), *row("next-word", 4.0)])
    offered = choices(boards(rows))
    assert offered["tasks"] == ["next-word", "tagging"]
    assert offered["start"] == ["user", "next-word", "8"]


def test_rows_that_differ_in_noise_are_named_by_their_epsilon():
    def names(*epsilons):
        runs = [seeds("user-dp", 60.0, guarantees=(promise("proven", epsilon),),
                      apart={"noise_multiplier": noise})
                for noise, epsilon in zip((1.25, 2.5), epsilons, strict=True)]  # fmt: skip
        return labels(aggregate([run for row in runs for run in row]))

    assert names(8.0, 0.5) == ["user-dp (proven ε=8)", "user-dp (proven ε=0.5)"]
    by_noise = ["user-dp (noise_multiplier=1.25)", "user-dp (noise_multiplier=2.5)"]
    assert names(8.0, 8.001) == by_noise
    assert names(math.inf, math.inf) == by_noise


def test_epsilons_of_two_units_are_not_named_alike():
    runs = [seeds("dp-sgd", 60.0, guarantees=(promise("proven", epsilon, unit),),
                  apart={"noise_multiplier": epsilon})
            for epsilon, unit in ((8.0, "user"), (1.0, "record"))]  # fmt: skip
    assert set(labels(aggregate([run for row in runs for run in row]))) == {
        "dp-sgd (proven user ε=8)", "dp-sgd (proven record ε=1)",
    }  # fmt: skip


@pytest.mark.parametrize(
    "change", [{"noise_source": "os"}, {"clients": Clients(count=3)}, {"delta": 1e-6}]
)
def test_rows_of_other_settings_have_labels_of_their_own(change):
    runs = seeds("user-dp", 60.0)
    other = [run.model_copy(update={"group": "b", "id": f"b{at}",
                                    "spec": run.spec.model_copy(update=change)})
             for at, run in enumerate(runs)]  # fmt: skip
    assert len({*labels(aggregate([*runs, *other]))}) == 2


def test_the_least_epsilon_of_a_unit_is_nothing_above_zero():
    proofs = (promise("proven", 0.0), promise("proven", 5.0, adjacency="replace-one"))
    (one,) = choices(boards(aggregate(seeds("public-only", 60.0, guarantees=proofs))))["rows"]
    assert one["e"]["user"][0] == 0.0


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
     ({"name": "conll2003", "params": {"path": "data/conll"}}, "CoNLL-2003")],
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
    addresses = named({"repository": "https://example.org/x/"})
    assert addresses["docs"] == "https://example.org/x/tree/HEAD/docs"
    assert addresses["submit"] == "https://example.org/x/blob/HEAD/CONTRIBUTING.md"
    assert named({"repository": "javascript:alert(1)"})["repository"] == ""
