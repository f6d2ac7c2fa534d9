"""Files of other tools: rows by id, nothing proven, and what the tool found and left."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uedp_bench.accounting.ledger import claimed, proven
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, Layer, Spans, row_ids
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.sanitized_elsewhere import SanitizedElsewhere
from uedp_bench.one_run.publishing import publish

STATS = CorpusStats(users=3, rows=3, sensitive_rows=3, entities=3, public=True)
TEXTS = ("today John Smith met Zyx in Oslo", "Mary came home", "it rained", "John Smith left")
GOLD = [(0, 6, 16, 0), (0, 21, 24, 0), (0, 28, 32, 1), (1, 0, 4, 0), (3, 0, 10, 0)]
SAID = {"0": "today [NAME-1] met Zyx in [CITY]", "1": "she came home", "2": "it rained"}


def corpus(**columns: Any) -> Corpus:
    split = np.array([SPLITS.index(name) for name in ("train", "train", "valid", "public")])
    own = {"entities": Spans.build(TEXTS, GOLD), "entity_types": ("PER", "LOC")} | columns
    return Corpus(TEXTS, {"user": np.arange(4)}, split, **own)


def written(folder: Path, texts: dict[str, Any], name: str = "made.jsonl") -> Path:
    file = folder / name
    lines = (json.dumps({"id": row, "text": text}) for row, text in texts.items())
    file.write_text("\n".join(lines) + "\n")
    return file


def published(
    folder: Path, texts: dict[str, Any], of: Corpus | None = None, **params: Any
) -> tuple[Corpus, Run]:
    run = Run(1, STATS)
    live = SanitizedElsewhere.create({"path": str(written(folder, texts)), **params})
    out, _ = publish(live, corpus() if of is None else of, run)
    return out, run


def surfaces(of: Corpus) -> list[tuple[str, str]]:
    kinds = of.entities.type.tolist()
    return [(of.entity_types[kind], of.surface(at)) for at, kind in enumerate(kinds)]


def test_texts_come_from_the_file_whatever_its_order(tmp_path: Path) -> None:
    backwards = dict(reversed(SAID.items()))
    out, run = published(tmp_path, {**backwards, "77": "a test row"})
    assert out.texts == (*SAID.values(), TEXTS[3])  # public rows stay
    assert surfaces(out) == [
        ("PER", "[NAME-1]"), ("PER", "Zyx"), ("LOC", "[CITY]"), ("PER", "she"),
        ("PER", "John Smith"),
    ]  # fmt: skip
    diagnostics = run.diagnostics
    assert (
        diagnostics["rows_published"],
        diagnostics["rows_changed"],
        diagnostics["rows_dropped"],
    ) == (3, 2, 0)
    assert diagnostics["ids_unused"] == 1
    assert diagnostics["words_kept"] == pytest.approx(8 / 12)
    assert diagnostics["words_kept_of_another_row"] == 0
    assert {*diagnostics} - {"simulation_only"} <= {*diagnostics["simulation_only"]}


def test_recall_and_precision_by_type_are_noted(tmp_path: Path) -> None:
    _, run = published(tmp_path, SAID)
    detection = run.diagnostics["detection"]
    assert (detection["recall"]["PER"]["mentions"], detection["recall"]["PER"]["covered"]) == (3, 2)
    assert (detection["recall"]["LOC"]["covered"], detection["recall"]["any"]["recall"]) == (
        1,
        0.75,
    )
    assert {name: each["precision"] for name, each in detection["precision"].items()} == {
        "NAME": 1.0, "CITY": 1.0, "changed": 1.0, "any": 1.0,
    }  # fmt: skip
    # What is changed beside the labels counts against it.
    _, run = published(tmp_path, {**SAID, "2": "it snowed"})
    assert run.diagnostics["detection"]["precision"]["any"]["precision"] == 0.75


def test_a_mention_in_a_longer_changed_piece_is_gone_and_its_row_incomplete(
    tmp_path: Path,
) -> None:
    layer = Layer(Spans.build(TEXTS, GOLD), ("PER", "LOC"), np.ones(4, dtype=bool))
    texts = {**SAID, "1": "[SOMEBODY] home"}  # "Mary came": nobody knows what stands for Mary
    out, _ = published(tmp_path, texts, corpus(layers={"gold": layer}))
    assert ("PER", "[SOMEBODY]") not in surfaces(out)
    assert out.layers["gold"].rows.tolist() == [True, False, True, True]
    assert len(out.layers["gold"].spans) == 4
    # What was cut out is gone for certain.
    out, _ = published(tmp_path, {**SAID, "1": "home"}, corpus(layers={"gold": layer}))
    assert out.layers["gold"].rows.all()
    assert len(out.layers["gold"].spans) == 4


def test_a_row_that_is_missing_is_refused_or_dropped(tmp_path: Path) -> None:
    some = {"0": SAID["0"], "2": SAID["2"]}
    with pytest.raises(InputError, match=r"1 of 4 rows.*id '1'.*missing=drop"):
        published(tmp_path, some)
    out, run = published(tmp_path, some, missing="drop")
    assert out.texts == (SAID["0"], SAID["2"], TEXTS[3])
    assert out.origin.tolist() == [0, 2, 3]
    assert run.diagnostics["rows_dropped"] == 1
    with pytest.raises(InputError, match=r"2 of 4 rows.*data export"):  # no training row at all
        published(tmp_path, {"2": "it rained", "x": "y"}, missing="drop")


def test_planted_rows_need_a_file_that_was_made_after_the_planting(tmp_path: Path) -> None:
    """A file with the text that stood there before would show no canary, and so no leak."""
    planted = replace(corpus(), texts=("the secret is 7", *TEXTS[1:]), entities=Spans.none(),
                      origin=np.array([-1, 1, 2, 3]))  # fmt: skip
    with pytest.raises(InputError, match=r"planted 1 .*data export SPEC"):
        published(tmp_path, SAID, planted)
    texts = {**SAID, row_ids(planted)[0]: "the secret is 7"}
    out, run = published(tmp_path, texts, planted)
    assert out.texts[0] == "the secret is 7"
    assert (run.diagnostics["planted_rows"], run.diagnostics["planted_rows_unchanged"]) == (1, 1)


def test_rows_are_found_by_the_ids_of_the_source(tmp_path: Path) -> None:
    named = corpus(ids=("a", "b", "c", ""))
    texts = dict(zip("abc", SAID.values(), strict=True))
    assert published(tmp_path, texts, named)[0].texts[:3] == tuple(SAID.values())
    with pytest.raises(InputError, match=r"3 of 4 rows.*id 'a'.*'0'"):
        published(tmp_path, SAID, named)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}', "row 2.*id '1'"),
        ('{"id": null, "text": "a"}', "row 1.*column 'id'"),
        ('{"id": 1, "body": "a"}', r"sanitized-elsewhere\.text_column.*made\.jsonl.*column 'text'"),
        ('{"id": 1, "text": ["a"]}', r"row 1.*\['a'\].*list"),
        ("", "id_column: .*column 'id'"),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, lines: str, message: str) -> None:
    file = tmp_path / "made.jsonl"
    file.write_text(lines)
    with pytest.raises(InputError, match=message):
        publish(SanitizedElsewhere.create({"path": str(file)}), corpus(), Run(1, STATS))


def test_a_null_text_is_an_empty_row(tmp_path: Path) -> None:
    out, run = published(tmp_path, {**SAID, "1": None})
    assert (out.texts[1], run.diagnostics["rows_blank"]) == ("", 1)


def test_other_columns_and_kinds_of_files(tmp_path: Path) -> None:
    file = tmp_path / "made.csv"
    file.write_text("key,clean\n" + "".join(f'{key},"{text}"\n' for key, text in SAID.items()))
    live = SanitizedElsewhere.create(
        {"path": str(file), "id_column": "key", "text_column": "clean"}
    )
    out, _ = publish(live, corpus(), Run(1, STATS))
    assert out.texts[:3] == tuple(SAID.values())


def test_nothing_is_proven_and_the_claim_is_the_users(tmp_path: Path) -> None:
    file = str(written(tmp_path, SAID))
    live = SanitizedElsewhere.create({"path": file, "claimed_epsilon": 3.0, "claimed_unit": "word"})
    (claim,) = claimed(live.claims(STATS), 1e-5)
    assert (claim.epsilon, claim.unit, claim.accountant) == (3.0, "word", "declared by the user")
    (proof,) = proven(live.plan(STATS), delta=1e-5)
    assert proof.epsilon == float("inf")
    assert SanitizedElsewhere.create({"path": file}).claims(STATS) == ()


def test_the_detector_says_what_the_tool_changed(tmp_path: Path) -> None:
    live = SanitizedElsewhere.create(
        {"path": str(written(tmp_path, {"0": SAID["0"], "2": "it rained"})), "missing": "drop"}
    )
    whole = corpus().only("train", "valid")
    detection = live.entity_detector().find(whole)
    named = [
        (whole.texts[r][a:b], detection.types[kind]) for r, a, b, kind in detection.spans.mentions()
    ]
    # A row that was left out hides all that it said.
    assert named == [
        ("John Smith", "NAME"), ("Oslo", "CITY"), ("Mary came home", "changed"),
    ]  # fmt: skip
