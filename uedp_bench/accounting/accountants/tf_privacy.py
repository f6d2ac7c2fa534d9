"""The accountant that TensorFlow Privacy printed epsilons with in 2019 and 2020.

Its `compute_dp_sgd_privacy`: Renyi divergences of the sampled Gaussian mechanism (Mironov, Talwar
and Zhang 2019, arXiv:1908.10530) at few orders, and the conversion of Mironov 2017
(arXiv:1702.07476, Proposition 3), epsilon = RDP + ln(1/delta) / (order - 1). Kept as published, so
that a claim reads as its paper has it: the smallest epsilon it can express is ln(1/delta) / 511.
`proven` uses modern accountants, whose conversion gives less.
"""

from __future__ import annotations

import math

import numpy as np

from uedp_bench.accounting.events import Gaussian, PoissonSampled

ORDERS = (
    *(1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 4.5),
    *(float(order) for order in range(5, 64)),
    *(128.0, 256.0, 512.0),
)
"""Orders of `compute_dp_sgd_privacy`, increasing."""


def tf_privacy_epsilon(event: Gaussian | PoissonSampled, count: int, delta: float) -> float:
    """Epsilon of `count` rounds: min over orders of RDP + ln(1/delta) / (order - 1).

    Args:
        event: one round; without sampling its rate is 1.
        count: number of rounds.
        delta: in (0, 1).

    Returns:
        In nats; infinity without noise.
    """
    from dp_accounting.rdp import RdpAccountant

    from uedp_bench.accounting.accountants.dp_accounting import without_warnings
    from uedp_bench.accounting.accountants.dp_accounting_events import to_dp_event

    accountant = RdpAccountant(ORDERS)  # TensorFlow Privacy's divergences moved there
    with without_warnings():
        accountant.compose(to_dp_event(event), count)
    # It returns epsilons only, by another conversion; the divergences have no public name.
    divergences = np.asarray(accountant._rdp, dtype=np.float64)
    return float(np.min(divergences - math.log(delta) / (np.array(ORDERS) - 1.0)))
