"""Canaries in federations beside Thakkar et al. 2021, Tables 1 to 7.

    python benchmarks/federated_sharer_table.py \\
      leaderboard/results/reproductions/federated-secret-sharer \\
      [--plot docs/reproductions/federated-secret-sharer.svg] [--again FOLDER]

RS and BS are canaries of 90 that random sampling (the rank among all suffixes) and beam search
extract. `--again` says whether runs that were repeated in another folder gave the same numbers.
Numbers are means over seeds, with half of the 95 % interval over seeds (Student's t). All
models of a seed have the same canaries in the same rows, so that exposures are compared canary by
canary: the second interval of a difference is over the canaries of all seeds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from printed_tables import mean_of, shown, table

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result

ATTACK = "secret-sharer"
SMALL, LARGE, SHORT = "small", "large", "large, equal epochs"
CHANCE = 1 / math.log(2)
"""Bits of exposure that a canary has on average where nothing is learnt of it."""


@dataclass(frozen=True)
class Arm:
    """What a run compares.

    Attributes:
        how: the optimiser, with what bounds it.
        iid: True if rows are shuffled, or dealt anew among users.
        size: `SMALL`, `LARGE`, or `SHORT`: the large batch or round at the epochs of the small one.
    """

    how: str
    iid: bool
    size: str

    @property
    def text(self) -> str:
        """As tables name it."""
        rows = {SMALL: "16 rows", LARGE: "64 rows", SHORT: "64 rows"}
        users = {SMALL: "40 users", LARGE: "160 users", SHORT: "160 users"}
        sizes = users if "FedAvg" in self.how else rows
        passes = ", equal epochs" if self.size == SHORT else ""
        return f"{self.how}, {'IID' if self.iid else 'non-IID'}, {sizes[self.size]}{passes}"


SGD, MOMENTUM, ADAM = "SGD", "SGD with momentum", "Adam"
FEDAVG, FEDADAM, CLIP, DP = "FedAvg", "FedAvg with Adam", "FedAvg, clipped", "DP-FedAvg"

# (RS, BS, accuracy in percent, perplexity) as printed, of the size that each arm stands for: 32 and
# 256 records, 500 and 5,000 users.
PRINTED: dict[Arm, str] = {
    Arm(SGD, True, SMALL): "54, 42, 24.0, 62.2",
    Arm(SGD, True, LARGE): "53, 43, 24.1, 61.1",
    Arm(SGD, True, SHORT): "46, 32, 23.0, 69.7",
    Arm(SGD, False, SMALL): "37, 19, 23.7, 64.3",
    Arm(SGD, False, LARGE): "51, 39, 24.1, 61.3",
    Arm(SGD, False, SHORT): "40, 31, 23.0, 69.8",
    Arm(FEDAVG, True, SMALL): "66, 56, 24.6, 57.5",
    Arm(FEDAVG, True, LARGE): "65, 58, 24.6, 57.3",
    Arm(FEDAVG, True, SHORT): "28, 18, 24.0, 62.5",
    Arm(FEDAVG, False, SMALL): "21, 0, 24.4, 58.8",
    Arm(FEDAVG, False, LARGE): "26, 2, 24.5, 58.2",
    Arm(FEDAVG, False, SHORT): "0, 0, 23.3, 67.9",
    Arm(MOMENTUM, True, SMALL): "64, 50, 24.2, 60.6",
    Arm(MOMENTUM, False, SMALL): "48, 36, 24.3, 59.9",
    Arm(ADAM, True, SMALL): "56, 42, 22.7, 70.8",
    Arm(ADAM, False, SMALL): "21, 13, 21.5, 84.1",
    Arm(FEDADAM, True, SMALL): "60, 46, 23.7, 63.7",
    Arm(FEDADAM, False, SMALL): "8, 0, 23.3, 66.5",
    Arm(CLIP, True, LARGE): "58, 49, 24.2, 60.0",
    Arm(CLIP, False, LARGE): "11, 0, 24.0, 61.5",
    Arm(DP, True, LARGE): "48, 42, 23.9, 63.0",
    Arm(DP, False, LARGE): "12, 0, 23.3, 68.5",
}

Arms = Mapping[Arm, Mapping[int, Result]]
"""Results by what they compare, and by seed."""


def arm_of(result: Result) -> Arm:
    """What a run compares, by the parameters of its mechanism."""
    (part,) = result.spec.mechanism
    p = part.params
    if part.name == "noiseless":
        how = MOMENTUM if p.get("momentum") else SGD
        how = ADAM if p.get("optimizer", "adamw") == "adamw" else how
        size = SMALL if p["batch_size"] == 16 else LARGE if p["epochs"] == 8 else SHORT
        return Arm(how, p.get("order", "shuffled") == "shuffled", size)
    how = FEDADAM if p["server_optimizer"] == "adam" else FEDAVG
    how = DP if part.name == "user-dp" else CLIP if p.get("clip") is not None else how
    size = SMALL if p["users_per_round"] == 40 else LARGE if p["rounds"] == 113 else SHORT
    return Arm(how, bool(p.get("iid", False)), size)


def arms(folder: Path) -> dict[Arm, dict[int, Result]]:
    """Finished results, in the order of the paper's tables."""
    found: dict[Arm, dict[int, Result]] = {}
    for result in load_results([folder]):
        if result.status == "finished":
            found.setdefault(arm_of(result), {})[result.spec.seed] = result
    return {arm: dict(sorted(found[arm].items())) for arm in PRINTED if arm in found}


