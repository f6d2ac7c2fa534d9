"""Columns of a corpus after a mechanism that publishes: nothing stays in clear by accident.

A publisher says which content columns it *carries*: entity mentions that it moved along with the
text, targets that it protected too. All others are gone after it, and whoever needs one of them is
refused by name, before training where it says so (`Component.reads`), else when it asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from uedp_bench.contracts.mechanism import Events, PublishingMechanism
from uedp_bench.corpus import COLUMNS, CONTENT, Corpus, Spans
from uedp_bench.errors import CapabilityError, InputError, PluginError, nearest, shown

if TYPE_CHECKING:
    from uedp_bench.components.component import Component
    from uedp_bench.contracts.run_context import Run
    from uedp_bench.one_run.components import Components
    from uedp_bench.one_run.pipeline import Pipeline
    from uedp_bench.one_run.planting import Data


LAYER = "layer "
"""Prefix of a layer's name in `Component.reads`: `layer gold`."""

ENTITIES = "entities"
"""Name in parameters of the annotation that is no layer: the entities of the corpus."""


def wanted(
    pipeline: Pipeline, publisher: PublishingMechanism[Any], task: Component[Any]
) -> frozenset[str]:
    """Content columns, or layers by name, that a publisher gives on, if it carries them.

    Where names stand in a text is private, and no guarantee for words or sentences is about it. So
    a mechanism that promises something gives on what a mechanism after it or the task reads, and no
    more; one that promises nothing gives on all.
    """
    if publisher.unit is None:
        return frozenset(CONTENT)
    place = next(at for at, part in enumerate(pipeline.parts) if part is publisher)
    readers = (*pipeline.parts[place + 1 :], task)
    return frozenset(read for reader in readers for read in reader.reads())


def _gives(wanted: Collection[str], read: str) -> bool:
    return read in wanted or (read.startswith(LAYER) and "layers" in wanted)


def publish(
    publisher: PublishingMechanism[Any], corpus: Corpus, run: Run, wanted: Collection[str] = CONTENT
) -> tuple[Corpus, Events]:
    """Publish a corpus, without the content columns that the mechanism does not carry.

    Args:
        publisher: mechanism that publishes.
        corpus: corpus to publish.
        run: run as the mechanism sees it.
        wanted: content columns, or layers by name, that it gives on if it carries them.

    Raises:
        PluginError: if mentions that it says it carries are not inside its texts.
    """
    out, events = publisher.publish(corpus, run)
    # Vectors stand in place of texts.
    kept: dict[str, Any] = {} if out.vectors is None else {"texts": ("",) * len(out)}
    texts, carries = kept.get("texts", out.texts), publisher.carries & {*wanted}
    for column in COLUMNS:
        if column.content and (column.name == "layers" or column.name not in carries):
            values = getattr(corpus, column.name)
            lost = None if values is None else column.kind.lose(values, publisher.name, len(out))
            kept[column.name] = lost
    if "entities" in carries:
        kept["entities"] = _inside(out.entities, texts, publisher, "entities")
        _check_types(out.entities, out.entity_types, publisher)
    for name, layer in out.layers.items() if "layers" in publisher.carries else ():
        if _gives(wanted, LAYER + name):
            spans = _inside(layer.spans, texts, publisher, LAYER + name)
            kept["layers"][name] = replace(layer, spans=spans)
    published: Corpus = replace(out, **kept)
    return published, events


def publish_all(
    pipeline: Pipeline, corpus: Corpus, run: Run, task: Component[Any]
) -> tuple[Corpus, list[Events]]:
    """Publish a corpus by all publishers of a pipeline in turn, and return the events of each.

    Raises:
        CapabilityError: if one reads text where another published vectors before it.
    """
    published: list[Events] = []
    for number, publisher in enumerate(pipeline.publishers):
        if corpus.vectors is not None:
            before = pipeline.publishers[number - 1].name
            raise CapabilityError(
                f"{publisher.name} reads text, and {before} before it publishes vectors: name "
                f"{publisher.name} first, or leave one out"
            )
        within = run.within(pipeline.stage_of(publisher))
        corpus, events = publish(publisher, corpus, within, wanted(pipeline, publisher, task))
        published.append(events)
    return corpus, published


