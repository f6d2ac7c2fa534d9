"""The page on fragments shows the stored tables, and its findings are in them."""

from __future__ import annotations

import json
import re
import runpy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from references import bundle_lines

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.validate import check
from uedp_bench.results import RunSpec

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproductions" / "translation-fragments.md"
RESULTS = ROOT / "leaderboard" / "results" / "reproductions" / "translation-fragments"
SMALL = RESULTS.with_name("translation-fragments-small")
EMEA = SMALL.with_name("translation-fragments-small-emea")
FOLDERS = [SMALL, EMEA, SMALL.with_name("translation-fragments-small-jrc")]
COMMANDS = runpy.run_path(str(ROOT / "benchmarks" / "fragments.py"))


def stored(table: str) -> list[dict[str, Any]]:
    file = PAGE.with_suffix("") / f"{table}.json"
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return rows


@pytest.mark.parametrize("table", COMMANDS["TABLES"])
def test_the_page_shows_what_is_stored(table: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = re.search(rf"<!-- fragments: {table} -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert shown is not None
    assert shown[1] == COMMANDS["markdown"](stored(table))


def test_the_files_have_a_limit_on_both_sides() -> None:
    for row in stored("counts"):
        words = COMMANDS["LONGEST"][row["domain"]]
        assert row["longest"] == f"{words} / {words}"
        assert row[f"{words} words, both"] == pytest.approx(row["published"], rel=0.04)
    other = {row["domain"]: row["4 words, both"] / row["published"] for row in stored("counts")}
    assert other["GNOME"] < 0.9 and other["JRC"] < 0.93


def test_jrc_holds_its_source_and_emea_repeats_itself() -> None:
    found = {row["domain"]: row for row in stored("data")}
    assert found["JRC"]["copied in train"] == pytest.approx(0.294, abs=0.005)
    assert found["JRC"]["copied in test"] == pytest.approx(0.34, abs=0.005)
    assert max(found["GNOME"]["copied in train"], found["EMEA"]["copied in train"]) < 0.03
    assert found["EMEA"]["distinct pairs in train"] < 0.36 * 10_001
    assert found["EMEA"]["test pairs in train"] == pytest.approx(0.045, abs=0.001)
    for row in found.values():
        shares = [row[f"{size}-grams published"] for size in range(1, 5)]
        assert shares == sorted(shares, reverse=True) and shares[0] > 0.4


@pytest.mark.parametrize(("domain", "whole"), [("EMEA", 0.169), ("GNOME", 0.167), ("JRC", 0.048)])
def test_longer_fragments_give_more_sentences_back_and_keeping_fewer_gives_fewer(
    domain: str, whole: float
) -> None:
    rows = [row for row in stored("reassembly") if row["domain"] == domain]
    assert {(row["words"], row["keep"]) for row in rows} == set(COMMANDS["ATTACKED"])
    by_length = {row["words"]: row for row in rows if row["keep"] == 0.5}
    shares = [by_length[words]["sentences_recovered"][0] for words in sorted(by_length)]
    assert shares == sorted(shares)
    assert all(1.5 < more / less < 5.4 for less, more in pairwise(shares[2:]))
    assert by_length[7]["sentences_recovered"][0] == pytest.approx(whole, abs=0.001)
    kept = {row["keep"]: row["sentences_recovered"][0] for row in rows if row["words"] == 4}
    assert [kept[keep] for keep in sorted(kept)] == sorted(kept.values())
    right = [row["run_precision"][0] for row in rows if row["keep"] >= 0.5 and row["words"] > 2]
    assert min(right) > 0.37 and max(right) < 0.631


def test_sentences_come_back_more_often_than_from_other_documents() -> None:
    emea = next(row for row in stored("reassembly") if (row["words"], row["keep"]) == (4, 0.5))
    assert emea["sentences_recovered"][1] == 0.0  # intervals over documents reach zero
    for row in stored("reassembly"):
        assert row["sentences_recovered"][0] >= row["sentences_recovered_floor"][0]
        if row["words"] == 7:  # beyond what documents share
            assert row["sentences_recovered"][1] > row["sentences_recovered_floor"][2]


def test_no_pair_of_facts_is_joined_on_generated_text() -> None:
    for row in stored("facts"):
        assert row["facts_joined"] == row["facts_joined_floor"] == [0.0, 0.0, 0.0]
        assert row["pairs"] > 170
    assert max(row["sentences_recovered"][0] for row in stored("facts")) > 0.05
    assert {row["pairs"] for row in stored("facts") if row["words"] == 4} == {189}


def test_translations_are_those_of_the_stored_results() -> None:
    assert list(COMMANDS["translations"](RESULTS)) == stored("translations")


def test_fragments_help_and_whole_sentences_help_more() -> None:
    found = {row["adapted on"]: row for row in stored("translations")}
    bleu = {name: row["bleu"][0] for name, row in found.items()}
    four, seven = bleu["fragments of 4 words"], bleu["fragments of 7 words"]
    assert bleu["nothing"] < four < seven < bleu["whole sentences"]
    share = (four - bleu["nothing"]) / (bleu["whole sentences"] - bleu["nothing"])
    assert share == pytest.approx(0.10, abs=0.005)
    tagged, vote = found["fragments of 4 words, tagged"], found["phrases by a noisy vote"]
    assert tagged["bleu"][2] < found["fragments of 4 words"]["bleu"][1]
    assert tagged["loss"][1] > found["fragments of 4 words"]["loss"][2]
    for score in ("bleu", "chrf"):
        assert overlap(found["nothing"][score], vote[score])


def test_private_training_is_worth_as_much_as_short_fragments() -> None:
    found = {row["adapted on"]: row for row in stored("translations")}
    noisy, four = found["whole sentences, DP-SGD"], found["fragments of 4 words"]
    nothing = found["nothing"]
    assert noisy["proven ε"] == "7.87, record"
    for score in ("bleu", "chrf"):
        assert overlap(noisy[score], four[score])
    assert noisy["bleu"][0] > nothing["bleu"][0] and overlap(noisy["bleu"], nothing["bleu"])
    assert noisy["chrf"][1] > nothing["chrf"][2] and noisy["term_recall"][1] > 0.2
    assert noisy["loss"][2] < 4.85 < nothing["loss"][1]
    assert noisy["length_ratio"][0] == pytest.approx(1.54, abs=0.01)


def small() -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["domain"], row["adapted on"]): row for row in stored("domains")}


