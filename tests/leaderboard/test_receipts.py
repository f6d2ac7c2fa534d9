"""A receipt names all that a stranger needs to compute a run again."""

from __future__ import annotations

from typing import Any

import pytest
from board_results import seeds

from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.leaderboard.validation.receipts import receipt


def ref(name: str, **params: Any) -> ComponentSpec:
    return ComponentSpec(name=name, params=params)


@pytest.mark.parametrize(
    ("change", "rest"),
    [
        ({}, "the run, from its spec. Stated"),
        ({"source": ref("conll2003")}, "The rest: whoever has the data."),
        ({"source": ref("embedded", public=["mine.txt"])}, "whoever has the data."),
        ({"model": ref("gpt2", pretrained="mine")}, "whoever has the model."),
        ({"mechanism": (ref("of-nobody"),)}, "whoever has the code of others."),
        ({"noise_source": "os"}, "The rest: nobody"),
    ],
)
def test_only_a_spec_of_public_parts_is_enough(change: dict[str, Any], rest: str) -> None:
    run = seeds("noiseless", 50.0, source="embedded")[0]
    text = receipt(run.model_copy(update={"spec": run.spec.model_copy(update=change)}))
    assert rest in text
    assert ("the run, from its spec" in text) == (change == {})
