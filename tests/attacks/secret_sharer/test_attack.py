"""Planting is Poisson and leaves the rest alone; exposure is calibrated; extraction finds."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from uedp_bench.attacks._planting import unused_name
from uedp_bench.attacks.secret_sharer.attack import PlantedCanaries, SecretSharer
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus, Spans
from uedp_bench.corpus.entity_detection import DetectionParams
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.deidentification.deidentify import Deidentify
from uedp_bench.statistics.exposure import NULL_MEAN
from uedp_bench.text.entities import Detection, add_entities

RunMaker = Callable[..., Run]

SMALL = {"p_u": (0.02, 0.1), "p_e": (0.5,), "references": 256, "word_pool": 60}


class FakeCompleter(Release):
    """Gives every text a random loss that depends on it, and known texts a low one."""

    def __init__(self, texts: Sequence[str] = (), seed: int = 0) -> None:
        self.texts, self.seed, self.calls = set(texts), seed, 0

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> np.ndarray:
        self.calls += 1
        out = np.random.default_rng([self.seed, self.calls]).normal(30, 3, len(fillers))
        return np.where([before + f + after in self.texts for f in fillers], 0.5, out)


class FakeGenerator(FakeCompleter):
    """Word-level: the next word of a known text is likely, all others are equally unlikely."""

    def __init__(self, words: Sequence[str], texts: Sequence[str]) -> None:
        super().__init__(texts)
        self.words = ["<end>", *words]

    def encode(self, text: str) -> list[int]:
        return [self.words.index(word) for word in text.split()]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(self.words[t] for t in tokens if t)

    def next_logprobs(self, prefixes: Sequence[Sequence[int]]) -> np.ndarray:
        weights = np.ones((len(prefixes), len(self.words)))
        weights[:, 0] = 1000.0  # a model that likes to end must not hide what it knows
        for i, prefix in enumerate(prefixes):
            for text in self.texts:
                tokens = self.encode(text)
                if tokens[: len(prefix)] == list(prefix) and len(prefix) < len(tokens):
                    weights[i, tokens[len(prefix)]] = 500.0
        return np.log(weights / weights.sum(axis=1, keepdims=True))


def planted(
    corpus: Corpus, params: dict[str, object], seed: int = 1
) -> tuple[SecretSharer, Corpus, PlantedCanaries]:
    attack = SecretSharer.create(params)
    changed, what = attack.plant(corpus, np.random.default_rng(seed))
    return attack, changed, what


def test_only_training_rows_change_and_they_become_canaries(development_corpus: Corpus) -> None:
    before = development_corpus.with_split(development_corpus.users < 50, "held_out")
    _, after, what = planted(before, SMALL)
    texts = {c.text for c in what.canaries}
    changed = np.array([a != b for a, b in zip(before.texts, after.texts, strict=True)])
    assert changed.any()
    assert before.where("train")[changed].all()
    assert {after.texts[i] for i in np.flatnonzero(changed)} <= texts
    for canary in what.canaries:
        assert after.texts.count(canary.text) == canary.occurrences
        rows = [i for i, text in enumerate(after.texts) if text == canary.text]
        assert len(set(after.users[rows].tolist())) == canary.sharers
    assert (after.users == before.users).all()
    assert (after.split == before.split).all()


def test_replaced_rows_lose_their_names_and_others_keep_theirs(development_corpus: Corpus) -> None:
    _, after, what = planted(development_corpus, SMALL)
    texts = {c.text: c for c in what.canaries}
    names = {"word": 0, "entity": 0}
    for i, row in enumerate(after.entities.row.tolist()):
        canary = texts.get(after.texts[row])
        if canary is None:
            assert after.surface(i) == "Anna"
        else:
            names[canary.kind] += 1
            assert after.surface(i) == " ".join(canary.text.split()[2:])
            assert after.entity_types[after.entities.type[i]] == "PER"
    assert names["word"] == 0
    assert names["entity"] == sum(c.occurrences for c in what.canaries if c.kind == "entity")
    untouched = [t for t in after.texts if t.endswith(" Anna")]
    assert len(after.entities) == names["entity"] + len(untouched)


def test_sharers_and_replacements_are_poisson(make_corpus: Callable[..., Corpus]) -> None:
    corpus = make_corpus(users=2000, rows=4)
    params = {"p_u": (0.05,), "p_e": (0.5,), "canaries": 4, "entity_canaries": 0, "word_pool": 50}
    sharers, occurrences = [], []
    for seed in range(6):
        _, _, what = planted(corpus, params, seed)
        # A sharer shows if one of its four examples was replaced.
        sharers += [c.sharers for c in what.canaries]
        occurrences += [c.occurrences for c in what.canaries]
        assert {c.expected_occurrences for c in what.canaries} == {200.0}
        assert {c.expected_sharers for c in what.canaries} == {100.0}
    rate = 0.05 * (1 - 0.5**4)
    # Rows that two canaries hit are lost to the later one: at most 3 x 2.5 % of them.
    assert 0.9 * 2000 * rate < np.mean(sharers) < 1.05 * 2000 * rate
    assert 0.9 * 200 < np.mean(occurrences) < 1.05 * 200
    # Variance of a sum over users of Bernoulli x binomial: far above that of independent rows.
    spread = 2000 * (0.05 * (1.0 + 4.0) - (0.05 * 2.0) ** 2)
    assert 0.4 * spread < np.var(occurrences) < 2.0 * spread


def test_defaults_replace_few_rows_and_repeat_canaries_often(
    make_corpus: Callable[..., Corpus],
) -> None:
    corpus = make_corpus(users=4000, rows=6)
    _, after, what = planted(corpus, {})
    assert sum(c.occurrences for c in what.canaries) < 0.06 * 24000
    assert sum(c.expected_occurrences for c in what.canaries) < 0.05 * 24000
    top = [c for c in what.canaries if c.kind == "word" and c.expected_occurrences > 90]
    assert len(top) >= 5
    assert all(40 <= c.occurrences <= 170 for c in top)
    public = {w for i in np.flatnonzero(after.where("public")) for w in after.texts[i].split()}
    assert all(set(c.text.split()) <= public for c in what.canaries)
    assert len({c.text.split()[0] for c in what.canaries}) == len(what.canaries)


def test_without_entity_types_there_are_no_entity_canaries(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    bare = replace(development_corpus, entities=Spans.none(), entity_types=())
    attack, after, what = planted(bare, SMALL)
    assert {c.kind for c in what.canaries} == {"word"}
    leakage = attack.run(FakeCompleter(), what, after, make_run(1))
    assert "exposure_entity" not in leakage.metrics
    assert any("types" in note for note in leakage.details["notes"])


SPREADS = {**SMALL, "entity_canaries": 3, "entity_spreads": (0, 1, 3, 10)}


def spread_of(corpus: Corpus, name: str) -> int:
    """Users that mention an entity besides one, by the spans of the corpus."""
    spreads = {
        int(corpus.spread[corpus.entities.entity[i]])
        for i in range(len(corpus.entities))
        if corpus.surface(i) == name
    }
    assert len(spreads) == 1
    return spreads.pop()


@pytest.mark.parametrize("sentences", [1, 2])
def test_a_chosen_spread_is_that_of_the_corpus(development_corpus: Corpus, sentences: int) -> None:
    before = development_corpus.with_split(development_corpus.users < 50, "held_out")
    _, after, what = planted(before, {**SPREADS, "entity_sentences": sentences})
    entities = [c for c in what.canaries if c.kind == "entity"]
    assert sorted(c.spread for c in entities if c.spread is not None) == [
        spread for spread in (0, 1, 3, 10) for _ in range(3)
    ]
    seen: set[int] = set()
    for canary in entities:
        assert canary.spread is not None
        assert canary.p_u is None
        rows = np.array([i for i, text in enumerate(after.texts) if text == canary.text])
        assert spread_of(after, " ".join(canary.text.split()[2:])) == canary.spread
        users, times = np.unique(after.users[rows], return_counts=True)
        assert len(users) == canary.sharers == canary.spread + 1
        assert (times == sentences).all()
        assert canary.occurrences == len(rows)
        assert canary.sentences == canary.spread * sentences
        assert before.where("train")[rows].all()
        assert not seen & set(users.tolist())
        seen |= set(users.tolist())


def test_a_chosen_spread_holds_where_names_and_users_are_few(
    make_corpus: Callable[..., Corpus],
) -> None:
    corpus = make_corpus(users=20, rows=8)
    tight = {
        "p_u": (0.1,), "p_e": (0.1,), "canaries": 1, "references": 2, "word_pool": 9,
        "canary_words": 3, "prefix_words": 2, "entity_canaries": 4, "entity_spreads": (4, 19),
    }  # fmt: skip
    for seed in range(5):
        # Nine names for nine canaries, and four canaries that every user mentions.
        _, after, what = planted(corpus, tight, seed)
        chosen = [c for c in what.canaries if c.spread is not None]
        names = [c.text.split()[2] for c in what.canaries]
        assert len(set(names)) == 9
        assert [spread_of(after, c.text.split()[2]) for c in chosen] == [c.spread for c in chosen]
        assert any("several" in note for note in what.notes)


def test_a_name_in_use_is_drawn_again_and_refused_where_all_are() -> None:
    rng = np.random.default_rng(0)
    assert unused_name("abc", "b b", {"a a"}, rng) == "b b"
    assert unused_name("ab", "b b", {"b b", "a b", "b a"}, rng) == "a a"
    with pytest.raises(InputError, match=r"canaries: 2 words.*1 words"):
        unused_name("ab", "a", {"a", "b"}, rng)


def test_names_of_the_corpus_are_not_planted(development_corpus: Corpus) -> None:
    _, _, what = planted(development_corpus, {**SPREADS, "canary_words": 3, "references": 32})
    names = sorted({c.text.split()[2] for c in what.canaries if c.spread is not None})
    rows = [
        next(i for i, text in enumerate(development_corpus.texts) if f" {name} " in f" {text} ")
        for name in names
    ]
    mentions = []
    for row, name in zip(rows, names, strict=True):
        at = f" {development_corpus.texts[row]} ".index(f" {name} ")
        mentions.append((row, at, at + len(name), 0))
    taken = development_corpus.with_texts(development_corpus.texts, mentions)
    _, _, again = planted(taken, {**SPREADS, "canary_words": 3, "references": 32})
    assert not set(names) & {c.text.split()[2] for c in again.canaries if c.spread is not None}


def test_exposure_is_reported_for_each_spread(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, after, what = planted(development_corpus, SPREADS)
    wide = [c.text for c in what.canaries if c.spread is not None and c.spread >= 3]
    leakage = attack.run(FakeCompleter(wide), what, after, make_run(1))
    for spread in (3, 10):
        assert leakage.metrics[f"exposure_entity_spread_{spread}"].value == 8.0
    for spread in (0, 1):
        assert leakage.metrics[f"exposure_entity_spread_{spread}"].value < 6.0
    values = [leakage.metrics[f"exposure_entity_spread_{k}"].value for k in (0, 1, 3, 10)]
    assert leakage.metrics["exposure_entity"].value == pytest.approx(np.mean(values))
    rows = [row for row in leakage.details["canaries"] if row["kind"] == "entity"]
    assert [row["sentences"] for row in rows] == [row["spread"] for row in rows]
    assert any("rows" in note for note in leakage.details["notes"])
    assert PlantedCanaries.model_validate_json(what.model_dump_json()) == what


def found_by(corpus: Corpus, monkeypatch: pytest.MonkeyPatch, pattern: str, **gold) -> Corpus:
    """The corpus as if a detector had found what matches a pattern, and nothing else."""

    def detect(texts, params):
        hits = (
            (i, m.start(), m.end(), 0) for i, t in enumerate(texts) for m in re.finditer(pattern, t)
        )
        return Detection(("NAME",), np.array(list(hits), dtype=np.int64).reshape(-1, 4))

    monkeypatch.setattr("uedp_bench.text.entities.detect", detect)
    own = corpus if gold else corpus.with_texts(corpus.texts)
    return add_entities(own, DetectionParams(detector="presidio"), gold=True)


def test_what_a_detector_misses_is_no_entity(
    development_corpus: Corpus, monkeypatch: pytest.MonkeyPatch, make_run: RunMaker
) -> None:
    corpus = found_by(development_corpus, monkeypatch, "Anna", gold=True)
    assert len(corpus.layer("gold").spans) == len(corpus.entities) > 0
    _, after, what = planted(corpus, SPREADS)
    entity = [canary for canary in what.canaries if canary.kind == "entity"]
    assert {canary.detected for canary in entity} == {False}
    assert all(canary.detected is None for canary in what.canaries if canary.kind == "word")
    gone = after.origin == -1
    assert not np.isin(after.entities.row, np.flatnonzero(gone)).any()
    # The gold labels know them, so that what the detector misses can be measured.
    named = sum(canary.occurrences for canary in entity)
    assert np.isin(after.layer("gold").spans.row, np.flatnonzero(gone)).sum() == named > 0
    assert f"0 of {len(entity)}" in " ".join(what.notes)
    # Nobody masks them.
    masked, _ = Deidentify.create().publish(after, make_run(1))
    texts = {canary.text for canary in entity}
    assert texts <= set(masked.texts)
    assert not any("Anna" in text for text in masked.only("train").texts)


def test_what_a_detector_finds_is_masked(
    development_corpus: Corpus, monkeypatch: pytest.MonkeyPatch, make_run: RunMaker
) -> None:
    corpus = found_by(development_corpus, monkeypatch, r"\w+ \w+$")
    _, after, what = planted(corpus, {**SPREADS, "canary_words": 4, "references": 32})
    entity = [canary for canary in what.canaries if canary.kind == "entity"]
    assert {canary.detected for canary in entity} == {True}
    masked, _ = Deidentify.create().publish(after, make_run(1))
    assert not {canary.text for canary in entity} & set(masked.texts)


def test_a_canary_brings_its_own_target(development_corpus: Corpus) -> None:
    targets = tuple(f"target of {text}" for text in development_corpus.texts)
    _, after, _ = planted(replace(development_corpus, targets=targets), SMALL)
    gone = np.flatnonzero(after.origin == -1).tolist()
    assert len(gone) > 0
    assert after.targets is not None
    assert all(after.targets[row] == after.texts[row] for row in gone)
    kept = np.flatnonzero(after.origin >= 0).tolist()
    assert all(after.targets[row] == targets[row] for row in kept)


class SecondBest(FakeCompleter):
    """Likes one of the references of every known text better than the text itself."""

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> np.ndarray:
        out = super().filler_losses(before, after, fillers)
        out[1] = 0.1
        return out


def test_the_second_of_all_candidates_is_not_extracted(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, after, what = planted(development_corpus, SMALL)
    texts = [canary.text for canary in what.canaries]
    best = attack.run(FakeCompleter(texts), what, after, make_run(1))
    assert best.metrics["extracted_random_sampling"].value == 1.0
    second = attack.run(SecondBest(texts), what, after, make_run(1))
    assert {row["rank"] for row in second.details["canaries"]} == {2}
    assert second.metrics["extracted_random_sampling"].value == 0.0


def test_canaries_saved_without_a_spread_still_load(development_corpus: Corpus) -> None:
    _, _, what = planted(development_corpus, SMALL)
    saved = what.model_dump()
    for canary in saved["canaries"]:
        assert canary.pop("spread") is None
        assert canary.pop("sentences") is None
    assert PlantedCanaries.model_validate(saved) == what


def test_a_memorising_release_reaches_the_limit(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, after, what = planted(development_corpus, SMALL)
    texts = [c.text for c in what.canaries]
    leakage = attack.run(FakeGenerator(what.words, texts), what, after, make_run(1))
    assert leakage.metrics["exposure_limit"].value == 8.0
    for name in ("exposure_max_repeats", "exposure_mean", "exposure_entity",
                 "exposure_worst_decile"):  # fmt: skip
        assert leakage.metrics[name].value == 8.0
    assert leakage.metrics["extracted_random_sampling"].value == 1.0
    assert leakage.metrics["extracted_beam_search"].value == 1.0
    assert all(row["extrapolated_exposure"] > 20 for row in leakage.details["canaries"])
    histogram = leakage.details["reference_losses"]
    assert sum(histogram["counts"]) == 256
    assert histogram["loss"] < histogram["edges"][0]


def test_only_what_is_memorised_counts(development_corpus: Corpus, make_run: RunMaker) -> None:
    attack, after, what = planted(development_corpus, SMALL)
    words = [c for c in what.canaries if c.kind == "word"]
    texts = [c.text for c in words if c.p_u == 0.1]
    leakage = attack.run(FakeGenerator(what.words, texts), what, after, make_run(1))
    assert leakage.metrics["exposure_max_repeats"].value == 8.0
    assert leakage.metrics["exposure_entity"].value < 6.0
    assert leakage.metrics["exposure_mean"].value < 7.0
    assert leakage.metrics["exposure_worst_decile"].value == 8.0
    assert leakage.metrics["extracted_beam_search"].value == pytest.approx(0.5)
    assert leakage.metrics["extracted_random_sampling"].value == pytest.approx(0.5)


def test_exposure_under_the_null_is_that_of_chance(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, after, what = planted(development_corpus, {**SMALL, "canaries": 10})
    bits: list[float] = []
    tails: list[float] = []
    covered = 0
    for seed in range(12):
        leakage = attack.run(FakeCompleter(seed=seed), what, after, make_run(seed))
        mean = leakage.metrics["exposure_mean"]
        covered += mean.low <= NULL_MEAN <= mean.high
        bits += [row["exposure"] for row in leakage.details["canaries"]]
        tails.append(leakage.metrics["exposure_worst_decile"].value)
        assert leakage.metrics["extracted_random_sampling"].low < 1 / 257
    assert covered >= 10  # fewer of 12 intervals at 95 % hold with probability 0.02
    (worst,) = (m.no_leak for m in SecretSharer.metrics if m.name == "exposure_worst_decile")
    assert np.mean(tails) == pytest.approx(worst, abs=1.0)
    assert np.mean(bits) == pytest.approx(NULL_MEAN, abs=4 * 1.44 / math.sqrt(len(bits)))


def test_a_release_that_does_not_generate_has_no_beam_search(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, after, what = planted(development_corpus, SMALL)
    leakage = attack.run(FakeCompleter(), what, after, make_run(1))
    assert "extracted_beam_search" not in leakage.metrics
    assert any("beam" in note for note in leakage.details["notes"])


SMALL_SPACE = {
    "p_u": (0.1,), "p_e": (0.5,), "canaries": 3, "entity_canaries": 2, "word_pool": 7,
    "canary_words": 5, "prefix_words": 2,
}  # fmt: skip


class ByLetters(FakeCompleter):
    """A text's loss depends on its words, with ties; it has no NaN."""

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> np.ndarray:
        return np.array([float(sum(map(ord, f)) % 50) for f in fillers])


