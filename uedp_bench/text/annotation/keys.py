"""Keys of a register, such as Wikipedia's infoboxes, and the tags that mark their values.

Hathurusinghe, Nejadgholi and Bolic, A Privacy-Preserving Approach to Extraction of Personal
Information through Automatic Annotation and Federated Learning, PrivateNLP 2021, table 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from uedp_bench.components.component import Params
from uedp_bench.corpus.normal_form import normal_surface

Kind = Literal["date", "person", "organisation", "place"]
"""Kind of a value, which decides its comparison with a phrase of a text."""


class RecordTag(Params):
    """Records whose values a tag marks."""

    keys: tuple[str, ...] = Field(
        min_length=1, description="keys of the records whose values it marks; case does not matter"
    )
    kind: Kind = Field(
        description="what the values are: dates agree as dates, persons by parts of their names, "
        "the others as a whole"
    )


WIKIPII: Mapping[str, RecordTag] = {
    "BD": RecordTag(keys=("Born", "Born:"), kind="date"),
    "PR": RecordTag(
        keys=("Parent", "Parent(s)", "Parents", "Father", "Father's name", "Mother",
              "Mother's name"),
        kind="person",
    ),
    "SP": RecordTag(keys=("Spouse", "Spouse(s)", "Spouses"), kind="person"),
    "CH": RecordTag(keys=("Children",), kind="person"),
    "ED": RecordTag(
        keys=("Education", "High school", "High school:", "Law School", "School", "Schools",
              "College", "College(s)", "Colleges", "Alma mater", "Almat mater"),
        kind="organisation",
    ),
}  # fmt: skip
"""Tags of the paper: birth date, parents, spouses, children and education. Its table 1, as it is
printed."""


def normalise_key(key: str) -> str:
    """A key in one case and with single spaces, without the colon at its end."""
    return normal_surface(key.replace("’", "'")).rstrip(" :")


def tags_by_key(tags: Mapping[str, RecordTag]) -> dict[str, str]:
    """RecordTag by normalised key.

    Raises:
        ValueError: if a key belongs to two tags.
    """
    tag_names: dict[str, str] = {}
    for name, tag in tags.items():
        for key in tag.keys:
            other = tag_names.setdefault(normalise_key(key), name)
            if other != name:
                raise ValueError(f"the key {key!r} belongs to two tags, {other} and {name}")
    return tag_names
