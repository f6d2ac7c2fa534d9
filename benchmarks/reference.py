"""Runs the reference set part by part, stores its results, and names the pages that quote them.

    make reference DATA=data                        # the reference set: a night on two cores
    python benchmarks/reference.py --data data --parts levers,reproductions
    python benchmarks/reference.py --data data --parts bloggers,tagging/embedded

`reference_parts.yaml` lists the parts in sets: `reference`, what each task has; `levers`, one thing
changed at a time; `reproductions`, the papers' own comparisons. A part is a bundle below
`leaderboard/results`, and the commands that fill it. A part whose data are not there is left out,
and said. Runs go to `runs/reference`, in a folder for each state of the code, so that no stored
bundle mixes two. Models that have read public text are trained once for all parts that need the
same. The same command goes on after Ctrl-C. A part's results replace the stored ones when all of
its runs have ended and `leaderboard pack` finds no error in them.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from uedp_bench.contracts.results import RunSpec
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.sources import SUFFIX
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import Spec, apply_setting, parse_setting, parse_spec, read_spec

HERE = Path(__file__).resolve().parents[1]
DATA = re.compile(r"\bdata/[\w./-]+")
NOT_CODE = (":!docs", ":!leaderboard/results", ":!*.md")
STOPPED = 130
FIRST_SET = "reference"
"""The set that runs where no parts are named."""


@dataclass(frozen=True)
class Part:
    """A bundle of results and what fills it.

    Attributes:
        name: of the bundle without its suffix, below `leaderboard/results`.
        commands: that write runs into the folder `{out}`; they read `data/...`.
        after: commands that draw plots or fill the README, from the root of the checkout.
        of: the set that it belongs to.
    """

    name: str
    commands: tuple[str, ...]
    after: tuple[str, ...] = ()
    of: str = FIRST_SET

    def runs(self) -> list[RunSpec] | None:
        """The runs that the specs of its commands stand for; None for other commands."""
        if any(shlex.split(command)[:2] != ["uedp-bench", "run"] for command in self.commands):
            return None
        specs = [_spec_of(shlex.split(each)[2:]) for each in self.commands]
        return [run for spec in specs for run in expand(spec)]

    def planned(self) -> int | None:
        """Number of these runs."""
        runs = self.runs()
        return None if runs is None else len(runs)

    def needs(self) -> tuple[str, ...]:
        """The files and folders of the data folder that the commands read, each once."""
        paths = (path for command in self.commands for path in DATA.findall(command))
        return tuple(dict.fromkeys(paths))


@dataclass(frozen=True)
class Place:
    """Folders: the checkout, the data, and the work folder of runs."""

    root: Path
    data: Path
    work: Path

    @property
    def stored(self) -> Path:
        """The folder of stored results."""
        return self.root / "leaderboard" / "results"

    def on_disk(self, path: str) -> str | None:
        """The `data/...` path of a command as it is on this disk, gzipped or not, or None."""
        inside = path.removeprefix("data/")
        for name in (inside, f"{inside}.gz"):
            if (self.data / name).exists():
                return f"data/{name}"
        return None

    def missing(self, part: Part) -> list[str]:
        """Files that a part needs and the data folder lacks."""
        return [path for path in part.needs() if self.on_disk(path) is None]


def _spec_of(words: Sequence[str]) -> Spec:
    """The spec of `uedp-bench run SPEC [--path PATH] [--set NAME=VALUE ...] [--seeds 1,2,...]`."""
    data, settings = read_spec(words[0]), []
    for flag, value in zip(words[1::2], words[2::2], strict=True):
        if flag == "--seeds":
            data["seeds"] = [int(seed) for seed in value.split(",")]
        else:
            settings.append((flag, value))
    spec = parse_spec(data)
    for flag, value in settings:
        at, setting = (("source", "path"), value) if flag == "--path" else parse_setting(value)
        spec = apply_setting(spec, at, setting)
    return spec


def read_parts(file: Path) -> list[Part]:
    """The parts of all sets of a list, in its order."""
    sets = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [
        Part(part["name"], tuple(part["commands"]), tuple(part.get("after", ())), name)
        for name, parts in sets.items()
        for part in parts
    ]


def chosen(parts: Sequence[Part], names: str) -> list[Part]:
    """The parts that were asked for by their names or their sets'.

    Exits for a name that is neither.
    """
    wanted = [name.strip() for name in names.split(",")]
    choices = [*dict.fromkeys(part.of for part in parts), *(part.name for part in parts)]
    if unknown := [name for name in wanted if name not in choices]:
        sys.exit(
            f"--parts: {', '.join(unknown)} is no set and no part; known: {', '.join(choices)}"
        )
    matches = [part for name in wanted for part in parts if name in (part.of, part.name)]
    return list(dict.fromkeys(matches))


def code_version(root: Path) -> str:
    """The last commit that changed code; exits if there are changes of code in no commit.

    Results and pages are no code: what this script writes does not make it start anew.
    """

    def git(*command: str) -> str:
        done = ["git", "-C", str(root), *command, "--", ".", *NOT_CODE]
        return subprocess.run(done, check=True, capture_output=True, text=True).stdout.strip()

    if changed := git("status", "--porcelain"):
        sys.exit(f"results name a commit, and code differs from it; commit first:\n{changed}")
    return git("log", "-1", "--format=%h")


def run_command(command: str, out: Path, place: Place, *, workers: int) -> int:
    """Run a command of a part beside a link to the data, so that results hold no path of here."""
    with_data = DATA.sub(lambda path: place.on_disk(path[0]) or path[0], command)
    words = [word.replace("{out}", str(out)) for word in shlex.split(with_data)]
    if words[0] == "uedp-bench":
        words[0] = str(Path(sys.executable).with_name("uedp-bench"))
        words += ["--out", str(out), "--workers", str(workers), "--no-tracking"]
    else:
        words = [sys.executable, str(place.root / words[1]), *words[2:]]
    one = {"OMP_NUM_THREADS": "1"} if workers > 1 else {}
    try:
        return subprocess.run(words, cwd=out.parent, env={**os.environ, **one}).returncode
    except KeyboardInterrupt:
        return STOPPED


def run_part(part: Part, place: Place, workers: int) -> int:
    """Run what is left of a part and store it: 0, or the exit status of a failure."""
    out = place.work / part.name.replace("/", "-")
    out.mkdir(parents=True, exist_ok=True)
    link = out.parent / "data"
    link.unlink(missing_ok=True)
    link.symlink_to(place.data.resolve())
    if not (out / "done").exists():
        share_public_models(out, place)
        for command in part.commands:
            status = run_command(command, out, place, workers=workers)
            if status and not (status == 1 and refutes_only(part, out)):
                return status
    bundle = place.stored / f"{part.name}{SUFFIX}"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    pack = [str(Path(sys.executable).with_name("uedp-bench")), "leaderboard", "pack", str(out)]
    if status := subprocess.run([*pack, "--out", str(bundle)]).returncode:
        return status
    (out / "done").touch()
    return 0


def refutes_only(part: Part, out: Path) -> bool:
    """True if a part ran as planned, and exits with 1 because it refutes what a paper claims."""
    results = load_results([out])
    sound = all(one.status == "finished" and not one.failed_attacks for one in results)
    refuted = any(one.status == "refuted" for each in results for one in each.guarantees)
    return sound and refuted and len(results) >= (part.planned() or 0)


def share_public_models(out: Path, place: Place) -> None:
    """Give a part the models that others of this state of the code have trained on public text.

    Their names are hashes of what decides their weights, so that none is taken for another.
    """
    for model in place.work.glob("*/cache/public-*.pt"):
        mine = out / "cache" / model.name
        if not mine.exists():
            mine.parent.mkdir(exist_ok=True)
            shutil.copyfile(model, mine)


def follow(part: Part, place: Place) -> int:
    """Names the pages that quote a part, and draws its plots."""
    for page in pages(place.root):
        if re.search(rf"\b{re.escape(part.name)}\b(?!/)", page.read_text(encoding="utf-8")):
            print(f"{page.relative_to(place.root)}: read it again: it quotes these results")
    for command in part.after:
        words = [sys.executable, *shlex.split(command)[1:]]
        if status := subprocess.run(words, cwd=place.root, stdout=subprocess.DEVNULL).returncode:
            return status
    return 0


def pages(root: Path) -> list[Path]:
    """The README and the pages of the documentation."""
    return [*root.glob("README.md"), *sorted((root / "docs").rglob("*.md"))]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen parts: 0 if all of it is stored, 1 if a part failed, 130 if stopped."""
    read = argparse.ArgumentParser(description="Run the reference set.")
    read.add_argument("--data", type=Path, default=HERE / "data", help="folder of data sets")
    read.add_argument(
        "--parts",
        default=FIRST_SET,
        help=f"names of sets and parts, with commas between; default: {FIRST_SET}",
    )
    read.add_argument("--workers", type=int, default=2, help="runs at a time; default: 2")
    read.add_argument("--root", type=Path, default=HERE, help="the checkout")
    options = read.parse_args(arguments)
    root = options.root.resolve()  # commands run in another folder
    every = read_parts(root / "benchmarks" / "reference_parts.yaml")
    parts = chosen(every, options.parts)
    place = Place(root, options.data, root / "runs" / "reference" / code_version(root))
    failed, undrawn = [], []
    for number, part in enumerate(parts, 1):
        print(f"[{number}/{len(parts)}] {part.name}", flush=True)
        if lacking := place.missing(part):
            print(f"left out: {', '.join(lacking)} is not in {options.data}")
            continue
        if status := run_part(part, place, options.workers):
            if status == STOPPED:
                print("stopped; the same command goes on from here")
                return STOPPED
            failed.append(part.name)
        elif follow(part, place):
            undrawn.append(part.name)
    if failed:
        print(f"failed, and not stored: {', '.join(failed)}", file=sys.stderr)
    if undrawn:
        print(f"stored, and their plots failed: {', '.join(undrawn)}", file=sys.stderr)
    return 1 if failed or undrawn else 0


if __name__ == "__main__":
    # As Ctrl-C: a run that goes on alone would be met by that of the same command.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
