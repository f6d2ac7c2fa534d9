"""Folder of data that can be made again, kept between commands."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$UEDP_BENCH_CACHE`, else `~/.cache/uedp-bench`."""
    folder = os.environ.get("UEDP_BENCH_CACHE")
    return Path(folder) if folder else Path.home() / ".cache" / "uedp-bench"
