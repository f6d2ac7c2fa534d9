"""What a result says about utility: headline, floors, and whether anything was learnt."""

from __future__ import annotations

import pytest
from tiny import USER_DP, plugged, runs

from uedp_bench.components.metric import Metric
from uedp_bench.contracts.results import Estimate
from uedp_bench.contracts.task import PUBLIC_ONLY, Task, has_learned, judged
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

LOWER = [
    (Estimate(value=8, low=7, high=9), [10.0], True),
    (Estimate(value=8, low=7, high=10), [10.0], False),  # not strictly
    (Estimate(value=8, low=7, high=11), [10.0], False),
    (Estimate(value=12, low=11, high=13), [10.0], False),
    (Estimate(value=8, low=7, high=9), [10.0, 8.5], False),  # the best floor counts
    (Estimate(value=8), [10.0], None),
    (Estimate(value=10), [10.0], False),
    (Estimate(value=float("inf"), low=5, high=float("inf")), [10.0], False),
    (Estimate(value=8, low=7, high=9), [], None),
    (None, [10.0], None),
]


@pytest.mark.parametrize(("estimate", "floors", "learned"), LOWER)
def test_an_interval_strictly_beyond_the_best_floor_has_learnt(estimate, floors, learned):
    assert has_learned(estimate, floors, larger_is_better=False) is learned
    if estimate is not None:
        estimate = Estimate(
            value=-estimate.value,
            low=None if estimate.high is None else -estimate.high,
            high=None if estimate.low is None else -estimate.low,
        )
    assert has_learned(estimate, [-floor for floor in floors], larger_is_better=True) is learned


class Plain(Task):
    """A plug-in that has never heard of floors."""

    name = "plain"
    metrics = (Metric("score", better="higher"), Metric("other"))

    vocabulary = stages = score = load = None


class Floored(Plain):
    floors = {"guess": "other", "absent": "of another mechanism"}  # noqa: RUF012


def test_a_task_that_names_no_floors_has_a_headline_all_the_same():
    utility = {"score": Estimate(value=0.5, low=0.4, high=0.6), "other": Estimate(value=0.1)}
    Plain.__abstractmethods__ = Floored.__abstractmethods__ = frozenset()
    judgement = judged(Plain(), utility, None)
    assert judgement["headline"].metric == "score"
    assert judgement["headline"].larger_is_better
    assert (judgement["floors"], judgement["learned"]) == ({}, None)
    judgement = judged(Floored(), utility, None)
    assert (judgement["floors"], judgement["learned"]) == ({"guess": 0.1}, True)
    judgement = judged(Floored(), utility, 0.55)
    assert (judgement["floors"], judgement["learned"]) == ({"guess": 0.1, PUBLIC_ONLY: 0.55}, False)


UNTRAINED = """
from uedp_bench.accounting.events import NonPrivate, PrivacyEvent
from uedp_bench.components.component import Params
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.components.registry import mechanisms

EVENTS = (PrivacyEvent(unit="user", event=NonPrivate(reason="a test")),)


@mechanisms.register
class Untrained(TrainingMechanism[Params]):
    \"\"\"Releases what it was given.\"\"\"

    name = "untrained"

    def plan(self, stats):
        return EVENTS

    def train(self, learner, corpus, run):
        return learner.module, EVENTS
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("floors")
    (folder / "untrained.py").write_text(UNTRAINED)
    task = {"name": "next-word", "params": {"pretraining_epochs": 4}}
    with plugged(folder / "untrained.py"):
        specs = [
            *runs(USER_DP),
            *runs({"name": "noiseless", "params": {"epochs": 8}}, "untrained", task=task),
        ]
        finished = [execute(spec, Execution(folder, "cpu", keep_release=False)) for spec in specs]
    assert [result.error for result in finished] == [None] * 3
    return dict(zip(("user-dp", "noiseless", "untrained"), finished, strict=True))


def test_a_model_that_saw_public_text_is_compared_with_itself_before_private_rows(results):
    assert set(results["user-dp"].floors) == {"unigrams"}
    trained, untrained = results["noiseless"], results["untrained"]
    assert set(trained.floors) == {"unigrams", PUBLIC_ONLY}
    assert trained.floors[PUBLIC_ONLY] == untrained.utility["perplexity"].value
    assert untrained.floors == trained.floors
    assert untrained.learned is False
    assert trained.utility["perplexity"].high < trained.floors[PUBLIC_ONLY]


def test_a_run_that_is_worse_than_counting_words_says_so_in_its_file(results):
    result = results["user-dp"]
    assert result.floors["unigrams"] == result.utility["unigram_perplexity"].value
    assert result.utility["perplexity"].value > result.floors["unigrams"]
    assert result.learned is False
    assert result.headline.model_dump() == {
        "metric": "perplexity", "larger_is_better": False, "by_vocabulary": True,
    }  # fmt: skip
