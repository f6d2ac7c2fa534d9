"""Re-identification: signatures are found, random text is not, and de-identification helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import runs

from uedp_bench.attacks.reidentify.attack import Reidentify
from uedp_bench.attacks.secret_sharer.attack import SecretSharer
from uedp_bench.contracts.capabilities import Encoder
from uedp_bench.contracts.leakage import Planted
from uedp_bench.contracts.release import PublishedOnly
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus, FloatArray
from uedp_bench.errors import InputError
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

RunMaker = Callable[..., Run]


def publication(corpus: Corpus) -> PublishedOnly:
    return PublishedOnly().showing(published=corpus)


class PublishedAndEncoder(PublishedOnly):
    """Its representation of a text is one coordinate for each known text, else zero."""

    def __init__(self, table: dict[str, int], size: int) -> None:
        self.table, self.size = table, size

    def representations(self, corpus: Corpus) -> FloatArray:
        out = np.zeros((len(corpus), self.size + 1))
        out[np.arange(len(corpus)), [self.table.get(text, self.size) for text in corpus.texts]] = 1
        return out


def attacked(release, corpus: Corpus, run: Run, **params):
    return Reidentify.create(params).run(release, Planted(), corpus, run)


def signed(corpus: Corpus) -> Corpus:
    """Every text starts with its author's own word."""
    texts = [f"author{user}x {text}" for user, text in zip(corpus.users, corpus.texts, strict=True)]
    return corpus.with_texts(texts)


@pytest.fixture(scope="module")
def small(make_corpus: Callable[..., Corpus]) -> Corpus:
    return make_corpus(users=40, rows=6)


def test_planted_signatures_are_found(small: Corpus, make_run: RunMaker) -> None:
    corpus = signed(small)
    visible = corpus.only("train", "valid", "public")
    leakage = attacked(publication(visible), corpus, make_run(1), authors=30)
    for name in ("recall_at_1", "recall_at_1_unprotected"):
        assert leakage.metrics[name].value > 0.95
    assert leakage.metrics["recall_at_10"].value == 1.0
    assert leakage.metrics["recall_at_1_chance"].value == pytest.approx(1 / 30)
    assert leakage.details["authors"] == 30


