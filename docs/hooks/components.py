"""Every registered component has a page in the site, and its place in the navigation.

An entry `KIND/*` of the navigation in mkdocs.yml stands for an overview of the kind and the pages
of all its components. What is written by hand is in `docs/KIND/NAME.md`; what the component
declares is added to it.
"""

from __future__ import annotations

from typing import Any

import component_text
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from uedp_bench.components.registry import REGISTRIES


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of components where the navigation says `KIND/*`."""
    config.nav = with_components(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Generate the pages of all components, with their text written by hand."""
    files.append(File.generated(config, "specs.md", content=component_text.specs()))
    for kind, registry in REGISTRIES.items():
        index = f"{kind}/index.md"
        files.append(File.generated(config, index, content=component_text.overview(kind)))
        for name in registry.names():
            where = f"{kind}/{name}.md"
            by_hand = files.get_file_from_path(where)
            if by_hand is not None:
                files.remove(by_hand)
            text = component_text.page(kind, name, by_hand and by_hand.content_string)
            files.append(File.generated(config, where, content=text))
    return files


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
    pages = [{name: f"{kind}/{name}.md"} for name in REGISTRIES[kind].names()]
    return [f"{kind}/index.md", *pages]