def test_domains_are_those_of_the_stored_results() -> None:
    assert list(COMMANDS["domains"](SMALL)) == stored("domains")


def without_path(run: RunSpec) -> str:
    data = run.model_dump(mode="json")
    data["source"]["params"].pop("path")
    return json.dumps(data, sort_keys=True)


def test_results_of_domains_are_runs_of_the_packaged_spec() -> None:
    spec = read_spec("paper/translation-fragments-small")
    spec["source"]["params"]["path"] = "x"
    clean = {without_path(run) for run in expand(parse_spec(spec))}
    published = {run.replace('"clean": true', '"clean": false') for run in clean if "JRC" in run}
    for folder in FOLDERS:
        for result in load_results([folder]):
            wanted = published if folder == FOLDERS[-1] else clean
            # EMEA has more seeds than the spec.
            (run,) = expand(parse_spec(result.spec.model_dump(mode="json") | {"seed": 1}))
            assert without_path(run) in wanted


def test_results_hold_no_folder_of_a_machine() -> None:
    for folder in FOLDERS:
        for line in bundle_lines(f"reproductions/{folder.name}"):
            assert '"tracking":{}' in line.text
            assert '"path":"data/nmt_confidential"' in line.text
            assert check(line).valid


@pytest.mark.parametrize("domain", ["EMEA", "GNOME", "JRC", "JRC as published"])
def test_losses_order_the_variants_on_the_authors_sentences(domain: str) -> None:
    found = small()
    order = ("nothing", "fragments of 4 words", "fragments of 7 words", "whole sentences")
    losses = [found[domain, name]["loss"][0] for name in order]
    assert losses == sorted(losses, reverse=True)
    public, private = (found[domain, name]["loss"][0] for name in COMMANDS["FREQUENCIES"])
    assert losses[1] < private < public
    assert (losses[0] < private) == (domain == "EMEA")
    for score in ("chrf", "bleu"):
        four, seven = (found[domain, name][score][0] for name in order[1:3])
        assert four < seven
    lengths = [found[domain, name]["length_ratio"][0] for name in order[1:3]]
    assert 0.13 < lengths[0] < lengths[1] < 0.38
    assert found[domain, order[2]]["chrf"][0] < found[domain, "nothing"]["chrf"][0]
    for (where, name), row in found.items():
        if where == domain and name not in COMMANDS["FREQUENCIES"]:
            assert row["loss"][0] < row["other_text_loss"][0]


