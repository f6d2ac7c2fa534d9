from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict

import numpy as np
import pytest

from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.embedded.source import Embedded
from uedp_bench.tasks.sources.embedded.world import DOMAINS

SMALL = {"users": 60, "valid_users": 5, "test_users": 8, "public_users": 20}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Embedded.create().load()


def words_of(corpus: Corpus) -> list[list[str]]:
    return [text.split(" ") for text in corpus.texts]


def in_spans(corpus: Corpus) -> list[np.ndarray]:
    """For each row, which characters belong to an entity."""
    masks = [np.zeros(len(text), dtype=bool) for text in corpus.texts]
    spans = corpus.entities
    for row, start, end in zip(spans.row, spans.start, spans.end, strict=True):
        assert not masks[row][start:end].any(), "two mentions overlap"
        masks[row][start:end] = True
    return masks


def test_sizes_and_splits(corpus):
    sizes = {"train": 4000, "valid": 200, "test": 400, "public": 1500}
    first = 0
    for split, count in sizes.items():
        users, rows = np.unique(corpus.only(split).users, return_counts=True)
        assert users.tolist() == list(range(first, first + count))
        assert rows.min() >= 2
        assert 5.5 < rows.mean() < 6.5
        first += count
    lengths = [len(words) for words in words_of(corpus)]
    assert 12 < np.mean(lengths) < 16


def test_texts_are_tokens_between_single_spaces(corpus):
    assert all(text == " ".join(text.split()) for text in corpus.texts)
    assert all(text[-2:] in (" .", " !", " ?") for text in corpus.texts)
    assert not any(
        re.search(r"[{}|*]| a [aeio]\w| an [bcdfgjklmnpqrst]\w", t) for t in corpus.texts
    )


def test_every_name_and_number_is_marked(corpus):
    """Capitals, digits and @ occur in entities only, and mentions end where tokens do."""
    for text, mask in zip(corpus.texts, in_spans(corpus), strict=True):
        assert not any(
            (char.isupper() or char.isdigit() or char in "@$%") and not inside
            for char, inside in zip(text, mask, strict=True)
        ), text
        edges = np.flatnonzero(np.diff(mask.astype(int)))
        assert all(text[at] == " " or text[at + 1] == " " for at in edges.tolist())


def test_at_least_ten_types_and_half_the_rows_sensitive(corpus):
    train = corpus.only("train")
    counts = np.bincount(train.entities.type, minlength=len(corpus.entity_types))
    assert len(corpus.entity_types) >= 10
    assert counts.min() >= 100
    assert 0.4 < train.sensitive.mean() < 0.6


def test_spread_is_that_of_real_text(corpus):
    train = corpus.only("train")
    users = train.users_of_entity[train.users_of_entity > 0]
    assert (users == 1).mean() >= 0.6
    assert users.max() >= 200
    assert (users >= 100).sum() <= 30
    people = train.entities.type == corpus.entity_types.index("PERSON")
    named = np.unique(train.entities.entity[people])
    assert (train.users_of_entity[named] <= 2).mean() > 0.9


def test_contacts_are_fictitious_and_belong_to_one_user(corpus):
    kinds = corpus.entities.type == corpus.entity_types.index("PII")
    surfaces = {corpus.surface(i) for i in np.flatnonzero(kinds).tolist()}
    mails = {surface for surface in surfaces if "@" in surface}
    assert all(re.fullmatch(r"[a-z.']+\d\d", mail.split("@")[0]) for mail in mails)
    assert {mail.split("@")[1] for mail in mails} == set(DOMAINS)
    assert all(re.fullmatch(r"[2-9]\d\d-555-01\d\d", phone) for phone in surfaces - mails)
    owners = defaultdict(set)
    for i in np.flatnonzero(kinds).tolist():
        owners[corpus.surface(i)].add(int(corpus.users[corpus.entities.row[i]]))
    assert all(len(owners[phone]) == 1 for phone in surfaces - mails)


def perplexity(order: int, train: list[list[str]], test: list[list[str]], size: int) -> float:
    """Of a Witten-Bell interpolated n-gram model, per word with the end of the sentence."""
    counts: list[dict[tuple[str, ...], Counter[str]]] = [defaultdict(Counter) for _ in range(order)]
    for row in train:
        for at, word in enumerate(row):
            for n in range(order):
                counts[n][context(row, at, n)][word] += 1
    totals = [{key: words.total() for key, words in level.items()} for level in counts]
    nats = 0.0
    for row in test:
        for at, word in enumerate(row):
            p = 1 / size
            for n in range(order):
                before = context(row, at, n)
                if words := counts[n].get(before):
                    p = (words[word] + len(words) * p) / (totals[n][before] + len(words))
            nats -= math.log(p)
    return math.exp(nats / sum(map(len, test)))


def context(row: list[str], at: int, n: int) -> tuple[str, ...]:
    return ("<s>",) * max(n - at, 0) + tuple(row[max(at - n, 0) : at])


