"""What a result says of the files beside it, where its spec says so too."""

from __future__ import annotations

from collections.abc import Iterator

from uedp_bench.leaderboard.boards import is_generated
from uedp_bench.leaderboard.validation.components import components
from uedp_bench.leaderboard.validation.report import Problem, error, shown
from uedp_bench.mechanism import ServingMechanism, TrainingMechanism
from uedp_bench.results import MOST_SAMPLES, Result


def check_samples(result: Result) -> Iterator[Problem]:
    """Problems where a result shows text that is not generated, and nobody asked for it."""
    if not result.samples:
        return
    source = result.spec.source
    if not (is_generated(result.spec) or source.params.get("show_samples") is True):
        yield error(
            "samples",
            f"holds text of {shown(source.name)}, which is not generated, and the spec does not "
            "say source.show_samples: take the samples out",
        )
    for attack, found in result.samples.items():
        if len(found) > MOST_SAMPLES:
            yield error(f"samples.{attack}", f"has {len(found)} texts, and {MOST_SAMPLES} are kept")


def check_stored(result: Result) -> Iterator[Problem]:
    """Problems where `stored` says that a protocol hides the model, and no mechanism runs one.

    A mechanism that keeps the model behind what it serves says how to serve it again.
    """
    mechanisms = [each.found for each in components(result.spec) if "mechanism" in each.where]
    if None in mechanisms or result.status == "failed":
        return
    serving = [
        kind
        for kind in mechanisms
        if kind is not None
        and issubclass(kind, ServingMechanism)
        and not issubclass(kind, TrainingMechanism)
    ]
    hiding = [kind for kind in serving if kind.serve_again is not ServingMechanism.serve_again]
    if "protocol" in result.stored and not serving:
        yield error("stored.protocol", "is there, and no mechanism of the spec answers queries")
    if hiding and "release" in result.stored and "protocol" not in result.stored:
        yield error(
            "stored.protocol", f"is missing: {hiding[0].name} keeps the model behind what it serves"
        )
