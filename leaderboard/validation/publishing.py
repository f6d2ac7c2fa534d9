"""Results in public: what pages leave out, and notes for a submitter before publication."""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from uedp_bench.contracts.results import ComponentSpec, FailedAttack, Result, SkippedAttack
from uedp_bench.leaderboard.validation.report import Problem, note, place, shown, texts_within
from uedp_bench.one_run.private_data import KEY

_NAMED = ("details", "diagnostics", "selection", "provenance", "pretraining", "leakage", "utility")
"""Fields in which classes of a source can stand."""

_FEW = 3
# It begins where a run of characters does, and gives none back: else long texts take hours.
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+")
_NOBODY = {"root", "user", "users", "admin", "runner", "ubuntu", "debian", "localhost", "test"}
"""Names of accounts and machines that name nobody."""

_TOO_SHORT = 4
"""Letters of a machine's or an account's name that words have by chance."""


def check_publishing(result: Result) -> Iterator[Problem]:
    """Notes on people, accounts, machines and addresses that the result names."""
    data = result.model_dump(mode="json")
    for field in _NAMED:
        yield from _people(data[field], (field,))
    local_names = _local_names()
    for where, text in texts_within(data):
        if match := _ADDRESS.search(text):
            yield note(place(where), f"holds an address, {shown(match.group())}")
        for what, name in local_names:
            if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.IGNORECASE):
                yield note(place(where), f"{shown(text)} holds the name of {what}, {shown(name)}")


def private_text_notes(result: Result) -> tuple[str, ...]:
    """Sentences about private text: in the folder of the run, and in the result itself."""
    out = [f"the folder of the run holds {kind}: {text}" for kind, text in result.stored.items()
           if isinstance(text, str)]  # fmt: skip
    if out:
        out.append("only result.json is to be published: the rest of the folder stays with you")
    if _canaries(result.details):
        out.append("result.json holds the texts of its canaries (details)")
    private = result.diagnostics.get(KEY)
    if isinstance(private, list) and private:
        out.append(
            "result.json holds values that are functions of private rows "
            f"(diagnostics.{KEY} lists them): publish them where the text is public or invented"
        )
    return tuple(out)


# ------------------------------------------------------------------------------------------ people


def _people(value: Any, where: tuple[Any, ...]) -> Iterator[Problem]:
    """Lists and objects whose entries look like names of people."""
    if isinstance(value, dict):
        yield from _crowd(list(value), where)
        for name, part in value.items():
            yield from _people(part, (*where, name))
    elif isinstance(value, list):
        texts = [part for part in value if isinstance(part, str)]
        if len(texts) == len(value):
            yield from _crowd(texts, where)
            return
        for at, part in enumerate(value):
            yield from _people(part, (*where, at))


def _crowd(names: list[str], where: tuple[Any, ...]) -> Iterator[Problem]:
    """A note on several names of which most look like those of people, or some surely."""
    full = [name for name in names if _parts(name) and all(map(_is_name, _parts(name)))]
    sure = [name for name in full if len([part for part in _parts(name) if len(part) > 1]) > 1]
    full = [name for name in full if len(max(_parts(name), key=len)) > 1]
    if len(sure) < 2 and not (len(full) >= _FEW and 2 * len(full) > len(names)):
        return
    people = sure if len(sure) >= 2 else full
    first = ", ".join(shown(name) for name in people[:_FEW])
    more = ", ..." if len(people) > _FEW else ""
    what = f"{len(people)} of {len(names)} classes or keys look like names of people: {first}{more}"
    yield note(place(where), f"{what}; a result is published with them")


def _parts(name: str) -> list[str]:
    """The words of a name, however they are joined: AaronPressman, aaron_pressman."""
    if len(name) > 60:
        return []
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    parts = [part for part in re.split(r"[\s_.,-]+", apart) if part]
    return parts if 0 < len(parts) <= 4 and all(part.isalpha() for part in parts) else []


def _is_name(part: str) -> bool:
    """True if a word is a common given name or surname, or an initial."""
    return len(part) == 1 or part.lower() in _known_names()


@cache
def _known_names() -> frozenset[str]:
    from faker.providers.person.en_US import Provider

    return frozenset(str(name).lower() for name in (*Provider.first_names, *Provider.last_names))


# ------------------------------------------------------------------------------ machines and texts


def _local_names() -> list[tuple[str, str]]:
    """Names of this machine and account: most results are checked where they were made."""
    names = []
    with suppress(Exception):  # some systems have no account of that number
        names.append(("your account", getpass.getuser()))
    with suppress(OSError):
        names.append(("this machine", socket.gethostname()))
    return [
        (what, name)
        for what, name in names
        if len(name) >= _TOO_SHORT and name.lower() not in _NOBODY
    ]


def _canaries(details: Mapping[str, Any]) -> bool:
    listed = [part_details.get("canaries") for part_details in details.values()]
    return any(
        isinstance(part, dict) and isinstance(part.get("text"), str)
        for canaries in listed
        for part in (canaries if isinstance(canaries, list) else ())
    )


_PART = r"[^\s\"'`<>|:;,()\[\]{}/\\]"
PLACE = re.compile(
    # Not within a word, a relative path or the address of a server.
    rf"(?:\b(?:file|sqlite):/{{2,3}}|(?<![\w.~:/\\-]))(?:/|[A-Za-z]:[\\/])(?:{_PART}+[\\/])+"
    rf"({_PART}*)"
)


def published(result: Result) -> Result:
    """The result without paths from the root of a file system, and without stacks of attacks."""
    spec = result.spec
    error, tracking = result.error, dict(result.tracking)
    if not tracking.get("tracking_uri", "").startswith(("http://", "https://")):
        tracking.pop("tracking_uri", None)
    if error is not None:
        error = error.model_copy(update=_within(error.model_dump()))
    return result.model_copy(update={
        "spec": spec.model_copy(update={
            "task": _component(spec.task),
            "source": _component(spec.source),
            "model": _component(spec.model),
            "mechanism": tuple(map(_component, spec.mechanism)),
            "attacks": tuple(map(_component, spec.attacks)),
        }),
        "error": error,
        "skipped_attacks": tuple(
            SkippedAttack(name=one.name, reason=_within(one.reason))
            for one in result.skipped_attacks
        ),
        "failed_attacks": tuple(
            FailedAttack(name=one.name, type=one.type, message=_within(one.message))
            for one in result.failed_attacks
        ),
        "tracking": tracking,
        "provenance": _within(result.provenance),
    })  # fmt: skip


def _component(part: ComponentSpec) -> ComponentSpec:
    return part.model_copy(update={"params": _within(part.params)})


def _within(value: Any) -> Any:
    """Copy of a JSON value with names of files instead of their paths."""
    if isinstance(value, str):  # most have no place for a path, and to look takes longer
        return PLACE.sub(r"\1", value) if "/" in value or "\\" in value else value
    if isinstance(value, dict):
        return {key: _within(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_within(part) for part in value]
    return value
