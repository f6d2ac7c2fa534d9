"""The page of a run has everything of its result, in words that readers and machines can follow."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import unquote

import pytest
import yaml
from references import first_results
from whole_results import HOSTILE, everything, failed, minimal, spec

from uedp_bench.contracts.results import ComponentSpec, Result
from uedp_bench.leaderboard.index_page import run_page
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.run_pages.detail_tables import COMMAND, repeat, spec_yaml
from uedp_bench.leaderboard.run_pages.run_page import run_context
from uedp_bench.leaderboard.run_pages.summary import protected
from uedp_bench.leaderboard.site import build
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec, read_spec

VOID = {"meta", "link", "img", "br", "input", "hr"}


class Html(HTMLParser):
    """A page: its elements, and the text of what is shown and of scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.shown: list[str] = []
        self.scripts: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        assert len({name for name, _ in attributes}) == len(attributes)
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[self.elements[-1][1].get("id") or ""] = data
        else:
            self.shown.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.shown).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture
def page(tmp_path):
    """The page of the first of some results, and its HTML."""

    def render(*results: Result) -> Html:
        build(results, tmp_path)
        return Html((tmp_path / run_page(results[0].id)).read_text(encoding="utf-8"))

    return render


def leaves(value):
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def shows(html: Html, text: str) -> bool:
    """Whether a page shows a text; names of fields have spaces where files have underscores."""
    text = " ".join(text.split())
    return text in html.text or text.replace("_", " ") in html.text


def context(*results: Result):
    (row,) = aggregate(results)
    return run_context(results[0], row)


# ------------------------------------------------------------------------------------- everything


@pytest.mark.parametrize("word", ["plain", HOSTILE, "\u2028 é 漢字 \u202e '\"`"])
def test_all_text_of_a_result_is_shown_as_text(page, word):
    html = page(everything(word=word))
    for text in {leaf for leaf in leaves(everything(word=word).model_dump(mode="json"))
                 if isinstance(leaf, str)} - {"pca", "inf"}:  # fmt: skip
        assert shows(html, text), text
    assert len(html.all("script")) == 6
    assert not html.all("img")
    assert all(name in {"page", "data", ""} or not name.startswith("on")
               for _, attributes in html.elements for name in attributes)  # fmt: skip


def test_the_raw_result_on_the_page_is_the_result(page):
    for result in (everything(word=HOSTILE), minimal(), failed()):
        raw = page(result).scripts["result"]
        assert "<" not in raw
        assert Result.model_validate(json.loads(raw)) == result


@pytest.mark.parametrize("folder", ["quickstart", "reproductions/dpnr-ag",
                                    "reproductions/vickrey-product-reviews"])  # fmt: skip
def test_every_value_of_a_reference_result_is_on_its_page(page, folder):
    result = next(one for (where, _), one in first_results().items() if where == folder)
    html = page(result)
    raw = list(leaves(json.loads(html.scripts["result"])))
    declared = list(leaves(result.model_dump(mode="json", include={"metrics"})))
    assert all(leaf in raw for leaf in declared)
    for leaf in leaves(result.model_dump(mode="json", exclude={"metrics"})):
        assert leaf in raw
        if isinstance(leaf, str) and leaf != "inf":
            assert shows(html, leaf), leaf
    for values in (result.utility, *result.leakage.values()):
        for estimate in values.values():
            assert any(f"{estimate.value * scale:,.{digits}f}" in html.text
                       for scale in (1, 100) for digits in range(5)), estimate  # fmt: skip


def test_metrics_stand_beside_all_seeds_of_the_row(page):
    html = page(everything(1), everything(2), everything(3), failed(4))
    assert "51.0 45.5 to 56.2 52.0 ±2.5 (n = 3) lower is better" in html.text
    assert "mean over the 3 finished seeds" in html.text
    alone = page(everything(1))
    assert "51.0 45.5 to 56.2 51.0 (n = 1) lower is better" in alone.text
    assert "this seed only" in alone.text


def test_epsilons_of_the_row_are_told_where_seeds_differ():
    one, other = everything(1), everything(2)
    worse = other.guarantees[1].model_copy(update={"epsilon": 9.5, "curve": ()})
    other = other.model_copy(update={"guarantees": (worse,)})
    tiles = {tile["label"]: tile for tile in context(one, other)["summary"]["epsilons"]}
    assert tiles["proven ε"]["values"] == ["8.25 user-entity (3 others' sentences)",
                                           "refused (record)"]  # fmt: skip
    assert tiles["proven ε"]["over"] == ["9.50 user-entity", "refused (record)"]
    assert tiles["claimed ε"]["over"] == []
    # Both seeds have the same bounds; their row pays for the choice with confidence.
    assert tiles["ε at least"]["over"]