@pytest.mark.long
def test_there_is_something_to_learn(corpus):
    """Trigrams beat bigrams beat unigrams, each by more than 15 %, with a public vocabulary."""
    frequent = Counter(w for words in words_of(corpus.only("public")) for w in words)
    vocabulary = {word for word, _ in frequent.most_common(2000)}
    rows = {
        split: [[w if w in vocabulary else "<unk>" for w in ws] + ["</s>"] for ws in words_of(part)]
        for split in ("train", "test")
        for part in [corpus.only(split)]
    }
    one, two, three = (perplexity(n, rows["train"][:9000], rows["test"], 2002) for n in (1, 2, 3))
    assert two < 0.85 * one
    assert three < 0.85 * two
    assert three > 5, "so regular that nothing is left to learn"
    unknown = np.mean([w == "<unk>" for row in rows["test"] for w in row])
    assert 0.03 < unknown < 0.12


def test_public_vocabulary(corpus):
    types = {w for words in words_of(corpus.only("public")) for w in words}
    assert 2000 < sum(not any(c.isdigit() for c in w) for w in types) < 4200
    public, private = set(corpus.only("public").texts), corpus.only("train").texts
    assert np.mean([text in public for text in private]) < 0.05


def accuracy(texts: tuple[list[str], list[str]], classes: tuple[np.ndarray, np.ndarray]) -> float:
    """On test, of naive Bayes over the words of train."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    encode = CountVectorizer(lowercase=False, min_df=2)
    model = MultinomialNB().fit(encode.fit_transform(texts[0]), classes[0])
    return float(model.score(encode.transform(texts[1]), classes[1]))


def test_labels_can_be_learnt(corpus):
    train, test = corpus.only("train"), corpus.only("test")
    texts = list(train.texts), list(test.texts)
    assert accuracy(texts, (train.labels, test.labels)) > 0.8
    sentiments = train.attributes["sentiment"], test.attributes["sentiment"]
    assert 0.43 < accuracy(texts, sentiments) < 0.9


@pytest.mark.long
def test_attributes_show_in_the_wording_but_weakly(corpus):
    users = [np.unique(corpus.only(split).users) for split in ("train", "test")]
    texts = tuple(
        [" ".join(corpus.texts[row] for row in corpus.rows_of_user[user]) for user in part]
        for part in users
    )
    first = corpus.rows_of_user.offsets[:-1]
    for name in ("age_group", "gender", "region", "occupation"):
        values = corpus.attributes[name][corpus.rows_of_user.rows[first]]
        classes = values[users[0]], values[users[1]]
        chance = np.bincount(classes[1]).max() / len(classes[1])
        assert chance + 0.02 < accuracy(texts, classes) < chance + 0.4, name


def test_attributes_belong_to_the_author(corpus):
    assert set(corpus.attribute_names) == {
        "sentiment", "age_group", "gender", "region", "occupation"
    }  # fmt: skip
    for name in ("age_group", "gender", "region", "occupation"):
        pairs = np.unique(np.stack([corpus.users, corpus.attributes[name]], axis=1), axis=0)
        assert len(pairs) == corpus.user_count
        assert set(pairs[:, 1].tolist()) == set(range(len(corpus.attribute_names[name])))


def test_documented_counts_are_those_of_the_train_split(corpus):
    stats = Embedded.create().documented()
    train = corpus.split == 0
    rows = set(np.flatnonzero(train).tolist())
    mentions = [i for i, row in enumerate(corpus.entities.row.tolist()) if row in rows]
    assert stats.public
    assert (stats.users, stats.rows) == (4000, int(train.sum()))
    assert stats.sensitive_rows == len({int(corpus.entities.row[i]) for i in mentions})
    keys = {(int(corpus.entities.type[i]), corpus.surface(i).casefold()) for i in mentions}
    assert stats.entities == len(keys)


def test_same_text_in_every_process():
    code = (
        "from uedp_bench.tasks.sources.embedded.source import Embedded;"
        f"print(Embedded.create({SMALL!r}).load().fingerprint)"
    )
    env = {**os.environ, "PYTHONHASHSEED": "1", "TZ": "Asia/Tokyo"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == Embedded.create(SMALL).load().fingerprint


def test_seed_and_sizes():
    base = Embedded.create(SMALL).load()
    assert Embedded.create({**SMALL, "seed": 2}).load().texts[:50] != base.texts[:50]
    more = Embedded.create({**SMALL, "test_users": 20}).load()
    assert more.only("train").texts == base.only("train").texts
    longer = Embedded.create({**SMALL, "sentences": 12}).load().only("train")
    assert longer.rows_of_user.counts[:60].mean() > 1.5 * 6


def test_public_text_can_come_from_a_file(tmp_path):
    file = tmp_path / "public.txt"
    file.write_text("a line .\nanother line .\n")
    base = Embedded.create({**SMALL, "public_users": 0}).load()
    both = Embedded.create({**SMALL, "public_users": 0, "public": [file]}).load()
    assert both.only("public").texts == ("a line .", "another line .")
    assert both.only("train").texts == base.only("train").texts
    capped = Embedded.create({**SMALL, "public_rows": 7}).load()
    assert capped.only("public").texts == Embedded.create(SMALL).load().only("public").texts[:7]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"users": 10}, r"embedded\.users.*10.*50"),
        ({"sentences": 1}, r"embedded\.sentences.*1"),
        ({"sentence": 6}, "'sentences'"),
        ({"users": 19_000, "public_users": 3000}, "public_users.*22600.*19725"),
    ],
)
def test_bad_parameters(values, message):
    with pytest.raises(InputError, match=message):
        Embedded.create(values)
