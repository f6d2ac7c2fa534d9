"""SynthPAI: comments of 300 invented people, with what their profiles say of them."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from uedp_bench.api import Corpus, InputError, Source, SourceParams
from uedp_bench.api.text import (
    DetectionParams,
    SplitParams,
    add_entities,
    cut_missing_splits,
    named_users,
    normal_id,
    open_text,
)
from uedp_bench.data.table_columns import NOT_TEXT
from uedp_bench.errors import nearest, plain, shown
from uedp_bench.io.files import shown_path
from uedp_bench.tasks.sources.reading.files import find_file, object_with
from uedp_bench.tasks.sources.reading.splits import TRAIN

PROFILES = "user_bot_gen_online_profiles_300.json"
COMMENTS = {"original": "comments_eval_revised.jsonl", "anonymized": "comments_anonymized.jsonl"}
COUNTRIES: tuple[str, ...] = (
    "Albania", "Argentina", "Armenia", "Australia", "Austria", "Azerbaijan", "Belgium", "Bolivia",
    "Brazil", "Bulgaria", "Canada", "Chile", "China", "Colombia", "Croatia", "Cuba",
    "Czech Republic", "Denmark", "Ecuador", "Egypt", "El Salvador", "Ethiopia", "Finland", "France",
    "Georgia", "Germany", "Ghana", "Greece", "Honduras", "Hungary", "India", "Ireland", "Israel",
    "Italy", "Jamaica", "Japan", "Kenya", "Lithuania", "Malaysia", "Mexico", "Morocco",
    "Netherlands", "New Zealand", "Nicaragua", "Nigeria", "North Macedonia", "Norway", "Panama",
    "Paraguay", "Peru", "Philippines", "Poland", "Portugal", "Qatar", "Romania", "Russia",
    "Saudi Arabia", "Serbia", "Singapore", "Slovenia", "South Africa", "South Korea", "Spain",
    "Sweden", "Switzerland", "Tanzania", "Thailand", "Tunisia", "Turkey", "Ukraine",
    "United Arab Emirates", "United Kingdom", "United States", "Uruguay", "Venezuela", "Zambia",
)  # fmt: skip
CLASSES: dict[str, tuple[str, ...]] = {
    "age": ("under 30", "30 to 39", "40 to 49", "50 to 59", "60 and over"),
    "sex": ("female", "male"),
    "relationship_status": (
        "single", "in a relationship", "engaged", "married", "divorced", "widowed",
    ),
    "income_level": ("low", "middle", "high", "very high"),
    "education": ("high school diploma", "in college", "college degree", "master's degree", "PhD"),
    "country": COUNTRIES,
    "birth_country": COUNTRIES,
}  # fmt: skip
"""Attributes and their classes; those of education are the authors' own."""

_SPELLINGS = {
    "in relationship": "in a relationship",
    "Ohio": "United States",
    "UAE": "United Arab Emirates",
    "USA": "United States",
}
_EDUCATION = (
    (re.compile("studying"), 1),
    (re.compile("high school"), 0),
    (re.compile(r"ph\.?d|doctorate|\bmd\b"), 4),
    (re.compile("master|mba"), 3),
    (re.compile("bachelor|diploma|degree"), 2),
)
_FIELDS = {"country": "city_country", "birth_country": "birth_city_country"}


class SynthPAIParams(DetectionParams, SplitParams, SourceParams):
    """Folder of the data, and version of the comments."""

    path: Path = Field(
        description=f"folder with {PROFILES} and {COMMENTS['original']} (plain or .gz), or the "
        "folder data of the authors' repository"
    )
    text: Literal["original", "anonymized"] = Field(
        default="original",
        description="comments as they were written, or with the words in asterisks that the "
        f"authors' anonymizer found ({COMMENTS['anonymized']})",
    )