def test_guarantees_say_in_words_what_holds(page):
    text = page(everything()).text
    for words in (
        "claimed ε = 0.21 per user-entity refuted: an attack bounds ε from below above this claim",
        "audit bounds it above plain",
        "proven ε = 8.25 per user-entity given",
        "that at most 3 other users mention, in at most 1 sentence each",
        "ε = ∞ per record refused: no proof for what was executed",
        "200 times, one after the other: each of 2,700 users takes part with probability 0.02; its "
        "update is clipped to a norm, and Gaussian noise of 1.625 times it is added to the sum",
        "private data was used without protection: seen plain",
        "no: simulation only",
        "reidentify : nothing published plain",
    ):
        assert words in text, words


def test_seeds_lead_to_each_other_and_back_to_the_leaderboard(page):
    html = page(everything(2), everything(1), failed(7))
    links = [link["href"] for link in html.all("a")]
    assert [link for link in links if "everything-" in link or "failed-" in link] == [
        "../runs/everything-1.html", "../runs/everything-2.html", "../runs/failed-7.html",
    ]  # fmt: skip
    assert [link["href"] for link in html.all("a") if link.get("aria-current") == "page"] == [
        "../runs/everything-2.html"
    ]
    assert "../table.html#view=compare&rows=everything" in links
    assert "../table.html#task=next-word&source=embedded" in links
    assert "7 (failed)" in html.text


def test_a_failed_run_shows_its_error(page):
    text = page(failed(), everything(2)).text
    for words in ("user-dp failed", "InputError in phase train", "users is 3: at least 10",
                  "Traceback (most recent call last): raise InputError",
                  "it failed before any was computed"):  # fmt: skip
        assert words in text, words


@pytest.mark.parametrize("result", [minimal(), failed(), everything(), everything(word=HOSTILE)])
def test_pages_have_headings_in_order_and_names_for_everything(page, result):
    html = page(result)
    levels = [int(tag[1]) for tag, _ in html.elements if tag in {"h1", "h2", "h3", "h4"}]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in html.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    referred = [attributes["aria-labelledby"] for _, attributes in html.elements
                if "aria-labelledby" in attributes]  # fmt: skip
    referred += [link["href"][1:] for link in html.all("a") if link["href"].startswith("#")]
    assert set(referred) <= set(ids)
    for _, attributes in html.elements:
        if attributes.get("role") in {"img", "group"}:
            assert (attributes["aria-label"] or "").strip()


def test_every_figure_has_its_numbers_in_a_table(page):
    html = page(everything())
    data = json.loads(html.scripts["data"])["figures"]
    charts = [one for _, one in html.elements if "data-figure" in one]
    assert [one["id"] for one in data] == [one["data-figure"] for one in charts]
    assert len(data) == 18
    assert all(one["role"] == "img" for one in charts)
    assert html.text.count("Numbers of ") == len(data)


# ------------------------------------------------------------------------------------------ repeat


def again(tmp_path, written: str):
    """What `uedp-bench run spec.yaml` would run."""
    path = tmp_path / "spec.yaml"
    path.write_text(written, encoding="utf-8")
    return expand(parse_spec(read_spec(str(path))))


@pytest.mark.long
def test_the_spec_on_the_page_is_the_spec_of_the_run(tmp_path):
    assert len(first_results()) > 20
    for result in first_results().values():
        assert again(tmp_path, spec_yaml(result.spec)) == [result.spec]


def test_a_spec_with_a_selection_and_awkward_values_is_kept(tmp_path):
    (one,) = expand(parse_spec({
        "mechanisms": ["user-dp"], "seeds": [2**60 + 1], "delta": 1e-7, "attacks": ["membership"],
        "selection": {"tried": {"mechanism.user-dp.clip": [0.3, 1.0]}, "scores": "public"},
    }))  # fmt: skip
    assert one.selection is not None
    assert again(tmp_path, spec_yaml(one)) == [one]
    awkward = {"a": "1e5", "b": "null", "c": "yes", "d": "a: b # c", "e": HOSTILE, "f": 1e-5,
               "g": "\t\n\u2028\x00", "h": [], "i": {}, "j": None, "k": [[1], [2]],
               "l": "inf"}  # fmt: skip
    strange = spec().model_copy(update={"model": ComponentSpec(name="m", params=awkward)})
    assert yaml.safe_load(spec_yaml(strange))["model"]["params"] == awkward


