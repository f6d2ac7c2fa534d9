"""Private attributes of people, and the risk that what was inferred singles a person out.

The attack of Staab et al. 2024 (Beyond Memorization, section 4) by a language model that reads what
people wrote, with the source's classes as choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api import CapabilityError, Estimate, InputError, Leakage
from uedp_bench.api.capabilities import Published
from uedp_bench.api.statistics import mean_estimate
from uedp_bench.api.text import normal_surface
from uedp_bench.attacks._language_model import LanguageModel, excerpt
from uedp_bench.attacks.representations.empirical_privacy import (
    Inferred,
    accuracies,
    describe,
    empirical_privacy,
)
from uedp_bench.attacks.representations.perceptron import original_rows

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, FloatArray, IntArray, Release, Run
    from uedp_bench.attacks._language_model import LanguageModelParams
    from uedp_bench.attacks.representations.empirical_privacy import Means

_ATTACK = "attribute-inference"

TOP = 3
"""Guesses of a value, the most likely first."""

_SHUFFLES = 20

_QUESTION = """Here are texts that one person wrote, one a line:

{texts}

Guess facts about this person. For each fact name up to {top} values of its list, the most likely \
first:
{lists}

Reply with one JSON object and nothing else, of this form:
{form}"""


class People(NamedTuple):
    """People of the train split whose attributes are known, and those that are attacked.

    Attributes:
        names: attributes.
        users: (attacked people,) user ids.
        truth: (attacked people, attributes) classes, -1 for unknown.
        population: (people, attributes) the same of everybody.
    """

    names: tuple[str, ...]
    users: IntArray
    truth: IntArray
    population: IntArray


def draw_people(
    corpus: Corpus, names: tuple[str, ...], most: int, rng: np.random.Generator
) -> People:
    """Draw the people to attack; a person has the most frequent known value of their rows.

    Raises:
        InputError: if fewer than two people have a known value.
    """
    values, _ = _values(corpus, names, corpus.where("train"))
    able = np.flatnonzero((values >= 0).any(axis=1))
    if len(able) < 2:
        raise InputError(
            f"{_ATTACK}: {len(able)} people of the train split have a known attribute; "
            "at least 2 are needed: give the source a column of users"
        )
    chosen = np.sort(able[np.argsort(rng.random(corpus.user_count)[able])[:most]])
    return People(names, chosen, values[chosen], values[able])


def _values(
    corpus: Corpus, names: tuple[str, ...], chosen: BoolArray
) -> tuple[IntArray, BoolArray]:
    """Facts about people from some rows.

    Returns:
        (users, attributes) the most frequent known value, -1 for none, and (users, attributes) True
        where rows of one user have several.
    """
    rows = np.flatnonzero(chosen & (corpus.origin >= 0) & (corpus.users >= 0))
    values = np.full((corpus.user_count, len(names)), -1, dtype=np.int64)
    several = np.zeros(values.shape, dtype=bool)
    for column, name in enumerate(names):
        size, codes = len(corpus.attribute_names[name]), corpus.attributes[name][rows]
        pairs = corpus.users[rows][codes >= 0] * size + codes[codes >= 0]
        counts = np.bincount(pairs, minlength=corpus.user_count * size).reshape(-1, size)
        values[:, column] = np.where(counts.any(axis=1), counts.argmax(axis=1), -1)
        several[:, column] = (counts > 0).sum(axis=1) > 1
    return values, several


def _texts_of(people: People, shown: Corpus, corpus: Corpus) -> list[list[str]]:
    """Texts of each person in a corpus that was made from the original one."""
    rows = original_rows(shown, corpus, "train")
    place = {user: index for index, user in enumerate(people.users.tolist())}
    texts: list[list[str]] = [[] for _ in place]
    for row in np.argsort(rows, kind="stable").tolist():
        index = place.get(int(corpus.users[rows[row]])) if rows[row] >= 0 else None
        if index is not None:
            texts[index].append(shown.texts[row])
    return texts


def _guesses(
    model: LanguageModel,
    texts: Sequence[Sequence[str]],
    classes: dict[str, tuple[str, ...]],
    run: Run,
) -> IntArray:
    """(people, attributes, TOP) classes that the model guesses, -1 for none."""
    codes = {name: {normal_surface(one): code for code, one in enumerate(values)}
             for name, values in classes.items()}  # fmt: skip
    lists = "\n".join(f"{name}: {', '.join(values)}" for name, values in classes.items())
    form = "{" + ", ".join(f'"{name}": ["..."]' for name in classes) + "}"
    out = np.full((len(texts), len(classes), TOP), -1, dtype=np.int64)

    def read(answer: dict[str, Any]) -> list[list[int]] | None:
        rows = []
        for name in classes:
            value = answer.get(name)
            values = value if isinstance(value, list) else [value]
            valid = [codes[name].get(normal_surface(str(one))) for one in values]
            rows.append([code for code in dict.fromkeys(valid) if code is not None][:TOP])
        return rows if any(rows) else None

    for person, written in enumerate(texts):
        run.progress(f"{_ATTACK}: people", person, len(texts))
        shown = excerpt(written, model.params.characters)
        if not shown.strip():
            continue
        answer = model.ask(_QUESTION.format(texts=shown, top=TOP, lists=lists, form=form), read)
        for column, row in enumerate(answer or []):
            out[person, column, : len(row)] = row
    return out


def _inferred(
    people: People, guessed: IntArray, classes: dict[str, tuple[str, ...]]
) -> list[Inferred]:
    """First guesses by attribute; a person without one is taken for the majority."""
    out = []
    for column, name in enumerate(people.names):
        truth, first = people.truth[:, column], guessed[:, column, 0]
        common = np.full(len(truth), np.bincount(truth[truth >= 0]).argmax())
        answers = {"published text": np.where(first >= 0, first, common)}
        every = np.arange(len(truth))
        out.append(
            Inferred(name, classes[name], truth, answers, "published text", common, every, {})
        )
    return out


def risks(first: IntArray, people: People) -> FloatArray:
    """(people,) one over the people who have all values that were inferred correctly.

    A person without such values is one of all; an unknown value is equal to none.

    Args:
        first: (people, attributes) first guesses, -1 for none.
        people: with their true values.
    """
    correct = (first == people.truth) & (people.truth >= 0)
    alike = (people.population[None] == people.truth[:, None]) | ~correct[:, None]
    return np.asarray(1.0 / alike.all(axis=2).sum(axis=1))


def _risk_metrics(
    published: IntArray, original: IntArray | None, people: People, run: Run
) -> dict[str, Estimate]:
    """Risk of re-identification by first guesses, and that by guesses about somebody else.

    Args:
        published: (people, attributes) first guesses from what was published.
        original: the same from original text; None where nobody read it.
        people: with their true values.
        run: of the attack.
    """
    rng = run.shared(_ATTACK, "risk")
    everybody = np.arange(len(people.users))
    shuffled = [
        risks(published[rng.permutation(everybody)], people).mean() for _ in range(_SHUFFLES)
    ]
    metrics = {"reidentification_risk": mean_estimate(risks(published, people), rng)}
    if original is not None:
        metrics["reidentification_risk_unprotected"] = mean_estimate(risks(original, people), rng)
    return metrics | {
        "reidentification_risk_shuffled": Estimate(value=float(np.mean(shuffled))),
        "reidentification_risk_chance": Estimate(value=1.0 / len(people.population)),
    }


def risk_by_representations(
    attackers: Sequence[Inferred],
    logits: Sequence[FloatArray],
    seen: tuple[Corpus, IntArray],
    run: Run,
) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Risk of re-identification by what all rows of a person together give away.

    The evidence of a person's rows is added up, as if they were independent (naive Bayes).

    Args:
        attackers: one an attribute.
        logits: (rows, classes) of each.
        seen: the original corpus, all splits, and (rows,) its rows that were attacked.
        run: of the attack.

    Returns:
        Metrics, and details of people. Both are empty where a row has no user, or attributes are
        no facts about people: rows of one user have several values.
    """
    corpus, rows = seen
    names, owners = tuple(one.name for one in attackers), corpus.users[rows]
    values, several = _values(corpus, names, np.ones(len(corpus), dtype=bool))
    users = np.unique(owners)
    if users[0] < 0 or len(users) < 2 or several.any():
        return {}, {}
    place = np.searchsorted(users, owners)
    first = np.empty((len(users), len(names)), dtype=np.int64)
    for column, (one, each) in enumerate(zip(attackers, logits, strict=True)):
        prior = one.models[one.view].prior
        evidence = np.tile(prior, (len(users), 1))
        np.add.at(evidence, place, each - prior)
        first[:, column] = evidence.argmax(axis=1)
    people = People(names, users, values[users], values[(values >= 0).any(axis=1)])
    right: dict[str, float] = {}
    for name, guess, truth in zip(names, first.T, people.truth.T, strict=True):
        right[name] = float((guess == truth)[truth >= 0].mean())
    details = {"people": len(users), "accuracy_of_people": right}
    return _risk_metrics(first, None, people, run), details


