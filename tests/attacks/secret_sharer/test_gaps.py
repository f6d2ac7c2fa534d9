"""Secrets in a gap: planted at word boundaries, ranked exactly, held by as many users as asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from uedp_bench.attacks.secret_sharer.attack import PlantedCanaries, SecretSharer
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus, Layer, Spans
from uedp_bench.errors import InputError
from uedp_bench.models.word_vocabularies import WordVocabulary
from uedp_bench.statistics.exposure import NULL_MEAN

RunMaker = Callable[..., Run]

ALL = {"layout": ["HS", "HSH", "HHSHH"], "occurrences": [0, 1, 20], "word_pool": 80}


class FakeFiller(Release):
    """Knows some texts, and gives all others random losses."""

    def __init__(self, texts: Sequence[str] = (), ties: bool = False) -> None:
        self.texts, self.ties, self.questions = set(texts), ties, []  # type: ignore[var-annotated]

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> np.ndarray:
        self.questions.append((before, after, tuple(fillers)))
        rng = np.random.default_rng([7, len(self.questions)])
        out = np.zeros(len(fillers)) if self.ties else rng.normal(30, 3, len(fillers))
        return np.where([before + f + after in self.texts for f in fillers], -1.0, out)


class WithVocabulary(FakeFiller):
    def __init__(self, words: Sequence[str], texts: Sequence[str] = ()) -> None:
        super().__init__(texts)
        self.vocabulary = WordVocabulary(words, origin="test")


def planted(
    corpus: Corpus, params: dict[str, object], seed: int = 1
) -> tuple[SecretSharer, Corpus, PlantedCanaries]:
    attack = SecretSharer.create(params)
    changed, what = attack.plant(corpus, np.random.default_rng(seed))
    assert isinstance(what, PlantedCanaries)
    return attack, changed, what


def rows_with(corpus: Corpus, text: str) -> np.ndarray:
    return np.array([i for i, row in enumerate(corpus.texts) if f" {text} " in f" {row} "], int)


def test_secrets_are_inserted_between_words_and_counted(development_corpus: Corpus) -> None:
    _, after, what = planted(development_corpus, ALL)
    assert len(what.secrets) == 3 * 3 * 5
    assert {s.layout: len(s.text.split()) for s in what.secrets} == {"HS": 2, "HSH": 3, "HHSHH": 5}
    for secret in what.secrets:
        rows = rows_with(after, secret.text)
        if secret.layout == "HHSHH":  # fewer words may meet by chance
            assert len(rows) == secret.occurrences == secret.copies
            assert len(set(after.users[rows].tolist())) == secret.sharers
        assert secret.copies == 0 or len(rows) >= secret.occurrences
    inserted = after.origin < 0
    assert development_corpus.where("train")[inserted].all()
    added = 0
    for row in np.flatnonzero(inserted).tolist():
        words, left = after.texts[row].split(), iter(after.texts[row].split())
        before = development_corpus.texts[row].split()
        assert all(word in left for word in before)  # in their order
        added += len(words) - len(before)
    assert added == sum(s.occurrences * len(s.text.split()) for s in what.secrets)
    for row in np.flatnonzero(~inserted).tolist():
        assert after.texts[row] == development_corpus.texts[row]
    assert (after.users == development_corpus.users).all()


def test_places_are_uniform_and_no_name_is_torn(make_corpus: Callable[..., Corpus]) -> None:
    corpus = make_corpus(users=400, rows=2)
    texts = [f"New York {row}" for row in corpus.texts]
    spans = [(row, 0, 8, 0) for row in range(len(texts))]
    named = replace(corpus.with_texts(texts, spans))
    _, after, what = planted(named, {"layout": "HSH", "occurrences": [600], "canaries": 1})
    (secret,) = what.secrets
    starts = []
    for row in np.flatnonzero(after.origin < 0).tolist():
        words = after.texts[row].split()
        starts.append(after.texts[row].split(secret.text)[0].split())
        assert after.texts[row].count("New York") == 1
        assert " ".join(words) == after.texts[row]
    places = np.array([len(start) for start in starts])
    assert 1 not in places
    counts = np.bincount(places, minlength=11)[[0, *range(2, 11)]]
    assert counts.min() > 0.5 * 600 / 10
    assert {after.surface(i) for i in range(len(after.entities))} >= {"New York"}
    assert len(after.entities) == len(named.entities)


def test_annotations_move_with_their_words(development_corpus: Corpus) -> None:
    spans = development_corpus.entities
    gold = Layer.build(
        development_corpus.texts,
        spans.mentions(),
        ("LOC", "PER"),
        np.ones(len(development_corpus), dtype=bool),
    )
    _, after, _ = planted(replace(development_corpus, layers={"gold": gold}), ALL)
    for moved in (after.entities, after.layers["gold"].spans):
        assert isinstance(moved, Spans)
        assert len(moved.row) == len(spans.row)
        columns = zip(moved.row, moved.start, moved.end, strict=True)
        assert {after.texts[row][start:end] for row, start, end in columns} == {"Anna"}


@pytest.mark.parametrize("sharers", [1, 3])
def test_copies_are_held_by_as_many_users_as_asked(
    make_corpus: Callable[..., Corpus], sharers: int
) -> None:
    corpus = make_corpus(users=60, rows=20)
    params = {"layout": "HSH", "occurrences": [1, 7, 20], "sharers": sharers, "planting": "rows"}
    _, after, what = planted(corpus, params)
    for secret in what.secrets:
        rows = rows_with(after, secret.text)
        assert len(rows) == secret.occurrences
        users, times = np.unique(after.users[rows], return_counts=True)
        assert len(users) == secret.sharers == min(sharers, secret.occurrences)
        assert times.max() - times.min() <= 1
        assert {after.texts[row] for row in rows.tolist()} == {secret.text}
    with pytest.raises(InputError, match=r"sharers.* rows .* 20$"):
        planted(corpus, params | {"occurrences": [100]})


def test_shares_of_rows_are_numbers_of_rows(development_corpus: Corpus) -> None:
    _, _, what = planted(development_corpus, ALL | {"occurrences": [0.01, 3], "layout": "HS"})
    assert {s.copies: s.occurrences for s in what.secrets} == {0.01: 30, 3: 3}


def test_planting_is_deterministic_and_survives_json(development_corpus: Corpus) -> None:
    _, one, what = planted(development_corpus, ALL)
    _, two, again = planted(development_corpus, ALL)
    assert one.fingerprint == two.fingerprint
    assert what == again == PlantedCanaries.model_validate_json(what.model_dump_json())


def test_what_was_not_learnt_has_the_exposure_of_chance(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    bits = []
    for seed in range(4):
        params = ALL | {"canaries": 25, "occurrences": [0]}
        attack, corpus, what = planted(development_corpus, params, seed)
        leakage = attack.run(FakeFiller(), what, corpus, make_run(1))
        bits += [row["exposure"] for row in leakage.details["canaries"]]
    # A uniform rank among 80 words: a little below 1/ln 2.
    exact = math.log2(80) - np.mean(np.log2(np.arange(1, 81)))
    assert abs(exact - NULL_MEAN) < 0.07
    assert abs(np.mean(bits) - exact) < 4 * 1.4 / math.sqrt(300)
    assert leakage.metrics["exposure_HS_0"].value == pytest.approx(np.mean(bits[-75:-50]))
    assert "extracted_filling" not in leakage.metrics


def test_what_is_known_reaches_the_limit_and_is_extracted(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, corpus, what = planted(development_corpus, ALL)
    release = FakeFiller([s.text for s in what.secrets if s.copies == 20])
    leakage = attack.run(release, what, corpus, make_run(1))
    limit = leakage.metrics["exposure_limit"].value
    assert limit == math.log2(80)
    assert leakage.metrics["exposure_max_repeats"].value == pytest.approx(limit)
    assert leakage.metrics["exposure_HSH_20"].value == pytest.approx(limit)
    assert leakage.metrics["exposure_HSH_1"].value < limit - 2
    assert leakage.metrics["secrets_scored"].value == 1.0
    by = {(row["layout"], row["copies"]): row for row in leakage.details["by_occurrences"]}
    assert by["HHSHH", 20]["extracted"] == 1.0
    assert by["HHSHH", 20]["rows"] == 20
    assert 15 < by["HHSHH", 20]["users"] <= 20
    # The gap is asked about with what stands around it, all candidates at once.
    questions = {(before, after) for before, after, _ in release.questions}
    assert questions == {(f"{s.before} ", f" {s.after}" if s.after else "") for s in what.secrets}
    assert {len(fillers) for *_, fillers in release.questions} == {80}


def test_ties_count_against_the_attack(development_corpus: Corpus, make_run: RunMaker) -> None:
    attack, corpus, what = planted(development_corpus, ALL)
    leakage = attack.run(FakeFiller(ties=True), what, corpus, make_run(1))
    assert {row["rank"] for row in leakage.details["canaries"]} == {80}
    assert leakage.metrics["exposure_mean"].value == 0.0


def test_secrets_outside_the_vocabulary_are_counted_and_not_ranked(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, corpus, what = planted(development_corpus, ALL)
    vocabulary = what.words[:30]
    leakage = attack.run(WithVocabulary(vocabulary), what, corpus, make_run(1))
    inside = [s for s in what.secrets if s.secret in vocabulary]
    assert 0 < len(inside) < len(what.secrets)
    assert leakage.metrics["secrets_scored"].value == len(inside) / len(what.secrets)
    assert leakage.metrics["exposure_limit"].value == math.log2(30)
    assert len(leakage.details["canaries"]) == len(inside)
    assert len(leakage.details["not_scored"]) == len(what.secrets) - len(inside)
    assert any("token" in note for note in leakage.details["notes"])
    none = attack.run(WithVocabulary(["zzz"]), what, corpus, make_run(1))
    assert set(none.metrics) == {"secrets_scored"}
    assert none.metrics["secrets_scored"].value == 0.0


def test_words_of_one_token_are_one_candidate(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    """A vocabulary that knows no accents asks about one of two words, and neither beats itself."""
    attack, corpus, what = planted(development_corpus, ALL)

    class WithoutAccents(WordVocabulary):
        def encode(self, texts: Sequence[str]) -> list[list[int]]:
            return super().encode([text.replace("é", "e") for text in texts])

    (secret, *_), twins = what.secrets, [f"caf{letter}" for letter in "eé"]
    two = what.model_copy(
        update={
            "secrets": (secret.model_copy(update={"secret": twins[1]}),),
            "words": (*what.words, *twins),
        }
    )
    release = WithVocabulary(())
    release.vocabulary = WithoutAccents([*what.words, twins[0]], origin="test")
    release.texts = {f"{secret.before} {twins[0]}" + (f" {secret.after}" if secret.after else "")}
    leakage = attack.run(release, two, corpus, make_run(1))
    ((_, _, candidates),) = release.questions
    assert len(candidates) == len(set(candidates)) == len(what.words) + 1
    (row,) = leakage.details["canaries"]
    assert (row["secret"], row["rank"]) == (twins[1], 1)
    assert leakage.metrics["exposure_limit"].value == math.log2(len(candidates))


def test_no_other_secret_stands_for_those_of_most_rows(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, corpus, what = planted(development_corpus, ALL)
    often = {secret.secret for secret in what.secrets if secret.copies == 20}
    release = WithVocabulary([word for word in what.words if word not in often])
    leakage = attack.run(release, what, corpus, make_run(1))
    assert "exposure_HSH_1" in leakage.metrics
    assert "exposure_max_repeats" not in leakage.metrics


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"layout": ["HS", "HS"]}, r"layout is \['HS', 'HS'\]"),
        ({"layout": ["suffix", "HS"]}, "layout.*'suffix'"),
        ({"layout": "SH"}, "layout"),
        ({"occurrences": [5]}, "occurrences.*suffix"),
        ({"layout": "HS", "p_u": [0.5]}, "p_u.*HS"),
        ({"layout": "HS", "occurrences": [1, 1]}, r"occurrences is \[1, 1\]"),
        ({"layout": "HS", "occurrences": [-1]}, "occurrences"),
        ({"layout": "HS", "occurrences": [1.5]}, "occurrences"),
        ({"sharers": 1}, "sharers.*suffix"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused(
    params: dict[str, object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        SecretSharer.create(params)


def test_parameters_keep_the_identity_of_suffixes() -> None:
    dumped = SecretSharer.create({}).params.model_dump(mode="json")
    assert not {"layout", "occurrences", "sharers", "planting"} & set(dumped)
    gaps = SecretSharer.create({"layout": "HS"}).params.model_dump(mode="json")
    assert SecretSharer.create(gaps).params == SecretSharer.create({"layout": "HS"}).params


def test_too_few_words_or_rows_are_refused(development_corpus: Corpus) -> None:
    with pytest.raises(InputError, match="45 secrets"):
        planted(development_corpus, ALL | {"word_pool": 40})
    with pytest.raises(InputError, match=r"occurrences: 3001 rows.*3000"):
        planted(development_corpus, {"layout": "HS", "occurrences": [3001]})
