"""What is left of a corpus after a mechanism that publishes: nothing in clear by accident.

A publisher says which content columns it *carries*: entity mentions that it moved along with the
text, targets that it protected too. All others are gone after it, and whoever needs one of them is
refused by name, before training where it says so (`Component.reads`), else when it asks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from uedp_bench.accounting.events import PrivacyEvent
from uedp_bench.corpus import Corpus, LostSpans, Spans
from uedp_bench.errors import CapabilityError, InputError, PluginError
from uedp_bench.mechanism import Events, PublishingMechanism

if TYPE_CHECKING:
    from uedp_bench.component import Component
    from uedp_bench.harness.pipeline import Pipeline
    from uedp_bench.run import Run


def publish(publisher: PublishingMechanism[Any], corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
    """What a mechanism publishes, without the content columns that it does not carry.

    Raises:
        PluginError: if mentions that it says it carries are not inside its texts.
    """
    out, events = publisher.publish(corpus, run)
    carries = publisher.carries
    return (
        replace(
            out,
            # Vectors stand in place of texts.
            texts=out.texts if out.vectors is None else ("",) * len(out),
            entities=_moved(out, publisher) if "entities" in carries else LostSpans(publisher.name),
            targets=out.targets if "targets" in carries else None,
            gold=None,
        ),
        events,
    )


def publish_all(pipeline: Pipeline, corpus: Corpus, run: Run) -> tuple[Corpus, list[PrivacyEvent]]:
    """What all publishers of a pipeline make, one after the other, and their events.

    Raises:
        CapabilityError: if one reads text where another published vectors before it.
    """
    published: list[PrivacyEvent] = []
    for number, publisher in enumerate(pipeline.publishers):
        if corpus.vectors is not None:
            before = pipeline.publishers[number - 1].name
            raise CapabilityError(
                f"{publisher.name} reads text, and {before} before it publishes vectors: name "
                f"{publisher.name} first, or leave one out"
            )
        within = run.within(pipeline.stage_of(publisher))
        corpus, events = publish(publisher, corpus, within)
        published += pipeline.staged(publisher, events)
    return corpus, published


def check_carried(pipeline: Pipeline, task: Component[Any]) -> None:
    """Refuses before training what needs a column that a publisher before it does not carry.

    Raises:
        CapabilityError: naming who reads what, and who does not carry it.
    """
    for at, part in enumerate(pipeline.parts):
        for why in _missing(part, pipeline.parts[:at]):
            raise CapabilityError(why)
    if (reason := not_carried(task, pipeline)) is not None:
        raise CapabilityError(f"the task {reason}")


def not_carried(reader: Component[Any], pipeline: Pipeline) -> str | None:
    """Why a task or an attack cannot read what was published; None where it can."""
    return next(_missing(reader, pipeline.publishers), None)


def _missing(reader: Component[Any], before: tuple[Any, ...]) -> Iterator[str]:
    for part in before:
        if isinstance(part, PublishingMechanism):
            for column in sorted(reader.reads() - part.carries):
                yield (
                    f"{reader.name} reads {column}, and {part.name} before it does not carry them: "
                    "leave one of the two out"
                )


def _moved(out: Corpus, publisher: PublishingMechanism[Any]) -> Spans:
    """The mentions that a publisher carried, their ids made anew from the published surfaces."""
    mentions = out.entities.mentions()
    try:
        spans = Spans.build(out.texts, mentions)
    except InputError as error:
        raise PluginError(f"{publisher.name} says that it carries entities, but {error}") from None
    if len(spans) and spans.type.max() >= len(out.entity_types):
        raise PluginError(
            f"{publisher.name} says that it carries entities, but one is of type number "
            f"{spans.type.max()}, and the corpus declares {len(out.entity_types)}"
        )
    return spans
