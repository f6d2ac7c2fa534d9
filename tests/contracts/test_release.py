"""What releases promise: losses of rows for all that is trained, and no attribute undeclared."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import pytest
from toy import ToyLearner

from uedp_bench.contracts.capabilities import (
    _CAPABILITIES,
    RowScorer,
    capabilities,
    capability,
    declared_capabilities,
)
from uedp_bench.contracts.learner import TrainedRelease
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError, PluginError, UedpBenchError

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("uedp_bench", "attacks", "mechanisms", "tasks", "leaderboard")


class ToyRelease(TrainedRelease):
    """Learns rows whose text is a number: the loss is half the square of the distance to it."""

    def __init__(self, weight: float = 0.0, keeps: int | None = None) -> None:
        self.weight, self.keeps = weight, keeps

    def learner(self, corpus: Corpus) -> ToyLearner:
        points = np.array([[float(text)] for text in corpus.texts][: self.keeps])
        learner = ToyLearner(points, range(len(points)))
        learner.module.weight.data.fill_(self.weight)
        return learner

    def scorable(self, corpus: Corpus) -> np.ndarray:
        return np.array([text != "" for text in corpus.texts], dtype=bool)


def rows(*texts: str) -> Corpus:
    return Corpus(texts, {"user": np.arange(len(texts))}, np.zeros(len(texts), dtype=np.int64))


def test_the_loss_of_a_row_is_the_learners_and_depends_on_that_row_alone() -> None:
    release = ToyRelease(weight=1.0)
    assert capabilities(release) == ("RowScorer",)
    assert release.row_losses(rows("1", "3", "0")).tolist() == [0.0, 2.0, 0.5]
    assert release.row_losses(rows("3")).tolist() == [2.0]
    assert release.row_losses(rows()).shape == (0,)


def test_many_rows_are_computed_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = ToyLearner.batch

    def batch(self, chosen, seeds):
        seen.append(len(chosen))
        return real(self, chosen, seeds)

    monkeypatch.setattr(ToyLearner, "batch", batch)
    monkeypatch.setattr("uedp_bench.contracts.learner._NUMBERS_AT_ONCE", 2)
    values = [str(i) for i in range(5)]
    assert ToyRelease().row_losses(rows(*values)).tolist() == [i * i / 2 for i in range(5)]
    assert seen == [2, 2, 1]


@pytest.mark.parametrize(
    ("release", "texts", "error", "message"),
    [
        (ToyRelease(), ("1", ""), InputError, "1 of 2 rows.*ToyRelease.*row 1"),
        (ToyRelease(keeps=1), ("1", "2"), PluginError, "keeps 1 of 2 rows"),
        (ToyRelease(float("nan")), ("1",), UedpBenchError, "row 0.*NaN"),
    ],
)
def test_a_row_without_a_loss_is_refused(release, texts, error, message) -> None:
    with pytest.raises(error, match=message):
        release.row_losses(rows(*texts))


def test_losses_below_zero_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ToyLearner.losses

    def shifted(self, module, batch):
        losses = real(self, module, batch)
        return losses._replace(nats=losses.nats - 1.0)

    monkeypatch.setattr(ToyLearner, "losses", shifted)
    with pytest.raises(PluginError, match=r"ToyLearner\.losses.*-1 "):
        ToyRelease(1.0).row_losses(rows("1"))


# --------------------------------------------------------------------------------- capabilities


def test_a_stranger_declares_a_capability_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uedp_bench.contracts.capabilities._CAPABILITIES", dict(_CAPABILITIES))

    @capability(lambda release, rows: np.array([release.shouts()]))
    @runtime_checkable
    class Shouter(Protocol):
        def shouts(self) -> float: ...

    class Loud:
        def shouts(self) -> float:
            return 1.0

    assert capabilities(Loud()) == ("Shouter",)
    assert declared_capabilities()[-1].kind is Shouter
    with pytest.raises(PluginError, match="RowScorer"):
        capability(None)(type("RowScorer", (), {}))
    assert isinstance(ToyRelease(), RowScorer)


# --------------------------------------------------------------------- no attribute undeclared


def asked_by_name(file: Path) -> Iterator[str]:
    """Places where an attribute of a release or a learner is asked for by a name in quotes."""
    code = file.read_text(encoding="utf-8")
    # Nearly no file asks for any attribute by name.
    tree = ast.parse(code if "getattr(" in code or "hasattr(" in code else "")
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id not in ("getattr", "hasattr") or len(node.args) < 2:
            continue
        whose, name = node.args[:2]
        receiver = ast.unparse(whose).lower()
        if ("release" in receiver or "learner" in receiver) and isinstance(name, ast.Constant):
            yield f"{file.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"


def test_no_attribute_of_a_release_or_a_learner_is_asked_for_by_name() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 300
    assert not [place for file in files for place in asked_by_name(file)]


def test_the_search_finds_what_it_looks_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    file = tmp_path / "bad.py"
    file.write_text('shown = getattr(self.release, "published", None)\n')
    assert len(list(asked_by_name(file))) == 1
