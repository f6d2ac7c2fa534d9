"""What the end of a sampler of normal noise costs: the table of docs/accounting.md.

    python benchmarks/sampler_end.py

For each row, the delta that one update of a single coordinate uses up for certain, whatever epsilon
is printed, where normal numbers end at 5.77 deviations (float32, Box and Muller), at 8.57 (the same
in float64) and where those in use here end; and the bound on all that the end in use adds to delta.
"""

from __future__ import annotations

from uedp_bench.accounting.events import (
    Gaussian,
    PoissonSampled,
    PrivacyEvent,
    Protected,
    Repeated,
    SentenceSampledGaussian,
)
from uedp_bench.accounting.ledger import proven_at
from uedp_bench.accounting.sampler_end_delta import identified, mass, moved

ENDS = {"float32": 5.7681, "float64, Box-Muller": 8.5716}
"""Deviations that other samplers never exceed: sqrt(48 ln 2) and sqrt(106 ln 2)."""

ALONE = Protected(spread=0)


def _users(rate: float, noise: float) -> PoissonSampled:
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise))


ROWS: tuple[tuple[str, PoissonSampled | SentenceSampledGaussian, int, float], ...] = (
    ("DP-SGD, rate 0.004, noise 0.8, 5,000 steps", _users(0.004, 0.8), 5000, 1e-6),
    ("DP-FedAvg, rate 1/200, noise 0.46, 400 rounds", _users(1 / 200, 0.46), 400, 1e-5),
    ("DP-FedAvg, rate 1/200, noise 0.697, 400 rounds", _users(1 / 200, 0.697), 400, 1e-5),
    ("DP-FedAvg, rate 0.05, noise 0.694, 100 rounds", _users(0.05, 0.694), 100, 1e-5),
    (
        "uedp-group, rate 1/200, noise 0.774, 6 sentences, 400 rounds",
        SentenceSampledGaussian(
            rate=1 / 200, noise_multiplier=0.774, users=12_000, sentences_per_user=6
        ),
        400,
        1e-5,
    ),
)


def main() -> None:
    """Prints the table."""
    print(f"| training | epsilon | delta | {' | '.join(ENDS)} | in use | all that it adds |")
    print("|---|---|---|---|---|---|---|")
    for name, event, count, delta in ROWS:
        move = moved(event, "add-or-remove", ALONE)
        unit = "user-entity" if isinstance(event, SentenceSampledGaussian) else "record"
        happened = PrivacyEvent(unit=unit, event=Repeated(count=count, event=event))
        epsilon = proven_at(
            [happened], unit=unit, adjacency="add-or-remove", delta=delta, point=ALONE
        )
        certain = [identified(move, count, end) for end in ENDS.values()]
        masses = [*certain, identified(move, count), mass([(move, count)], epsilon)]
        shown = " | ".join(f"{value:.1e}" for value in masses)
        print(f"| {name} | {epsilon:.3f} | {delta:g} | {shown} |")


if __name__ == "__main__":
    main()