def test_the_page_says_how_to_repeat_the_run(page):
    result = first_results()["quickstart", "user-dp"]
    html = page(result)
    assert COMMAND in html.text
    assert "Anybody can compute again: guarantees" in html.text
    (link,) = [link for link in html.all("a") if link.get("download") == "spec.yaml"]
    head, _, body = link["href"].partition(",")
    assert head == "data:text/yaml;charset=utf-8"
    assert unquote(body) == spec_yaml(result.spec)
    assert "noise_multiplier = 0.895" in html.text
    assert "clip bound" in html.text  # the meaning of a parameter


def test_what_must_be_there_first_is_told():
    result = first_results()["reproductions/dpnr-ag", "dpnr"]
    needs = repeat(result.spec)["needs"]
    assert any(need.startswith("source dpnlp-ag reads ") for need in needs)
    assert not any("lstm" in need for need in needs)
    strange = spec(mechanism="word-dropout", path="x.txt")
    assert any("mechanism word-dropout is no component" in need and "--plugin" in need
               for need in repeat(strange)["needs"])  # fmt: skip
    assert "noise_multiplier = 0.895" in repeat(strange)["set"]


def test_only_what_differs_from_defaults_is_named_in_the_title():
    repetition = repeat(first_results()["quickstart", "user-dp"].spec)
    assert "rounds = 36" in repetition["set"]
    assert not any(one.startswith(("sampling", "local_epochs")) for one in repetition["set"])
    assert len(repetition["parameters"].rows) > 30


# ------------------------------------------------------------------------------------------- words


def test_every_event_has_words():
    seen = set()
    for result in first_results().values():
        for one in result.events:
            words = one.event.text(one.unit)
            seen.add(one.event.kind)
            assert words
            assert "kind=" not in words
    assert len(seen) >= 4


def test_points_of_a_curve_in_words():
    one = everything().guarantees[1].protected
    assert one is not None
    assert protected(None) == "that any number of other users mention"
    for spread, words in ((0, "that no other user mentions"),
                          (1, "that at most 1 other user mentions, in at most 1 sentence each"),
                          (2, "that at most 2 other users mention, in at most 1 sentence "
                              "each")):  # fmt: skip
        assert protected(one.model_copy(update={"spread": spread})) == words


def test_infinite_metrics_have_a_page(page):
    result = minimal()
    odd = {"perplexity": {"value": "inf", "low": 1.0, "high": "inf"}}
    result = Result.model_validate(result.model_dump(mode="json") | {"utility": odd})
    assert math.isinf(result.utility["perplexity"].value)
    assert "∞ 1.00 to ∞" in page(result).text


def test_a_page_says_whether_anything_was_learned_and_how_many_took_part(page):
    changes = {
        "utility": {"score": {"value": 0.4, "low": 0.3, "high": 0.5}},
        "headline": {"metric": "score", "larger_is_better": True},
        "floors": {"guess": 0.5, "public-only": 0.45},
        "learned": False,
        "diagnostics": {
            "public_sizes": {
                "mechanism": "user-dp", "unit": "users", "declared": 7701, "training": 4400,
                "planned_per_round": 350.0, "expected_per_round": 200.0,
            },
        },
    }  # fmt: skip
    text = page(Result.model_validate(minimal().model_dump() | changes)).text
    assert "learned nothing" in text
    assert "guess 0.50" in text
    assert "public-only 0.45" in text
    assert "higher is better" in text
    for words in ("7,701", "4,400", "350", "200", "users that take part"):
        assert words in text
    better = changes | {"learned": True}
    text = page(Result.model_validate(minimal().model_dump() | better)).text
    assert "better than its floors" in text
    assert "learned nothing" not in text
    unknown = changes | {"learned": None, "floors": {}, "diagnostics": {"public_sizes": "x"}}
    text = page(Result.model_validate(minimal().model_dump() | unknown)).text
    assert "Whether this run learned anything is unknown: it has no floors" in text


def test_metric_dp_is_per_unit_of_distance_on_its_page(page):
    epsilon = {
        "kind": "proven", "notion": "metric-dp", "unit": "word", "adjacency": "replace-one",
        "epsilon": 10.0, "delta": 0.0, "accountant": "metric",
    }  # fmt: skip
    changes = {
        "guarantees": [epsilon],
        "diagnostics": {"epsilon_at": {"random pair, 50th percentile": 57.0}},
    }
    text = page(Result.model_validate(minimal().model_dump() | changes)).text
    assert "ε = 10.0 per unit of distance" in text
    assert "57.0 at the median random pair" in text
