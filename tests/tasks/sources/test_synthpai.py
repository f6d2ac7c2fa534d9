"""Comments of invented people have the facts of their profiles, and errors name the place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.synthpai import CLASSES, COMMENTS, PROFILES, SynthPAI

PROFILE = {
    "age": 31, "sex": "male", "city_country": "Zurich, Switzerland",
    "birth_city_country": "Cleveland, Ohio", "education": "Masters in Computer Science",
    "occupation": "software engineer", "income": "250 thousand swiss francs",
    "income_level": "very high", "relationship_status": "in relationship", "style": "casual",
}  # fmt: skip
PEOPLE = 20


def profiles() -> dict[str, dict[str, Any]]:
    return {f"pers{at}": PROFILE | {"username": f"Fox{at}"} for at in range(PEOPLE)}


def comments(mark: str = "") -> list[dict[str, Any]]:
    return [
        {"username": f"Fox{at}", "comments": [{"text": f"my  {one}{mark} "} for one in range(3)]}
        for at in range(PEOPLE)
    ]


def write(folder: Path, people: Any = None, rows: Any = None) -> Path:
    (folder / PROFILES).write_text(json.dumps(profiles() if people is None else people))
    lines = [json.dumps(row) for row in (comments() if rows is None else rows)]
    (folder / COMMENTS["original"]).write_text("\n".join(lines))
    return folder


def load(path: Path, **params: Any) -> Corpus:
    return SynthPAI.create({"path": path, **params}).load()


def values(corpus: Corpus, row: int = 0) -> dict[str, str]:
    names = corpus.attribute_names
    return {name: names[name][codes[row]] for name, codes in corpus.attributes.items()}


def test_a_comment_has_the_facts_of_its_person(tmp_path: Path) -> None:
    corpus = load(write(tmp_path))
    assert len(corpus) == 3 * PEOPLE
    assert corpus.texts[:2] == ("my 0", "my 1")
    assert values(corpus) == {
        "age": "30 to 39", "sex": "male", "relationship_status": "in a relationship",
        "income_level": "very high", "education": "master's degree", "country": "Switzerland",
        "birth_country": "United States",
    }  # fmt: skip
    pairs = {*zip(corpus.users.tolist(), corpus.split.tolist(), strict=True)}
    assert len(pairs) == PEOPLE  # nobody is in two splits
    assert {SPLITS[split] for _, split in pairs} == {"train", "valid", "test"}


@pytest.mark.parametrize(
    ("field", "value", "name", "wanted"),
    [
        ("age", 19, "age", "under 30"),
        ("age", 29, "age", "under 30"),
        ("age", 75, "age", "60 and over"),
        ("education", "Ph.D. in Literature", "education", "PhD"),
        ("education", "MD in Medicine", "education", "PhD"),
        ("education", "studying towards a PhD in Physics", "education", "in college"),
        ("education", "Diploma in Nursing", "education", "college degree"),
        ("education", "High school diploma", "education", "high school diploma"),
        ("education", "MBA in Finance", "education", "master's degree"),
        ("city_country", "Abu Dhabi, UAE", "country", "United Arab Emirates"),
    ],
)
def test_values_of_a_profile_fall_into_classes(
    tmp_path: Path, field: str, value: Any, name: str, wanted: str
) -> None:
    people = profiles()
    people["pers0"][field] = value
    assert values(load(write(tmp_path, people)))[name] == wanted


def test_anonymized_comments_are_the_same_rows(tmp_path: Path) -> None:
    """So that ids of rows of one version find those of the other."""
    for part in ("profiles", "thread"):
        (tmp_path / part).mkdir()
    (tmp_path / "profiles" / PROFILES).write_text(json.dumps(profiles()))
    for version, mark in (("original", ""), ("anonymized", "*")):
        lines = "\n".join(json.dumps(row) for row in comments(mark))
        file = tmp_path / "thread" / f"{COMMENTS[version]}.gz"
        file.write_bytes(gzip.compress(lines.encode()))
    original, anonymized = load(tmp_path), load(tmp_path, text="anonymized")
    assert anonymized.texts == tuple(f"{text}*" for text in original.texts)
    assert np.array_equal(anonymized.users, original.users)
    assert np.array_equal(anonymized.split, original.split)


def _set(field: str, value: Any) -> Callable[[dict[str, Any], list[Any]], None]:
    return lambda people, rows: people["pers7"].update({field: value})


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        (_set("age", "31"), "'pers7'.*age.*'31'"),
        (_set("age", True), "'pers7'.*age"),
        (_set("sex", "femal"), "'pers7'.*sex.*'femal'.*'female'"),
        (_set("education", None), "'pers7'.*education.*null|'pers7'.*education.*None"),
        (_set("city_country", "Zurich, Switzerlan"), "'pers7'.*city_country.*'Switzerland'"),
        (_set("username", "fox8\u200b"), "'pers8'.*username"),
        (_set("username", 3), "'pers7'.*username"),
        (lambda people, rows: people.update(pers7=[]), "'pers7'.*username"),
        (lambda people, rows: people.clear(), PROFILES),
        (lambda people, rows: rows.clear(), f"{COMMENTS['original']}.*empty"),
        (lambda people, rows: rows[4].pop("comments"), "line 5.*comments"),
        (lambda people, rows: rows[4].update(comments=[{"text": 1}]), "line 5.*text"),
        (lambda people, rows: rows[4]["comments"].append({"text": " "}), "line 5.*comment 4"),
        (lambda people, rows: rows[4]["comments"].append({"text": "\ud800"}), "line 5.*comment 4"),
        (lambda people, rows: rows[4].update(username="Nobody"), "line 5.*'Nobody'"),
        (lambda people, rows: rows.insert(2, "[[["), "line 3"),
    ],
)  # fmt: skip
def test_malformed_files_are_refused_by_place(tmp_path: Path, spoil: Any, where: str) -> None:
    people, rows = profiles(), comments()
    if where == "'pers8'.*username":
        people["pers8"]["username"] = "fox8"
    spoil(people, rows)
    with pytest.raises(InputError, match=rf"synthpai\.path.*{where}"):
        load(write(tmp_path, people, rows))


def test_a_folder_without_the_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"synthpai\.path.*{PROFILES}"):
        load(tmp_path)
    write(tmp_path)
    with pytest.raises(InputError, match=rf"synthpai\.path.*{COMMENTS['anonymized']}"):
        load(tmp_path, text="anonymized")
    (tmp_path / PROFILES).write_text("{")
    with pytest.raises(InputError, match=rf"synthpai\.path.*{PROFILES}"):
        load(tmp_path)


def test_the_published_files_have_all_people(shared_data: Path) -> None:
    folder = shared_data / "synthpai"
    if not folder.exists():
        pytest.skip("needs synthpai of the shared data")
    original, anonymized = load(folder), load(folder, text="anonymized")
    assert (len(original), original.user_count) == (7785, 300)
    assert np.array_equal(original.users, anonymized.users)
    assert sum("*" in text for text in anonymized.texts) == 5013
    first = np.unique(original.users, return_index=True)[1]
    counts = {
        name: np.bincount(original.attributes[name][first], minlength=len(classes)).tolist()
        for name, classes in CLASSES.items()
    }
    assert counts["sex"] == [150, 150]
    assert counts["relationship_status"] == [62, 37, 34, 76, 52, 39]
    assert counts["income_level"] == [64, 150, 76, 10]
    assert counts["education"] == [21, 38, 90, 103, 48]  # those of the authors
    assert min(counts["birth_country"]) >= 0
    assert sum(counts["country"]) == 300
