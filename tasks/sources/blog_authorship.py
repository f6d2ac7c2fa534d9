"""The blog authorship corpus: posts of real bloggers, with their gender, age and topics.

Topics come from latent Dirichlet allocation. Fitting takes minutes on real corpora, so shares are
cached on disk: in `$UEDP_BENCH_CACHE`, else in `~/.cache/uedp-bench`.
"""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import (
    BoolArray,
    Corpus,
    FloatArray,
    InputError,
    IntArray,
    Params,
    Source,
    SourceParams,
    equals,
)
from uedp_bench.api.text import (
    DetectionParams,
    SplitParams,
    add_entities,
    cut_missing_splits,
    named_users,
    normal_id,
    open_text,
)
from uedp_bench.corpus import keyed_uniform, names_of_ids
from uedp_bench.io.folders import cache_folder
from uedp_bench.io.sealed_files import load_arrays, save_arrays
from uedp_bench.randomness import shared_stream
from uedp_bench.tasks.sources.reading.files import find_file, object_with, require_path
from uedp_bench.tasks.sources.reading.splits import TRAIN
from uedp_bench.text.sentences import read_public, simple_sentences

_FORMAT = 1  # of the cached files; raised when the same key would mean something else
_WORD = r"[^\W\d_]{3,}"
# What the word pattern leaves of "don't" and its like, and marks that the web left in the text.
_NO_WORDS = ("ain", "aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn",
             "nbsp", "shouldn", "urllink", "wasn", "weren", "won", "wouldn")  # fmt: skip


class TopicParams(Params):
    """The topic model."""

    topics: int = Field(default=10, ge=2, description="topics of the model, which are the labels")
    topic_share: float = Field(
        default=0.8, ge=0, lt=1, description="rows are kept if one topic has more than this share"
    )
    max_features: int = Field(
        default=10_000, ge=2, description="words that the topic model counts: the most frequent"
    )
    passes: int = Field(default=5, ge=1, description="passes of the topic model over its text")


def topic_shares(
    texts: Sequence[str], fit_on: Sequence[str], params: TopicParams, seed: int
) -> FloatArray:
    """Share of each topic in each text, from the cache if it is there.

    The model is that of Blei, Ng and Jordan, Latent Dirichlet Allocation, JMLR 2003, fitted by
    online variational Bayes (Hoffman, Blei and Bach, NIPS 2010) on counts of words of three letters
    and more, English stop words left out.

    Args:
        texts: texts whose shares are wanted.
        fit_on: the text that the model, its vocabulary included, is fitted on.
        params: the model; `topic_share` plays no part.
        seed: seed of the start of the fit and the order of its batches.

    Returns:
        (texts, topics) shares that sum to 1; all 0 for a text without a counted word.

    Raises:
        InputError: if there is not a word to count in `fit_on`.
    """
    file = cache_folder() / "topics" / f"{_key(texts, fit_on, params, seed)}.npz"
    cached = load_arrays(file, lambda data: np.asarray(data["shares"], dtype=np.float64))
    if cached is not None:
        return cached
    shares = _fit(texts, fit_on, params, seed)
    save_arrays(file, "topics", shares=shares)
    return shares


def _fit(texts: Sequence[str], fit_on: Sequence[str], params: TopicParams, seed: int) -> FloatArray:
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    counter = CountVectorizer(
        stop_words=sorted(ENGLISH_STOP_WORDS.union(_NO_WORDS)),
        token_pattern=_WORD,
        max_features=params.max_features,
    )
    try:
        seen = counter.fit_transform(fit_on)
    except ValueError:
        raise InputError(
            f"topics: the {len(fit_on)} texts that they are fitted on hold no word to count"
        ) from None
    model = LatentDirichletAllocation(
        n_components=params.topics,
        learning_method="online",
        batch_size=1024,
        max_iter=params.passes,
        random_state=int(shared_stream(seed, "source", "topics").generate_state(1)[0]),
    )
    model.fit(seen)
    counts = counter.transform(texts)
    shares = np.asarray(model.transform(counts), dtype=np.float64)
    shares[counts.getnnz(axis=1) == 0] = 0.0
    return shares


def _key(texts: Sequence[str], fit_on: Sequence[str], params: TopicParams, seed: int) -> str:
    """Hash of the texts and of everything that decides their shares."""
    model = params.model_dump(include={"topics", "max_features", "passes"})
    head = [_FORMAT, model, seed, len(texts), version("scikit-learn")]
    digest = hashlib.sha256(json.dumps(head).encode())
    for text in (*texts, *fit_on):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


FILES = ("blogs.jsonl", "all_users*.jsonl", "blog*.jsonl")
GENDERS: tuple[str, ...] = ("female", "male")
AGES: tuple[str, ...] = ("under 20", "over 30")


