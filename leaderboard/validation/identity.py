"""The id: a hash of the spec, the versions of its components, and the corpus."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pydantic import ValidationError

from uedp_bench.components.metric import Metric
from uedp_bench.contracts.recorded_identity import SINGLE, Part, Parts, identity_of, parts_of
from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.rows import fingerprint
from uedp_bench.leaderboard.validation.components import Named, components
from uedp_bench.leaderboard.validation.report import Problem, error, note, place, shown
from uedp_bench.spec.identity import identity_parts
from uedp_bench.version import ENGINE

_RECORDED = "provenance.identity"
HASH = re.compile(r"[0-9a-f]{16}")
_MOST_VERSIONS = 1000
"""Combinations of older versions that are tried for a result that does not record its own."""


def check_identity(result: Result) -> Iterator[Problem]:
    """Problems where id or group is not the hash of what it is said to be a hash of."""
    for name, value in (("id", result.id), ("group", result.group)):
        if not HASH.fullmatch(value):
            yield error(name, f"{shown(value)} is no id: 16 of the characters 0-9 and a-f")
    recorded = result.provenance.get("identity")
    if recorded is None:
        yield from _recomputed(result)
        return
    try:
        parts = Parts.from_record(recorded)
    except ValidationError as wrong:
        for each in wrong.errors(include_url=False, include_context=False):
            message = "is missing" if each["type"] == "missing" else each["msg"]
            yield error(place((_RECORDED, *each["loc"])), message)
        return
    yield from _hashed(result, recorded)
    yield from _agrees(result, parts)
    if parts.engine != ENGINE:
        yield note(
            f"{_RECORDED}.engine",
            f"is {parts.engine}, and {ENGINE} is installed: numbers of different versions of what "
            "computes do not compare",
        )
    recorded_parts = dict(parts.components())
    for named in components(result.spec):
        where = named.where.removeprefix("spec.")
        if where in recorded_parts:
            yield from _component(named, f"{_RECORDED}.{where}", recorded_parts[where])


def of_other_versions(result: Result) -> Named | None:
    """A mechanism or source that the result records in another version or file than is here."""
    for named in components(result.spec):
        decides = named.where.startswith(("spec.mechanism", "spec.source"))
        if decides and named.component is not None and not _is_installed(result, named):
            return named
    return None


def _is_installed(result: Result, named: Named) -> bool:
    """True unless the result records a component in another version or file than is here."""
    parts = parts_of(result)
    part = dict(parts.components()).get(named.where.removeprefix("spec.")) if parts else None
    if part is None or named.component is None:
        return named.component is not None
    return (part.version, part.source) == (named.component.version, named.source)


def task_version(result: Result) -> int | None:
    """The version of the task that a result follows from; None where its id does not tell."""
    if (recorded := parts_of(result)) is not None:
        return recorded.task.version
    corpus = fingerprint(result)
    if corpus is None or not all(each.has_all_parameters for each in components(result.spec)):
        return None
    parts = _match(_unrecorded(result, corpus), result.id)
    return None if parts is None else int(parts["task"][1])


def _hashed(result: Result, recorded: Mapping[str, Any]) -> Iterator[Problem]:
    identifier, group = identity_of(recorded)
    for name, stored, hashed in (("id", result.id, identifier), ("group", result.group, group)):
        if stored != hashed:
            yield error(
                name, f"{shown(stored)} is not the hash of {_RECORDED}, which is {hashed!r}"
            )


def _agrees(result: Result, parts: Parts) -> Iterator[Problem]:
    """Problems where recorded parts are not those of the spec; components aside."""
    spec = result.spec
    selection = None if spec.selection is None else spec.selection.declared()
    clients = None if spec.clients is None else spec.clients.model_dump(mode="json")
    corpus = fingerprint(result)
    if corpus is None and result.status == "failed":
        corpus = parts.corpus  # the run failed before there was one, or did not say
    second = fingerprint(result, "downstream")
    if second is None and result.status == "failed":
        second = parts.downstream
    for name, recorded, specified, where in (
        ("seed", parts.seed, spec.seed, "spec.seed"),
        ("delta", parts.delta, spec.delta, "spec.delta"),
        ("noise_source", parts.noise_source, spec.noise_source, "spec.noise_source"),
        ("clients", parts.clients, clients, "spec.clients"),
        ("selection", parts.selection, selection, "spec.selection"),
        ("corpus", parts.corpus, corpus, "provenance.corpus.fingerprint"),
        ("downstream", parts.downstream, second, "provenance.downstream.fingerprint"),
    ):
        if recorded != specified:
            yield error(
                where, f"{shown(specified)} is not the {shown(recorded)} of {_RECORDED}.{name}"
            )
    for name in ("mechanism", "attacks"):
        in_spec, in_parts = len(getattr(spec, name)), len(getattr(parts, name))
        if in_spec != in_parts:
            yield error(
                f"spec.{name}", f"has {in_spec} components, and {_RECORDED}.{name} has {in_parts}"
            )


def _component(named: Named, where: str, part: Part) -> Iterator[Problem]:
    """Problems where a recorded component is not that of the spec, in the installed version."""
    name, version, params, source = part
    if name != named.ref.name:
        yield error(
            f"{named.where}.name", f"{shown(named.ref.name)} is not the {shown(name)} of {where}"
        )
        return
    if named.component is not None and version != named.component.version:
        yield note(
            where,
            f"the {named.kind.kind} {name} had version {version}, and version "
            f"{named.component.version} is installed: results of different versions do not compare",
        )
    elif source != named.source:
        yield note(where, _other_source(named, source))
    for parameter in sorted({*params, *named.ref.params}):
        recorded = params.get(parameter, _LEFT_OUT)
        specified = named.ref.params.get(parameter, _LEFT_OUT)
        if recorded == specified or (
            named.names_file(parameter) and _stands_for(recorded, specified)
        ):
            continue
        if _is_source(recorded, specified):
            continue
        at = f"{named.where}.params.{parameter}"
        if named.component is None and _stands_for(recorded, specified):
            yield note(
                at, f"is {shown(specified)}, and {shown(recorded)} in {where}: a file, perhaps"
            )
        else:
            yield error(at, f"{shown(specified)} is not the {shown(recorded)} of {where}")


def _other_source(named: Named, source: str | None) -> str:
    """Message that a component came from another file than the installed one."""
    what = f"the {named.kind.kind} {named.ref.name}"
    if named.component is None:
        return f"{what} came from a lone file ({source}): give it with --plugin to check the rest"
    installed = "a package" if named.source is None else f"a file with the digest {named.source}"
    origin = "a package" if source is None else f"a file with the digest {source}"
    return (
        f"{what} came from {origin}, and is {installed} here: "
        "results of different code do not compare"
    )


_LEFT_OUT = "missing"


def _stands_for(recorded: Any, specified: Any) -> bool:
    """True if a recorded value may be what the files hold that a parameter names."""
    if (
        isinstance(recorded, list)
        and isinstance(specified, list)
        and len(recorded) == len(specified)
    ):
        return all(a == b or _stands_for(a, b) for a, b in zip(recorded, specified, strict=True))
    digest = isinstance(recorded, str) and HASH.fullmatch(recorded) is not None
    return digest or recorded == _LEFT_OUT


def _is_source(recorded: Any, specified: Any) -> bool:
    """True if a recorded second source may be the one that a parameter names, but for paths."""
    match recorded, specified:
        case [name, _, dict(params), *digest], {"name": specified_name, "params": dict(others)}:
            same = name == specified_name and len(digest) < 2
            return same and params.items() <= others.items()
    return False


def _recomputed(result: Result) -> Iterator[Problem]:
    """Hashes the spec again of a result that does not record what its id is a hash of."""
    named = components(result.spec)
    corpus = fingerprint(result)
    if corpus is None and result.status == "finished":
        return  # another check says what is missing
    unknown = [each for each in named if not each.has_all_parameters]
    if unknown:
        yield note(
            "id", f"not checked: {_RECORDED} is missing, and {unknown[0].where} is not known"
        )
        return
    parts = _unrecorded(result, corpus or "")
    versions = _match(parts, result.id)
    files = [f"{each.where}.params.{name}" for each in named for name in each.files()]
    outside = [name for name in files if not name.startswith("spec.source")]
    if versions is None:
        if outside or corpus is None:
            why = f"{outside[0]} may name a file" if outside else "the run failed without a corpus"
            yield note("id", f"not checked: {_RECORDED} is missing, and {why}")
        else:
            yield error("id", f"{shown(result.id)} does not follow from the spec and the corpus")
        return
    if versions != parts:
        yield note("id", "follows from older versions of components than those installed: results "
                   "of different versions do not compare")  # fmt: skip
    if (group := identity_of(versions)[1]) != result.group:
        yield error("group", f"{shown(result.group)} is not the {group!r} of the spec without seed")


def _unrecorded(result: Result, corpus: str) -> dict[str, Any]:
    """Identity of a result that records none: it is older than the version of the engine."""
    parts = identity_parts(result.spec, corpus, lambda value, mark: value)
    del parts["engine"]
    parts.pop("unprotected", None)
    return parts


def _match(parts: dict[str, Any], identifier: str) -> dict[str, Any] | None:
    """The parts at the versions that have this id; None where none have."""
    every = [parts[kind] for kind in SINGLE] + parts["mechanism"] + parts["attacks"]
    cut = len(SINGLE) + len(parts["mechanism"])
    older = itertools.product(*(range(part[1], min(part[1], 1) - 1, -1) for part in every))
    for versions in itertools.islice(older, _MOST_VERSIONS):
        then = [[p[0], version, *p[2:]] for p, version in zip(every, versions, strict=True)]
        tried = parts | dict(zip(SINGLE, then, strict=False))
        tried |= {"mechanism": then[len(SINGLE) : cut], "attacks": then[cut:]}
        if identity_of(tried)[0] == identifier:
            return tried
    return None


_MOST_NAME = 100
"""Characters of a metric's name."""


