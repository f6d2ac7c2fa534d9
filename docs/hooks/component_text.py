"""Generated text of a component's page: everything that the component declares."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from uedp_bench.components.component import Component
from uedp_bench.components.registry import REGISTRIES
from uedp_bench.contracts.capabilities import RowScorer, Tokenised
from uedp_bench.contracts.mechanism import (
    Mechanism,
    PublishingMechanism,
    RepresentationMechanism,
    ServingMechanism,
    TrainingMechanism,
    VocabularyMechanism,
)
from uedp_bench.contracts.model import TextModel
from uedp_bench.contracts.release import Channel, Published, Updates
from uedp_bench.contracts.transcript import Transcript
from uedp_bench.leaderboard.glossary import papers, threat_model
from uedp_bench.spec.descriptions import describe_component
from uedp_bench.spec.spec import packaged_specs, parse_spec, read_spec

ANY_TASK = {
    Transcript: "mechanisms whose parties send messages, with any task",
    Updates: "mechanisms that train, with any task",
    Tokenised: "mechanisms that train, with any task",
    Published: "mechanisms that publish text or vectors, with any task",
    Channel: "mechanisms that replace words",
}
"""Releases that do not come from what a task trains."""


@cache
def described(kind: str, name: str) -> dict[str, Any]:
    """Declarations of a component of a kind (in the plural)."""
    return describe_component(REGISTRIES[kind], name)


def page(kind: str, name: str, by_hand: str | None = None) -> str:
    """Write the page of a component.

    Args:
        kind: kind of the registry, in the plural.
        name: registered name.
        by_hand: text written by hand; None for none.
    """
    declared = described(kind, name)
    if by_hand is None:
        by_hand = f"# {name}\n\n{_prose(declared['documentation'])}\n"
    before, after = _at_first_section(by_hand)
    parts = (
        before.rstrip(), facts(kind, name), after.strip(), metrics(kind, name),
        parameters(kind, name),
    )  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def overview(kind: str) -> str:
    """Write the page of a kind: the purpose of each of its components."""
    components = [described(kind, name) for name in REGISTRIES[kind].names()]
    shown = [key for key in ("stage", "unit", "models", "notion") if key in components[0]]
    rows = [["name", "what it does", *shown]]
    for one in components:
        link = f"[{one['name']}]({one['name']}.md)"
        rows.append([link, _plain(one["summary"]), *(_plain(one[key] or "none") for key in shown)])
    return f"# {kind.capitalize()}\n\n{_HEADS.get(kind, '')}\n\n{_table(rows)}\n"


_HEADS = {
    "mechanisms": """A mechanism protects text. The stage says where: before training (publishing,
vocabulary), in training, or when a model answers (serving). The unit is what its guarantee
protects; none means that it promises nothing.""",
    "attacks": """An attack measures what still leaks. Every attack runs on every release that
offers what it needs. [All attacks](../attacks.md) explains the numbers, and what each is where
nothing leaks.""",
    "tasks": "A task says what the text is used for, and scores how well that still works.",
    "sources": """A source reads or generates a corpus. [Data](../data.md) says what a file must
look like.""",
    "models": """A model is what a task trains. [All models](../models.md) has their sizes and what
they drop.""",
    "events": """An event says what a mechanism did to private data. Accountants compute guarantees
from events alone: see [claimed and proven](../accounting.md).""",
}


def specs() -> str:
    """Write the page of packaged specs: the comparison in each."""
    rows = [["spec", "what it compares", "file"]]
    for name in packaged_specs():
        purpose = _plain(parse_spec(read_spec(name)).description)
        rows.append([f"`{name}`", purpose, f"[yaml](../uedp_bench/specs/{name}.yaml)"])
    return f"# Packaged specs\n\n{_SPECS}\n\n{_table(rows)}\n"


_SPECS = """A spec is a benchmark in one file. These come with the package, and a name is enough to
run one:

```sh
uedp-bench run quickstart
```

