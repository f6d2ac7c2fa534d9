"""Suggestion for a corpus: a task, mechanisms, attacks, and noise for a proven epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from uedp_bench.components import registry
from uedp_bench.contracts.results import Result
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.first_spec.origins import Origin
from uedp_bench.first_spec.sizes import Measured, Sizes
from uedp_bench.one_run.planting import counted_sizes, plant_all

TASKS = ("next-word", "text-classification", "tagging")
"""Tasks for which a spec is suggested."""

SEEDS = (1, 2, 3)
RATES = {"next-word": 0.01, "tagging": 0.01, "text-classification": 0.1}
"""Learning rates of Adam; a linear classifier takes larger steps than a network."""

FACTORS = [0.1, 0.3, 1.0]
"""Factors of the learning rate tried without noise: a weak upper end makes privacy look free."""

PUBLIC_STEPS, PUBLIC_BATCH = 150, 64
"""Steps of training on public rows, at least, and rows of one; a model that has not begun to learn
from public text learns nothing under noise."""

LEAST_ENGLISH = 0.5
"""Share of rows in English from which English names are looked for."""

MANY = 100_000
"""From so many users or records on, delta is smaller than one in as many."""


@dataclass(frozen=True)
class Part:
    """A component of a spec, what a comment says of it, and mechanisms that act before it."""

    name: str
    params: Mapping[str, Any]
    says: tuple[str, ...]
    before: tuple[Part, ...] = ()

    @property
    def title(self) -> str:
        """Names of all that acts, in order."""
        return " + ".join((*(part.name for part in self.before), self.name))


@dataclass(frozen=True)
class Suggestion:
    """A spec with reasons.

    Attributes:
        task, model: components.
        mechanisms: compositions that are compared, each with its parts.
        attacks: attacks that apply.
        delta: delta of all guarantees.
        sizes: sizes of the training split after cuts, the largest of all seeds.
        left_out: parts that are not suggested, with reasons.
    """

    task: Part
    model: Part
    mechanisms: tuple[Part, ...]
    attacks: tuple[Part, ...]
    delta: float
    sizes: CorpusStats
    left_out: tuple[str, ...] = ()


def task_of(origin: Origin, corpus: Corpus, wanted: str | None) -> str:
    """The task that fits, unless the user named one.

    Raises:
        InputError: for a task that the rows do not allow, or for which nothing is suggested.
    """
    tagged = bool(corpus.entity_types)
    if wanted is None:
        if origin.labelled or (origin.source != "text" and corpus.label_names):
            return "text-classification"
        return "tagging" if tagged else "next-word"
    if wanted not in TASKS:
        names = registry.tasks.names()
        choices = "" if wanted in names else f" (tasks: {', '.join(names)})"
        raise InputError(
            f"--task {wanted}: a spec is suggested for {', '.join(TASKS)}{choices}; write others "
            "by hand: uedp-bench describe TASK"
        )
    if wanted == "text-classification" and not corpus.label_names:
        raise InputError("--task text-classification: no column holds classes: add --label COLUMN")
    if wanted == "tagging" and not tagged:
        raise InputError(
            "--task tagging: nothing marks entities: add --spans COLUMN, or give a file with a "
            "token and its tag a line"
        )
    return wanted


def suggest(
    task: str, corpus: Corpus, measured: Measured, sizes: Sizes, epsilons: Sequence[float]
) -> Suggestion:
    """Suggest a spec for a corpus.

    Args:
        task: task of the spec.
        corpus: corpus as its source loads it.
        measured: measurements of the corpus.
        sizes: sizes that fit.
        epsilons: epsilons of each private mechanism.
    """
    wanted, left_out = _attacks(task, measured, sizes)
    attacks, unplanted = _that_plant(wanted, corpus)
    live = tuple(registry.attacks.create(part.name, dict(part.params)) for part in attacks)
    counted = [counted_sizes(plant_all(live, corpus, seed)[0]) for seed in SEEDS]
    stats = CorpusStats(
        max(each.users for each in counted), max(each.rows for each in counted), 0, 0, public=False
    )
    delta = 1e-5 if stats.rows < MANY else 1e-6
    mechanisms, none = _mechanisms(
        task, stats, sizes, epsilons, public=measured.public > 0,
        valid=bool(corpus.where("valid").any()),
    )  # fmt: skip
    mechanisms = _with_deidentified(mechanisms, corpus, measured)
    model, learnt = _learnt(task, sizes, measured.public)
    return Suggestion(
        learnt, model, mechanisms, attacks, delta, stats, (*left_out, *unplanted, *none)
    )


def _that_plant(
    wanted: tuple[Part, ...], corpus: Corpus
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The attacks that can plant in these rows, and why the others cannot."""
    planting_parts, reasons = [], []
    for part in wanted:
        try:
            plant_all((registry.attacks.create(part.name, dict(part.params)),), corpus, SEEDS[0])
        except InputError as error:
            reasons.append(str(error))
        else:
            planting_parts.append(part)
    return tuple(planting_parts), tuple(reasons)