class BlogAuthorshipParams(TopicParams, DetectionParams, SplitParams, SourceParams):
    """File of the data, posts to keep, and origin of their topics."""

    path: Path = Field(
        description="jsonl file {id, gender, age, text}, text being a post or a list of posts, or "
        "a folder with blogs.jsonl, all_users*.jsonl or blog*.jsonl (plain or .gz)"
    )
    topics_from: Literal["text", "public", "none"] = Field(
        default="text",
        description="what the topic model is fitted on: all posts, as in the paper (then labels "
        "depend on private text of others, and guarantees hold with the fitted topics held "
        "fixed), or the files given as public. none: no topics; every row is kept, without a label",
    )
    rows: Literal["posts", "sentences"] = Field(
        default="posts",
        exclude_if=equals("posts"),
        description="what a row is: a post, or a sentence of one (it ends at a full stop, a "
        "question or an exclamation mark before white space)",
    )
    rows_per_user: int | None = Field(
        default=None,
        ge=1,
        exclude_if=equals(None),
        description="keep this many rows of each blogger (the first), and leave out bloggers who "
        "have fewer",
    )
    ages_between: Literal["drop", "keep"] = Field(
        default="drop",
        description="bloggers from 20 to 30, once the topics are fitted: leave out, or keep with "
        "an unknown age",
    )
    users: int | None = Field(
        default=None, ge=3, description="read the posts of only this many bloggers, drawn at random"
    )
    posts: int | None = Field(
        default=None, ge=1, description="read only this many posts of each blogger (the first)"
    )

    @model_validator(mode="after")
    def _public_text_is_there(self) -> Self:
        if self.topics_from == "public" and not self.public:
            raise ValueError(
                "topics_from is 'public', but no file is given as public; give one, or take "
                "topics_from=text"
            )
        return self


DRAWN = (
    "neighbours have the same bloggers: of all those in the file, the number that `users` asks for "
    "was kept"
)
COUNTED = (
    "neighbours that differ in a post of a blogger differ so after posts and rows_per_user were "
    "applied"
)
"""Assumptions of guarantees."""


class Blogger(NamedTuple):
    """One blogger: id, index into `GENDERS`, age in years, posts with single spaces."""

    id: str
    gender: int
    age: int
    posts: tuple[str, ...]