def check_declarations(result: Result) -> Iterator[Problem]:
    """Problems where metrics are declared otherwise than their components do.

    A result from before there were declarations has none: those of the components stand.
    """
    own = result.metrics
    if own is None:
        return
    task, _, _, *others = components(result.spec)
    mechanisms = [each for each in others if each.where.startswith("spec.mechanism")]
    attacks = {each.ref.name: each for each in others if each.where.startswith("spec.attacks")}
    lists: list[tuple[str, tuple[Metric, ...], Mapping[str, Any], list[Named]]] = [
        ("metrics.utility", own.utility, result.utility, [task]),
        ("metrics.cost", own.cost, result.cost.model_dump(exclude_none=True), mechanisms),
    ]
    for name in dict.fromkeys([*result.leakage, *own.leakage]):
        where = f"metrics.leakage.{name}"
        if name not in result.leakage:
            yield error(where, "is of no attack that ran")
        elif name in attacks:
            listed = own.leakage.get(name, ())
            lists.append((where, listed, result.leakage[name], [attacks[name]]))
    for where, listed, measured, parts in lists:
        yield from _form(where, listed)
        if listed and all(each.component is not None for each in parts):
            yield from _compared(where, listed, measured, parts, result)
    if result.headline is not None:
        ranks = "higher" if result.headline.larger_is_better else "lower"
        for at, one in enumerate(own.utility):
            if one.name == result.headline.metric and one.better != ranks:
                what = f"{shown(one.better)} is not the {ranks!r} of the headline"
                yield error(f"metrics.utility.{at}.better", what)


