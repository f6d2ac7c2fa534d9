"""Where what can be made again is kept between commands."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`$UEDP_BENCH_CACHE`, else `~/.cache/uedp-bench`."""
    given = os.environ.get("UEDP_BENCH_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "uedp-bench"
