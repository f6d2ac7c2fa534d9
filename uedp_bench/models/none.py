"""No model: for tasks that train nothing."""

from __future__ import annotations

from uedp_bench.component import Component, Params


class NoModelParams(Params):
    """No model has no parameters."""


class NoModel(Component[NoModelParams]):
    """Stands where a spec has a model, in runs of a task that trains nothing."""

    name = "none"
    Params = NoModelParams