def _form(where: str, listed: Sequence[Metric]) -> Iterator[Problem]:
    names = [one.name for one in listed]
    for at, name in enumerate(names):
        if not 0 < len(name) <= _MOST_NAME or not name.isprintable():
            what = f"{shown(name)} is no name of 1 to {_MOST_NAME} printable characters"
            yield error(f"{where}.{at}.name", what)
        if name in names[:at]:
            yield error(f"{where}.{at}.name", f"{shown(name)} is there twice")


def _compared(
    where: str,
    listed: Sequence[Metric],
    measured: Iterable[str],
    parts: Sequence[Named],
    result: Result,
) -> Iterator[Problem]:
    """Problems where listed declarations are not those of the parts, which are installed."""
    declared: dict[str, Metric] = {}
    for each in parts:
        declared |= {one.name: one for one in each.component.metrics} if each.component else {}
    who = " and ".join(each.ref.name for each in parts)
    same = all(_is_installed(result, each) for each in parts)
    names = [one.name for one in listed]
    # A metric that a component learned to compute later is in no older result of its version.
    later = [one for one in declared.values() if one.name not in names]
    hidden = any(one.reads(name) for one in later for name in measured)
    if same and (hidden or names != [name for name in declared if name in names]):
        yield error(where, f"does not declare the metrics that {who} declares: {_MEND}")
        return
    for at, one in enumerate(listed):
        if (theirs := declared.get(one.name)) is None or theirs == one:
            continue
        field, value, right = _difference(one, theirs)
        what = f"{shown(value)} is not the {shown(right)} that {who} declares"
        if same or one.better != theirs.better:
            yield error(f"{where}.{at}.{field}", f"{what}: {_MEND}")
        else:
            yield note(f"{where}.{at}.{field}", f"{what} in the version that is installed")


_MEND = "leave the entry out, and its own declarations stand"


def _difference(one: Metric, other: Metric) -> tuple[str, Any, Any]:
    """The first field in which two declarations differ, direction before all others."""
    mine, theirs = asdict(one), asdict(other)
    field = next(name for name in ("better", *mine) if mine[name] != theirs[name])
    return field, mine[field], theirs[field]
