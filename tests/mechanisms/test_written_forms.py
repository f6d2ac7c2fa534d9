"""A name that is only written another way is not hidden."""

from __future__ import annotations

import html
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, Layer, Spans
from uedp_bench.mechanisms.sanitized_elsewhere import SanitizedElsewhere
from uedp_bench.one_run.publishing import publish
from uedp_bench.tasks.pii_detection import names_left
from uedp_bench.text.detection import measure

NAMES = ("José Núñez", "Björn Ångström", "Ann O'Neil", "Jean-Luc Roy", "Bo Kim")
TEXTS = tuple(f"Then {name} met us at the mill & fell." for name in NAMES)
STATS = CorpusStats(users=5, rows=5, sensitive_rows=5, entities=5, public=False)


def named(change: Callable[[str], str]) -> Callable[[str], str]:
    """Text with its name changed."""
    return lambda text: f"Then {change(text[5:-26])} met us at the mill & fell."


def entities(text: str) -> str:
    return html.escape(text).encode("ascii", "xmlcharrefreplace").decode()


def accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


FORMS: dict[str, tuple[Callable[[str], str], float, float]] = {
    "the same": (str, 0, 1),
    "decomposed": (lambda text: unicodedata.normalize("NFD", text), 0, 1),
    "without accents": (accents, 0, 1),
    "upper case": (str.upper, 0, 1),
    "soft hyphen": (lambda text: f"{text[:7]}\u00ad{text[7:]}", 0, 1),
    "zero width": (lambda text: f"{text[:6]}\u200b{text[6:]}\ufeff", 0, 1),
    "no-break spaces": (lambda text: text.replace(" ", "\u00a0"), 0, 1),
    "escapes of HTML": (entities, 0, 1),
    "escapes by name": (lambda text: text.replace("é", "&eacute;").replace("ñ", "&ntilde;"), 0, 1),
    "joined": (named(lambda name: name.replace(" ", "_")), 0, 1),
    "half": (named(lambda name: "[PERSON] " + name.split()[1]), 0, 0),
    "masked": (named(lambda name: "**** *****"), 1, 0),
    "initial": (named(lambda name: f"{name[0]}*****"), 1, 0),
    "moved": (lambda text: f"Then someone met us at the mill & fell. ({text[5:-26]})", 1, 1),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_covered_and_which_names_are_left(form: str, tmp_path: Path) -> None:
    change, covered, left = FORMS[form]
    gold = [(row, 5, 5 + len(name), 0) for row, name in enumerate(NAMES)]
    corpus = Corpus(
        TEXTS, {"user": np.arange(5)}, np.full(5, SPLITS.index("train")),
        entities=Spans.build(TEXTS, gold), entity_types=("PER",),
    )  # fmt: skip
    file = tmp_path / "made.jsonl"
    lines = (json.dumps({"id": str(at), "text": change(text)}) for at, text in enumerate(TEXTS))
    file.write_text("\n".join(lines))
    mechanism = SanitizedElsewhere.create({"path": str(file)})
    layer = Layer.build(TEXTS, gold, ("PER",), np.ones(5, dtype=bool))
    detected = measure(TEXTS, layer, mechanism.entity_detector().find(corpus), layer.rows)
    assert detected.recall["any"].recall == covered
    run = Run(1, STATS)
    out, _ = publish(mechanism, corpus, run)
    names = names_left(corpus, layer, out, np.random.default_rng(0))
    assert names is not None
    assert names.utility["names_left"].value == left
    is_same = form in list(FORMS)[:10] and form != "joined"
    assert (run.diagnostics["rows_changed"] == 0) == is_same
