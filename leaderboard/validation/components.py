"""Components that a spec names, as installed here, and what attacks say of their stored numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic import ValidationError

from uedp_bench.components import registry
from uedp_bench.components.component import Component
from uedp_bench.contracts.leakage import Attack, Planted, StoredLeakage
from uedp_bench.contracts.recorded_identity import parts_of
from uedp_bench.contracts.results import UNPROTECTED, ComponentSpec, Result, RunSpec
from uedp_bench.errors import InputError, UedpBenchError, UnknownNameError
from uedp_bench.leaderboard.validation.report import Problem, error, note, place, plain, shown
from uedp_bench.spec.identity import path_mark


class Named(NamedTuple):
    """A component of a spec.

    Attributes:
        where: field in the result ("spec.mechanism.0").
        ref: name and parameters in the spec.
        kind: registry of the name.
        component: class of the component; None where it is not installed, or does not load.
        reason: reason why there is no class.
    """

    where: str
    ref: ComponentSpec
    kind: registry.Registry[Any]
    component: type[Component[Any]] | None
    reason: str = ""

    @property
    def source(self) -> str | None:
        """Digest of the lone file that it comes from; None of a package, or if it is not here."""
        return None if self.component is None else self.kind.digest(self.ref.name)

    @property
    def has_all_parameters(self) -> bool:
        """True if it is installed, and has every parameter that the spec gives."""
        return (
            self.component is not None
            and self.ref.params.keys() <= self.component.Params.model_fields.keys()
        )

    def names_file(self, parameter: str) -> bool:
        """True if a parameter may name files or folders, whatever its value."""
        if self.component is None or parameter not in self.component.Params.model_fields:
            return False
        return path_mark(self.component, parameter) is not None

    def files(self) -> tuple[str, ...]:
        """Its parameters whose values may be files or folders."""
        return tuple(name for name, value in self.ref.params.items() if self._file(name, value))

    def _file(self, name: str, value: Any) -> bool:
        if self.component is None or name not in self.component.Params.model_fields:
            return False
        mark = path_mark(self.component, name)
        return mark is not None and value not in (None, [], *mark.words)


def components(spec: RunSpec) -> list[Named]:
    """All components of a spec, in the order of its fields."""
    out = [_named("spec.task", spec.task, registry.tasks)]
    out.append(_named("spec.source", spec.source, registry.sources))
    out.append(_named("spec.model", spec.model, registry.models))
    for at, ref in enumerate(spec.mechanism):
        out.append(_named(f"spec.mechanism.{at}", ref, registry.mechanisms))
    for at, ref in enumerate(spec.attacks):
        out.append(_named(f"spec.attacks.{at}", ref, registry.attacks))
    return out


def _named(where: str, ref: ComponentSpec, kind: registry.Registry[Any]) -> Named:
    try:
        return Named(where, ref, kind, kind.get(ref.name))
    except UnknownNameError:
        return Named(where, ref, kind, None, f"no {kind.kind} {shown(ref.name)} is installed here")
    except UedpBenchError as reason:
        return Named(where, ref, kind, None, plain(str(reason), 200))


def check_components(result: Result) -> Iterator[Problem]:
    """Problems where a component lacks a parameter that the spec gives it."""
    if not result.spec.mechanism:
        yield error(
            "spec.mechanism", f"is empty: a run has at least one mechanism ({UNPROTECTED} is one)"
        )
    for named in components(result.spec):
        if named.component is None:
            hint = "give its file with --plugin, or install its package"
            yield note(
                f"{named.where}.name", f"{named.reason}, so nothing of it is checked; {hint}"
            )
            continue
        try:
            named.component.create(named.ref.params)
        except InputError as reason:
            yield error(f"{named.where}.params", str(reason))
        except Exception as reason:  # a validator raised it, which may be anybody's code
            yield error(f"{named.where}.params", f"{type(reason).__name__}: {reason}")


def check_backing(
    result: Result, planted: Mapping[str, Planted] = MappingProxyType({})
) -> Iterator[Problem]:
    """Problems where numbers of attacks do not follow from what the file keeps of them.

    Attacks that left nothing behind (what they need was not there) have no numbers either.

    Args:
        result: result of anybody.
        planted: what attacks planted, by their names, where coins were revealed.
    """
    parts = parts_of(result)
    versions = {} if parts is None else {part.name: part.version for part in parts.attacks}
    for named in components(result.spec):
        if named.component is None or not issubclass(named.component, Attack):
            continue
        name = named.ref.name
        stored = StoredLeakage(
            metrics=result.leakage.get(name, {}),
            details=result.details.get(name, {}),
            lower_bounds={
                at: bound for at, bound in enumerate(result.lower_bounds) if bound.attack == name
            },
            delta=result.spec.delta,
            version=versions.get(name),
            planted=planted.get(name),
        )
        if not (stored.metrics or stored.lower_bounds):
            continue
        try:
            for where, what in named.component.create(named.ref.params).contradictions(stored):
                field, _, rest = where.partition(".")
                own = field in ("details", "leakage")
                yield error(f"{field}.{name}.{rest}" if own else where, what)
        except ValidationError as wrong:
            for each in wrong.errors(include_url=False, include_context=False)[:5]:
                yield error(place(("details", name, *each["loc"])), each["msg"])
        except InputError:
            continue  # of its parameters, which `check_components` looks at