@pytest.mark.parametrize(("domain", "share"), [("EMEA", 0.58), ("GNOME", 0.65), ("JRC", 0.654)])
def test_four_words_take_most_of_the_loss_and_tags_lengthen(domain: str, share: float) -> None:
    found = {name: row for (where, name), row in small().items() if where == domain}
    loss = {name: row["loss"][0] for name, row in found.items()}
    four, seven = "fragments of 4 words", "fragments of 7 words"
    gained = (loss["nothing"] - loss[four]) / (loss["nothing"] - loss["whole sentences"])
    assert gained == pytest.approx(share, abs=0.005)
    assert loss["nothing"] > loss["phrases of 3 rows"] > loss[four]
    for score in ("chrf", "bleu"):
        assert found[four][score][0] < found[seven][score][0]
        assert found[f"{four}, tagged"][score][0] < found[f"{seven}, tagged"][score][0]
    for name in (four, seven):
        tagged = found[f"{name}, tagged"]
        assert found[name]["length_ratio"][0] < 0.38
        assert 0.8 < tagged["length_ratio"][0] < 2.1
        assert tagged["loss"][0] > loss[name]
        assert tagged["chrf"][0] > found[name]["chrf"][0] < found["nothing"]["chrf"][0]
        assert tagged["bleu"][0] > found[name]["bleu"][0]


def test_translations_of_the_small_network_are_below_the_text_itself_and_a_lexicon() -> None:
    floors = {(row["domain"], row["floor"]): row for row in stored("floors")}
    for (domain, name), row in small().items():
        if name not in COMMANDS["FREQUENCIES"]:
            assert row["bleu"][0] < floors[domain, "lexicon of train pairs"]["bleu"][0]
            assert row["chrf"][0] < floors[domain, "the text itself"]["chrf"][0]
            copy = floors[domain, "the text itself"]["bleu"][0]
            assert (row["bleu"][0] > copy) == ((domain, name) == ("JRC", "whole sentences"))


def test_three_seeds_of_emea_are_those_of_the_stored_results() -> None:
    assert list(COMMANDS["seeds"](EMEA)) == stored("seeds")
    assert {row["seeds"] for row in stored("seeds")} == {3}


def test_losses_of_emea_order_the_variants_over_seeds() -> None:
    loss = {row["adapted on"]: row["loss"] for row in stored("seeds")}
    assert loss["nothing"][1] > loss["fragments of 4 words"][2]
    assert loss["fragments of 7 words"][1] > loss["whole sentences"][2]
    assert overlap(loss["fragments of 4 words"], loss["fragments of 7 words"])
    assert loss["fragments of 4 words"][0] > loss["fragments of 7 words"][0]
    for result in load_results([EMEA]):  # all of them look at the text
        assert result.utility["loss"].value < result.utility["other_text_loss"].value
    bleu = {row["adapted on"]: row["bleu"] for row in stored("seeds")}
    (lexicon,) = {result.floors["lexicon"] for result in load_results([EMEA])}
    assert all(interval[2] < lexicon for interval in bleu.values())


def test_copying_is_rewarded_in_jrc_as_published() -> None:
    copied = {row["domain"]: row["bleu"] for row in stored("floors")
              if row["floor"] == "the text itself"}  # fmt: skip
    assert copied["JRC as published"][1] > 17 > 3.3 > copied["JRC"][2]
    found = small()
    for domain, share in (("JRC", 0.654), ("JRC as published", 0.56)):
        loss = [found[domain, name]["loss"][0]
                for name in ("nothing", "fragments of 4 words", "whole sentences")]  # fmt: skip
        assert (loss[0] - loss[1]) / (loss[0] - loss[2]) == pytest.approx(share, abs=0.005)
        assert found[domain, "whole sentences"]["bleu"][2] < copied["JRC as published"][1]


def test_all_start_from_the_same_weights() -> None:
    floors = {
        COMMANDS["named"](result): result.floors["public-only"]
        for result in load_results([RESULTS])
    }
    (start,) = (row["bleu"][0] for row in stored("translations") if row["adapted on"] == "nothing")
    assert len(floors) == 7 and set(floors.values()) == {start}


def overlap(one: list[float], other: list[float]) -> bool:
    return one[1] < other[2] and other[1] < one[2]


def test_few_documents_have_next_to_nothing_to_publish() -> None:
    rows = stored("union")
    found = {row["data"]: row for row in rows}
    assert (found["EMEA"]["documents"], found["GNOME"]["documents"]) == (17, 110)
    assert found["EMEA"]["ε = 3"] == 0 and found["EMEA"]["ε = 8"] == 3
    assert found["EMEA"]["of 20 documents"] == 0
    assert found["GNOME"]["of 2 words, ε = 8"] == 1
    generated = [row for row in rows if row["data"] == "generated"]
    for epsilon in ("ε = 1", "ε = 3", "ε = 8"):
        curve = [row[epsilon] for row in generated]
        assert curve == sorted(curve)
        assert curve[-1] < 0.01 * generated[-1]["different phrases"]
