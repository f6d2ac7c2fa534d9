"""Vendored scripts are those of the pinned packages, with their licences."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from uedp_bench.leaderboard.site_files import STATIC

VENDOR = Path(__file__).parents[2] / "leaderboard" / "static" / "vendor"
PINNED = json.loads((VENDOR / "package.json").read_text())["dependencies"]
LOCK = json.loads((VENDOR / "package-lock.json").read_text())["packages"]


def copied() -> set[str]:
    """What `make vendor` copies from packages: scripts, styles and licences."""
    return {
        path.name
        for path in VENDOR.iterdir()
        if path.suffix in (".js", ".css") or path.name.startswith("License-")
    }


def test_files_are_those_that_were_recorded():
    lines = (VENDOR / "SHA256SUMS.txt").read_text().splitlines()
    recorded = {name: digest for digest, name in (line.split("  ") for line in lines)}
    assert {
        name: hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() for name in copied()
    } == recorded


def test_the_lock_pins_each_package_by_version_and_digest():
    direct = {name: LOCK[f"node_modules/{name}"] for name in PINNED}
    assert LOCK[""]["dependencies"] == PINNED
    assert {name: package["version"] for name, package in direct.items()} == PINNED
    packages = [package for path, package in LOCK.items() if path]
    assert all(re.fullmatch(r"sha512-[\w+/]{86}==", package["integrity"]) for package in packages)


def test_the_banner_says_the_pinned_version():
    # The only one of them that has a banner; the others are known by their digests.
    banner = (VENDOR / "dataTables.min.js").read_text().split("*/")[0]
    assert f"DataTables {PINNED['datatables.net']}\n" in banner


def test_every_file_is_used_and_has_its_package_and_licence_listed():
    listed = re.findall(r"^\| `(.+)` \| (\S+) (\S+) \| MIT, `(.+)` \|$", _readme(), re.MULTILINE)
    scripts = {name for name in copied() if not name.startswith("License-")}
    assert {file for file, *_ in listed} == scripts
    assert {package: version for _, package, version, _ in listed} == PINNED
    assert {f"vendor/{name}" for name in scripts} == {
        name for name in STATIC if name.startswith("vendor/")
    }
    for *_, licence in listed:
        text = (VENDOR / licence).read_text()
        assert "Permission is hereby granted, free of charge" in text
        assert "Copyright" in text


def _readme() -> str:
    return (VENDOR / "README.md").read_text()
