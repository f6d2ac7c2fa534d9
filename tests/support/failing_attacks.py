"""A plug-in file of an attack that fails in a chosen way, in a chosen step."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Literal

from uedp_bench.components.component import Params
from uedp_bench.components.registry import attacks
from uedp_bench.contracts.capabilities import RowScorer
from uedp_bench.contracts.leakage import Attack, Leakage, Planted
from uedp_bench.contracts.results import Estimate
from uedp_bench.errors import InputError, PrivacyError

ERRORS: dict[str, BaseException] = {
    "index": IndexError("list index out of range"),
    "input": InputError("there is no test row"),
    "no-message": AssertionError(),
    "memory": MemoryError(),
    "privacy": PrivacyError("a model did not keep to its plan"),
    "interrupt": KeyboardInterrupt(),
    "exit": SystemExit(3),
    "half-character": OSError("cannot read \udcff.txt"),
    "long": ValueError("x" * 2**25),
}

VALUES: dict[str, Any] = {
    "nothing": None,
    "text": Leakage({"auc": "high"}),  # type: ignore[dict-item]
    "object": Leakage({"auc": Estimate(value=0.5)}, {"model": object()}),
    "deep": Leakage({"auc": Estimate(value=0.5)}, {"rows": json.loads("[" * 150 + "]" * 150)}),
    "large": Leakage({"auc": Estimate(value=0.5)}, {"rows": "x" * 2**25}),
    "bound": Leakage({"auc": Estimate(value=0.5)}, {}, ("none",)),  # type: ignore[arg-type]
}


class FailingParams(Params):
    step: Literal["plant", "judge-plan", "refuse", "run"] = "run"
    way: str = "index"


@attacks.register
class Failing(Attack[FailingParams]):
    """Plants nothing, and fails."""

    name = "failing"
    Params = FailingParams
    needs: ClassVar[tuple[type, ...]] = (RowScorer,)

    def _fail_in(self, step: str) -> None:
        if self.params.step == step and self.params.way in ERRORS:
            raise ERRORS[self.params.way]

    def plant(self, corpus, rng):
        self._fail_in("plant")
        return corpus, Planted()

    def refuses_events(self, events):
        self._fail_in("judge-plan")
        return

    def refuses(self, release, corpus):
        self._fail_in("refuse")
        return

    def run(self, release, planted, corpus, run):
        self._fail_in("run")
        return VALUES[self.params.way]
