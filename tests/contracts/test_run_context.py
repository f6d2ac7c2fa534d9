"""A run is the same for all who see it: what plug-ins have to say goes through its methods."""

from __future__ import annotations

import pytest
from toy import toy_run

from uedp_bench.contracts.release import Release
from uedp_bench.corpus import BoolArray


@pytest.mark.parametrize("name", ["seed", "stats", "retrainer", "scope", "series", "my_own"])
def test_nobody_sets_an_attribute_of_a_run(name: str) -> None:
    run = toy_run()
    with pytest.raises(AttributeError, match=rf"'{name}' .*run\.note"):
        setattr(run.within("stage"), name, 1)
    assert run.seed == 0


def test_what_was_noted_cannot_be_written_over_from_outside() -> None:
    run = toy_run()
    run.note(clipped=1)
    run.log("loss", 0, 2.0)
    run.count({"rows": 3})
    for shown in (run.diagnostics, run.series, run.counts):
        with pytest.raises(TypeError):
            shown["mine"] = 1  # type: ignore[index]
    inner = run.within("stage", number=2)
    inner.note(clipped=4)
    inner.count({"rows": 1})
    assert run.diagnostics == {"clipped": 1, "clipped_2": 4}
    assert run.counts == {"rows": 4.0}


def test_only_the_run_that_attacks_see_can_retrain() -> None:
    def retrainer(users: BoolArray, **_: object) -> Release:
        raise LookupError("asked")

    run = toy_run()
    attack_run = run.within("attack membership").retraining(retrainer)
    with pytest.raises(LookupError, match="asked"):
        attack_run.retrain(None, mechanism="none", seed=1)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match=r"retrain.*trainer"):
        run.retrain(None, mechanism="none", seed=1)  # type: ignore[arg-type]


def test_calls_are_numbered_across_stages_and_views_of_a_run() -> None:
    run = toy_run()
    first = run.within("publish").rng("words").integers(2**62)
    again = run.retraining(None).within("publish").rng("words").integers(2**62)
    fresh = toy_run().within("publish")
    assert first != again
    assert [fresh.rng("words").integers(2**62) for _ in range(2)] == [first, again]
