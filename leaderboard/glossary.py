"""Glossary page, places of the columns explained on it, and words for units and floors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uedp_bench.components.registry import Registry, attacks, mechanisms
from uedp_bench.contracts.mechanism import (
    PublishingMechanism,
    RepresentationMechanism,
    ServingMechanism,
    TrainingMechanism,
    VocabularyMechanism,
)
from uedp_bench.errors import UedpBenchError
from uedp_bench.leaderboard.rows import Row

_PAPERS = {
    "Abadi et al. 2016": "https://arxiv.org/abs/1607.00133",
    "McMahan et al. 2018": "https://arxiv.org/abs/1710.06963",
    "Lai et al. 2022": "https://arxiv.org/abs/2211.01141",
    "Lyu, He, Li 2020": "https://arxiv.org/abs/2010.01285",
    "Coavoux, Narayan, Cohen 2018": "https://arxiv.org/abs/1808.09408",
    "Meehan, Mrini, Chaudhuri 2022": "https://arxiv.org/abs/2205.04605",
    "Feyisetan et al. 2020": "https://doi.org/10.1145/3336191.3371856",
    "Xu et al. 2020": "https://arxiv.org/abs/2010.11947",
    "Jana, Biemann 2021": "https://aclanthology.org/2021.privatenlp-1.4/",
    "Xu et al. 2021": "https://aclanthology.org/volumes/2021.privatenlp-1/",
    "Hathurusinghe, Nejadgholi, Bolic 2021": "https://aclanthology.org/volumes/2021.privatenlp-1/",
    "Adams, Melanson and De Cock 2021": "https://aclanthology.org/volumes/2021.privatenlp-1/",
    "Kim, Bisazza and Turkmen 2021": "https://aclanthology.org/volumes/2021.privatenlp-1/",
    "Knott et al. 2021": "https://arxiv.org/abs/2109.00984",
}
"""By how sources cite them; of the workshop, the volume that holds the paper."""

_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


def papers(source: str) -> tuple[tuple[str, str], ...]:
    """The papers that a component's source names, in its order: (citation, address)."""
    citations = [(source.index(name), name, url) for name, url in _PAPERS.items() if name in source]
    citations += [
        (one.start(), one.group(0), f"https://arxiv.org/abs/{one.group(1)}")
        for one in _ARXIV.finditer(source)
    ]
    return tuple((name, url) for _, name, url in sorted(citations))


_OURS = "uedp_bench."


@dataclass(frozen=True)
class Entry:
    """A component as readers see it.

    Attributes:
        name: name in tables.
        summary: first sentence of the docstring; empty where it is not installed.
        source: declared source.
        papers: papers that the source names, with addresses.
        module: module of the code.
        code: file within the repository; empty for components of others.
        docs: page within the repository; empty for components of others.
        threat: threat model of a mechanism.
    """

    name: str
    summary: str = ""
    source: str = ""
    papers: tuple[tuple[str, str], ...] = ()
    module: str = ""
    code: str = ""
    docs: str = ""
    threat: str = ""


def entries(names: Sequence[str], registry: Registry[Any], pages: str = "") -> list[Entry]:
    """Facts about components, by name.

    Args:
        names: names in results.
        registry: registry of the components.
        pages: folder of their pages in the repository; empty where they have none.
    """
    return [_entry(name, registry, pages) for name in sorted(set(names))]


def _entry(name: str, registry: Registry[Any], pages: str) -> Entry:
    try:
        component = registry.get(name)
    except UedpBenchError:
        return Entry(name)
    ours = component.__module__.startswith(_OURS)
    return Entry(
        name=name,
        summary=_summary(component),
        source=component.source,
        papers=papers(component.source),
        module=component.__module__,
        code=_file(component.__module__) if ours else "",
        docs=f"{pages}/{name}.md" if ours and pages else "",
        threat=threat_model(component),
    )