To change one, copy its file and give the path instead of the name. Some read data that you download
first: [data](data.md) says which, and `--path` says where they are."""


def facts(kind: str, name: str) -> str:
    """A table of what a component declares beside its parameters."""
    component, about = REGISTRIES[kind].get(name), described(kind, name)
    rows = [[about["kind"], f"version {about['version']}"]]
    rows += [["in a sentence", _plain(about["summary"])]]
    rows += [[label, _plain(text)] for label, text in _declared(kind, component, about)]
    if issubclass(component, Mechanism) and (text := threat_model(component)):
        rows.append(["threat model", _plain(text)])
    if component.source:
        rows.append(["paper or origin", _with_links(component.source)])
    rows.append(
        ["code", f"[{component.__module__.rpartition('.')[2]}.py](../../{_file(component)})"]
    )
    if specs := _specs_with(kind, name):
        rows.append(["in [packaged specs](../specs.md)", ", ".join(f"`{spec}`" for spec in specs)])
    return _table(rows)


def metrics(kind: str, name: str) -> str:
    """The section on metrics of a task or an attack; empty for other kinds."""
    rows = [["metric", "in tables", "meaning", "better is", "where nothing leaks"]]
    for one in described(kind, name).get("metrics", ()):
        label = f"{one['label']} ({one['unit']})" if one["unit"] else one["label"]
        zero = "" if one["no_leak"] is None else f"{one['no_leak']:.3g}"
        rows.append(
            [f"`{one['name']}`", _plain(label), _plain(one["about"]), one["better"] or "", zero]
        )
    head = "## All metrics\n\nThis table comes from the code. `*` stands for any text."
    return f"{head}\n\n{_table(rows)}" if len(rows) > 1 else ""


def parameters(kind: str, name: str) -> str:
    """The section on parameters: type, default, range and meaning of each."""
    about = described(kind, name)
    command = f"```sh\nuedp-bench describe {about['kind']}/{about['name']}\n```"
    if not about["parameters"]:
        return f"## All parameters\n\nIt has no parameters.\n\n{command}"
    rows = [["parameter", "type and range", "default", "meaning"]]
    for one in about["parameters"]:
        if one["name"] == "kind" and about["kind"] == "event":
            continue
        limits = f", {_plain(one['range'])}" if one["range"] else ""
        default = "required" if one["required"] else _value(one["default"])
        meaning = _plain(one["description"])
        rows.append([f"`{one['name']}`", _type(one["type"]) + limits, default, meaning])
    head = "## All parameters\n\nThis table comes from the code. The terminal prints it too:"
    return f"{head}\n\n{command}\n\n{_table(rows)}"


def _declared(kind: str, component: Any, declared: dict[str, Any]) -> Iterator[Any]:
    """(label, text) of what is declared by components of a kind."""
    if kind == "mechanisms":
        yield "stage", declared["stage"]
        yield "protects", declared["unit"] or "nothing: it promises no guarantee"
        if issubclass(component, PublishingMechanism):
            carried = ", ".join(sorted(component.carries)) or "nothing but texts or vectors"
            yield "carries along", carried
        yield "works with", _WORKS_WITH[_stage_base(component)]
        if component.claims is not Mechanism.claims:
            yield "claims", "an epsilon as its paper computes it, beside what can be proven"
    elif kind == "attacks":
        yield "needs", "a release that is a " + " or ".join(declared["needs_one_of"])
        yield (
            "applies to",
            "; ".join(_applies(component)) or "mechanisms whose release is one, with any task",
        )
        yield "holds out users", "yes" if declared["holds_out_users"] else "no"
    elif kind == "tasks":
        yield "metrics", ", ".join(one["name"] for one in declared["metrics"])
        yield "better is", "larger" if component.metrics[0].better == "higher" else "smaller"
        yield "models", ", ".join(_models_for(component)) or "none: nothing is trained"
        yield "attacks on what it trains", ", ".join(_attacks_on(component)) or "none"
    elif kind == "sources":
        yield "reads files", "yes: give `--path`" if declared["needs_path"] else "no"
    elif kind == "models":
        yield "tasks", ", ".join(_tasks_for(component)) or "tasks that train nothing"
    elif kind == "events":
        yield "notion", declared["notion"] or "that of the event in it"


def _stage_base(component: type) -> type:
    return next(base for base in _WORKS_WITH if issubclass(component, base))


_WORKS_WITH: dict[type, str] = {
    RepresentationMechanism: "text-classification, with a model that has an encoder and a head",
    ServingMechanism: "a model that another mechanism trained, or noiseless where none is named",
    TrainingMechanism: "every task that trains a model; a publishing mechanism may stand before it",
    VocabularyMechanism: "a mechanism that trains, and a task whose model has a vocabulary",
    PublishingMechanism: "every task that needs nothing but what it carries along",
}


def trained_by(task: Any) -> tuple[type, ...]:
    """Capabilities of what a task trains, as far as it says; none where it trains nothing."""
    return (*(task.releases or task.needs), RowScorer) if task.models is not None else ()


def _tasks() -> list[Any]:
    return [REGISTRIES["tasks"].get(name) for name in REGISTRIES["tasks"].names()]


def _applies(attack: Any) -> Iterator[str]:
    tasks = [task.name for task in _tasks() if set(attack.needs) & set(trained_by(task))]
    if tasks:
        yield "models of the tasks " + ", ".join(tasks)
    yield from dict.fromkeys(ANY_TASK[need] for need in attack.needs if need in ANY_TASK)


def _attacks_on(task: Any) -> list[str]:
    attacks = (REGISTRIES["attacks"].get(name) for name in REGISTRIES["attacks"].names())
    return [one.name for one in attacks if set(one.needs) & set(trained_by(task))]


def _models_for(task: Any) -> list[str]:
    models = REGISTRIES["models"]
    if task.models is None:
        return []
    return [name for name in models.names() if issubclass(models.get(name), task.models)]


def _tasks_for(model: type[TextModel]) -> list[str]:
    return [task.name for task in _tasks() if task.models and issubclass(model, task.models)]


@cache
def _parts_of_specs() -> dict[str, frozenset[tuple[str, str]]]:
    """(kind, name) of the components of each packaged spec."""
    parts_by_spec = {}
    for name in packaged_specs():
        spec = parse_spec(read_spec(name))
        parts = {("mechanisms", part.name) for composed in spec.mechanisms for part in composed}
        parts |= {("attacks", part.name) for part in spec.attacks}
        parts |= {("tasks", spec.task.name), ("sources", spec.source.name)}
        parts |= {("models", spec.model.name)} if spec.model else set()
        parts_by_spec[name] = frozenset(parts)
    return parts_by_spec


def _specs_with(kind: str, name: str) -> list[str]:
    return [spec for spec, parts in _parts_of_specs().items() if (kind, name) in parts]


def _at_first_section(text: str) -> tuple[str, str]:
    """A page before its first section, and from there on."""
    section = re.search(r"^## ", text, re.M)
    return (text[: section.start()], text[section.start() :]) if section else (text, "")


def _prose(documentation: str) -> str:
    """A docstring as a page: its paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in documentation.split("\n\n"))


def _table(rows: Iterable[Iterable[str]]) -> str:
    head, *body = [list(row) for row in rows]
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: Any) -> str:
    """Text that means itself in a cell: no emphasis, no tag; code stays code."""
    flat = " ".join(str(text).split()).replace("|", "&#124;")
    pieces = re.split(r"(`[^`]*`)", flat)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([*_\[\]<>\\])", r"\\\1", piece)
        for piece in pieces
    )


def _type(text: str) -> str:
    return " or ".join(f"`{part}`" for part in text.split(" | "))


def _value(default: Any) -> str:
    if default is None:
        return "none"
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return f"`{text}`" if text else "empty"


def _with_links(source: str) -> str:
    linked = _plain(source)
    for citation, url in papers(source):
        linked = linked.replace(_plain(citation), f"[{_plain(citation)}]({url})", 1)
    if match := re.fullmatch(r"docs/(\S+\.md)", source):
        return f"our own: [{match[1]}](../{match[1]})"
    return linked


def _file(component: type[Component[Any]]) -> str:
    path = component.__module__.removeprefix("uedp_bench.").replace(".", "/") + ".py"
    own = ("mechanisms", "attacks", "tasks", "leaderboard")
    return path if path.startswith(own) else f"uedp_bench/{path}"