def _learnt(task: str, sizes: Sizes, public: int) -> tuple[Part, Part]:
    """Model and task, where so many rows are public."""
    params: dict[str, Any] = {"max_tokens": sizes.max_tokens}
    says = [f"rows are cut after {sizes.max_tokens} tokens"]
    if task != "tagging":
        params["preprocessing"] = "paper"
        says.append("preprocessing 'paper': lower case, no punctuation; 'none' keeps text as it is")
    if public:
        epochs = -(-PUBLIC_STEPS * PUBLIC_BATCH // public)
        params["pretraining_epochs"] = max(3, min(20, epochs))
        if task == "text-classification":
            params["pretraining_learning_rate"] = RATES[task]
        says.append("the model reads public rows some times before any private one")
    else:
        params["vocabulary"] = "private"
        says.append("no public text: the vocabulary is private, so no epsilon is proven")
    models: dict[str, tuple[str, dict[str, Any]]] = {
        "next-word": ("lstm-small", {"vocabulary_size": sizes.vocabulary, "units": 48}),
        "text-classification": ("tfidf", {"vocabulary_size": sizes.vocabulary}),
        "tagging": ("bilstm", {"vocabulary_size": sizes.vocabulary, "units": 24,
                               "embedding_size": 24, "character_filters": 16}),
    }  # fmt: skip
    name, of_model = models[task]
    why = "small, for a first look; 'uedp-bench list models' shows others"
    return Part(name, of_model, (why,)), Part(task, params, tuple(says))


def _attacks(
    task: str, measured: Measured, sizes: Sizes
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    if not sizes.held_out:
        why = f"membership: it holds users out, and {measured.training_users} are too few"
        return (), (why,)
    users = max(measured.training_users - sizes.held_out, 1)
    params: dict[str, Any] = {"held_out_users": sizes.held_out}
    if task == "next-word":
        params["shadow_models"] = 2
        says = "was this user's text trained on? it holds out users, and trains two other models"
        shares = sorted({min(1.0, round(n / users, 5)) for n in (2, 10)})
        planted = {"p_u": shares, "p_e": [1.0], "canaries": 4, "entity_canaries": 0,
                   "word_pool": 200, "references": 512}  # fmt: skip
        what = f"plants secrets in the text of about 2 and 10 of {users} users, and looks for them"
        return (
            Part("membership", params, (says,)),
            Part("secret-sharer", planted, (what,)),
        ), ()
    params |= {"shadow_models": 2, "shadow_mechanism": "none"}
    says = "was this user's text trained on? it holds out some users, and trains two other models"
    return (Part("membership", params, (says,)),), ()


def _mechanisms(
    task: str, stats: CorpusStats, sizes: Sizes, epsilons: Sequence[float],
    *, public: bool, valid: bool,
) -> tuple[tuple[Part, ...], tuple[str, ...]]:  # fmt: skip
    rate = RATES[task]
    parts = []
    if public:
        remark = "the lower end: the model before any private row"
        parts.append(Part("public-only", {}, (remark,)))
    plain: dict[str, Any] = {"epochs": sizes.epochs, "learning_rate": rate, "batch_size": 32}
    says = ["the upper end: no protection"]
    if valid:
        plain["learning_rate_factors"] = FACTORS
        says.append("it keeps the epoch and learning rate that do best on rows of valid")
    parts.append(Part("noiseless", plain, tuple(says)))
    if not public:
        return tuple(parts), ("a mechanism with noise: without public text nothing is proven",)
    rows = stats.rows
    record = {"records": rows, "batch_size": min(sizes.batch, rows), "steps": sizes.steps,
              "clip": 1.0, "learning_rate": rate / 2}  # fmt: skip
    parts.append(
        _private("dp-sgd", record, epsilons, f"one row of {rows:,} is protected", "records", rows)
    )
    if not sizes.users_per_round:
        why = (
            f"{stats.users:,} users train after all cuts, and noise that hides one of them would "
            "drown the rest"
        )
        return tuple(parts), () if stats.users == rows else (f"user-dp: {why}",)
    user = {"users": stats.users, "users_per_round": min(sizes.users_per_round, stats.users),
            "rounds": sizes.rounds, "rows_per_user": sizes.rows_per_user, "clip": 0.3,
            "server_optimizer": "adam", "server_learning_rate": rate / 2}  # fmt: skip
    remark = f"all rows of one user of {stats.users:,} are protected"
    parts.append(_private("user-dp", user, epsilons, remark, "users", stats.users))
    return tuple(parts), ()


def _with_deidentified(
    mechanisms: tuple[Part, ...], corpus: Corpus, measured: Measured
) -> tuple[Part, ...]:
    """Spec with a row for text without its entities, behind that without protection."""
    if corpus.entity_types:
        params, what = {}, "entities are replaced by their types"
    elif measured.languages.get("English", 0.0) >= LEAST_ENGLISH:
        params = {"detector": "names"}
        what = (
            "English first names, with the last name behind them, are replaced; detector: presidio "
            "and spacy find more, and need a pipeline"
        )
    else:
        return mechanisms
    at = next(place for place, part in enumerate(mechanisms) if part.name == "noiseless")
    plain = mechanisms[at]
    row = Part(plain.name, plain.params, (what,), before=(Part("deidentify", params, ()),))
    return (*mechanisms[: at + 1], row, *mechanisms[at + 1 :])


def _private(
    name: str, params: dict[str, Any], epsilons: Sequence[float], remark: str, size: str, count: int
) -> Part:
    """A mechanism with the least noise that proves each target."""
    targets = [float(f"{epsilon:g}") for epsilon in epsilons]
    says = (
        f"{remark}, at a proven epsilon of {' or '.join(f'{epsilon:g}' for epsilon in targets)}",
        f"{size}: a public number. This one was counted from the file ({count:,} train after all "
        "cuts): by writing it here you declare it public",
        "noise: the least that proves it",
    )
    return Part(name, {**params, "epsilon": targets if len(targets) > 1 else targets[0]}, says)


def declared_classes(origin: Origin, corpus: Corpus) -> Origin:
    """The origin with its types listed: collected from rows, they would prove nothing."""
    if corpus.entity_types and "entities_column" in origin.params:
        return origin.with_params(entity_types=list(corpus.entity_types))
    return origin


# ------------------------------------------------------------------- learning rates of private rows
# Searched on users of the split `valid` alone. No user who trains is read, so that the choice costs
# the guarantees nothing. The unprotected row compares the same rates on rows of the same split, in
# its own run.

SCORED = 0.3
"""Share of the users of `valid` who are scored; the others train."""

LEAST_USERS = 20
"""Users who train, and users who are scored, at least."""

RATE = {"dp-sgd": "learning_rate", "user-dp": "server_learning_rate"}
SIZES = {"dp-sgd": ("records", "batch_size"), "user-dp": ("users", "users_per_round")}
"""Names of the learning rate, and of the numbers of all units and of those of a round."""


def at_each_epsilon(suggestion: Suggestion) -> Suggestion:
    """The suggestion, with a part of its own for each epsilon of a private mechanism."""
    parts: list[Part] = []
    for part in suggestion.mechanisms:
        targets = part.params.get("epsilon")
        if isinstance(targets, list):
            for at, one in enumerate(targets):
                params = {**part.params, "epsilon": one}
                parts.append(replace(part, params=params, says=() if at else part.says))
        else:
            parts.append(part)
    return replace(suggestion, mechanisms=tuple(parts))


class RateSearch:
    """Search for the learning rates of private parts.

    Args:
        data: spec of the ladder.
        suggestion: its parts, one for each epsilon.

    Raises:
        InputError: if too few users are in the split `valid`, or nothing has noise.
    """

    def __init__(self, data: Mapping[str, Any], suggestion: Suggestion) -> None:
        if not any(part.name in RATE for part in suggestion.mechanisms):
            raise InputError("no row has noise")
        source = data["source"]
        source = {**source, "params": {**source["params"], "tune_on_valid": SCORED}}
        corpus = registry.sources.create(source["name"], source["params"]).load()
        train, test = corpus.only("train"), corpus.only("test")
        users = [len({*one.users.tolist()}) for one in (train, test)]
        if min(users) < LEAST_USERS:
            raise InputError(
                f"{users[0]} users of the split valid would train and {users[1]} be scored, and "
                f"{LEAST_USERS} of each are needed"
            )
        counts = {"dp-sgd": len(train), "user-dp": users[0]}
        self._suggestion, parts = suggestion, suggestion.mechanisms
        self._tried = {
            at: _smaller(part, counts[part.name], suggestion)
            for at, part in enumerate(parts)
            if part.name in RATE
        }
        rates = [round(RATES[suggestion.task.name] * factor, 6) for factor in FACTORS]
        self.spec: dict[str, Any] = {
            **data,
            "description": "Search for learning rates on users of the split valid",
            "source": source,
            "mechanisms": [
                {"name": parts[at].name, "params": {**params, RATE[parts[at].name]: rates}}
                for at, params in self._tried.items()
            ],
            "attacks": [],
            "seeds": data["seeds"][:1],
        }  # fmt: skip

    def choose(self, results: Sequence[Result]) -> Suggestion:
        """Suggestion with the best rate of each part; as it was where no run has a number."""
        parts = list(self._suggestion.mechanisms)
        for at, params in self._tried.items():
            part, rate = parts[at], RATE[parts[at].name]
            scores = {
                ref.params[rate]: score
                for result in results
                for ref in result.spec.mechanism
                if ref.name == part.name
                and ref.params.get("noise_multiplier") == params["noise_multiplier"]
                and (score := _score(result)) is not None
            }
            if scores:
                best = max(scores, key=lambda each: scores[each])
                why = f"{rate}: of {', '.join(map(str, scores))} the best on users of valid"
                params = {**part.params, rate: best}
                parts[at] = replace(part, params=params, says=(*part.says, why))
        return replace(self._suggestion, mechanisms=tuple(parts))


def _smaller(part: Part, count: int, suggestion: Suggestion) -> dict[str, Any]:
    """Parameters for fewer units, with the sampling rate and the noise on the mean of the part."""
    params = dict(part.params)
    mechanism = registry.mechanisms.create(part.name, {**params, "delta": suggestion.delta})
    all_units, of_round = SIZES[part.name]
    fewer = max(1, round(params[of_round] * count / params[all_units]))
    noise = mechanism.noise(suggestion.sizes) * fewer / params[of_round]
    del params["epsilon"]
    return {**params, all_units: count, of_round: fewer, "noise_multiplier": float(f"{noise:.4g}")}


def _score(result: Result) -> float | None:
    """The metric that ranks a result, larger being better; None for a run without a number."""
    ranked_by = result.headline
    if ranked_by is None or ranked_by.metric not in result.utility:
        return None
    score = result.utility[ranked_by.metric].value
    if not math.isfinite(score):  # it diverged
        return None
    return score if ranked_by.larger_is_better else -score
