"""Flat vectors: views of a module's weights, and canaries in the place of a user's update.

Clipping, noise and the server's step act on one vector; loading a user's weights is one copy.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import IntArray
from uedp_bench.training.bounds import NetworkLayer


class FlatModule:
    """A copy of a module with its parameters laid out flat.

    Args:
        module: copied, never changed; its trainable parameters must be floating point.
        device: device of the copy.

    Attributes:
        module: the copy; its parameters are views of `vector`.
        weights: its trainable parameters, in the order of the vector.
        vector: (d,) the weights.
    """

    def __init__(self, module: nn.Module, device: str) -> None:
        self.module = copy.deepcopy(module).to(device)
        named = [(n, p) for n, p in self.module.named_parameters() if p.requires_grad]
        self.names = [name for name, _ in named]
        self.shapes = [p.shape for _, p in named]
        self.sizes = [p.numel() for _, p in named]
        self.vector = torch.cat([p.detach().reshape(-1) for _, p in named])
        self._places = self._places_of([parameter for _, parameter in named])
        self._buffers = {name: value.clone() for name, value in self.module.named_buffers()}
        for (_, parameter), value in zip(named, torch.split(self.vector, self.sizes), strict=True):
            parameter.data = value.view_as(parameter)
        self.weights: list[Tensor] = [parameter for _, parameter in named]

    def __len__(self) -> int:
        return len(self.vector)

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Parameters by name from flat weights (..., d), each (..., *shape)."""
        lead = flat.shape[:-1]
        parts = torch.split(flat, self.sizes, dim=-1)
        return {
            name: part.reshape(*lead, *shape)
            for name, part, shape in zip(self.names, parts, self.shapes, strict=True)
        }

    def at_all_places(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Weights by name, and by the names of all other modules that share them.

        For `torch.func.functional_call` with `tie_weights=False`. With True, it would find these
        names itself, but a module that has two names would come twice: the second time it takes
        the weights of the call for the module's own, and leaves them in it.
        """
        return {place: value for name, value in weights.items() for place in self._places[name]}

    def _places_of(self, weights: list[Tensor]) -> dict[str, list[str]]:
        """By name, where a weight is registered: each module counts once, by its first name."""
        names = {id(weight): name for weight, name in zip(weights, self.names, strict=True)}
        places: dict[str, list[str]] = {name: [] for name in self.names}
        for owner, module in self.module.named_modules():
            for tensors in (module._parameters, module._buffers):
                for own, value in tensors.items():
                    if (name := names.get(id(value))) is not None:
                        places[name].append(f"{owner}.{own}" if owner else own)
        return places

    def layers(self) -> tuple[NetworkLayer, ...]:
        """The modules that own weights, in the order of the vector."""
        sizes: dict[str, int] = {}
        for name, size in zip(self.names, self.sizes, strict=True):
            owner = name.rpartition(".")[0]
            sizes[owner] = sizes.get(owner, 0) + size
        return tuple(NetworkLayer(name, size) for name, size in sizes.items())

    def by_layer(self) -> tuple[tuple[str, ...], ...]:
        """Names of the weights of each of `layers`."""
        owners = [name.rpartition(".")[0] for name in self.names]
        return tuple(
            tuple(name for name, of in zip(self.names, owners, strict=True) if of == owner)
            for owner in dict.fromkeys(owners)
        )

    def changed_buffers(self) -> list[str]:
        """Names of buffers that no longer hold what they held at first.

        Batch normalisation keeps running means of its inputs there: nothing clips them.
        """
        current = dict(self.module.named_buffers())
        return [name for name, old in self._buffers.items() if not torch.equal(current[name], old)]

    def load(self, flat: Tensor) -> None:
        """Copy flat weights (d,) into the module."""
        self.vector.copy_(flat)


SHORTER = 1.0 - 1e-6
"""Clipping leaves a canary as it is: rounding must not make it longer than the bound."""


def direction(run: Run, user: int, size: int) -> Tensor:
    """(size,) the unit vector of one user in one run, uniform on the sphere; float64, CPU."""
    vector = run.shared("injected", user).standard_normal(size)
    return torch.from_numpy(vector / np.linalg.norm(vector))


def inject(updates: Tensor, users: IntArray, bound: float, run: Run) -> Tensor:
    """Replace the updates of injected users by their direction at the clip bound.

    Random-update canaries: Andrew, Kairouz, Oh, Oprea, McMahan, Suriyakumar 2024, "One-shot
    empirical privacy estimation for federated learning" (arXiv:2302.03098), Algorithm 2. In high
    dimensions random directions are nearly orthogonal to each other and to all other updates, so
    that each canary can be looked for alone.

    Where a unit is less than a user (a record, a sentence), every unit of the user is replaced.
    Updates that nothing clips are left alone: no data could send what would be put in.

    Args:
        updates: (units, d); changed in place.
        users: (units,) user of each unit.
        bound: clip bound on the norm of a unit's update.
        run: run that names the injected users, and counts their parts (`injected_updates`).
    """
    if not run.injected or bound == float("inf"):
        return updates
    injected = set(run.injected)
    replaced = [(i, user) for i, user in enumerate(users.tolist()) if user in injected]
    for i, user in replaced:
        updates[i] = (SHORTER * bound * direction(run, user, updates.shape[1])).to(updates)
    run.note(injected_updates=run.noted("injected_updates", 0) + len(replaced))
    return updates