def canaries(result: Result) -> list[Mapping[str, Any]]:
    """What is known of each canary of a run."""
    return list(result.details[ATTACK]["canaries"])


def extracted(result: Result) -> int:
    """Canaries that no other suffix is as likely as."""
    return sum(row["rank"] == 1 for row in canaries(result))


def beamed(result: Result) -> int:
    """Canaries that beam search finds."""
    return sum(bool(row["beam_search"]) for row in canaries(result))


def differences(more: Mapping[int, Result], less: Mapping[int, Result]) -> dict[int, list[float]]:
    """Bits of exposure by which each canary is more exposed in one model, for each common seed.

    Raises:
        ValueError: if two models of a seed have other canaries.
    """
    found = {}
    for seed in sorted(set(more) & set(less)):
        pairs = list(zip(canaries(more[seed]), canaries(less[seed]), strict=True))
        if any(a["text"] != b["text"] or a["occurrences"] != b["occurrences"] for a, b in pairs):
            raise ValueError(f"canaries of seed {seed} differ")
        # A canary that was drawn into no row says nothing about training.
        found[seed] = [a["exposure"] - b["exposure"] for a, b in pairs if a["occurrences"]]
    return found


def print_arms(found: Arms, chosen: Callable[[Arm], bool]) -> None:
    """What each model extracts and predicts, beside what is printed."""
    rows = []
    for arm, results in found.items():
        if not chosen(arm):
            continue
        each = list(results.values())
        rows.append([
            arm.text, PRINTED[arm], str(len(each)),
            shown([extracted(one) for one in each], 1), shown([beamed(one) for one in each], 1),
            shown([100 * one.utility["accuracy"].value for one in each], 1),
            shown([one.utility["perplexity"].value for one in each], 1),
        ])  # fmt: skip
    if rows:
        table(["", "printed: RS, BS, accuracy %, perplexity", "seeds", "RS", "BS", "accuracy %",
                "perplexity"], rows)  # fmt: skip


def levels(found: Arms) -> list[tuple[float, float]]:
    """(p_u, p_e), by the rows that a canary is expected in."""
    first = next(iter(next(iter(found.values())).values()))
    pairs = {(row["p_u"], row["p_e"]) for row in canaries(first)}
    return sorted(pairs, key=lambda pair: (pair[0] * pair[1], pair[1]))


def at_level(results: Iterable[Result], level: tuple[float, float]) -> list[Mapping[str, Any]]:
    """Canaries of all seeds with this (p_u, p_e)."""
    return [row for one in results for row in canaries(one) if (row["p_u"], row["p_e"]) == level]


