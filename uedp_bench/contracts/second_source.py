"""The second source of a run: its task's parameters name it, as those of masked-language do."""

from __future__ import annotations

from typing import Any, get_args

from uedp_bench.components import registry
from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.contracts.source import SourceRef


def second_source(task: ComponentSpec) -> ComponentSpec | None:
    """Second source that the parameters of a task name; None if they name none."""
    fields = registry.tasks.get(task.name).Params.model_fields
    for name, value in task.params.items():
        if value is not None and name in fields and names_source(fields[name].annotation):
            return ComponentSpec.model_validate(value)
    return None


def names_source(annotation: Any) -> bool:
    """True if a parameter of this type names a second source."""
    return annotation is SourceRef or any(map(names_source, get_args(annotation)))
