"""Prints the glossary: the words of the design, and those that the leaderboard explains.

`<!-- glossary -->` on a page of the site becomes their tables. A terminal shows them, too:

    python docs/hooks/glossary.py
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from uedp_bench.leaderboard.glossary import GUARANTEES, MEASURES, Term

MARK = "<!-- glossary -->\n"

_DESIGN = (
    Term("mechanism", "mechanism", "A way to protect text: on the text, in training, on a "
         "representation, or at inference."),
    Term("release", "release", "What leaves the protected side, and what an adversary therefore "
         "sees."),
    Term("capability", "capability", "What a release can be asked, such as the loss of a text. An "
         "attack that needs one that is missing is skipped, with the reason."),
    Term("event", "event", "What a mechanism did to private data, in a form that accountants "
         "understand."),
    Term("guarantee", "guarantee", "ε and δ for a privacy unit and an adjacency, claimed or "
         "proven."),
    Term("lower-bound", "lower bound", "An ε that an attack has refuted from below, with its "
         "confidence."),
    Term("leakage", "leakage", "What an attack measured."),
    Term("entity", "entity", "A type and a case-folded surface with single spaces, such as a "
         "person's name."),
    Term("spread", "spread", "Of an entity: the number of *other* users whose text mentions it."),
    Term("protected-point", "protected point", "The spread, and the sentences a user, for which a "
         "guarantee for a user together with an entity is given. It is declared beforehand."),
    Term("perplexity", "perplexity", "exp of the mean negative log-likelihood of a word in nats: "
         "how many words a model hesitates between."),
    Term("rates", "rates", "Fractions between 0 and 1 in files, percent in tables."),
)  # fmt: skip


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill the glossary of a page."""
    return markdown.replace(MARK, printed())


def printed() -> str:
    """All words by subject, each with its meaning."""
    parts = ["## Words\n", _entries(_DESIGN)]
    parts += ["## Guarantees\n", _entries(GUARANTEES), "## Measures\n", _entries(MEASURES)]
    return "\n".join(parts)


def _entries(terms: Iterable[Term]) -> str:
    rows = [f"| **{term.name}** | {term.about} |" for term in terms]
    return "\n".join(["| word | means |", "|---|---|", *rows, ""])


if __name__ == "__main__":
    print(printed())
