"""What a large site costs: seconds by stage as shares of the first build, memory and size.

Its results are the reference results, copied under other ids with one more parameter, three seeds a
row. Results are read from files; the second build finds nothing new, the third one new row.

    python benchmarks/leaderboard_site.py [--rows 2000] [--json]
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.site import build
from uedp_bench.results import Result, write_result

REFERENCE = Path(__file__).parents[1] / "leaderboard" / "results"


def copies(rows: int) -> Iterator[Result]:
    """So many rows of three seeds each."""
    known = [one for one in load_results([REFERENCE]) if one.status == "finished"]
    for at in range(rows):
        base = known[at % len(known)]
        first, *rest = base.spec.mechanism
        first = first.model_copy(update={"params": {**first.params, "copy": at}})
        for seed in (1, 2, 3):
            spec = base.spec.model_copy(update={"seed": seed, "mechanism": (first, *rest)})
            names = {"id": f"{at:08x}-{seed}", "group": f"{at:08x}"}
            yield base.model_copy(update={**names, "spec": spec})


def measure(rows: int) -> dict[str, Any]:
    seconds: dict[str, float] = {}

    def timed(name: str, do: Any) -> Any:
        start = time.perf_counter()
        out = do()
        seconds[name] = time.perf_counter() - start
        return out

    with tempfile.TemporaryDirectory() as folder:
        for result in copies(rows):
            path = Path(folder) / "results" / result.id / "result.json"
            path.parent.mkdir(parents=True)
            write_result(result, path)
        results = timed("read", lambda: load_results([Path(folder) / "results"]))
        site = Path(folder) / "site"
        built = timed("build", lambda: build(results, site))
        again = timed("build again", lambda: build(results, site))
        extra = [r.model_copy(update={"id": f"extra-{r.spec.seed}", "group": "extra"})
                 for r in results[:3]]  # fmt: skip
        more = timed("one more row", lambda: build([*results, *extra], site))
        files = [path for path in (Path(folder) / "site").rglob("*") if path.is_file()]
        whole = seconds["read"] + seconds["build"]
        return {
            "rows": built.rows,
            "runs": built.runs,
            "files": len(built.files),
            "megabytes": round(sum(path.stat().st_size for path in files) / 1e6, 1),
            "table_megabytes": round((Path(folder) / "site/table.html").stat().st_size / 1e6, 1),
            "peak_megabytes": round(
                resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
            ),
            "written": [len(one.written) for one in (built, again, more)],
            "shares": {name: round(value / whole, 3) for name, value in seconds.items()},
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.rows)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name.replace('_', ' ')}: {value}")


if __name__ == "__main__":
    main()