def print_levels(found: Arms) -> None:
    """Canaries that are extracted, by (p_u, p_e), beside who shares them and how often."""
    pairs = levels(found)
    by_seed = {seed: one for results in found.values() for seed, one in results.items()}
    head = ["", *(f"p_u {100 * u:g} %, p_e {100 * e:g} %" for u, e in pairs)]
    rows = []
    for name, key in (("users that share it", "sharers"), ("rows that hold it", "occurrences")):
        held = [[float(row[key]) for row in at_level(by_seed.values(), pair)] for pair in pairs]
        rows.append([name, *(f"{sum(values) / len(values):.1f}" for values in held)])
    for arm, results in found.items():
        cells = []
        for pair in pairs:
            those = at_level(results.values(), pair)
            cells.append(f"{sum(row['rank'] == 1 for row in those)} of {len(those)}")
        rows.append([arm.text, *cells])
    table(head, rows)


def onset(results: Sequence[Result], pairs: Sequence[tuple[float, float]]) -> int | None:
    """The place in `pairs` from which on every interval of exposure lies above chance."""
    first = None
    for place in reversed(range(len(pairs))):
        those = at_level(results, pairs[place])
        held = [float(row["exposure"]) for row in those if row["occurrences"]]
        mean, half = mean_of(held)
        if not mean - half > CHANCE:
            break
        first = place
    return first


def print_onsets(found: Arms) -> None:
    """The (p_u, p_e) from which on each model leaks, and that of the rarest canary extracted."""
    pairs = levels(found)
    names = [f"{100 * u:g} %, {100 * e:g} %" for u, e in pairs]
    rows = []
    for arm, results in found.items():
        each = list(results.values())
        held = [
            (row["occurrences"], row["sharers"], pairs.index((row["p_u"], row["p_e"])))
            for one in each for row in canaries(one) if row["rank"] == 1
        ]  # fmt: skip
        leaks, rarest = onset(each, pairs), min(held, default=None)
        rows.append([
            arm.text, str(len(each)), "–" if leaks is None else names[leaks],
            *(("–", "–", "–") if rarest is None
              else (names[rarest[2]], str(rarest[0]), str(rarest[1]))),
        ])  # fmt: skip
    table(["", "seeds", "exposed from p_u, p_e", "rarest extracted: p_u, p_e", "rows that hold it",
            "users that share it"], rows)  # fmt: skip


def compared(found: Arms) -> list[tuple[str, str, Arm, Arm]]:
    """Group, name and the two arms of every comparison whose runs are there."""
    rows: list[tuple[str, str, Arm, Arm]] = []
    for arm in found:
        kind = "IID" if arm.iid else "non-IID"
        if not arm.iid:
            name = arm.text.replace(", non-IID", "")
            rows.append(("non-IID − IID", name, arm, Arm(arm.how, True, arm.size)))
        if arm.how in (SGD, FEDAVG) and arm.size != SMALL:
            what = "large − small, equal " + ("epochs" if arm.size == SHORT else "steps")
            rows.append((what, f"{arm.how}, {kind}", arm, Arm(arm.how, arm.iid, SMALL)))
        if arm.how in (CLIP, DP):
            rows.append((f"{arm.how} − FedAvg", kind, arm, Arm(FEDAVG, arm.iid, LARGE)))
        if arm.how == DP:
            rows.append(("DP-FedAvg − FedAvg, clipped", kind, arm, Arm(CLIP, arm.iid, LARGE)))
        if arm.how in (MOMENTUM, ADAM, FEDADAM):
            plain = Arm(FEDAVG if arm.how == FEDADAM else SGD, arm.iid, SMALL)
            rows.append((f"{arm.how} − {plain.how}", kind, arm, plain))
        if arm == Arm(FEDAVG, arm.iid, SMALL):
            rows.append(("FedAvg − SGD, small", kind, arm, Arm(SGD, arm.iid, SMALL)))
    there = [row for row in rows if row[3] in found and set(found[row[2]]) & set(found[row[3]])]
    groups = list(dict.fromkeys(row[0] for row in there))
    return sorted(there, key=lambda row: groups.index(row[0]))