def _summary(component: type) -> str:
    text = " ".join((inspect.getdoc(component) or "").partition("\n\n")[0].split())
    return text.replace("`", "")


def _file(module: str) -> str:
    """Mechanisms and attacks stand in folders of their own in the repository."""
    path = module.removeprefix(_OURS).replace(".", "/")
    return f"{path}.py"


def threat_model(component: type) -> str:
    """Trusted parties and the view of an adversary, by the kind of mechanism."""
    if issubclass(component, RepresentationMechanism):
        return (
            "Trusted: whoever trains, and the owner of a text. The adversary sees the "
            "representation that leaves the owner, after the mechanism."
        )
    if issubclass(component, PublishingMechanism):
        who = (
            "Trusted: nobody but the owner of a row, for every row is protected by itself."
            if component.rowwise
            else "Trusted: whoever publishes, who sees all private rows."
        )
        return f"{who} The adversary sees all that is published."
    if issubclass(component, ServingMechanism):
        return (
            "Trusted: whoever trains. The adversary is a party of the protocol that answers, and "
            "sees its own input, the messages and the answer."
        )
    if issubclass(component, TrainingMechanism):
        shows = f" Parties of its protocol also see {component.shows}." if component.shows else ""
        return (
            "Trusted: whoever computes updates from private text. The adversary sees the model "
            f"that is released, with its weights.{shows}"
        )
    if issubclass(component, VocabularyMechanism):
        return (
            "Trusted: whoever counts, who sees all private text. The adversary sees the vocabulary."
        )
    return ""


@dataclass(frozen=True)
class Term:
    """A word with its meaning.

    Attributes:
        key: anchor of the term on the page of the glossary.
        name: the term.
        about: explanation.
    """

    key: str
    name: str
    about: str


GUARANTEES = (
    Term("epsilon", "ε (epsilon)", "How much one change of the private data may change what is "
         "released, in nats: the chance of any outcome changes by the factor e^ε at most, up to δ. "
         "Smaller is more protection; ∞ is no protection."),
    Term("delta", "δ (delta)", "The probability with which the bound of ε may fail. It should be "
         "far below one over the number of people."),
    Term("claimed", "claimed ε", "What the paper's own analysis gives at the settings of the run."),
    Term("proven", "proven ε", "What an accountant computes from what really happened in the run, "
         "under assumptions that the code meets. Each run lists these assumptions."),
    Term("stated", "stated ε", "What an accountant computes from what a component says of itself "
         "that nobody reviewed: of a plug-in, or of a list of events that somebody wrote. It is "
         "not proven."),
    Term("at-least", "ε at least", "What an attack found: with the given confidence, no smaller ε "
         "can be true of what was run."),
    Term("refuted", "refuted", "An attack found more than a claim allows: the claim does not "
         "hold."),
    Term("refused", "refused", "No accountant has a proof for what was executed, and says why."),
    Term("no-protection", "no protection", "The proven ε is ∞: nothing bounds what the release "
         "tells about the unit."),
    Term("unit", "privacy unit", "What one change of the data adds, removes or replaces. Epsilons "
         "of different units do not compare."),
    Term("record", "record", "One row of the data, such as a message."),
    Term("user", "user", "A person with all rows of theirs."),
    Term("user-entity", "user-entity", "A person together with an entity, such as a name: that the "
         "person contributed, and that somebody mentioned the entity."),
    Term("word", "word", "One word of a text."),
    Term("sentence", "sentence", "One sentence of a document."),
    Term("computation", "computation", "Who computes with the data sees nothing of it, by "
         "cryptography or simulation. What the result itself tells is not limited."),
    Term("adjacency", "adjacency", "How two neighbouring data sets differ: one unit is added or "
         "removed, replaced, or its contribution becomes zero."),
    Term("metric-dp", "per unit of distance", "ε of metric differential privacy: it grows with the "
         "distance between two words, and compares with no other ε."),
)  # fmt: skip
"""Guarantees."""

