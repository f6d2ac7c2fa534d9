"""Addresses of the project: those that the installed package declares, and none that is guessed."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, metadata


@cache
def links() -> dict[str, str]:
    """`repository`, `docs` and `submit`; an empty text for what the package does not declare."""
    try:
        declared = metadata("uedp-bench").get_all("Project-URL") or []
    except PackageNotFoundError:
        declared = []
    pairs = (one.partition(",") for one in declared)
    return named({label.strip().lower(): url.strip() for label, _, url in pairs})


def named(urls: dict[str, str]) -> dict[str, str]:
    """The same of URLs by lower-case label, as in `[project.urls]`; only https counts."""
    urls = {label: url.rstrip("/") for label, url in urls.items() if url.startswith("https://")}
    repository = next((urls[name] for name in ("repository", "source") if name in urls), "")
    return {
        "repository": repository,
        "docs": urls.get("documentation", f"{repository}/tree/HEAD/docs" if repository else ""),
        "submit": f"{repository}/blob/HEAD/CONTRIBUTING.md" if repository else "",
    }
