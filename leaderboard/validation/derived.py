"""What follows from a spec alone: the events that its mechanisms plan, claims, and refusals.

No file that a spec names is opened: a result of a stranger must not decide what is read. What
depends on a corpus in files is therefore not derived.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any, TypeVar

from uedp_bench import registry
from uedp_bench.accounting.events import Claim
from uedp_bench.errors import InputError
from uedp_bench.harness.pipeline import Pipeline
from uedp_bench.leaderboard.validation.components import Named, components
from uedp_bench.leaderboard.validation.identity import of_other_versions
from uedp_bench.leaderboard.validation.report import plain
from uedp_bench.mechanism import CorpusStats, Events
from uedp_bench.results import ComponentSpec, Result

T = TypeVar("T")


@dataclass(frozen=True)
class Unknown:
    """A reason why something does not follow.

    Attributes:
        impossible: the parameters allow no run at all.
    """

    reason: str
    impossible: bool = False


@dataclass(frozen=True)
class Derived:
    """What follows from a spec.

    Attributes:
        events: that a run emits.
        claims: of the papers.
        refusals: why nothing can be proven, as far as mechanisms and source know.
        processed: only what was published with protection is seen by vocabulary and training.
    """

    events: Events | Unknown
    claims: tuple[Claim, ...] | Unknown
    refusals: tuple[str, ...] | Unknown
    processed: bool | Unknown


class _UnknownSizeError(Exception):
    """A size is needed that the file does not state."""


class Sizes(CorpusStats):
    """Public sizes of a corpus, as far as they are known without its files."""

    @staticmethod
    def of(**known: Any) -> Sizes:
        """The sizes that are known; asking for another is an error."""
        every: dict[str, Any] = {f.name: known.get(f.name) for f in fields(CorpusStats)}
        return Sizes(**every)

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if value is None and name in ("users", "rows", "sensitive_rows", "entities", "public"):
            raise _UnknownSizeError
        return value


def derive(result: Result) -> Derived:
    """What follows from the spec of a result, asked once for all results of equal specs."""
    named = components(result.spec)
    for each in named:
        if not each.known and not each.where.startswith("spec.attacks"):
            why = Unknown(f"{each.where} is not known")
            return Derived(why, why, why, why)
    if (older := of_other_versions(result)) is not None:
        why = Unknown(f"{older.where} is of another version than the one installed")
        return Derived(why, why, why, why)
    task: Any = named[0].found
    mechanisms = tuple(json.dumps(ref.model_dump()) for ref in result.spec.mechanism)
    source = json.dumps(result.spec.source.model_dump())
    return _derive(mechanisms, source, _held_out(result, named), task.models is not None)


def pipeline_of(mechanisms: tuple[ComponentSpec, ...]) -> Pipeline:
    """The live mechanisms of a spec.

    Raises:
        InputError: if they do not fit together.
    """
    parts = [registry.mechanisms.create(ref.name, ref.params) for ref in mechanisms]
    return Pipeline.build(parts, registry.mechanisms.create("noiseless"))


def sizes_of(source: ComponentSpec, held_out: int | None) -> Sizes:
    """Sizes of the training split.

    Args:
        source: only one that generates its corpus is asked.
        held_out: users whom attacks keep out of the split; None for an unknown number.
    """
    live = registry.sources.create(source.name, source.params)
    if getattr(live.params, "selects", False):
        return Sizes.of(public=False)  # counted, then
    if live.needs_path:
        return Sizes.of()
    documented = live.documented()
    if documented is None:
        return Sizes.of(public=False)
    known = {field.name: getattr(documented, field.name) for field in fields(CorpusStats)}
    known["users"] = None if held_out is None else documented.users - held_out
    return Sizes.of(**known)


def held_out_users(result: Result) -> int | None:
    """Users whom the attacks of a result kept out of the training split; None if it is not said."""
    return _held_out(result, components(result.spec))


def _held_out(result: Result, named: list[Named]) -> int | None:
    held = 0
    for each in named:
        if not each.where.startswith("spec.attacks"):
            continue
        if each.found is None:
            return None
        if getattr(each.found, "holds_out", False):
            users = result.details.get(each.ref.name, {}).get("users")
            count = users.get("non_members") if isinstance(users, dict) else None
            if not isinstance(count, int):
                return None
            held += count
    return held


@lru_cache(maxsize=256)
def _derive(
    mechanisms: tuple[str, ...], source: str, held_out: int | None, trains: bool
) -> Derived:
    """See `derive`; components as JSON, and whether the task trains anything."""
    refs = tuple(ComponentSpec.model_validate(json.loads(text)) for text in mechanisms)
    origin = ComponentSpec.model_validate(json.loads(source))
    pipeline = ask(lambda: pipeline_of(refs))
    sizes = ask(lambda: sizes_of(origin, held_out))
    if isinstance(pipeline, Unknown):
        return Derived(pipeline, pipeline, pipeline, pipeline)
    if isinstance(sizes, Unknown):
        return Derived(sizes, sizes, sizes, sizes)
    return Derived(
        ask(partial(_planned, pipeline, sizes, trains)),
        ask(partial(pipeline.claims, sizes)),
        ask(partial(_refusals, pipeline, sizes, origin)),
        ask(partial(pipeline.only_processes, sizes)),
    )


def _planned(pipeline: Pipeline, sizes: Sizes, trains: bool) -> Events:
    events = pipeline.plan(sizes)
    if trains:
        return events
    stage = pipeline.stage_of(pipeline.trainer)  # the mechanism had nothing to train
    return tuple(event for event in events if event.stage != stage)


def _refusals(pipeline: Pipeline, sizes: Sizes, source: ComponentSpec) -> tuple[str, ...]:
    live = registry.sources.create(source.name, source.params)
    return (*pipeline.refusals(sizes), *live.refusals())


def ask(question: Callable[[], T]) -> T | Unknown:
    """Asks components, which may be anybody's code, and turns their errors into a reason."""
    try:
        return question()
    except _UnknownSizeError:
        return Unknown("it depends on sizes of the corpus, which the file does not state")
    except InputError as reason:
        return Unknown(plain(str(reason), 200), impossible=True)
    except Exception as reason:
        return Unknown(plain(f"{type(reason).__name__}: {reason}", 200))
