"""Components that were reviewed: guarantees of all others are stated, not proven.

An accountant computes guarantees from events. That these happened, and that a row's loss depends on
that row alone, rests on the code of mechanisms, models, tasks and sources, and somebody must have
read it. Code of this package was read; that of others if `reviewed.yaml` names its package
and version. A lone file is never reviewed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from uedp_bench.components import registry

PACKAGE = "uedp-bench"


@cache
def reviewed_packages() -> Mapping[str, tuple[str, ...]]:
    """Versions of other packages that were reviewed, by normalised name.

    Raises:
        InputError: if `reviewed.yaml` is not a mapping of packages to lists of versions.
    """
    from uedp_bench.errors import InputError
    from uedp_bench.io.yaml_files import load_yaml

    content = load_yaml(
        files("uedp_bench.components").joinpath("reviewed.yaml").read_text(encoding="utf-8")
    )
    packages = content.get("packages") if isinstance(content, dict) else None
    if not isinstance(packages, dict) or not all(isinstance(v, list) for v in packages.values()):
        raise InputError("reviewed.yaml: packages is a mapping of names to lists of versions")
    return {_normalised(name): tuple(map(str, versions)) for name, versions in packages.items()}


def is_reviewed(kind: registry.Registry[Any], name: str) -> bool:
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
