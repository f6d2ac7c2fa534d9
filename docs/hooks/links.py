"""Links of the pages, which are written for the repository, lead somewhere in the site too.

Pages stay where they are and link to each other by relative paths. Three kinds of links leave
`docs/`: to a page at the top of the repository, which the site has under `project/`; to a file of
code, which the site shows on a page of its own; and to a folder, which it has no page for, so that
the text stays and the link goes. A link to a folder of pages leads to the overview of the folder. A
link to what is not there is left as it is, and a strict build fails on it.
"""

from __future__ import annotations

import os
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from uedp_bench.leaderboard.site_files import named

TOP_PAGES = {
    "README.md": "project/overview.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
}
"""Pages at the top of the repository, and where the site has them."""

_FENCE = re.compile(r"^ *(```+|~~~+)")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_LOADED = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=["']?(https?:[^"' >]+)""")
_UNSEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".toml": "toml"}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the version and the declared address to the footer; let readers choose among versions.

    The address is that of `[project.urls]`: an empty one adds nothing. mike sets the variable where
    it builds the pages of one version beside others; elsewhere there is nothing to choose.
    """
    project = tomllib.loads((repository(config) / "pyproject.toml").read_text("utf-8"))["project"]
    address = named(project["urls"])["repository"]
    link = f' · <a href="{escape(address)}">Repository</a>' if address else ""
    config.copyright = f"{project['version']} · {config.copyright}{link}"
    if "MIKE_DOCS_VERSION" in os.environ:
        config.extra["version"] = {"provider": "mike"}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages at the top of the repository, and a page for each file that is linked to."""
    root = repository(config)
    for name, where in TOP_PAGES.items():
        files.append(File.generated(config, where, content=(root / name).read_text("utf-8")))
    for path in sorted(_files_linked_to(files, root)):
        language = _LANGUAGES.get(path.suffix, "text")
        name = path.relative_to(root).as_posix()
        code = f"````{language}\n{path.read_text('utf-8')}\n````\n"
        text = f"{_UNSEARCHED}# {path.name}\n\n`{name}` of the repository:\n\n{code}"
        files.append(File.generated(config, _shown_at(name), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links so that the site can follow them."""
    root, source = repository(config), page.file.src_uri

    def resolved(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        path, hash_, anchor = target.partition("#")
        if not path or ":" in path:
            return match[0]
        target_path = _target(_repository_path(source), path)
        where = _in_site(target_path)
        if (root / target_path).is_dir() and not image:
            where += "/index.md"
            if files.get_file_from_path(where) is None:
                return text
        if files.get_file_from_path(where) is None:
            return match[0]
        relative = posixpath.relpath(where, posixpath.dirname(source) or ".")
        return f"{image}[{text}]({relative}{hash_}{anchor})"

    return outside_code(markdown, lambda text: _LINK.sub(resolved, text))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that would load something from another host."""
    if foreign := loaded_from_elsewhere(output):
        raise PluginError(f"{page.file.src_uri} loads {', '.join(foreign)}: put a copy into docs/")
    return output


def loaded_from_elsewhere(html: str) -> list[str]:
    """Addresses on other hosts that a browser asks when it opens a page."""
    return _LOADED.findall(html)


def repository(config: MkDocsConfig) -> Path:
    """The top folder of the repository."""
    return Path(config.docs_dir).parent


def outside_code(markdown: str, change: Callable[[str], str]) -> str:
    """The page with everything changed that stands outside fenced blocks of code."""
    return "".join(text if is_code else change(text) for is_code, text in _pieces(markdown))


def _pieces(markdown: str) -> Iterator[tuple[bool, str]]:
    """(is it code, text) of the parts of a page, in order."""
    piece: list[str] = []
    fence = ""
    for line in markdown.splitlines(keepends=True):
        match = _FENCE.match(line)
        if match and not fence:
            yield False, "".join(piece)
            piece, fence = [line], match[1]
        elif match and match[1].startswith(fence):
            yield True, "".join([*piece, line])
            piece, fence = [], ""
        else:
            piece.append(line)
    yield bool(fence), "".join(piece)


def _repository_path(src_uri: str) -> str:
    """Path in the repository of a page of the site."""
    return next((name for name, where in TOP_PAGES.items() if where == src_uri), f"docs/{src_uri}")


def _target(page: str, path: str) -> str:
    """The path in the repository that a page's relative link names."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path))


def _in_site(path: str) -> str:
    """Path in the site of a file of the repository."""
    if path in TOP_PAGES:
        return TOP_PAGES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else _shown_at(path)


def _shown_at(path: str) -> str:
    return f"files/{path}.md"


def _files_linked_to(files: Files, root: Path) -> Iterator[Path]:
    """Files of the repository outside docs/ that pages link to."""
    paths: set[str] = set()
    for file in files.documentation_pages():
        for _, text in _pieces(file.content_string):
            for match in _LINK.finditer(text):
                path = match[3].partition("#")[0]
                if path and ":" not in path:
                    paths.add(_target(_repository_path(file.src_uri), path))
    for path in paths - set(TOP_PAGES):
        outside = not path.startswith(("docs/", "../"))
        if outside and (root / path).is_file():
            yield root / path
