"""Grids on a cluster: their command line, what they leave, and what they must not leave."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tiny import flags

from uedp_bench.contracts.results import read_result


def on_cluster(address, out, *more):
    """The command line of the tiny benchmark on a cluster."""
    line = flags(out, "--on", address, *more)
    at = line.index("--workers")
    return line[:at] + line[at + 2 :]


def numbers(out):
    """What results say, by id, apart from when, where and how fast."""
    results = {}
    for path in sorted(out.glob("*/result.json")):
        result = read_result(path).model_dump(mode="json", exclude={"cost", "tracking"})
        result["provenance"] = result["provenance"].get("corpus")
        results[path.parent.name] = result
    return results


def nothing_left():
    """No folder of a grid is left on this machine, whose nodes share one."""
    return not list(Path(tempfile.gettempdir()).glob("uedp-bench-grid-*"))


def commands():
    """Command lines of all processes."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_text().replace("\0", " "))
        except OSError:
            continue
    return lines
