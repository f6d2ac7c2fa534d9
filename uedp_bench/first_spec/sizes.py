"""Sizes that fit: minutes on a few cores, and a private mechanism only where there is a crowd."""

from __future__ import annotations

from dataclasses import dataclass

from uedp_bench.first_spec.measured import Measured

TOKENS = {"next-word": 400_000, "tagging": 150_000, "text-classification": 4_000_000}
"""Tokens that one training looks at: a quarter of a minute or so on a core, for small models."""

MOST_TOKENS = {"next-word": 40, "tagging": 60, "text-classification": 256}
MOST_WORDS = {"next-word": 2_000, "tagging": 3_000, "text-classification": 5_000}
"""Words of the vocabulary, at most; tokens of a row."""

FEW_USERS, CROWD = 40, 400
"""Below the first number of training users, rows are the unit; from the second, users are one."""

HELD_OUT_SHARE, LEAST_HELD_OUT, MOST_HELD_OUT = 0.1, 10, 200


@dataclass(frozen=True)
class Sizes:
    """Numbers of a spec.

    Attributes:
        max_tokens, vocabulary: largest number of tokens of a row, and size of the vocabulary.
        epochs: epochs of training without noise.
        sample: share of the users that are taken.
        held_out: users whom membership holds out; 0 where there are too few.
        batch, steps: batch size and steps of a mechanism that protects a record.
        users_per_round, rounds, rows_per_user: sizes of one that protects a user; none where there
            are too few users.
    """

    max_tokens: int
    vocabulary: int
    epochs: int
    sample: float
    held_out: int
    batch: int
    steps: int
    users_per_round: int = 0
    rounds: int = 0
    rows_per_user: int = 0


def sizes_of(measured: Measured, task: str) -> Sizes:
    """Choose sizes for a task.

    Args:
        measured: measurements of the corpus.
        task: name of the task.
    """
    budget = TOKENS.get(task, min(TOKENS.values()))
    most = MOST_TOKENS.get(task, min(MOST_TOKENS.values()))
    tokens = max(8, min(round(measured.words[1]) + 1, most))
    row = min(measured.words[0] + 1, tokens)
    whole = measured.training * row
    sample = min(1.0, round(budget / (2 * whole), 2) or 0.01)
    rows, users = measured.training * sample, measured.training_users * sample
    epochs = int(max(2, min(12, budget / max(rows * row, 1))))
    held_out = int(max(LEAST_HELD_OUT, min(MOST_HELD_OUT, HELD_OUT_SHARE * users)))
    batch = int(max(32, min(512, rows / 10)))
    steps = int(max(30, min(100, budget / (2 * batch * row))))
    vocabulary = max(200, min(MOST_WORDS.get(task, 2_000), measured.vocabulary))
    shared = (tokens, vocabulary, epochs, sample, held_out if users >= 4 * held_out else 0)
    if users < CROWD or measured.training_users == measured.training:  # a user is a row
        return Sizes(*shared, batch, steps)
    a_round = int(max(80, min(300, users / 8)))
    rows_of_user = int(max(1, min(20, rows / users, budget / (a_round * 20 * row))))
    rounds = int(max(15, min(60, budget / (a_round * rows_of_user * row))))
    return Sizes(*shared, batch, steps, a_round, rounds, rows_of_user)
