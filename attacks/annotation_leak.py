"""Annotation leak: does a tagger prefer what the record says to what it says of somebody else?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import (
    Attack,
    BoolArray,
    CapabilityError,
    Corpus,
    Estimate,
    InputError,
    IntArray,
    Leakage,
    Metric,
    Params,
    Planted,
)
from uedp_bench.api.capabilities import RowScorer, Tagger
from uedp_bench.api.statistics import Scores, auc_estimate, mean_estimate
from uedp_bench.api.text import Alignment, normal_surface
from uedp_bench.corpus.spans import COPIED, REPLACED

if TYPE_CHECKING:
    from uedp_bench.api import FloatArray, Release, Run


class Place(NamedTuple):
    """The place of a value: characters of a row."""

    row: int
    start: int
    end: int


class Fact(NamedTuple):
    """A value of a subject's record that its own text says.

    Attributes:
        user: the subject.
        key: key of the record ("Spouse(s)").
        value: value as the record has it.
        places: marked spans of the subject's rows that are the value.
    """

    user: int
    key: str
    value: str
    places: tuple[Place, ...]


def facts_in_text(corpus: Corpus, rows: BoolArray) -> list[Fact]:
    """Facts whose value is marked somewhere in the subject's rows, in the order of users and keys.

    Args:
        corpus: with records.
        rows: (rows,) which rows count.
    """
    marked: dict[int, set[Place]] = defaultdict(set)
    for spans in (corpus.entities, *(layer.spans for layer in corpus.layers.values())):
        for row, start, end, _ in spans.mentions():
            if rows[row] and corpus.users[row] >= 0:
                marked[int(corpus.users[row])].add(Place(row, start, end))
    facts = []
    for user in sorted(marked):
        by_surface: dict[str, list[Place]] = defaultdict(list)
        for place in sorted(marked[user]):
            surface = corpus.texts[place.row][place.start : place.end]
            by_surface[normal_surface(surface)].append(place)
        for key, value in _values(corpus, user):
            if places := by_surface.get(normal_surface(value)):
                facts.append(Fact(user, key, value, tuple(places)))
    return facts


def facts_of(corpus: Corpus, users: Sequence[int]) -> list[Fact]:
    """All facts of some users, whether their text says them or not."""
    return [Fact(user, key, value, ()) for user in users for key, value in _values(corpus, user)]


def frequencies(texts: Sequence[str], values: Sequence[str]) -> Counter[str]:
    """Counts each value in some texts, between spaces."""
    text = "\n".join(f" {normal_surface(one)} " for one in texts)
    return Counter({value: text.count(f" {normal_surface(value)} ") for value in set(values)})


class Decoys:
    """Values that could stand in the place of a fact's.

    Those of other subjects, under the same key, of as many words, that occur as often in the
    training text.

    Args:
        facts: facts of all subjects that decoys may come from.
        frequency: frequency of values in the training text.
    """

    def __init__(self, facts: Sequence[Fact], frequency: Mapping[str, int]) -> None:
        self._frequency = frequency
        self._alike: dict[tuple[str, int, int], dict[str, str]] = defaultdict(dict)
        self._own: dict[int, set[str]] = defaultdict(set)
        for fact in facts:
            form = normal_surface(fact.value)
            self._alike[self._kind(fact)].setdefault(form, fact.value)
            self._own[fact.user].add(form)

    def draw(self, fact: Fact, count: int, rng: np.random.Generator) -> list[str] | None:
        """(count,) different decoys; None if there are not so many."""
        own = self._own[fact.user]
        others = [value for form, value in self._alike[self._kind(fact)].items() if form not in own]
        if len(others) < count:
            return None
        return [others[i] for i in rng.permutation(len(others))[:count].tolist()]

    def _kind(self, fact: Fact) -> tuple[str, int, int]:
        return fact.key, len(fact.value.split()), self._frequency.get(fact.value, 0)


def filled(corpus: Corpus, places: Sequence[Place], fillers: Sequence[str]) -> Corpus:
    """A row for each place with its filler there; annotations follow.

    Args:
        corpus: has the rows.
        places: one for each row to make.
        fillers: texts at those places.
    """
    rows = corpus.take(np.array([place.row for place in places], dtype=np.int64))
    pieces: list[tuple[int, int, int, int, int, int]] = []
    texts = []
    for row, (place, filler, text) in enumerate(zip(places, fillers, rows.texts, strict=True)):
        _, start, end = place
        moved = start + len(filler)
        texts.append(text[:start] + filler + text[end:])
        pieces += [
            (row, 0, start, 0, start, COPIED),
            (row, start, end, start, moved, REPLACED),
            (row, end, len(text), moved, len(texts[-1]), COPIED),
        ]
    columns = np.array(pieces, dtype=np.int64).reshape(-1, 6)
    columns = columns[columns[:, 1] < columns[:, 2]]
    return rows.with_texts(texts, alignment=Alignment(np.ones(len(texts), dtype=bool), *columns.T))


def shared_words(corpus: Corpus, fact: Fact, values: Sequence[str]) -> IntArray:
    """(values,) words of each that stand elsewhere in the rows of a fact, its own place left out.

    It sees no model: a child has the surname of the parent whose page it is on.
    """
    around = Counter[str]()
    for row, start, end in fact.places:
        text = corpus.texts[row]
        around.update(normal_surface(text[:start] + text[end:]).split())
    return np.array([
        sum(around[word] for word in normal_surface(value).split()) for value in values
    ])  # fmt: skip


def _values(corpus: Corpus, user: int) -> list[tuple[str, str]]:
    records = corpus.records or ()
    facts = records[user] if user < len(records) else {}
    return [(key, value) for key, values in facts.items() for value in _different(values)]


def _different(values: Sequence[str]) -> Iterable[str]:
    """The first spelling of each value."""
    spellings: dict[str, str] = {}
    for value in values:
        spellings.setdefault(normal_surface(value), value)
    return spellings.values()


_ROWS_AT_ONCE = 4096


class AnnotationLeakParams(Params):
    """Numbers of subjects, of facts, and of the values among which each fact is ranked."""

    subjects: int = Field(
        default=50, ge=2, description="subjects that are held out, and as many members"
    )
    facts: int = Field(default=200, ge=2, description="facts of each side to ask about, at most")
    decoys: int = Field(
        default=15, ge=1,
        description="values of other subjects that each is ranked among: of the same key, of as "
        "many words, as frequent in the training text",
    )  # fmt: skip


class PlantedSubjects(Planted):
    """Members and outsiders whose records are inferred.

    Attributes:
        members: users who stay in the training split.
        outsiders: users who are held out.
    """

    members: tuple[int, ...] = ()
    outsiders: tuple[int, ...] = ()


class AnnotationLeak(Attack[AnnotationLeakParams]):
    """Exposure of facts (subject, key, value) in a tagger that was trained on their annotation.

    The loss of a row's own labels, with the record's value in its place and with values of others,
    ranks the value. Facts of subjects who are held out show what the text around a value gives
    away; what a member's exposure has beyond theirs was learnt.
    """

    name = "annotation-leak"
    version = 2
    source = (
        "exposure: Carlini et al. 2019, section 4; taggers that learn from records: "
        "Hathurusinghe et al. 2021"
    )
    Params = AnnotationLeakParams
    metrics = (
        Metric.share("auc", "member AUC", "of telling facts of records from facts of subjects who "
                     "are held out; 0.5 where nothing leaks", "lower", no_leak=0.5, main=True),
        Metric("exposure", "exposure of records", "mean bits of facts that a record and its text "
               "say", "lower", "bits", low=0.0, main=True),
        Metric("exposure_chance", "chance", "mean bits of facts that nobody saw", unit="bits",
               low=0.0, main=True),
        Metric("exposure_without_model", "without model", "mean bits of facts by the words around "
               "them alone", unit="bits", low=0.0, main=True),
        Metric("exposure_held_out", "exposure of others", "mean bits of facts of subjects who are "
               "held out", unit="bits", low=0.0, main=True),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Tagger,)
    holds_out = True
    planted_type = PlantedSubjects

    def reads(self) -> frozenset[str]:
        """Records, which the adversary knows too."""
        return frozenset({"records"})

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, PlantedSubjects]:
        """Holds out half of the subjects that are drawn.

        Raises:
            InputError: if too few subjects have a text that says what their record does.
        """
        if corpus.records is None:
            return corpus, PlantedSubjects()
        train, size = corpus.where("train"), self.params.subjects
        subjects = np.array(sorted({fact.user for fact in facts_in_text(corpus, train)}), np.int64)
        if len(subjects) < 2 * size:
            raise InputError(
                f"{self.name}.subjects is {size}: the texts of {len(subjects)} training subjects "
                f"say what their records do, and {2 * size} are needed; "
                f"choose at most {len(subjects) // 2}"
            )
        drawn = rng.permutation(subjects)
        members, outsiders = np.sort(drawn[:size]), np.sort(drawn[size : 2 * size])
        planted = PlantedSubjects(
            members=tuple(members.tolist()), outsiders=tuple(outsiders.tolist())
        )
        return corpus.with_split(train & np.isin(corpus.users, outsiders), "held_out"), planted

    def refuses(self, release: Release, corpus: Corpus) -> str | None:
        """Taggers must be asked for losses."""
        if isinstance(release, RowScorer):
            return None
        return f"needs a tagger that is a RowScorer, and {type(release).__name__} is none"

    def run(self, release: Release, planted: PlantedSubjects, corpus: Corpus, run: Run) -> Leakage:
        """See the class.

        Raises:
            CapabilityError: if the release is no RowScorer.
            InputError: if no fact has enough decoys.
        """
        if not isinstance(release, RowScorer):
            raise CapabilityError(f"{self.name} needs a RowScorer, not {type(release).__name__}")
        rng = run.shared("attack", self.name)
        train, held = corpus.where("train"), corpus.where("held_out")
        everybody = np.unique(corpus.users[train]).tolist()
        sides = {
            "members": self._side(release, corpus, (train, planted.members, everybody), rng),
            "held_out": self._side(
                release, corpus, (held, planted.outsiders, planted.outsiders), rng
            ),
        }
        fact_counts = {name: side.counts for name, side in sides.items()}
        if not len(sides["members"].exposures):
            raise InputError(
                f"{self.name}.decoys is {self.params.decoys}: no fact has so many values of other "
                f"subjects that are as frequent; choose fewer ({fact_counts})"
            )
        return Leakage(
            self._metrics(sides, rng), {"decoys": self.params.decoys, "facts": fact_counts}
        )

    def _metrics(self, sides: dict[str, _Side], rng: np.random.Generator) -> dict[str, Estimate]:
        members, others = sides["members"], sides["held_out"]
        ranks = np.arange(1, self.params.decoys + 2)
        metrics = {
            "exposure": mean_estimate(members.exposures, rng, members.users),
            "exposure_chance": Estimate(value=float(_exposure(ranks, self.params.decoys).mean())),
            "exposure_without_model": mean_estimate(members.without_model, rng, members.users),
        }
        if len(others.exposures):
            metrics["exposure_held_out"] = mean_estimate(others.exposures, rng, others.users)
            metrics["auc"] = auc_estimate(
                Scores(members.exposures, members.users),
                Scores(others.exposures, others.users),
                rng,
            )
        return metrics

    def _side(
        self,
        release: RowScorer,
        corpus: Corpus,
        who: tuple[BoolArray, Sequence[int], Sequence[int]],
        rng: np.random.Generator,
    ) -> _Side:
        """Exposures of facts of some users in their rows; decoys are of the users named last."""
        p = self.params
        rows, users, decoys_of = who
        facts = [fact for fact in facts_in_text(corpus, rows) if fact.user in set(users)]
        alike = [*facts_of(corpus, decoys_of), *facts]
        frequency = frequencies(corpus.only("train").texts, [fact.value for fact in alike])
        decoys = Decoys(alike, frequency)
        ready = [(fact, decoys.draw(fact, p.decoys, rng)) for fact in facts]
        chosen = [(fact, [fact.value, *other]) for fact, other in ready if other is not None]
        lists = [chosen[i] for i in sorted(rng.permutation(len(chosen))[: p.facts].tolist())]
        losses = _losses(release, corpus, lists)
        scored = np.flatnonzero(np.isfinite(losses).all(axis=1))
        fits = [-shared_words(corpus, *lists[i]).astype(np.float64) for i in scored.tolist()]
        return _Side(
            exposures=_exposures(losses[scored], rng),
            without_model=_exposures(np.array(fits).reshape(-1, p.decoys + 1), rng),
            users=np.array([lists[i][0].user for i in scored.tolist()], dtype=np.int64),
            counts={
                "in_text": len(facts), "with_decoys": len(chosen), "asked": len(scored)
            },
        )  # fmt: skip


class _Side(NamedTuple):
    """Exposures of the facts of members, or of those who are held out."""

    exposures: FloatArray
    without_model: FloatArray
    users: Any
    counts: dict[str, int]


def _losses(release: RowScorer, corpus: Corpus, lists: list[tuple[Fact, list[str]]]) -> FloatArray:
    """(facts, values) sum over the places of a fact of the row's loss with each value there.

    Infinite where a row can then not be scored: an annotation was torn.
    """
    count = len(lists[0][1]) if lists else 1
    questions = [
        (number, at, place, value)
        for number, (fact, values) in enumerate(lists)
        for place in fact.places
        for at, value in enumerate(values)
    ]
    loss_sums = np.zeros((len(lists), count))
    for start in range(0, len(questions), _ROWS_AT_ONCE):
        some = questions[start : start + _ROWS_AT_ONCE]
        rows = filled(corpus, [one[2] for one in some], [one[3] for one in some])
        can = np.asarray(release.scorable(rows))
        losses = np.full(len(some), np.inf)
        losses[can] = release.row_losses(rows.take(np.flatnonzero(can)))
        np.add.at(loss_sums, ([one[0] for one in some], [one[1] for one in some]), losses)
    return loss_sums


def _exposures(losses: FloatArray, rng: np.random.Generator) -> FloatArray:
    """(facts,) exposures of the first of each row's values; ties are broken at random.

    So the rank of a value that is exchangeable with the others is uniform, and exactly so.
    """
    order = np.lexsort((rng.random(losses.shape), losses), axis=-1)
    return _exposure(1 + np.argmax(order == 0, axis=1), losses.shape[1] - 1)


def _exposure(ranks: Any, decoys: int) -> FloatArray:
    """Bits: log2 of how many values there are, less log2 of the rank."""
    bits: FloatArray = np.log2(decoys + 1.0) - np.log2(ranks)
    return bits