def test_random_text_is_linked_by_chance(small: Corpus, make_run: RunMaker) -> None:
    train, corpus = small.only("train"), signed(small)
    words = [f"{a}{b}" for a in "bdfg" for b in "aeiou"]
    values = {1: [], 10: []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        noise = train.with_texts([" ".join(rng.choice(words, 8)) for _ in train.texts])
        leakage = attacked(publication(noise), corpus, make_run(seed))
        assert leakage.metrics["recall_at_1_unprotected"].value > 0.95
        for k, of_rank in values.items():
            of_rank.append(leakage.metrics[f"recall_at_{k}"].value)
    # Of 2,400 queries; four standard errors if they were independent.
    assert np.mean(values[1]) == pytest.approx(1 / 40, abs=0.013)
    assert np.mean(values[10]) == pytest.approx(10 / 40, abs=0.035)


def test_nothing_published_is_chance_exactly(small: Corpus, make_run: RunMaker) -> None:
    train = small.only("train")
    leakage = attacked(publication(train.with_texts([""] * len(train))), small, make_run(1))
    assert leakage.metrics["recall_at_1"].value == pytest.approx(1 / 40)
    assert leakage.metrics["recall_at_10"].value == pytest.approx(10 / 40)


def test_rows_are_joined_by_origin_whatever_their_order_and_number(
    small: Corpus, make_run: RunMaker
) -> None:
    corpus, rng = signed(small), np.random.default_rng(0)
    train = np.flatnonzero(corpus.where("train"))
    kept = rng.permutation(train)[: len(train) // 2]
    published = corpus.take(np.concatenate([kept, kept]))
    stripped = replace(published, groups={"user": np.full(len(published), -1)})
    leakage = attacked(publication(stripped), corpus, make_run(1))
    metrics, details = leakage.metrics, leakage.details
    assert metrics["recall_at_1_unprotected"].value > 0.95
    # A row that was published twice counts once, and one that was dropped is a miss.
    assert details["known_rows"] + details["queries"] == len(train)
    share = 1 - details["not_published"] / details["queries"]
    assert 0.3 < share < 0.7
    assert metrics["recall_at_1"].value == pytest.approx(share, abs=0.02)


def test_who_is_drawn_and_the_ceiling_are_the_same_for_all_mechanisms(
    small: Corpus, make_run: RunMaker
) -> None:
    everything = small.only("train", "valid", "test", "public")
    kept = np.random.default_rng(0).permutation(np.flatnonzero(small.where("train")))
    releases = [small.only("train"), everything, small.take(kept[: len(kept) // 2])]
    leakages = [attacked(publication(each), small, make_run(1), authors=20) for each in releases]
    for name in ("recall_at_1_unprotected", "recall_at_1_chance"):
        assert leakages[0].metrics[name] == leakages[1].metrics[name] == leakages[2].metrics[name]
    for name in ("authors", "known_rows", "queries"):
        assert leakages[0].details[name] == leakages[1].details[name] == leakages[2].details[name]


def test_nothing_to_link_is_refused(small: Corpus, make_run: RunMaker) -> None:
    with pytest.raises(InputError, match=r"reidentify: .*published"):
        attacked(publication(small.only("test")), small, make_run(1))


def test_canaries_public_rows_and_authors_of_one_row_are_left_out(
    small: Corpus, make_run: RunMaker
) -> None:
    params = {"p_u": (0.3,), "p_e": (0.5,), "references": 256, "word_pool": 60}
    planted, _ = SecretSharer.create(params).plant(small, np.random.default_rng(1))
    gone = planted.origin < 0
    assert gone.sum() > 10
    published = planted.only("train", "public")
    leakage = attacked(publication(published), planted, make_run(1))
    left = np.bincount(planted.users[planted.where("train") & ~gone])
    assert leakage.details["authors"] == (left >= 2).sum()
    assert leakage.details["known_rows"] + leakage.details["queries"] == left[left >= 2].sum()


def test_the_same_seed_gives_the_same_result_and_another_does_not(
    small: Corpus, make_run: RunMaker
) -> None:
    release = publication(small.only("train"))
    one, two, other = (attacked(release, small, make_run(seed)) for seed in (1, 1, 2))
    assert one == two
    assert one.details["recalls"] != other.details["recalls"]


def test_representations_link_what_words_do_not(small: Corpus, make_run: RunMaker) -> None:
    train = small.only("train")
    published = train.with_texts([f"q{i}" for i in range(len(train))])
    table = dict(zip(small.texts, small.users.tolist(), strict=True))
    table |= dict(zip(published.texts, train.users.tolist(), strict=True))
    release = PublishedAndEncoder(table, small.user_count)
    release.published = published
    assert isinstance(release, Encoder)
    leakage = attacked(release, small, make_run(1))
    assert leakage.details["compared"] == "text"
    assert leakage.metrics["recall_at_1_representation"].value > 0.95
    assert leakage.metrics["recall_at_1"].value < 0.2


def test_published_vectors_are_compared_with_those_of_known_rows(
    small: Corpus, make_run: RunMaker
) -> None:
    train = small.only("train")
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(train.user_count, 20))[train.users]
    for noise, least, most in ((0.01, 1.0, 1.0), (1e6, 0.0, 0.1)):
        vectors = mean + noise * rng.normal(size=mean.shape)
        leakage = attacked(publication(train.with_vectors(vectors)), small, make_run(1))
        assert leakage.details["compared"] == "representation"
        assert least <= leakage.metrics["recall_at_1"].value <= most


def test_one_author_is_refused(small: Corpus, make_run: RunMaker) -> None:
    alone = small.take(np.flatnonzero(small.users == 0))
    with pytest.raises(InputError, match="reidentify: 1 authors"):
        attacked(publication(alone), alone, make_run(1))


def test_one_author_is_refused_before_training(small: Corpus) -> None:
    rng = np.random.default_rng(1)
    for few in (small.take(np.flatnonzero(small.users == 0)), small.only("test")):
        with pytest.raises(InputError, match=r"reidentify: .*authors"):
            Reidentify.create({}).plant(few, rng)
    assert Reidentify.create({}).plant(small, rng)[0] is small


@pytest.mark.parametrize(
    "bad", [{"known": 0.0}, {"known": 1.0}, {"authors": 1}, {"rows": 1}, {"author": 5}]
)
def test_parameters_out_of_range_are_refused(bad) -> None:
    with pytest.raises(InputError, match="reidentify"):
        Reidentify.create(bad)


def test_deidentification_lowers_it_end_to_end(tmp_path: Path) -> None:
    sizes = {"users": 60, "valid_users": 5, "test_users": 5, "public_users": 20, "sentences": 30}
    source = {"name": "embedded", "params": sizes}
    (spec,) = runs("deidentify", source=source, attacks=["reidentify"])
    spec = spec.model_copy(update={"mechanism": (
        *spec.mechanism, runs({"name": "noiseless", "params": {"epochs": 1}})[0].mechanism[0],
    )})  # fmt: skip
    result = execute(spec, Execution(tmp_path, "cpu", keep_release=False))
    assert result.error is None
    metrics = result.leakage["reidentify"]
    assert metrics["recall_at_1"].high < metrics["recall_at_1_unprotected"].low
    assert metrics["recall_at_1_unprotected"].low > 4 * metrics["recall_at_1_chance"].value
    assert result.details["reidentify"]["authors"] == 60
