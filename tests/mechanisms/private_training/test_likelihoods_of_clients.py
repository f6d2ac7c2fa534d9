"""Everything that clients send, against the bound: what the row's own client says is all it costs.

Two clients in two rounds. The row that neighbours differ in pulls its client's sum by the clip
bound; the other client answers to what it was sent, and the first one to that in turn. Losses are
those of the exact laws, so that only the outcomes are drawn.
"""

from __future__ import annotations

import numpy as np

from uedp_bench.accounting.ledger import proven
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import FloatArray
from uedp_bench.mechanisms.private_training.federated_dp_sgd import FederatedDPSGD

RATE, NOISE, ROUNDS, DELTA, MANY = 0.5, 1.3, 2, 0.05, 400_000
SIZES = CorpusStats(20, 20, 0, 0, public=True, clients=(0.5, 0.5))


def _losses(rng: np.random.Generator, holders: tuple[int, ...], rounds: range) -> FloatArray:
    """Privacy losses of whole protocols, with the row at the clients `holders`, in some rounds."""
    loss, shared = np.zeros(MANY), np.zeros(MANY)
    for step in range(ROUNDS):
        sent = []
        for client in (0, 1):
            # What a client sends without the row depends on all that it has heard, not linearly.
            mean = np.tanh(3 * shared) + 0.1 * client
            pulled = client in holders and step in rounds
            message = mean + (rng.random(MANY) < RATE) * pulled + NOISE * rng.standard_normal(MANY)
            if pulled:
                loss += np.log1p(RATE * np.expm1((message - mean - 0.5) / NOISE**2))
            sent.append(message)
        shared = (sent[0] + sent[1]) / 2
    return loss


def _delta(losses: FloatArray, epsilon: float) -> float:
    return float(np.maximum(1.0 - np.exp(epsilon - losses), 0.0).mean())


def _epsilon(**params: float) -> float:
    """What is proven of two clients with ten rows each, of which a round draws RATE of its own."""
    shared = {"rounds": ROUNDS, "local_steps": 1, "noise_multiplier": NOISE}
    mechanism = FederatedDPSGD.create({**shared, **params})
    return proven(mechanism.plan(SIZES), delta=DELTA)[0].epsilon


def test_the_bound_holds_is_reached_and_needs_rows_of_one_client() -> None:
    epsilon, rng, every = _epsilon(batch_size=5), np.random.default_rng(5), range(ROUNDS)
    assert 0.97 * DELTA <= _delta(_losses(rng, (0,), every), epsilon) <= 1.02 * DELTA
    assert _delta(_losses(rng, (0, 1), every), epsilon) > 1.5 * DELTA


def test_rounds_with_rows_of_their_own_cost_one_round_and_no_more() -> None:
    epsilon, rng = _epsilon(batch_size=2, data_per_round=0.4), np.random.default_rng(6)
    for step in range(ROUNDS):
        one = _losses(rng, (1,), range(step, step + 1))
        assert 0.97 * DELTA <= _delta(one, epsilon) <= 1.02 * DELTA
    assert _delta(_losses(rng, (1,), range(ROUNDS)), epsilon) > 1.5 * DELTA
