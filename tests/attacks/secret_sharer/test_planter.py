"""Parameters of the secret sharer that contradict each other are refused by name."""

from __future__ import annotations

import pytest

from uedp_bench.attacks.secret_sharer.attack import SecretSharer
from uedp_bench.errors import InputError


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"prefix_words": 5}, "prefix_words is 5"),
        ({"p_u": (0.0,)}, "p_u"),
        ({"canarys": 3}, "'canarys'.*'canaries'"),
        ({"entity_spreads": (3, 3)}, r"entity_spreads is \(3, 3\)"),
        ({"entity_spreads": (-1,)}, "entity_spreads"),
        ({"entity_spreads": (1,), "entity_canaries": 0}, "entity_canaries is 0"),
        ({"entity_sentences": 2}, "entity_sentences.*entity_spreads"),
    ],
)
def test_bad_parameters_are_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SecretSharer.create(params)
