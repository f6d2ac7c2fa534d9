"""A release that does not load, or answers differently once loaded, is a failed run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny import NOISELESS, plugged, runs

from uedp_bench.corpus import Corpus
from uedp_bench.errors import PluginError
from uedp_bench.harness.execution import Execution
from uedp_bench.harness.runner import execute
from uedp_bench.harness.saved_release import check_saved
from uedp_bench.release import PublishedOnly, Release

ENSEMBLE = """
import copy
from torch import nn
from uedp_bench.mechanism import TrainingMechanism
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.registry import mechanisms


class Mean(nn.Module):
    \"\"\"The mean of the logits of several networks.\"\"\"

    def __init__(self, networks):
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, *args, **names):
        return sum(each(*args, **names) for each in self.networks) / len(self.networks)


@mechanisms.register
class Ensemble(Noiseless):
    \"\"\"Trains one network and releases two that agree.\"\"\"

    name = "ensemble"

    def train(self, learner, corpus, run):
        module, events = super().train(learner, corpus, run)
        return Mean([module, copy.deepcopy(module)]), events
"""


def test_an_ensemble_that_does_not_load_is_a_failed_run(tmp_path: Path) -> None:
    file = tmp_path / "ensemble.py"
    file.write_text(ENSEMBLE)
    with plugged(file):
        (spec,) = runs({"name": "ensemble", "params": {"epochs": 1}})
        result = execute(spec, Execution(tmp_path / "out", "cpu"))
    assert result.status == "failed"
    assert result.error is not None
    assert result.error.phase == "save"
    assert "what the task next-word loads is not that release" in result.error.message
    assert not result.utility


def test_what_loads_is_finished(tmp_path: Path) -> None:
    (spec,) = runs(NOISELESS)
    result = execute(spec, Execution(tmp_path, "cpu"))
    assert result.error is None


class Constant(Release):
    """Gives every class the same probability, moved by a number that it may forget to save."""

    def __init__(self, moved: float, shape: int = 2) -> None:
        self.moved, self.shape = moved, shape

    def class_logprobs(self, corpus: Corpus) -> np.ndarray:
        return np.full((len(corpus), self.shape), self.moved)


class Loads:
    """As a task that loads what it is told to."""

    name = "a-task"

    def __init__(self, again: Release) -> None:
        self.again = again

    def load(self, folder: Path) -> Release:
        return self.again


@pytest.mark.parametrize(
    ("again", "said"),
    [
        (
            Constant(1.0, shape=3),
            r"as a Classifier, it answers with shape \(2, 3\), and did with \(2, 2\)",
        ),
        (Constant(1.5), "as a Classifier, its answers differ by up to 0.5"),
        (PublishedOnly(), "it is no Classifier any more"),
        (Constant(float("nan")), "as a Classifier, its answers differ"),
    ],
)
def test_other_answers_are_refused(again: Release, said: str) -> None:
    corpus = Corpus(("a", "b"), {"user": np.arange(2)}, np.array([2, 2]))
    with pytest.raises(PluginError, match=said):
        check_saved(Loads(again), Path(), Constant(1.0), corpus)
    check_saved(Loads(Constant(1.00001)), Path(), Constant(1.0), corpus)
    check_saved(Loads(again), Path(), PublishedOnly(), corpus)