class BlogAuthorship(Source[BlogAuthorshipParams]):
    """Posts by real bloggers, labelled with a topic that a topic model found.

    A row is a post, its user the blogger. Private attributes are gender, and age below 20 or above
    30. As in the DPNR paper (section 4.1.2), latent Dirichlet allocation with 10 topics runs over
    the whole collection, all ages and splits; posts with over 80 % of one topic are kept and that
    topic, a number, is the label. Other than there, splits have no blogger in common.

    The model and its vocabulary depend on everybody's posts, and so do the posts that are kept and
    their labels: nothing is proven then. With `topics_from=public` nothing private is fitted: the
    label of a post, and whether it is kept, depends on that post alone. With `topics_from=none`
    nothing is fitted at all: every row is kept, without a label. What `rows_per_user` leaves of a
    blogger depends on that blogger alone.
    """

    name: ClassVar[str] = "blog-authorship"
    title: ClassVar[str] = "Blog Authorship Corpus"
    source: ClassVar[str] = (
        "Schler et al., Effects of Age and Gender on Blogging, AAAI Spring Symposium 2006; topics "
        "as in Lyu, He and Li, Differentially Private Representation for NLP, EMNLP Findings 2020"
    )
    Params = BlogAuthorshipParams

    def read(self) -> Corpus:
        """The corpus with the splits train, valid and test.

        Raises:
            InputError: for a missing or malformed file, or if too few posts have a single topic.
        """
        params = self.params
        bloggers = self._bloggers()
        texts = [post for blogger in bloggers for post in blogger.posts]
        counts = [len(blogger.posts) for blogger in bloggers]
        years = np.repeat([blogger.age for blogger in bloggers], counts)
        ages = np.select([years < 20, years > 30], [0, 1], default=-1).astype(np.int64)
        kept, topics = self._topics(texts)
        if params.ages_between == "drop":
            kept &= ages >= 0
        rows = np.flatnonzero(kept)
        if not len(rows):
            raise InputError(
                f"blog-authorship: none of {len(texts)} {params.rows} has "
                + (
                    "text"
                    if topics is None
                    else f"over topic_share={params.topic_share} of one topic"
                )
                + " and a blogger of the ages wanted"
            )
        ids = np.array([blogger.id for blogger in bloggers])
        user, user_names = named_users(np.repeat(ids, counts)[rows].tolist())
        genders = np.repeat([blogger.gender for blogger in bloggers], counts)
        names = () if topics is None else tuple(f"topic {n}" for n in range(params.topics))
        corpus = Corpus(
            texts=tuple(texts[row] for row in rows.tolist()),
            groups={"user": user},
            split=np.full(len(rows), TRAIN, dtype=np.int64),
            labels=None if topics is None else topics[rows],
            label_names=names,
            attributes={"gender": genders[rows], "age": ages[rows]},
            attribute_names={"gender": GENDERS, "age": AGES},
            user_names=user_names,
            quotas=self._quotas(),
        )
        return add_entities(cut_missing_splits(corpus, params, self.name), params)

    def _topics(self, texts: list[str]) -> tuple[BoolArray, IntArray | None]:
        """Texts to keep, and the topic of each, None without topics; both (texts,)."""
        params = self.params
        if params.topics_from == "none":
            return np.array([any(map(str.isalnum, text)) for text in texts], dtype=bool), None
        fit_on = read_public(params.public) if params.topics_from == "public" else texts
        shares = topic_shares(texts, fit_on, params, params.seed)
        return shares.max(axis=1) > params.topic_share, shares.argmax(axis=1).astype(np.int64)

    def refusals(self) -> tuple[str, ...]:
        """A topic model of everybody's posts decides about each."""
        if self.params.topics_from != "text":
            return ()
        return (
            "which posts are kept, and their labels, depend on a topic model that was fitted to "
            "the posts of all bloggers; topics_from=public fits it to public text, and none does "
            "without",
        )

    def _quotas(self) -> tuple[str, ...]:
        drawn = () if self.params.users is None else (DRAWN,)
        counted = self.params.rows_per_user is not None or self.params.posts is not None
        return (*drawn, COUNTED) if counted else drawn

    def _bloggers(self) -> list[Blogger]:
        path = require_path(self.params.path, self.name)
        file = path if path.is_file() else find_file(path, FILES, self.name)
        bloggers = list(read_bloggers(file))
        if not bloggers:
            raise InputError(f"blog-authorship.path: {file} holds no blogger")
        wanted, most = self.params.rows_per_user, self.params.users
        if wanted is not None:
            cut = [self._rows(blogger) for blogger in bloggers]
            bloggers = [blogger for blogger in cut if len(blogger.posts) == wanted]
            if not bloggers:
                raise InputError(
                    f"blog-authorship: none of {len(cut)} bloggers has "
                    f"rows_per_user={wanted} {self.params.rows}; ask for fewer"
                )
        if most is not None and most < len(bloggers):
            names = names_of_ids("user", [blogger.id for blogger in bloggers])
            numbers = keyed_uniform(names.array, self.params.seed, "source", "users")
            chosen = np.sort(np.argsort(numbers, kind="stable")[:most])
            bloggers = [bloggers[at] for at in chosen.tolist()]
        return bloggers if wanted is not None else [*map(self._rows, bloggers)]

    def _rows(self, blogger: Blogger) -> Blogger:
        """The blogger with its rows in place of its posts, at most `rows_per_user`."""
        posts = blogger.posts[: self.params.posts]
        rows: Iterator[str] = iter(posts)
        if self.params.rows == "sentences":
            rows = chain.from_iterable(map(simple_sentences, posts))
        return blogger._replace(posts=tuple(islice(rows, self.params.rows_per_user)))


def read_bloggers(file: Path) -> Iterator[Blogger]:
    """Bloggers of a file in order of first appearance, the posts of all their lines together.

    Character references are resolved and white space becomes single spaces.

    Raises:
        InputError: naming file and line, for a line that is not an object {id, gender, age, text},
            an unknown gender, or a blogger with two genders or ages.
    """
    bloggers: dict[str, Blogger] = {}
    with open_text(file, "blog-authorship.path") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"blog-authorship.path: {file}, line {number}"
            new = _blogger(line, where)
            old = bloggers.get(new.id, new._replace(posts=()))
            if (old.gender, old.age) != (new.gender, new.age):
                raise InputError(f"{where}: blogger {new.id} had another gender or age before")
            bloggers[new.id] = new._replace(posts=old.posts + new.posts)
    yield from bloggers.values()


def _blogger(line: str, where: str) -> Blogger:
    fields = (
        f"id, gender ({' or '.join(GENDERS)}), age (a whole number) and text (a post or a list of "
        "posts)"
    )
    with object_with(fields, where):
        record = json.loads(line)
        text = record["text"]
        posts = [text] if isinstance(text, str) else list(text)
        age = int(str(record["age"]))
        gender = GENDERS.index(str(record["gender"]).strip().lower())
        clean = tuple(" ".join(html.unescape(post).split()) for post in posts)
        return Blogger(normal_id(record["id"]), gender, age, clean)
