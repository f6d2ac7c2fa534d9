"""No model: for tasks that train nothing, or a network of their own."""

from __future__ import annotations

from uedp_bench.api import Component, Params


class NoModelParams(Params):
    """No model has no parameters."""


class NoModel(Component[NoModelParams]):
    """Stands where a spec has a model, in runs of a task that takes no model."""

    name = "none"
    Params = NoModelParams