def print_differences(found: Arms) -> None:
    """What changes from one model to another, canary by canary."""
    rows = []
    for group, name, more, less in compared(found):
        bits = differences(found[more], found[less])
        change = [extracted(found[more][s]) - extracted(found[less][s]) for s in bits]
        means = [math.fsum(values) / len(values) for values in bits.values()]
        every = [value for values in bits.values() for value in values]
        over_seeds, over_canaries = mean_of(means), mean_of(every)
        cell = "–" if math.isnan(over_seeds[1]) else f"±{over_seeds[1]:.2f}"
        rows.append([
            group, name, ", ".join(f"{one:+d}" for one in change),
            f"{over_seeds[0]:+.2f}", cell, f"±{over_canaries[1]:.2f}",
        ])  # fmt: skip
    table(["change", "of", "RS, by seed", "bits of exposure", "over seeds", "over canaries"], rows)


def plot(found: Arms, path: Path) -> None:
    """Mean exposure by (p_u, p_e), with 95 % intervals over canaries of all seeds."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "sharer", "font.size": 8, "svg.fonttype": "none"})
    figure = Figure(figsize=(8.0, 3.4), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    pairs = levels(found)
    shown = [(how, size) for how in (SGD, FEDAVG) for size in (SMALL, LARGE)]
    shown += [(CLIP, LARGE), (DP, LARGE)]
    for panel, iid in zip(panels, (True, False), strict=True):
        for number, ((how, size), marker) in enumerate(zip(shown, "osd^vx", strict=True)):
            if (arm := Arm(how, iid, size)) not in found:
                continue
            known = [
                mean_of([float(row["exposure"]) for row in at_level(found[arm].values(), pair)])
                for pair in pairs
            ]
            # Side by side, so that no bar hides another.
            x = [at + 0.08 * (number - (len(shown) - 1) / 2) for at in range(len(pairs))]
            y, half = zip(*known, strict=True)
            name = arm.text.replace(", IID", "").replace(", non-IID", "")
            panel.errorbar(x, y, yerr=half, marker=marker, markersize=3.5, capsize=1.5, label=name,
                           linewidth=0.9, elinewidth=0.7, color=f"C{number}")  # fmt: skip
        panel.axhline(CHANCE, color="0.6", linestyle="--", linewidth=0.8)
        panel.set_xticks(
            range(len(pairs)), [f"{100 * u:g} %\n{100 * e:g} %" for u, e in pairs], fontsize=6
        )
        panel.set_xlabel("p_u (above) and p_e")
        panel.set_title("rows shuffled over users (IID)" if iid else "rows by user (non-IID)",
                        fontsize=8)  # fmt: skip
    panels[0].set_ylabel("mean exposure, bits")
    panels[0].legend(frameon=False, fontsize=7)
    figure.savefig(path, metadata={"Date": None})


def repeated(folder: Path, again: Path) -> dict[str, list[str]]:
    """Fields of a result that differ in a second run of the same id; times may differ."""
    stored = {result.id: result for result in load_results([folder])}
    differing = {}
    for second in load_results([again]):
        one, other = (
            result.model_dump(mode="json", exclude={"cost", "provenance"})
            for result in (stored[second.id], second)
        )
        differing[second.id] = [field for field in one if one[field] != other[field]]
    return differing


def show(found: Arms) -> None:
    """All tables."""
    plain = [Arm(FEDAVG, iid, LARGE) for iid in (True, False)]
    print_arms(found, lambda arm: arm.how in (SGD, FEDAVG) and arm.size != SHORT)
    print_arms(found, lambda arm: arm.how in (CLIP, DP) or arm in plain)
    print_arms(found, lambda arm: arm.how not in (CLIP, DP) and arm.size == SMALL)
    print_arms(found, lambda arm: arm.how in (SGD, FEDAVG) and arm.size != LARGE)
    print_differences(found)
    print_levels(found)
    print_onsets(found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="a folder of results")
    parser.add_argument("--plot", type=Path, help="an SVG or PNG file to write")
    parser.add_argument("--again", type=Path, help="a folder of repeated runs to compare")
    options = parser.parse_args()
    found = arms(options.folder)
    show(found)
    if options.plot is not None:
        plot(found, options.plot)
    if options.again is not None:
        for run, fields in repeated(options.folder, options.again).items():
            print(f"\n{run}: {'differs in ' + ', '.join(fields) if fields else 'same numbers'}")
