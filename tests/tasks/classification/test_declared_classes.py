"""What is learnt has public classes, or nothing is proven of a network that learns them."""

from __future__ import annotations

import pytest

from uedp_bench.components.registry import tasks


@pytest.mark.parametrize(("target", "learnt"), [("label", "labels"), ("age", "attribute age")])
def test_a_task_says_whose_classes_its_network_has(target: str, learnt: str) -> None:
    assert tasks.create("text-classification", {"target": target}).classes_of() == {learnt}