def check_carried(pipeline: Pipeline, task: Component[Any]) -> None:
    """Refuse before training what needs a column that a publisher before it does not carry.

    Raises:
        CapabilityError: naming who reads what, and who does not carry it.
    """
    for at, part in enumerate(pipeline.parts):
        for why in _missing(part, pipeline.parts[:at]):
            raise CapabilityError(why)
    for why in _missing(task, pipeline.publishers):
        raise CapabilityError(f"the task {why}")


def check_read(parts: Components, data: Data) -> None:
    """Refuse a run some part of which reads what its sources do not fill.

    Raises:
        CapabilityError: naming the part and the column that it reads.
    """
    readers = [(part, data.corpus) for part in parts.pipeline.parts]
    for reader, corpus in (*readers, (parts.task, data.scored(data.corpus))):
        if (reason := not_there(reader, corpus)) is not None:
            raise CapabilityError(reason)


def not_there(reader: Component[Any], corpus: Corpus) -> str | None:
    """Reason why a component cannot read a corpus as the source made it; None where it can.

    Text without entities is text: nobody is refused for that.
    """
    for read in sorted(reader.reads()):
        column = _column_of(read, reader.name)
        if column == "layers" and (name := read.removeprefix(LAYER)) not in corpus.layers:
            return _no_layer(reader, name, corpus)
        if getattr(corpus, column) is None:
            return f"{reader.name} reads {column}, and the corpus has none"
    return None


def _no_layer(reader: Component[Any], name: str, corpus: Corpus) -> str:
    """Message for a parameter that names a missing layer, with the layers that exist."""
    params = reader.params.model_dump()
    field = next((field for field, value in params.items() if value == name), None)
    names = [*sorted(corpus.layers)]
    subject = f"{reader.name} reads {LAYER}{name}"
    if field is not None:
        subject = f"{reader.name}.{field} is {shown(name)}"
        # The entities of the corpus are an annotation too, for those that say so.
        defaults = [one.default for one in type(reader.params).model_fields.values()]
        names += [ENTITIES] if ENTITIES in defaults else []
    near = nearest(name, names)
    choices = ", ".join(names) or "none"
    hint = f"did you mean {near!r}? There is: {choices}" if near else f"there is: {choices}"
    return f"{subject}, and the corpus has no such layer; {hint}"


def not_carried(attack: Component[Any], pipeline: Pipeline, task: Component[Any]) -> str | None:
    """Reason why an attack cannot read the corpus published for a task; None if it can."""
    for why in _missing(attack, pipeline.publishers):
        return why
    for part in pipeline.publishers:
        for column in sorted(attack.reads()):
            if not _gives(wanted(pipeline, part, task), column):
                return f"{attack.name} reads {column}, which {part.name} publishes for nobody here"
    return None


def _missing(reader: Component[Any], before: tuple[Any, ...]) -> Iterator[str]:
    for part in before:
        if isinstance(part, PublishingMechanism):
            for column in sorted(reader.reads()):
                if _column_of(column, reader.name) not in part.carries:
                    yield (
                        f"{reader.name} reads {column}, and {part.name} before it does not carry "
                        "them: leave one of the two out"
                    )


def _column_of(read: str, reader: str) -> str:
    """The content column in which something stands that is read, such as `layer gold`.

    Raises:
        PluginError: if a corpus has no such column.
    """
    column = "layers" if read.startswith(LAYER) else read
    if column not in CONTENT or read == "layers":
        columns = [name for name in CONTENT if name != "layers"] + [f"{LAYER}NAME"]
        raise PluginError(f"{reader} reads {read!r}, which is none of {', '.join(columns)}")
    return column


def _inside(
    spans: Spans, texts: tuple[str, ...], publisher: PublishingMechanism[Any], what: str
) -> Spans:
    """Spans that a publisher carried, ids of entities made anew from the published surfaces."""
    if spans.lost:
        return spans
    try:
        return Spans.build(texts, spans.mentions())
    except InputError as error:
        raise PluginError(f"{publisher.name} says that it carries {what}, but {error}") from None


def _check_types(spans: Spans, types: tuple[str, ...], publisher: PublishingMechanism[Any]) -> None:
    if not spans.lost and len(spans) and spans.type.max() >= len(types):
        raise PluginError(
            f"{publisher.name} says that it carries entities, but one is of type number "
            f"{spans.type.max()}, and the corpus declares {len(types)}"
        )
