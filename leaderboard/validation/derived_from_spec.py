"""Consequences of a spec alone: the events that its mechanisms plan, claims, and refusals.

No file that a spec names is opened: a result of a stranger must not decide what is read. What
depends on a corpus in files is therefore not derived.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any, TypeVar

from uedp_bench.accounting.events import Claim
from uedp_bench.components import registry
from uedp_bench.contracts.clients import Clients
from uedp_bench.contracts.mechanism import Events
from uedp_bench.contracts.results import UNPROTECTED, ComponentSpec, Result
from uedp_bench.contracts.source import CorpusStats, second_source
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.validation.components import components
from uedp_bench.leaderboard.validation.identity import of_other_versions
from uedp_bench.leaderboard.validation.report import plain
from uedp_bench.one_run.pipeline import Pipeline

T = TypeVar("T")


@dataclass(frozen=True)
class Unknown:
    """A reason why something does not follow.

    Attributes:
        impossible: True if the parameters allow no run at all.
    """

    reason: str
    impossible: bool = False


@dataclass(frozen=True)
class Derived:
    """Consequences of a spec.

    Attributes:
        events: events that a run emits.
        claims: claims of the papers.
        refusals: reasons why nothing can be proven, as far as mechanisms and source know.
        processed: True if vocabulary and training see only text published with protection.
    """

    events: Events | Unknown
    claims: tuple[Claim, ...] | Unknown
    refusals: tuple[str, ...] | Unknown
    processed: bool | Unknown


class _UnknownSizeError(Exception):
    """A size is needed that the file does not state."""


_SIZES = {"users", "rows", "sensitive_rows", "entities", "public", "clients"}
"""Sizes that a mechanism may need, and a result may lack."""


class Sizes(CorpusStats):
    """Public sizes of a corpus, as far as they are known without its files."""

    @staticmethod
    def public_only(**sizes: Any) -> Sizes:
        """The sizes that are known; asking for another is an error."""
        every: dict[str, Any] = {f.name: sizes.get(f.name) for f in fields(CorpusStats)}
        return Sizes(**every)

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if value is None and name in _SIZES:
            raise _UnknownSizeError
        return value


def derive(result: Result) -> Derived:
    """Derive the consequences of a result's spec, once for all results of equal specs."""
    for each in components(result.spec):
        if not each.has_all_parameters and not each.where.startswith("spec.attacks"):
            why = Unknown(f"{each.where} is not known")
            return Derived(why, why, why, why)
    if (older := of_other_versions(result)) is not None:
        why = Unknown(f"{older.where} is of another version than the one installed")
        return Derived(why, why, why, why)
    mechanisms = tuple(json.dumps(ref.model_dump()) for ref in result.spec.mechanism)
    source, task = (json.dumps(ref.model_dump()) for ref in (result.spec.source, result.spec.task))
    return _derive(mechanisms, source, held_out_users(result), task, result.spec.clients)


def pipeline_of(mechanisms: tuple[ComponentSpec, ...], task: ComponentSpec) -> Pipeline:
    """The live mechanisms of a spec.

    Raises:
        InputError: if they do not fit together, or to the task.
    """
    parts = [registry.mechanisms.create(ref.name, ref.params) for ref in mechanisms]
    stages = registry.tasks.create(task.name, task.params).private_rows()
    return Pipeline.build(parts, registry.mechanisms.create(UNPROTECTED), stages)


def sizes_of(
    source: ComponentSpec, held_out: int | None, task: ComponentSpec, clients: Clients | None
) -> Sizes:
    """Sizes of the training split, and of that of the task's second source.

    Args:
        source: source of the run; only one that generates its corpus is asked.
        held_out: users whom attacks keep out of the split; None for an unknown number.
        task: task of the run, which may name a second source.
        clients: dealing of the rows to clients.
    """
    second, shares = second_source(task), _shares(clients)
    later = None if second is None else _documented_sizes(second, 0) | {"clients": ()}
    downstream = None if later is None else Sizes.public_only(**later)
    own = _documented_sizes(source, held_out)
    return Sizes.public_only(**own | {"downstream": downstream, "clients": shares})


def _shares(clients: Clients | None) -> tuple[float, ...] | None:
    """Public shares of clients; None where they follow from the kinds of rows alone."""
    if clients is None:
        return ()
    if clients.by == "dirichlet":
        return None
    return tuple(clients.shares().mean(axis=0).tolist())


def _documented_sizes(source: ComponentSpec, held_out: int | None) -> dict[str, Any]:
    live = registry.sources.create(source.name, source.params)
    if getattr(live.params, "selects", False):
        return {"public": False}  # counted, then
    if live.needs_path:
        return {}
    documented = live.documented()
    if documented is None:
        return {"public": False}
    sizes = {field.name: getattr(documented, field.name) for field in fields(CorpusStats)}
    return sizes | {"users": None if held_out is None else documented.users - held_out}


def held_out_users(result: Result) -> int | None:
    """Users whom the attacks of a result kept out of the training split; None if it is not said."""
    held = 0
    for each in components(result.spec):
        if not each.where.startswith("spec.attacks"):
            continue
        if each.component is None:
            return None
        if getattr(each.component, "holds_out", False):
            users = result.details.get(each.ref.name, {}).get("users")
            count = users.get("non_members") if isinstance(users, dict) else None
            if not isinstance(count, int):
                return None
            held += count
    return held


@lru_cache(maxsize=256)
def _derive(
    mechanisms: tuple[str, ...],
    source: str,
    held_out: int | None,
    task: str,
    clients: Clients | None,
) -> Derived:
    """See `derive`; components as JSON."""
    refs = tuple(ComponentSpec.model_validate(json.loads(text)) for text in mechanisms)
    origin, learnt = (ComponentSpec.model_validate_json(text) for text in (source, task))
    pipeline = ask(lambda: pipeline_of(refs, learnt))
    sizes = ask(lambda: sizes_of(origin, held_out, learnt, clients))
    if isinstance(pipeline, Unknown):
        return Derived(pipeline, pipeline, pipeline, pipeline)
    if isinstance(sizes, Unknown):
        return Derived(sizes, sizes, sizes, sizes)
    return Derived(
        ask(partial(pipeline.plan, sizes)),
        ask(partial(pipeline.claims, sizes)),
        ask(partial(_refusals, pipeline, sizes, (origin, learnt))),
        ask(partial(pipeline.only_processes, sizes)),
    )


def _refusals(
    pipeline: Pipeline, sizes: Sizes, parts: tuple[ComponentSpec, ComponentSpec]
) -> tuple[str, ...]:
    """Refusals of the mechanisms and of both sources of a spec: its own, and that of its task."""
    source, task = parts
    second = second_source(task) if any(s.rows == "downstream" for s in pipeline.training) else None
    refs = [source] if second is None else [source, second]
    live = [registry.sources.create(ref.name, ref.params) for ref in refs]
    return (*pipeline.refusals(sizes), *(why for each in live for why in each.refusals()))


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
