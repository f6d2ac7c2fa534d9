"""Linking people by a language model that compares what an unknown person and candidates wrote.

Retrieval by similarity, then reasoning about the ten nearest, then abstention, in the manner of
Lermen et al. 2026 (arXiv:2602.16800).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api.statistics import fraction_estimate
from uedp_bench.attacks._language_model import LanguageModel, excerpt
from uedp_bench.attacks.reidentify.linking import TextProfiles

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Estimate, FloatArray, IntArray, Run

CANDIDATES = 10
PRECISION = 0.9

_QUESTION = """Text of an unknown person:

{texts}

Texts of {count} people, the most similar first:

{candidates}

Which of them wrote the text of the unknown person? Reply with one JSON object and nothing else, \
such as {{"author": 1, "confidence": 0.5}}. The author is a number from 1 to {count}, or 0 if \
nobody fits; the confidence is from 0 to 1."""


class Links(NamedTuple):
    """Judgements about people.

    Attributes:
        correct: (people,) True where the model named the author.
        nearest: (people,) True where the most similar candidate is the author.
        confidence: (people,) of the judgement, -1 where nobody was named.
    """

    correct: BoolArray
    nearest: BoolArray
    confidence: FloatArray


def judge(
    model: LanguageModel,
    known_texts: Sequence[Sequence[str]],
    hidden: Sequence[Sequence[str]],
    truth: IntArray,
    run: Run,
) -> Links:
    """Ask the model about each person.

    Args:
        model: to ask.
        known_texts: texts of each candidate author.
        hidden: texts of each person to link; a person without any is not linked.
        truth: (people,) index of the author.
        run: shows progress.
    """
    joined = ["\n".join(texts) for texts in known_texts]
    profiles = TextProfiles(joined, np.arange(len(known_texts)), len(known_texts))
    near = np.concatenate([
        np.argsort(-np.round(block, 9), axis=1, kind="stable")[:, :CANDIDATES]
        for block in profiles.similarities(["\n".join(texts) for texts in hidden])
    ])  # fmt: skip
    half = model.params.characters // 2
    named = np.full(len(hidden), -1, dtype=np.int64)
    confidence = np.full(len(hidden), -1.0)
    published = np.array([any(text.strip() for text in texts) for texts in hidden])

    def read(answer: dict[str, Any]) -> tuple[int, float] | None:
        author, sure = answer.get("author"), answer.get("confidence", 0)
        if type(author) is not int or not 0 <= author <= near.shape[1]:
            return None
        return author, sure if type(sure) in (int, float) and 0 <= sure <= 1 else 0.0

    for person in np.flatnonzero(published).tolist():
        run.progress("reidentify: people", person, len(hidden))
        shown = [
            f"[{number}] {excerpt(known_texts[author], half // CANDIDATES)}"
            for number, author in enumerate(near[person].tolist(), start=1)
        ]
        question = _QUESTION.format(
            texts=excerpt(hidden[person], half), count=len(shown), candidates="\n\n".join(shown)
        )
        answer = model.ask(question, read)
        if answer is not None and answer[0] > 0:
            named[person], confidence[person] = near[person, answer[0] - 1], answer[1]
    return Links(named == truth, (near[:, 0] == truth) & published, confidence)


def link_metrics(links: Links, suffix: str, rng: np.random.Generator) -> dict[str, Estimate]:
    """Shares of people who are linked, and linked by a model that is right nine times in ten.

    Args:
        links: judgements.
        suffix: of the names of the metrics.
        rng: draws the half of the people on which the confidence needed is fixed.
    """
    people = len(links.correct)
    order = rng.permutation(people)
    fixed, scored = order[: people // 2], order[people // 2 :]
    least = np.inf
    for level in np.unique(links.confidence[fixed][links.confidence[fixed] >= 0]):
        if links.correct[fixed][links.confidence[fixed] >= level].mean() >= PRECISION:
            least = float(level)
            break
    sure = links.correct[scored] & (links.confidence[scored] >= least)
    return {
        f"recall_at_1_llm{suffix}": fraction_estimate(int(links.correct.sum()), people),
        f"recall_at_1_person{suffix}": fraction_estimate(int(links.nearest.sum()), people),
        f"recall_at_90_precision{suffix}": fraction_estimate(int(sure.sum()), len(scored)),
    }
