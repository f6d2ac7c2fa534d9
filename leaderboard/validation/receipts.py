"""Parts of a result that anybody, or its owner alone, can compute again, and revealed coins."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from uedp_bench.components import registry
from uedp_bench.contracts.recorded_identity import unreviewed_of_result
from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.contracts.source import second_source
from uedp_bench.errors import UedpBenchError
from uedp_bench.leaderboard.boards import is_generated
from uedp_bench.leaderboard.validation.components import check_backing, components
from uedp_bench.leaderboard.validation.report import Problem, error, note, plain, shown

COINS = "provenance.coins"
"""Place of the commitment in a result."""

SCORE_AGAIN = "--spec SPEC --set model.pretrained=FOLDER"
"""Options with which `leaderboard validate --coins` asks the model."""

TOLERANCE = 1e-3
"""Difference, absolute or relative, that other processors and threads explain in a score."""

_LEVELS = ("delta", "confidence", "error")
"""Fields that no model decides and that must be equal: 5e-4 is another delta than 1e-5."""


def receipt(result: Result) -> str:
    """Sentences on who can compute which part of a finished result again, and what is stated."""
    coins, strangers = "coins" in result.provenance, ", ".join(unreviewed_of_result(result))
    live = components(result.spec)
    needs = {
        "the data": coins or bool(_read_from_outside(result.spec)),
        "the model": coins or any(one.kind is registry.models and one.files() for one in live),
        "the code of others": bool(strangers) or any(one.component is None for one in live),
        "the files of its spec": not coins
        and any(one.files() for one in live if one.kind in (registry.mechanisms, registry.attacks)),
    }
    is_secret, needed = result.spec.noise_source == "os", [*filter(needs.get, needs)]
    parts = (
        ("guarantees, from events", bool(result.events)),
        ("lower bounds, from scores", bool(result.lower_bounds)),
        ("planting, once the coins are revealed", coins),
        ("the run, from its spec", not is_secret and not needed),
    )
    anybody = "; ".join(text for text, holds in parts if holds) or "nothing"
    owner = f" The rest: whoever has {' and '.join(needed)}." if needed else ""
    owner = " The rest: nobody, for its noise was secret." if is_secret else owner
    stated = f"; what {strangers} says of itself, which nobody reviewed" if strangers else ""
    return f"Anybody can compute again: {anybody}.{owner} Stated: that events happened{stated}."


def check_coins(path: Path, own: RunSpec | Result | None, result: Result) -> Iterator[Problem]:
    """Problems where a result is not what revealed coins say.

    Planting is computed again from the key. Data are read from a source that the caller names, or
    invented again: a result of anybody may name any file or host. The numbers of canaries that are
    in and out follow from the coins, and bounds from scores; scores are compared with those that
    the caller computed from the model.

    Args:
        path: coins of `uedp-bench plant`.
        own: spec of the caller whose source has the data, or the result of its run with these
            coins; None to invent again what the result says.
        result: result of an attack on a model that was trained elsewhere.
    """
    from uedp_bench.one_run.components import build_sources
    from uedp_bench.one_run.planted_elsewhere import check_attacks, planted_by, read_coins
    from uedp_bench.one_run.planting import load_data

    if result.status == "failed":  # it claims nothing
        return
    coins, commitment = read_coins(path), result.provenance.get("coins")
    if commitment != coins.commitment:
        what = f"{shown(commitment)} is not the commitment of the revealed coins"
        yield error(COINS, f"{what}, {coins.commitment}")
        return
    if not _trained_elsewhere(result):
        yield error(
            COINS, "is of coins that fell before a training elsewhere, and this run trained"
        )
    corpus = result.provenance.get("corpus")
    stored = corpus.get("planted_fingerprint") if isinstance(corpus, dict) else None
    if stored != coins.corpus:
        what = f"{shown(stored)} is not that of the revealed coins, {coins.corpus}"
        yield error("provenance.corpus.planted_fingerprint", what)
    try:
        attacks = [registry.attacks.create(ref.name, ref.params) for ref in result.spec.attacks]
        check_attacks(coins, attacks, path)
    except UedpBenchError as reason:
        yield error("spec.attacks", plain(str(reason), 300))
    planted = {
        name: registry.attacks.get(name).planted_type.model_validate(value)
        for name, value in coins.planted.items()
    }
    yield from check_backing(result, planted)
    opened = f"opens to the revealed coins, which planted for {', '.join(planted)}"
    if isinstance(own, Result):  # its run planted from these coins
        yield note(COINS, opened)
        yield from check_scores(own, result)
        return
    if own is None and (foreign := _read_from_outside(result.spec)):
        what = f"the result names the source {shown(foreign)}, which reads files or the network"
        yield note(COINS, f"planting was not computed again: {what}; name your own by --spec")
        return
    try:
        sources = build_sources(own or result.spec)
        data = load_data(sources)
    except UedpBenchError as reason:
        yield note(COINS, f"planting was not computed again: {plain(str(reason), 200)}")
        return
    try:
        planted_by(coins, sources, data, path)
    except UedpBenchError as reason:
        yield error(COINS, plain(str(reason), 300))
        return
    yield note(COINS, f"{opened}; scores are stated: {SCORE_AGAIN} computes them from the model")


def check_scores(own: Result, result: Result) -> Iterator[Problem]:
    """Problems where utility and leakage of a result are not those that its model gives again.

    Args:
        own: result of the caller's run with the same coins.
        result: result of anybody.
    """
    stored, computed = _measured(result), _measured(own)
    ran, again = ({ref.name for ref in one.spec.attacks} for one in (result, own))
    agreeing = []
    for part in sorted(stored.keys() | computed.keys()):
        differing = _first_difference(stored.get(part), computed.get(part), part)
        attack = part.partition(".")[2]
        if differing is None:
            agreeing.append(part)
        elif part not in stored and attack not in ran:
            yield note(part, "is of an attack of your spec that the result did not run")
        elif part not in computed and attack in ran - again:
            yield note(part, "was not compared: your spec does not run this attack")
        else:
            where, one, other = differing
            yield error(where, f"{shown(one)} is stored, and your model gives {shown(other)}")
    agreement = f"agree within {TOLERANCE:g} with what your model gives"
    yield note("spec.model", f"{', '.join(agreeing) or 'no numbers'} {agreement}")
    recorded, named = (one.provenance.get("identity") for one in (result, own))
    if isinstance(recorded, dict) and isinstance(named, dict):
        for name in ("engine", "task", "model", "attacks", "delta", "seed"):
            if recorded.get(name) != named[name]:
                what = f"{shown(recorded.get(name))} is not the {shown(named[name])}"
                yield note(f"provenance.identity.{name}", f"{what} of your spec and files")


def _measured(result: Result) -> dict[str, Any]:
    """Utility and leakage of a result by their places; parts without a number are left out."""
    fields = result.model_dump(mode="json")
    parts = {f"{field}.{name}": value for field in ("details", "leakage")
             for name, value in fields[field].items()}  # fmt: skip
    parts |= {field: fields[field] for field in ("lower_bounds", "utility")}
    return {part: value for part, value in parts.items() if value}


def _first_difference(one: Any, other: Any, where: str) -> tuple[str, Any, Any] | None:
    """Place and values of the first difference of two parts of results; None where they agree."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        one, other = dict(enumerate(one)), dict(enumerate(other))
    if isinstance(one, dict) and isinstance(other, dict):
        names = [*one, *(name for name in other if name not in one)]
        pairs = ((one.get(name), other.get(name), f"{where}.{name}") for name in names)
        return next(filter(None, itertools.starmap(_first_difference, pairs)), None)
    are_numbers = {type(one), type(other)} <= {int, float}
    if one == other or (
        are_numbers
        and where.rpartition(".")[2] not in _LEVELS
        and math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    ):
        return None
    return where, one, other


def _trained_elsewhere(result: Result) -> bool:
    """True if a mechanism of the run releases a model that was trained on planted text before."""
    parts = (part for part in components(result.spec) if part.kind is registry.mechanisms)
    live = (part.component.create(part.ref.params) for part in parts if part.component)
    return any(getattr(getattr(one, "elsewhere", None), "coins", None) for one in live)


def _read_from_outside(spec: RunSpec) -> str:
    """Name of a source that reads more than its parameters; empty for none.

    A task that is not installed is named itself.
    """
    try:
        second = second_source(spec.task)
    except UedpBenchError:
        return spec.task.name
    for ref in (spec.source, *([] if second is None else [second])):
        source = spec.model_copy(update={"source": ref})
        named = next(part for part in components(source) if part.kind is registry.sources)
        # The records of an annotation may be looked for by a pipeline in a folder.
        if not is_generated(source) or named.files() or ref.params.get("annotate"):
            return ref.name
    return ""