def test_a_small_space_is_ranked_exactly(development_corpus: Corpus, make_run: RunMaker) -> None:
    attack, after, what = planted(development_corpus, {**SMALL_SPACE, "exact_up_to": 343})
    assert len(what.words) == 7
    release = ByLetters()
    leakage = attack.run(release, what, after, make_run(1))
    every = [" ".join(words) for words in product(what.words, repeat=3)]
    losses = release.filler_losses("", "", every)
    for row in leakage.details["canaries"]:
        own = " ".join(row["text"].split()[2:])
        (loss,) = release.filler_losses("", "", [own])
        assert row["rank"] == int((losses <= loss).sum())
        assert row["exposure"] == pytest.approx(math.log2(343) - math.log2(row["rank"]))
    assert leakage.metrics["exposure_limit"].value == pytest.approx(math.log2(343))
    assert (
        "exact ranks: each canary among all 343 suffixes of the words" in leakage.details["notes"]
    )
    # The fit and the histogram have all the others: fewer than `references`.
    assert sum(leakage.details["reference_losses"]["counts"]) == 342


def test_a_space_above_the_bound_is_sampled(development_corpus: Corpus, make_run: RunMaker) -> None:
    sampled = {**SMALL_SPACE, "references": 64}
    attack, after, what = planted(development_corpus, {**sampled, "exact_up_to": 342})
    leakage = attack.run(ByLetters(), what, after, make_run(1))
    assert leakage.metrics["exposure_limit"].value == 6.0
    assert not any("exact" in note for note in leakage.details["notes"])
    same, _, _ = planted(development_corpus, sampled)
    assert same.run(ByLetters(), what, after, make_run(1)) == leakage
    # Specs from before the parameter keep their identity.
    assert "exact_up_to" not in same.params.model_dump()
    assert attack.params.model_dump()["exact_up_to"] == 342


