"""Tests compare the plots that they draw with those that another machine drew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_NAME = re.compile(r"\b[a-z][0-9a-f]{10}\b")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

APART = 1e-3
"""Two places that are fewer points apart are one: processors differ in how they round."""


def assert_same_drawing(made: Path, stored: Path) -> None:
    """Fails unless two SVG files of matplotlib have the same elements in the same places.

    Names of clips and markers are hashes of places: they count in the order of their appearance.
    """
    (text, places), (told, there) = _parts(made), _parts(stored)
    assert text == told, stored
    assert places == pytest.approx(there, rel=0, abs=APART), stored


def _parts(path: Path) -> tuple[list[str], list[float]]:
    text = path.read_text("utf-8")
    names = {name: f"name {at}" for at, name in enumerate(dict.fromkeys(_NAME.findall(text)))}
    text = _NAME.sub(lambda found: names[found.group()], text)
    return _NUMBER.split(text), [float(number) for number in _NUMBER.findall(text)]
