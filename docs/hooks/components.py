"""Every registered component has a page in the site, and its place in the navigation.

An entry `KIND/*` of the navigation in mkdocs.yml stands for the pages of all components of a
kind.
"""

from __future__ import annotations

from typing import Any

from mkdocs.config.defaults import MkDocsConfig

from uedp_bench.registry import REGISTRIES


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the pages of components where the navigation says `KIND/*`."""
    config.nav = with_components(config.nav)
    return config


def with_components(nav: Any) -> Any:
    """The navigation with `KIND/*` replaced by the pages of the kind's components."""
    if isinstance(nav, dict):
        return {title: with_components(below) for title, below in nav.items()}
    if isinstance(nav, list):
        return [entry for part in nav for entry in _entries(part)]
    return _entries(nav) if _is_kind(nav) else nav


def _is_kind(entry: Any) -> bool:
    return isinstance(entry, str) and entry.endswith("/*")


def _entries(entry: Any) -> list[Any]:
    if not _is_kind(entry):
        return [with_components(entry)]
    kind = entry.removesuffix("/*")
    return [{name: f"{kind}/{name}.md"} for name in REGISTRIES[kind].names()]
