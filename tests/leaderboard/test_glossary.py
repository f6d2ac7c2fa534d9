"""The glossary explains what tables have, and names paper, code and threat model."""

from __future__ import annotations

import re

from board_results import promise, seeds

from uedp_bench.components.registry import mechanisms
from uedp_bench.leaderboard.glossary import (
    TERMS,
    entries,
    glossary_context,
    papers,
    places,
    threat_model,
)
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.site_files import _glossary
from uedp_bench.leaderboard.table_columns import metric_columns


def test_every_mechanism_of_ours_has_summary_code_page_and_threat_model():
    glossary = entries(mechanisms.names(), mechanisms, "docs/mechanisms")
    assert len(glossary) > 20
    for one in glossary:
        assert one.summary and one.source and one.threat, one.name
        assert one.code.startswith("mechanisms/") or not one.code
    (row,) = entries(["dp-sgd"], mechanisms, "docs/mechanisms")
    assert row.papers == (("Abadi et al. 2016", "https://arxiv.org/abs/1607.00133"),)
    assert row.code == "mechanisms/private_training/dp_sgd.py"
    assert row.docs == "docs/mechanisms/dp-sgd.md"
    assert "Parties of its protocol also see" in threat_model(mechanisms.get("cyclic"))


def test_papers_stand_in_the_order_of_the_source():
    assert [name for name, _ in papers("McMahan 2017 (arXiv:1602.05629); Xu et al. 2020, 1")] == [
        "arXiv:1602.05629", "Xu et al. 2020",
    ]  # fmt: skip
    assert papers("baseline") == ()


def test_places_are_told_apart_and_are_ids():
    anchors = places([{"key": "a.b"}, {"key": "a-b"}, {"key": "A b"}, {"key": "</x>"}])
    assert anchors == ["metric-a-b", "metric-a-b-x", "metric-a-b-x-x", "metric-x"]
    assert len({term.key for term in TERMS}) == len(TERMS)


def test_the_page_has_every_column_and_strangers():
    rows = aggregate(seeds("my-mechanism", 50.0, 2.0, guarantees=(promise("proven", 1.0),)))
    columns = metric_columns(rows)
    page = _glossary(rows, False)
    for column in columns:
        assert f'id="{column["place"]}"' in page
    assert "It is not installed where this page was made." in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert glossary_context([], [])["mechanisms"] == []
