"""Values of details in the shapes that figures need; what has another shape stays in tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from uedp_bench.contracts.results import Estimate

T = TypeVar("T")
Metrics = Mapping[str, Estimate]
Details = Mapping[str, Any]


def shaped(shape: TypeAdapter[T], value: Any) -> T | None:
    """The value in a shape; None where it has another."""
    try:
        return shape.validate_python(value)
    except ValidationError:
        return None