def infer_by_language_model(
    params: LanguageModelParams,
    names: tuple[str, ...],
    mean: Means,
    release: Release,
    corpus: Corpus,
    run: Run,
) -> Leakage:
    """Ask a language model about people, from what was published and from the original text.

    Args:
        params: of the attack.
        names: attributes to infer.
        mean: definition of empirical privacy.
        release: what was published.
        corpus: the original corpus, all splits.
        run: of the attack.

    Raises:
        CapabilityError: if nothing was published.
        InputError: if an attribute is known of none of the people, before anything is asked.
    """
    if not isinstance(release, Published):
        raise CapabilityError(f"{_ATTACK} needs a Published, not {type(release).__name__}")
    classes = {name: corpus.attribute_names[name] for name in names}
    people = draw_people(corpus, names, params.people, run.shared(_ATTACK, "people"))
    for name, values in zip(names, people.truth.T, strict=True):
        if not (values >= 0).any():
            raise InputError(
                f"{_ATTACK}.people: none of the {len(values)} people who were drawn has a known "
                f"{name!r}: raise people, or name the attributes to infer without it"
            )
    model = LanguageModel(params, run.shared_seed(_ATTACK, "llm") % 2**31, _ATTACK)
    texts = _texts_of(people, release.published, corpus)
    published = _guesses(model, texts, classes, run)
    original = _guesses(model, _texts_of(people, corpus, corpus), classes, run)
    attackers, unprotected = (_inferred(people, each, classes) for each in (published, original))
    rng = run.shared(_ATTACK, "bootstrap")
    metrics, details = empirical_privacy(attackers, mean, rng)
    metrics |= accuracies(attackers, rng)
    for name, estimate in accuracies(unprotected, rng).items():
        if name.startswith("accuracy_"):
            metrics[f"{name}_unprotected"] = estimate
    metrics |= _risk_metrics(published[:, :, 0], original[:, :, 0], people, run)
    details |= {
        "people": len(people.users),
        "not_published": sum(not any(map(str.strip, each)) for each in texts),
        "attributes": {one.name: describe(one, rng) for one in attackers},
        "language_model": model.report(),
    }
    for column, name in enumerate(names):
        truth = people.truth[:, column]
        hits = (published[:, column] == truth[:, None]).any(axis=1)
        details["attributes"][name] |= {
            "accuracy_top_3": float(hits[truth >= 0].mean()),
            "unanswered": int((published[:, column, 0] < 0).sum()),
        }
    return Leakage(metrics | model.metrics(), details)
