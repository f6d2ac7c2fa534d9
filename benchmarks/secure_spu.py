"""The network of `secure_inference.py` between two parties of SPU (semi2k, ring of 64 bits).

    python3.11 -m venv spu && spu/bin/pip install spu==0.9.5
    OMP_NUM_THREADS=1 spu/bin/python benchmarks/secure_spu.py

SPU needs an older NumPy than this project, hence an environment of its own. Both parties run in
this process; CPU seconds are of both, with what SPU's dealer expands. Weights are drawn by chance:
cost does not depend on them. Max-pooling comes before ReLU, as in this project.
"""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np
import spu
from spu.utils import simulation

ROWS, SIZE = 200, 768
KERNELS, CHANNELS, POOLS = ((4, 2, 3), (8, 3, 4), (16, 4, 5)), (2, 4, 6), (3, 4, 5)
TURNS = 3

Weights = list[list[np.ndarray]]


def weights(rng: np.random.Generator) -> Weights:
    """Filters of each branch, and then the dense layers."""
    branches = []
    for kernels in KERNELS:
        channels = (1, *CHANNELS)
        shapes = zip(channels[1:], channels, kernels, strict=False)
        branches.append([uniform(rng, shape, shape[1] * shape[2]) for shape in shapes])
    return [*branches, [uniform(rng, (204, 32), 204), uniform(rng, (32, 2), 32)]]


def uniform(rng: np.random.Generator, shape: tuple[int, ...], inputs: int) -> np.ndarray:
    return rng.uniform(-1, 1, shape).astype(np.float32) / np.float32(inputs**0.5)


def labels(x: jax.Array, parts: Weights) -> jax.Array:
    """True where the second class is the label."""
    *branches, dense = parts
    outputs = []
    for filters in branches:
        y = x
        for each, pool in zip(filters, POOLS, strict=True):
            y = jax.lax.conv_general_dilated(
                y, each, (1,), "VALID", dimension_numbers=("NCH", "OIH", "NCH")
            )
            whole = y.shape[2] // pool
            windows = y[:, :, : whole * pool].reshape(*y.shape[:2], whole, pool)
            y = jnp.maximum(jnp.max(windows, -1), 0)
        outputs.append(y.reshape(len(y), -1))
    logits = jnp.concatenate(outputs, 1) @ dense[0] @ dense[1]
    return logits[:, 1] > logits[:, 0]


def main() -> None:
    rng = np.random.default_rng(0)
    parts, inputs = weights(rng), rng.normal(size=(ROWS, 1, SIZE)).astype(np.float32)
    config = spu.RuntimeConfig(
        protocol=spu.ProtocolKind.SEMI2K, field=spu.FieldType.FM64, fxp_fraction_bits=16
    )
    shared = simulation.sim_jax(simulation.Simulator(2, config), labels)
    for _ in range(TURNS):
        start = time.process_time()
        answers = shared(inputs, parts)
        print(f"{ROWS} texts: {time.process_time() - start:.2f} CPU seconds")
    same = np.mean(np.asarray(answers) == np.asarray(labels(inputs, parts)))
    print(f"labels agree: {same:.1%}")


if __name__ == "__main__":
    main()
