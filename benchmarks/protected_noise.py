"""Noise that user-entity DP costs, by how much of an entity is protected (no training, no torch).

In units of what a user adds at most, so that mechanisms compare: the clip bound of a user, or n
times that of a sentence.

    python benchmarks/protected_noise.py
    python benchmarks/protected_noise.py --epsilon 2
"""

from __future__ import annotations

import argparse

from uedp_bench.accounting.accountants.user_entity import user_entity_epsilon
from uedp_bench.accounting.events import Protected, TwoLevelUserEntityGaussian, UserEntityGaussian
from uedp_bench.accounting.noise_search import sentence_noise, smallest_noise

SENTENCES = (0, 1, 3, 10)
"""Numbers of other users that mention the protected entity, with one sentence each."""


def sampled_users(
    event: UserEntityGaussian | TwoLevelUserEntityGaussian,
    rounds: int,
    point: Protected,
    target: tuple[float, float],
) -> float:
    """Noise of user sampling over the clip bound of a user."""
    epsilon, delta = target

    def epsilon_of(noise: float) -> float:
        noisy = event.model_copy(update={"noise_multiplier": noise})
        return user_entity_epsilon(((noisy, rounds),), point, delta)

    return smallest_noise(epsilon_of, epsilon)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--sentences-per-user", type=int, default=6)
    asked = parser.parse_args()
    n, rate, rounds = asked.sentences_per_user, asked.rate, asked.rounds
    target = (asked.epsilon, asked.delta)
    print("| other sentences | uedp-group | uedp-spread, two-level | uedp-spread, one-level |")
    print("|---|---|---|---|")
    for sentences in SENTENCES:
        point = Protected(spread=sentences)
        sizes = {"rate": rate, "noise_multiplier": 0.0, "users": sentences + 1}
        two = TwoLevelUserEntityGaussian(**sizes, sentence_bound=1.0 / n)
        noises = (
            sentence_noise(rate, rounds, n, point, target) / n,
            sampled_users(two, rounds, point, target),
            sampled_users(UserEntityGaussian(**sizes), rounds, point, target),
        )
        print(f"| {sentences} | " + " | ".join(f"{noise:.4f}" for noise in noises) + " |")


if __name__ == "__main__":
    main()
