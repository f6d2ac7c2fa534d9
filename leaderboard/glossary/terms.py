"""Words that the pages use, each explained in a sentence or two."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Term:
    """A word with its meaning.

    Attributes:
        key: of its place on the page of the glossary.
        name: the word.
        about: what it means.
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