def test_only_some_losses_of_many_references_are_kept(
    development_corpus: Corpus, make_run: RunMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack, after, what = planted(development_corpus, SMALL)
    whole = attack.run(ByLetters(), what, after, make_run(1))
    monkeypatch.setattr("uedp_bench.attacks.secret_sharer.attack.KEPT", 20)
    leakage = attack.run(ByLetters(), what, after, make_run(1))
    assert leakage.metrics == whole.metrics
    assert sum(leakage.details["reference_losses"]["counts"]) == 20


def test_losses_that_are_nan_are_an_error(development_corpus: Corpus, make_run: RunMaker) -> None:
    class Broken(FakeCompleter):
        def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> np.ndarray:
            return np.full(len(fillers), np.nan)

    attack, after, what = planted(development_corpus, SMALL)
    with pytest.raises(InputError, match="NaN"):
        attack.run(Broken(), what, after, make_run(1))


def test_corpora_that_cannot_carry_canaries_are_refused(development_corpus: Corpus) -> None:
    with pytest.raises(InputError, match=r"secret-sharer: .*train.*user"):
        planted(development_corpus.only("test", "public"), SMALL)
    with pytest.raises(InputError, match="20 canaries"):
        planted(development_corpus, {**SMALL, "word_pool": 10, "canaries": 5, "p_e": (0.1, 1.0),
                                     "p_u": (0.1,), "entity_canaries": 10})  # fmt: skip
    with pytest.raises(InputError, match=r"secret-sharer\.references.*1024"):
        planted(development_corpus, {"word_pool": 40, "prefix_words": 4, "canaries": 1})
    with pytest.raises(InputError, match=r"entity_spreads: .*500.*501.*492"):
        planted(development_corpus, {**SMALL, "entity_spreads": (500,)})
    with pytest.raises(InputError, match=r"entity_spreads: .* 2 users.* 7 rows.* 0"):
        planted(development_corpus, {**SMALL, "entity_spreads": (1,), "entity_sentences": 7})
    bare = replace(development_corpus, entities=Spans.none(), entity_types=())
    with pytest.raises(InputError, match=r"entity_spreads: .*types"):
        planted(bare, SPREADS)
