"""What many results cost the leaderboard: CPU seconds of reading, pages written, and memory.

Results are the stored ones under other ids and with other numbers, in bundles of 500. Each step is
a process of its own: read; read and build; read and build again, with ten changed results; serve,
ask for 200 pages, and one more result arrives. Chromium opens the pages.

    python benchmarks/many_results.py [--results 20000] [--json] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from uedp_bench.leaderboard.bundles import line_of, write_bundle
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.recorded_identity import identity_of
from uedp_bench.results import Result

REFERENCE = Path(__file__).parents[1] / "leaderboard" / "results"
STEPS = ("read", "build", "serve")
IN_BUNDLE = 500
_MEASURED = ("utility", "leakage", "details", "cost")
_NUMBER = re.compile(r"(?<=[:\s,\[])(\d+\.\d{3,})(?=[,\s}\]])")


def make(folder: Path, first: int, last: int) -> None:
    """Writes the results of these numbers into bundles."""
    folder.mkdir(parents=True, exist_ok=True)
    known = [one for one in load_results([REFERENCE]) if one.status == "finished"]
    for start in range(first, last, IN_BUNDLE):
        numbers = range(start, min(start + IN_BUNDLE, last))
        bundle = folder / f"{start:06d}.jsonl.gz"
        write_bundle((copy(known[at % len(known)], at, at // len(known)) for at in numbers), bundle)


def copy(result: Result, at: int, turn: int) -> Result:
    """The result under another id and with other numbers; seeds of one spec stay in one row."""
    rng = random.Random(at)  # noqa: S311
    base = json.loads(line_of(result))
    for part in _MEASURED:
        text = json.dumps(base.get(part, {}))
        text = _NUMBER.sub(lambda one: f"{float(one[1]) * rng.uniform(0.9, 1.1):.9f}", text)
        base[part] = json.loads(text)
    parts = base["provenance"].pop("identity", {"seed": base["spec"]["seed"], "old": base["id"]})
    parts["copy"] = base["spec"]["mechanism"][0]["params"]["copy"] = turn
    base["provenance"]["identity"] = parts
    base["id"], base["group"] = identity_of(parts)
    return Result.model_validate(base)


def change(folder: Path, results: int = 10) -> None:
    """Changes what some results of the first bundle measured."""
    first = min(folder.iterdir())
    found = load_results([first])
    for at, result in enumerate(found[:results]):
        cost = result.cost.model_copy(update={"train_seconds": result.cost.train_seconds + 1.0})
        found[at] = result.model_copy(update={"cost": cost})
    write_bundle(found, first)


def step(name: str, folder: Path, new: int) -> dict[str, Any]:
    """One step, in this process."""
    from uedp_bench.cli.sources import loader_of

    loader = loader_of([folder / "results"], None, None)
    out: dict[str, Any] = {}

    def timed(what: str, do: Any) -> Any:
        start = time.process_time()
        found = do()
        out[what] = round(time.process_time() - start, 2)
        return found

    if name == "serve":
        from uedp_bench.leaderboard.serve import LiveServer

        with LiveServer(loader, 0) as server:
            timed("start", server.site.refresh)
            made = server.site.folder.rglob("*.html")
            out["pages made"] = sum(1 for _ in made)
            pages = [name for name in server.site.names if name.startswith("runs/")]
            timed("front", lambda: _get(server.url))
            timed("table", lambda: _get(f"{server.url}table.html"))
            timed("200 pages", lambda: [_get(f"{server.url}{one}") for one in pages[:200]])
            out["megabytes after"] = _resident()
            site = server.site
            before = {name: site.version(name) for name in site.names}
            make(folder / "results", new, new + 1)
            timed("one new result", site.refresh)
            out["changed"] = sum(before.get(name) != site.version(name) for name in site.names)
            timed("its front", lambda: _get(server.url))
    else:
        loaded = timed("reading", loader.load)
        out["results"] = len(loaded.copies)
        if name == "build":
            from uedp_bench.leaderboard.leaving_out import without_culprits
            from uedp_bench.leaderboard.site import build

            show = partial(build, out=folder / "site")
            built, _ = timed("pages", lambda: without_culprits(loaded, show))
            out |= {"files": len(built.files), "written": len(built.written)}
    out["peak megabytes"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
    return out


def _get(url: str) -> int:
    with urlopen(url) as answer:  # noqa: S310
        return len(answer.read())


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 1e6)


def browse(folder: Path) -> dict[str, Any]:
    """Milliseconds until the first rows and the whole table are there, and of a filter."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))))
    table = folder / "site" / "table.html"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(120_000)
        out: dict[str, Any] = {}
        for name in ("index", "table"):
            page.goto((folder / "site" / f"{name}.html").as_uri())
            if name == "table":
                page.locator("#leaderboard tbody a").first.wait_for()
            out[f"{name}, ms"] = round(page.evaluate("performance.now()"))
        out["rows"] = page.evaluate("uedp.rows.length")
        for what, state in (("filter", '{set: "", task: "next-word", source: ""}'),
                            ("search", '{task: "", q: "uedp copy=1"}'),
                            ("everything", '{q: ""}')):  # fmt: skip
            out[f"{what}, ms"] = round(page.evaluate(
                f"(() => {{ const t = performance.now(); uedp.set({state});"
                " return performance.now() - t; })()"
            ))  # fmt: skip
        browser.close()
    pieces = [path.stat().st_size for path in (folder / "site/assets").glob("rows-*.js")]
    return out | {
        "table, MB": round(table.stat().st_size / 1e6, 2),
        "index, MB": round((folder / "site/index.html").stat().st_size / 1e6, 2),
        "pieces": len(pieces),
        "pieces, MB": round(sum(pieces) / 1e6, 1),
    }


def run(name: str, folder: Path, new: int) -> dict[str, Any]:
    """One step in a process of its own."""
    command = [
        sys.executable,
        __file__,
        "--step",
        name,
        "--keep",
        str(folder),
        "--results",
        str(new),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(results: int, folder: Path, steps: tuple[str, ...] = STEPS) -> dict[str, Any]:
    """All steps, in their order."""
    if not (folder / "results").is_dir():
        make(folder / "results", 0, results)
    found = {}
    for name in steps:
        found[name] = run(name, folder, results)
        if name == "build":
            change(folder / "results")
            found["build, ten changed"] = run(name, folder, results)
            if any(map(shutil.which, ("chromium", "google-chrome"))):
                found["browser"] = browse(folder)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--results", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(step(given.step, given.keep, given.results)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(given.results, given.keep or Path(temporary), tuple(given.steps))
    if given.json:
        print(json.dumps(found))
        return
    for name, values in found.items():
        print(f"{name}: {', '.join(f'{key} {value}' for key, value in values.items())}")


if __name__ == "__main__":
    main()
