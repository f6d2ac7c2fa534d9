"""Several modules released as one: they answer by their mean, save and load, and are attacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import plugged, runs
from torch import nn

from uedp_bench.errors import InputError
from uedp_bench.models.networks.modules import ModuleSet, load_modules, modules_of, save_modules
from uedp_bench.one_run.components import build
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.private_data import load_release
from uedp_bench.one_run.runner import execute

ENSEMBLE = '''
from dataclasses import replace

from uedp_bench.api import mechanisms
from uedp_bench.api.training import ModuleSet
from uedp_bench.mechanisms.noiseless import Noiseless


@mechanisms.register
class Ensemble(Noiseless):
    """Two networks that were trained with minibatches of other seeds."""

    name = "two-networks"

    def train(self, learner, corpus, run):
        runs = [run, replace(run, seed=run.seed + 1)]
        both = [super(Ensemble, self).train(learner, corpus, one) for one in runs]
        return ModuleSet([module for module, _ in both]), both[0][1]
'''


@pytest.fixture
def ensemble(tmp_path: Path):
    file = tmp_path / "two_networks.py"
    file.write_text(ENSEMBLE)
    with plugged(file):
        yield {"name": "two-networks", "params": {"epochs": 2}}


TASKS = {
    "text-classification": (
        {"name": "bilstm", "params": {"vocabulary_size": 200, "units": 8}},
        [{"name": "membership", "params": {"held_out_users": 20, "shadow_models": 2}}],
    ),
    "next-word": (
        {"name": "lstm-small", "params": {"vocabulary_size": 200, "units": 8, "embedding": 8}},
        [{"name": "audit", "params": {"canaries": 20, "word_pool": 100}}],
    ),
}


@pytest.mark.parametrize("task", sorted(TASKS))
def test_an_ensemble_is_saved_loaded_scored_and_attacked(task, ensemble, tmp_path):
    model, attacks = TASKS[task]
    source = {"users": 60, "valid_users": 2, "test_users": 10, "public_users": 20}
    (spec,) = runs(ensemble, task=task, model=model, attacks=attacks,
                   source={"name": "embedded", "params": source})  # fmt: skip
    result = execute(spec, Execution(tmp_path / "out", "cpu"))
    assert result.error is None, result.error  # the run compares what is loaded with what was saved
    assert not result.skipped_attacks
    assert all(result.leakage.values())
    folder = tmp_path / "out" / result.id / "release"
    assert {part.name for part in folder.iterdir() if part.is_dir()} >= {"module-0", "module-1"}
    loaded = load_release(build(spec).task, folder)
    first, second = modules_of(loaded.module)
    weights = zip(first.parameters(), second.parameters(), strict=True)
    assert not all(torch.equal(a, b) for a, b in weights)


class TwoParts(nn.Module):
    """An encoder of `width` numbers and a head of three classes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.first, self.second = nn.Linear(4, width), nn.Linear(width, 3)

    def represent(self, batch):
        return self.first(batch["x"])

    def classify(self, z, seeds=None):
        return self.second(z)

    def forward(self, batch):
        return self.classify(self.represent(batch))


def test_answers_are_the_mean_of_probabilities_whole_or_in_two_parts():
    both = [TwoParts(5), TwoParts(2)]
    module, batch = ModuleSet(both), {"x": torch.randn(6, 4)}
    mean = sum(torch.softmax(each(batch), dim=-1) for each in both) / 2
    assert torch.allclose(module(batch).exp(), mean, atol=1e-6)
    z = module.represent(batch)
    assert z.shape == (6, module.width) == (6, 7)
    assert torch.allclose(module.classify(z), module(batch), atol=1e-6)


def test_each_module_has_a_folder_and_one_alone_has_none(tmp_path):
    def save(module, folder):
        torch.save(module.state_dict(), folder / "w.pt")

    def load(folder):
        module = nn.Linear(2, 2)
        module.load_state_dict(torch.load(folder / "w.pt", weights_only=True))
        return module

    many, one = ModuleSet([nn.Linear(2, 2) for _ in range(3)]), nn.Linear(2, 2)
    for name, module in (("many", many), ("one", one)):
        (tmp_path / name).mkdir()
        save_modules(module, tmp_path / name, save)
        again = load_modules(tmp_path / name, load)
        assert len(modules_of(again)) == len(modules_of(module))
        x = torch.randn(5, 2)
        assert np.array_equal(again(x).detach(), module(x).detach())
    assert not list((tmp_path / "one").glob("module-*"))


def test_an_empty_set_is_refused():
    with pytest.raises(InputError, match="ModuleSet"):
        ModuleSet([])
