"""Parameters: what is wrong with them is one line that names field, value and range."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pydantic import Field, ValidationError, model_validator

from uedp_bench.components.component import Component, Params
from uedp_bench.errors import InputError


class Fruit(Params):
    weight: float = Field(default=1.0, gt=0, le=10)
    colour: Literal["red", "green"] = "red"
    parts: tuple[int, ...] = ()
    sizes: tuple[int, int] = (1, 2)
    seeds: tuple[int, ...] = Field(default=(1,), min_length=1)
    file: Path | None = None
    origin: str = Field(min_length=1)

    @model_validator(mode="after")
    def _no_heavy_green(self):
        if self.colour == "green" and self.weight > 5:
            raise ValueError("colour green goes with a weight of at most 5")
        return self


class Apple(Component[Fruit]):
    name = "apple"
    Params = Fruit


class Plain(Component[Params]):
    name = "plain"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "'origin'"),
        ({"origin": "x", "wieght": 1}, "'wieght'"),
        ({"origin": "x", "zzz": 1}, "parameters: weight, colour, parts, sizes,"),
        ({"origin": "x", "weight": 0}, "apple.weight is 0:"),
        ({"origin": "x", "weight": 11}, "apple.weight is 11:"),
        ({"origin": "x", "weight": "much"}, "apple.weight is 'much'"),
        ({"origin": "x", "weight": float("nan")}, "apple.weight is nan"),
        ({"origin": "x", "weight": float("-inf")}, "apple.weight is -inf"),
        ({"origin": "x", "colour": "blue"}, "'red' or 'green'"),
        ({"origin": "x", "parts": [1, "a"]}, "apple.parts.1 is 'a'"),
        ({"origin": "x", "sizes": [1]}, "apple.sizes is [1]: part 1, counted from 0, is missing"),
        ({"origin": "x", "file": 3}, "apple.file is 3:"),
        ({"origin": "x", "colour": "green", "weight": 6}, "green"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(values, said):
    with pytest.raises(InputError) as refused:
        Apple.create(values)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_list_of_bad_parts_is_not_called_too_short():
    with pytest.raises(InputError) as refused:
        Apple.create({"origin": "x", "seeds": ["a"]})
    assert "apple.seeds.0 is 'a'" in str(refused.value)
    assert "after validation" not in str(refused.value)
    with pytest.raises(InputError, match=r"apple\.seeds is \[\]: .* 1"):
        Apple.create({"origin": "x", "seeds": []})


def test_every_problem_is_said():
    with pytest.raises(InputError, match=r"weight.*; .*colour.*; .*'origin'"):
        Apple.create({"weight": -1, "colour": "blue"})


def test_defaults_and_given_values():
    apple = Apple.create({"origin": "x", "parts": [1, 2]})
    assert apple.params == Fruit(origin="x", parts=(1, 2))
    assert Plain().params == Params()
    assert Plain.create(None).params == Params()


def test_parameters_are_frozen():
    with pytest.raises(ValidationError):
        Apple.create({"origin": "x"}).params.weight = 2.0
