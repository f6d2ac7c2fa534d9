"""Components by name: entry points, loaded on first use, and a decorator for lone files.

Built-ins register the way strangers do: entry points in the groups `uedp_bench.mechanisms`,
`.attacks`, `.tasks`, `.sources`, `.models` and `.events`. Nothing is imported until its name is
asked for.

Guarantees of components that nobody reviewed are stated, not proven. An accountant computes
guarantees from events. That these happened, and that a row's loss depends on that row alone, rests
on the code of mechanisms, models, tasks and sources, and somebody must have read it. Code of this
package was read; that of others if `reviewed.yaml` names its package and version. A lone file is
never reviewed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from uedp_bench.components.component import Component
from uedp_bench.errors import InputError, PluginLoadError, UnknownNameError
from uedp_bench.io.files import open_regular

C = TypeVar("C", bound=type[Component[Any]])


@dataclass(frozen=True)
class Origin:
    """Origin of a name: an entry point not yet loaded, or a class of a file.

    Attributes:
        where: origin in words.
        load: function that returns the class.
        digest: digest of the source of a lone file (SHA-256, 16 hexadecimal digits); None of a
            package, whose version identifies it.
        package: name and version of the package of an entry point; None of a lone file.
    """

    where: str
    load: Callable[[], Any]
    digest: str | None = None
    package: tuple[str, str] | None = None


class Registry(Generic[C]):
    """The components of one kind.

    Args:
        kind: kind in the singular ("mechanism").
        base: every component must be a subclass of it ("module:Class"): the registry imports none
            of the contracts.
    """

    def __init__(self, kind: str, base: str) -> None:
        self.kind, self.group = kind, f"uedp_bench.{kind}s"
        self._base = base
        self._plugins: dict[str, Origin] = {}

    def register(self, component: C) -> C:
        """Register a class of a file given with `--plugin`; a decorator.

        Raises:
            PluginLoadError: if another component has the name, or no file holds the class.
        """
        name = getattr(component, "name", None)
        file = getattr(sys.modules[component.__module__], "__file__", None)
        if not isinstance(name, str):
            raise PluginLoadError(f"{component.__qualname__} has no name to register it under")
        if file is None:
            raise PluginLoadError(
                f"{component.__qualname__} is defined in a session, and runs are known by the file "
                "of their components: write it into a file (in a notebook: %%writefile mine.py) "
                "and give that file as a plug-in"
            )
        where = f"{file}:{component.__qualname__}"
        taken = self._entries().get(name) or self._plugins.get(name)
        if taken is not None and taken.where != where:
            raise PluginLoadError(
                f"two {self.kind}s are named {name!r}: {taken.where} and {where}; rename one"
            )
        self._plugins[name] = Origin(where, lambda: component, _digest(Path(str(file))))
        return component

    def __contains__(self, name: str) -> bool:
        return name in self._plugins or name in self._entries()

    def names(self) -> tuple[str, ...]:
        """All registered names, sorted; nothing is imported."""
        return tuple(sorted({*self._entries(), *self._plugins}))

    def origin(self, name: str) -> str:
        """Origin of a name ("module:Class (package 1.0)" or "file:Class")."""
        return self._find(name).where

    def digest(self, name: str) -> str | None:
        """Digest of the lone file that a name comes from; None for a package.

        It is that of the file when it was imported: a change of it is another component.
        """
        return self._find(name).digest

    def package(self, name: str) -> tuple[str, str] | None:
        """Name and version of the package that a name comes from; None of a lone file."""
        return self._find(name).package

    def get(self, name: str) -> C:
        """Load the class registered under a name.

        Raises:
            UnknownNameError: if there is none; the message has the nearest name.
            PluginLoadError: if it does not load, or is not of this kind.
        """
        origin = self._find(name)
        try:
            component = origin.load()
        except Exception as error:
            raise PluginLoadError(
                f"the {self.kind} {name!r} ({origin.where}) does not load: "
                f"{type(error).__name__}: {error}"
            ) from error
        base = _resolved(self._base)
        if not (isinstance(component, type) and issubclass(component, base)):
            raise PluginLoadError(
                f"the {self.kind} {name!r} ({origin.where}) is not a {base.__name__}"
            )
        if getattr(component, "name", None) != name:
            raise PluginLoadError(
                f"the {self.kind} {name!r} ({origin.where}) calls itself "
                f"{getattr(component, 'name', None)!r}"
            )
        return component  # type: ignore[return-value]

    def create(self, name: str, params: dict[str, Any] | None = None, **others: Any) -> Any:
        """Create a component with parameters; `others` are further arguments of its constructor.

        Raises:
            UnknownNameError, PluginLoadError, InputError: see `get` and `Component.create`.
        """
        return self.get(name).create(params, **others)

    def _find(self, name: str) -> Origin:
        origin = self._plugins.get(name) or self._entries().get(name)
        if origin is None:
            raise UnknownNameError(self.kind, name, self.names())
        return origin

    def _entries(self) -> dict[str, Origin]:
        return _entries(self.kind, self.group)


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


_resolved = cache(resolve_name)


@cache
def _entries(kind: str, group: str) -> dict[str, Origin]:
    entries: dict[str, tuple[str, Origin]] = {}
    for entry in entry_points(group=group):
        origin = _origin(entry)
        other = entries.get(entry.name)
        if other is not None and other[0] != entry.value:
            raise PluginLoadError(
                f"two {kind}s are named {entry.name!r}: {other[1].where} and {origin.where}; "
                "uninstall one"
            )
        entries[entry.name] = (entry.value, origin)
    return {name: origin for name, (_, origin) in entries.items()}


def _origin(entry: EntryPoint) -> Origin:
    package = (entry.dist.name, entry.dist.version) if entry.dist else None
    named = f" ({' '.join(package)})" if package else ""
    return Origin(f"{entry.value}{named}", cache(entry.load), package=package)


mechanisms: Registry[Any] = Registry("mechanism", "uedp_bench.contracts.mechanism:Mechanism")
"""Mechanisms by name; `@mechanisms.register` adds one from a file given with `--plugin`."""

attacks: Registry[Any] = Registry("attack", "uedp_bench.contracts.leakage:Attack")
"""Attacks by name; `@attacks.register` adds one from a file given with `--plugin`."""

tasks: Registry[Any] = Registry("task", "uedp_bench.contracts.task:Task")
"""Tasks by name; `@tasks.register` adds one from a file given with `--plugin`."""

sources: Registry[Any] = Registry("source", "uedp_bench.contracts.source:Source")
"""Sources by name; `@sources.register` adds one from a file given with `--plugin`."""

# Any component: tasks declare which models they can learn (`Task.models`).
models: Registry[Any] = Registry("model", "uedp_bench.components.component:Component")
"""Models by name; `@models.register` adds one from a file given with `--plugin`."""

events: Registry[Any] = Registry("event", "uedp_bench.accounting.event_contract:Event")
"""Events by kind; `@events.register` adds one from a file given with `--plugin`."""

REGISTRIES: dict[str, Registry[Any]] = {
    "mechanisms": mechanisms,
    "attacks": attacks,
    "tasks": tasks,
    "sources": sources,
    "models": models,
    "events": events,
}


_LOADED: dict[str, str] = {}
"""Digest of each plug-in file as it was imported: a file that has changed is imported anew."""


def loaded_plugins() -> tuple[Path, ...]:
    """Plug-in files that were imported, in their order: another process imports them first."""
    imported = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
    return tuple(Path(file) for file in _LOADED if file in imported)


def _regular(file: Path) -> Path:
    """Resolve a regular file; Python would wait for the end of a pipe or a device."""
    with open_regular(file, "--plugin"):
        return file.resolve()


class _FromText(SourceFileLoader):
    """Loader that compiles the current text of a file.

    Python trusts a compiled copy by the size of the file and the second of its last change: of a
    file that was written twice within a second, it would run the first.
    """

    def get_code(self, fullname: str) -> Any:
        """Compile the text, whatever copies there are."""
        return self.source_to_code(self.get_data(self.path), self.path)


def load_plugins(files: Iterable[Path]) -> None:
    """Import lone plug-in files, whose decorators register their classes.

    Raises:
        InputError: if a file does not exist.
        PluginLoadError: if it does not import.
    """
    for file in files:
        path = _regular(file)
        name, digest = f"uedp_bench_plugin_{path.stem}", _digest(path)
        imported = getattr(sys.modules.get(name), "__file__", None) == str(path)
        if imported and _LOADED.get(str(path)) == digest:
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _FromText(name, str(path))
        if spec is None or spec.loader is None:
            raise InputError(f"--plugin {file}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            _LOADED[str(path)] = digest
        except PluginLoadError:
            raise
        except Exception as error:
            del sys.modules[name]
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in frames if frame.filename == str(path)]
            at = f", line {lines[-1]}," if lines else ""
            raise PluginLoadError(
                f"--plugin {file}{at} does not import: {type(error).__name__}: {error}"
            ) from error


PACKAGE = "uedp-bench"


@cache
def reviewed_packages() -> Mapping[str, tuple[str, ...]]:
    """Versions of other packages that were reviewed, by normalised name.

    Raises:
        InputError: if `reviewed.yaml` is not a mapping of packages to lists of versions.
    """
    from uedp_bench.io.yaml_files import load_yaml

    content = load_yaml(
        files("uedp_bench.components").joinpath("reviewed.yaml").read_text(encoding="utf-8")
    )
    packages = content.get("packages") if isinstance(content, dict) else None
    if not isinstance(packages, dict) or not all(isinstance(v, list) for v in packages.values()):
        raise InputError("reviewed.yaml: packages is a mapping of names to lists of versions")
    return {_normalised(name): tuple(map(str, versions)) for name, versions in packages.items()}


def is_reviewed(kind: Registry[Any], name: str) -> bool:
    """True if the component of a name comes from a package and version that was reviewed."""
    if name not in kind:
        return False
    package = kind.package(name)
    if package is None:
        return False
    title, version = _normalised(package[0]), package[1]
    return title == PACKAGE or version in reviewed_packages().get(title, ())


def not_reviewed(components: Iterable[str]) -> str:
    """Sentence that a stated guarantee carries."""
    return f"stated, and not proven: nobody reviewed {', '.join(components)}"


def _normalised(package: str) -> str:
    return package.lower().replace("_", "-").replace(".", "-")
