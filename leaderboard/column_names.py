"""Names of the columns of metrics: KIND.METRIC or ATTACK.METRIC, no two of them the same."""

from __future__ import annotations

import re

RESERVED = ("utility", "cost", "diagnostics", "claimed", "stated", "proven", "at_least", "params",
            "floor", "epsilon_at", "headline", "learned")  # fmt: skip
"""Beginnings of other columns than those of attacks."""


def column_prefix(attack: str) -> str:
    """Beginning of the columns of an attack, whatever it is called.

    No two attacks have one prefix, and no attack that of a kind.
    """
    name = quoted(attack)
    return f"%{name}" if name in RESERVED else name


def quoted(name: str) -> str:
    """A name as a part of a column's name, where a dot divides: no two names become one.

    A dot between a figure and another stays, for names of rates have it: tpr_at_0.1pct_fpr.
    """
    return _DIVIDES.sub("%2E", name.replace("%", "%25"))


_DIVIDES = re.compile(r"(?<!\d)\.|\.(?!\d)")