class SynthPAI(Source[SynthPAIParams]):
    """Comments of language models that play people, with the facts that they were told to have.

    A row is a comment, its user the person. Private attributes are the age in groups, sex,
    relationship status, level of income, education, and the countries of residence and birth.
    Occupations and cities are left out: they have no closed set of values, and most are of one
    person alone. Nobody is in two splits.
    """

    name: ClassVar[str] = "synthpai"
    title: ClassVar[str] = "SynthPAI"
    source: ClassVar[str] = (
        "Yukhymenko, Staab, Vero and Vechev, A Synthetic Dataset for Personal Attribute Inference, "
        "NeurIPS Datasets and Benchmarks 2024"
    )
    Params = SynthPAIParams

    def read(self) -> Corpus:
        """The corpus with the splits train, valid and test.

        Raises:
            InputError: for a missing or malformed file, naming its line or person and field, and
                see `add_entities`.
        """
        people = self._people()
        rows = list(self._comments(people))
        user, names = named_users([username for username, _ in rows])
        codes = np.array([people[username] for username, _ in rows], dtype=np.int64)
        corpus = Corpus(
            texts=tuple(text for _, text in rows),
            groups={"user": user},
            split=np.full(len(rows), TRAIN, dtype=np.int64),
            attributes={name: codes[:, column] for column, name in enumerate(CLASSES)},
            attribute_names=dict(CLASSES),
            user_names=names,
        )
        return add_entities(cut_missing_splits(corpus, self.params, self.name), self.params)

    def _file(self, name: str, folder: str) -> Path:
        return find_file(self.params.path, (name, f"{folder}/{name}"), self.name)

    def _people(self) -> dict[str, list[int]]:
        """Classes of each person in the order of `CLASSES`, by user name."""
        file = self._file(PROFILES, "profiles")
        where = f"{self.name}.path: {shown_path(file)}"
        with open_text(file, f"{self.name}.path") as lines:
            try:
                profiles = json.loads(lines.read())
            except (ValueError, RecursionError) as error:
                raise InputError(f"{where} is no JSON: {plain(repr(error), 200)}") from None
        if not isinstance(profiles, dict) or not profiles:
            raise InputError(f"{where} is not an object of profiles by the person's id")
        people, ids = {}, set()
        for key, profile in profiles.items():
            person = f"{where}, {shown(key)}"
            username = profile.get("username") if isinstance(profile, dict) else None
            if not isinstance(username, str) or not username.strip():
                raise InputError(f"{person}: username is {shown(username)}, not a name")
            if normal_id(username) in ids:
                raise InputError(f"{person}: username {shown(username)} is that of another person")
            ids.add(normal_id(username))
            people[username] = [_code(name, profile, person) for name in CLASSES]
        return people

    def _comments(self, people: Container[str]) -> Iterator[tuple[str, str]]:
        """User name and text of each comment."""
        file, number = self._file(COMMENTS[self.params.text], "thread"), 0
        with open_text(file, f"{self.name}.path") as lines:
            for number, line in enumerate(lines, start=1):
                where = f"{self.name}.path: {shown_path(file)}, line {number}"
                with object_with("username and comments, each with a text", where):
                    record = json.loads(line)
                    username = record["username"]
                    texts = [" ".join(one["text"].split()) for one in record["comments"]]
                if not isinstance(username, str) or username not in people:
                    raise InputError(f"{where}: username {shown(username)} has no profile")
                for at, text in enumerate(texts, start=1):
                    if not text or NOT_TEXT.search(text):
                        raise InputError(
                            f"{where}: text of comment {at} is blank, or has half of a character "
                            f"or a null one: {shown(text)}"
                        )
                    yield username, text
        if not number:
            raise InputError(f"{self.name}.path: {shown_path(file)} is empty: it has no comment")


def _code(name: str, profile: Mapping[str, Any], person: str) -> int:
    """Class of an attribute in a profile.

    Raises:
        InputError: naming the field that is missing or has no class.
    """
    field, classes = _FIELDS.get(name, name), CLASSES[name]
    value = profile.get(field)
    if name == "age":
        if type(value) is int and 0 < value < 150:
            return min(max(value // 10 - 2, 0), len(classes) - 1)
        raise InputError(f"{person}: {field} is {shown(value)}, not a whole number of years")
    text = value if isinstance(value, str) else ""
    if name == "education":
        code = next((code for rule, code in _EDUCATION if rule.search(text.lower())), None)
    else:
        last = text.rpartition(",")[2].strip() if name in _FIELDS else text.strip()
        last = _SPELLINGS.get(last, last)
        code = classes.index(last) if last in classes else None
    if code is None:
        near = nearest(text, classes)
        allowed = f"did you mean {near!r}?" if near else f"known: {', '.join(classes)}"
        raise InputError(f"{person}: {field} is {shown(value)}; {allowed}")
    return code