MEASURES = (
    Term("task", "task", "What the protected text is used for."),
    Term("source", "source", "Where the text is from."),
    Term("model", "model", "What is trained on it."),
    Term("device", "device", "Where the runs trained. Seconds compare on one machine only."),
    Term("utility", "utility", "How well what was released still serves its task."),
    Term("floor", "floor", "A value of the metric that ranks which needs no private text, or next "
         "to none: counts of words, the most frequent class, the model of public text."),
    Term("learned-nothing", "learned nothing", "The row is no better than its best floor, its "
         "interval considered. What it does not leak, it never knew."),
    Term("interval", "± (interval)", "Half of the 95 % interval over seeds (Student's t). One seed "
         "has none."),
    Term("rank", "rank", "Place among the rows of a set by a metric. Rows whose intervals overlap "
         "are tied: 1–3 is any rank from 1 to 3."),
    Term("set", "comparable set", "Rows whose utility compares: same task, text, model, corpus "
         "and, where it matters, vocabulary."),
    Term("learned", "learned", "Yes where the row is surely better than its best floor."),
    Term("older-code", "older code", "An earlier version of what computes made the row. It keeps "
         "its id and its proof; the present version may give other numbers."),
    Term("seeds", "seeds", "How many runs of the row finished; they differ in randomness alone."),
    Term("canary", "canary", "A text that an attack plants in private data, to see later what the "
         "release tells of it."),
    Term("exposure", "exposure", "Bits by which a planted text stands out among others that were "
         "not planted. 1.44 are expected where nothing leaks."),
    Term("auc", "AUC", "The chance that an attack scores a random member above a random "
         "non-member: 0.5 is guessing, 1 is certainty."),
    Term("floor-of-leakage", "where nothing leaks", "What the attack measures on a release that "
         "tells nothing. Less is chance."),
    Term("front", "Pareto front", "Rows that no other row beats in both utility and leakage, by "
         "their means."),
    Term("generated-text", "generated text", "Text that a program invented. It is nobody's data, "
         "and easier than real text."),
)  # fmt: skip
"""Measures."""

TERMS = (*GUARANTEES, *MEASURES)


def places(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of the metrics of some columns on the page; no two are the same."""
    ids: list[str] = []
    for column in columns:
        slug = re.sub(r"[^a-z0-9]+", "-", str(column["key"]).lower())[:60].strip("-")
        place = f"metric-{slug}"
        while place in ids:
            place += "-x"
        ids.append(place)
    return ids


def glossary_context(rows: Sequence[Row], columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The template's values.

    Args:
        rows: rows of the leaderboard.
        columns: columns of the rows' metrics, as the table has them, each with its `place`.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for column in columns:
        groups.setdefault(column["group"], []).append(column)
    mechanism_names = [part.name for row in rows for part in row.spec.mechanism]
    return {
        "terms": (("Guarantees", GUARANTEES), ("Measures", MEASURES)),
        "groups": list(groups.items()),
        "mechanisms": entries(mechanism_names, mechanisms, "docs/mechanisms"),
        "attacks": entries([name for row in rows for name in row.leakage], attacks),
    }


UNITS = {
    "record": "a record",
    "user": "a person",
    "user-entity": "a person with an entity",
    "word": "a word",
    "sentence": "a sentence of a document's author",
    "attribute": "an attribute of a document's author",
    "entity": "an entity",
    "client": "a client",
    "computation": "the computation",
}
"""Privacy units."""

FLOORS = {
    "unigrams": "counting words",
    "bigrams": "counting pairs of words",
    "majority": "always saying the most frequent class",
    "random": "guessing",
    "dictionary": "looking words up in a list of public text",
    "all-outside": "finding nothing at all",
    "public-only": "the model of public text",
    "copy": "copying the text",
    "lexicon": "translating word by word from public text",
    "nothing": "a detector that finds nothing",
}
"""Explanations of floors; a floor without one keeps its name."""
