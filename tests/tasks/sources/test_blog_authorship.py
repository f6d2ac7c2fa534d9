from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.registry import sources
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources import blog_authorship as _topics
from uedp_bench.tasks.sources.blog_authorship import read_bloggers

THEMES = (
    "guitar band song concert album drums singer",
    "election vote senator party campaign president congress",
)
MODEL = {"topics": 2, "passes": 10}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "topics"


def post(theme: int, rng: np.random.Generator) -> str:
    return " ".join(rng.choice(THEMES[theme].split(), size=12))


def blogger(at: int, rng: np.random.Generator) -> dict[str, object]:
    mixed = post(0, rng) + " " + post(1, rng)
    return {
        "id": str(100 + at),
        "gender": ("female", "male")[at % 2],
        "age": (17, 25, 41)[at % 3],
        "text": [post(0, rng), post(1, rng) + "&nbsp; \n you&rsquo;re", mixed, "&nbsp;"],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lines = (json.dumps(blogger(at, rng)) for at in range(60))
    (tmp_path / "blogs.jsonl").write_text("\n".join(lines))
    return tmp_path


def load(path: Path, **params: object):
    return sources.create("blog-authorship", {"path": path, **MODEL, **params}).load()


def test_posts_of_one_topic_are_kept_with_it(folder: Path) -> None:
    corpus = load(folder)
    assert len(corpus) == 2 * 40  # two of four posts of each blogger who is not from 20 to 30
    assert corpus.label_names == ("topic 0", "topic 1")
    assert corpus.labels is not None
    theme = np.array([text.split()[0] in THEMES[1] for text in corpus.texts]).astype(int)
    assert (corpus.labels == theme).all() or (corpus.labels == 1 - theme).all()
    assert corpus.texts[1].endswith(" you’re")


def test_attributes_are_those_of_the_blogger(folder: Path) -> None:
    corpus = load(folder, ages_between="keep", valid=0, test=0)
    assert corpus.attribute_names == {"gender": ("female", "male"), "age": ("under 20", "over 30")}
    assert corpus.users.tolist() == np.repeat(np.arange(60), 2).tolist()
    assert (corpus.attributes["gender"] == corpus.users % 2).all()
    assert (corpus.attributes["age"] == np.array([0, -1, 1])[corpus.users % 3]).all()
    assert set(load(folder).attributes["age"].tolist()) == {0, 1}


@pytest.mark.parametrize(("age", "group"), [(19, 0), (20, -1), (30, -1), (31, 1)])
def test_bounds_of_the_ages(folder: Path, age: int, group: int) -> None:
    rng = np.random.default_rng(0)
    lines = (json.dumps({**blogger(at, rng), "age": age}) for at in range(20))
    (folder / "blogs.jsonl").write_text("\n".join(lines))
    corpus = load(folder, ages_between="keep")
    assert set(corpus.attributes["age"].tolist()) == {group}


def test_bloggers_are_in_one_split(folder: Path) -> None:
    corpus = load(folder, valid=0.2, test=0.3)
    users = [set(corpus.only(split).users.tolist()) for split in ("train", "valid", "test")]
    assert [len(part) for part in users] == pytest.approx([20, 8, 12], abs=12)  # binomial
    assert len(set.union(*users)) == 40


def test_a_higher_share_keeps_fewer_posts(folder: Path) -> None:
    sizes = [len(load(folder, topic_share=share)) for share in (0.0, 0.8, 0.94)]
    assert sizes[0] == 3 * 40  # the post without a word has no topic at any share
    assert sizes[0] > sizes[1] >= sizes[2]
    with pytest.raises(InputError, match=r"topic_share=0\.999"):
        load(folder, topic_share=0.999)


def test_limits_of_bloggers_and_posts(folder: Path) -> None:
    limits = {"ages_between": "keep", "topic_share": 0.0}
    assert len(load(folder, posts=1, **limits)) == 60
    few = load(folder, users=12, **limits)
    assert few.user_count == 12
    assert few.fingerprint == load(folder, users=12, **limits).fingerprint
    assert few.texts != load(folder, users=12, seed=1, **limits).texts


def test_labels_from_public_text_do_not_depend_on_other_bloggers(folder: Path) -> None:
    rng = np.random.default_rng(1)
    public = folder / "public.txt"
    public.write_text("\n".join(post(at % 2, rng) for at in range(60)))
    params = {"public": [str(public)], "topics_from": "public", "ages_between": "keep"}
    assert not sources.create("blog-authorship", {"path": folder, **params}).refusals()
    (reason,) = sources.create("blog-authorship", {"path": folder}).refusals()
    assert "topics_from=public" in reason
    whole = load(folder, **params).only("train", "valid", "test")
    assert whole.labels is not None
    assert len(whole) == 120
    lines = (folder / "blogs.jsonl").read_text().splitlines()
    (folder / "blogs.jsonl").write_text("\n".join(lines[:30]))
    part = load(folder, **params).only("train", "valid", "test")
    assert part.labels is not None
    assert part.texts == whole.texts[:60]
    assert part.labels.tolist() == whole.labels[:60].tolist()


def test_shares_are_cached(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brief = partial(load, folder, passes=2)
    first = brief()
    assert len(list(cache.glob("*.npz"))) == 1
    with monkeypatch.context() as patch:
        patch.setattr(_topics, "_fit", None)  # calling it would fail
        assert brief(topic_share=0.7, test=0.2).labels is not None
        assert brief().fingerprint == first.fingerprint
    for change in ({"seed": 1}, {"topics": 3}, {"max_features": 5}, {"passes": 1}, {"posts": 2}):
        brief(topic_share=0.0, **change)
    assert len(list(cache.glob("*.npz"))) == 6
    for file in cache.iterdir():
        file.write_bytes(b"damaged")
    assert brief().fingerprint == first.fingerprint


def test_lines_of_one_blogger_are_one_blogger(tmp_path: Path) -> None:
    lines = [
        {"id": 1, "gender": "Female", "age": "17", "text": "first &amp; only"},
        {"id": 2, "gender": "male", "age": 40, "text": []},
        {"id": 1, "gender": "female", "age": 17, "text": ["second", "third"]},
    ]
    file = tmp_path / "some.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    bloggers = list(read_bloggers(file))
    assert bloggers[0] == ("1", 0, 17, ("first & only", "second", "third"))
    assert bloggers[1] == ("2", 1, 40, ())
    file.write_text(json.dumps(lines[0]) + "\n" + json.dumps({**lines[2], "age": 18}))
    with pytest.raises(InputError, match=r"line 2.*blogger 1.*gender"):
        list(read_bloggers(file))


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "[1]",
        '{"id": "1", "gender": "male", "age": 17}',
        '{"id": "1", "gender": "male", "age": 17, "text": null}',
        '{"id": "1", "gender": "male", "age": 17, "text": [null]}',
        '{"id": "1", "gender": "male", "age": 17.5, "text": "a"}',
        '{"id": "1", "gender": "unknown", "age": 17, "text": "a"}',
    ],
)
def test_malformed_lines_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "blogs.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=r"line 1 .*Error\("):
        load(tmp_path)


def test_what_is_missing_is_named(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(InputError, match=r"blog-authorship\.path.*nowhere"):
        load(folder / "nowhere")
    with pytest.raises(InputError, match=r"topics_from.*'public'"):
        load(folder, topics_from="public")
    (folder / "blogs.jsonl").write_text("")
    with pytest.raises(InputError, match=r"blogs\.jsonl.*blogger"):
        load(folder)
    (folder / "blogs.jsonl").write_text('{"id": 1, "gender": "male", "age": 17, "text": "a 1"}')
    with pytest.raises(InputError, match=r"topics: .* 1 texts.*word"):
        load(folder)
    (folder / "blogs.jsonl").unlink()
    with pytest.raises(InputError, match=r"all_users\*\.jsonl"):
        load(folder)


def test_the_published_corpus(shared_data: Path) -> None:
    folder = shared_data / "blog_authorship"
    bloggers = list(read_bloggers(next(folder.glob("all_users*"))))
    assert len(bloggers) == 19_320
    assert sum(len(one.posts) for one in bloggers) == 80_610
    assert sum(one.gender for one in bloggers) == 9_660
    assert (min(one.age for one in bloggers), max(one.age for one in bloggers)) == (13, 48)
    # Of 19,320 bloggers 8,240 are below 20 and 2,994 above 30.
    corpus = load(folder, users=400, topics=10, passes=1, topic_share=0.5)
    under = corpus.attributes["age"][np.unique(corpus.users, return_index=True)[1]] == 0
    assert under.mean() == pytest.approx(8_240 / 11_234, abs=0.15)


PLAIN = {"topics_from": "none", "ages_between": "keep"}


def wordy(folder: Path, posts: dict[str, list[str]]) -> Path:
    lines = (
        json.dumps({"id": name, "gender": "male", "age": 17, "text": text})
        for name, text in posts.items()
    )
    (folder / "blogs.jsonl").write_text("\n".join(lines))
    return folder


def test_without_topics_every_post_with_text_is_kept_and_nothing_is_fitted(
    folder: Path, cache: Path
) -> None:
    corpus = load(folder, **PLAIN)
    assert len(corpus) == 3 * 60  # the fourth post is white space
    assert corpus.labels is None
    assert corpus.label_names == ()
    assert not cache.exists()
    assert not sources.create("blog-authorship", {"path": folder, **PLAIN}).refusals()
    assert len(load(folder, topics_from="none")) == 3 * 40


def test_rows_are_sentences_and_so_many_of_each_blogger(tmp_path: Path) -> None:
    posts = {
        "a": ["One two. Three!", "?", "Four. Five"],
        "b": ["Too few. Really."],
        "c": ["Six. Seven. Eight. Nine."],
        "d": ["x. y. z."],
    }
    wordy(tmp_path, posts)
    ask = {**PLAIN, "rows": "sentences", "valid": 0, "test": 0}
    corpus = load(tmp_path, rows_per_user=3, **ask)
    assert corpus.texts == (
        "One two.",
        "Three!",
        "Four.",
        "Six.",
        "Seven.",
        "Eight.",
        "x.",
        "y.",
        "z.",
    )
    assert corpus.users.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert len(load(tmp_path, **ask)) == 4 + 2 + 4 + 3
    assert len(load(tmp_path, posts=1, rows_per_user=3, **ask)) == 6  # a has two in its first post
    # So many of those who have enough are drawn, not so many of whom some are left out.
    for seed in range(5):
        assert load(tmp_path, users=3, rows_per_user=3, seed=seed, **ask).user_count == 3
    with pytest.raises(InputError, match=r"4.*rows_per_user=9"):
        load(tmp_path, rows_per_user=9, **ask)


def test_what_is_kept_of_a_blogger_depends_on_that_blogger_alone(tmp_path: Path) -> None:
    posts = {str(i): [f"I am {i}. " * (1 + i % 4)] for i in range(12)}
    ask = {**PLAIN, "rows": "sentences", "rows_per_user": 2, "valid": 0, "test": 0}

    def rows_by_text() -> dict[str, int]:
        texts = load(tmp_path, **ask).texts
        return {text: texts.count(text) for text in texts}

    wordy(tmp_path, posts)
    whole = rows_by_text()
    for left_out in posts:
        wordy(tmp_path, {name: text for name, text in posts.items() if name != left_out})
        without = {text: n for text, n in whole.items() if text != f"I am {left_out}."}
        assert rows_by_text() == without


def test_parameters_that_came_later_do_not_change_what_specs_say(folder: Path) -> None:
    params = sources.create("blog-authorship", {"path": folder}).params.model_dump(mode="json")
    assert not {"rows", "rows_per_user"} & set(params)
