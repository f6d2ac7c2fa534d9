"""Updates that a party sees, beside the private text that its reading of them is measured by."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uedp_bench.api import BoolArray, CapabilityError, Corpus, FloatArray, IntArray
from uedp_bench.api.capabilities import Message, Messages
from uedp_bench.api.networks import row_seeds
from uedp_bench.api.text import normal_surface

if TYPE_CHECKING:
    from uedp_bench.api import TrainedRelease
    from uedp_bench.api.networks import Learner, Vocabulary

WEIGHTS, UPDATE = "weights", "update"
"""Names of messages: the trainable weights of the network, flat, and by how much they change."""

_NUMBERED = re.compile(r"\s+(\d+)$")


class Seen(NamedTuple):
    """Something that was made of private text, as the party that received it sees it.

    Attributes:
        owners: parties whose text it was made of: the sender alone, unless the model travelled.
        round: round of the message.
        before: (d,) weights that it started from; None where the party does not know them.
        payload: (d,) by how much they changed, or an array of texts.
        noisy: see `Message`.
    """

    owners: tuple[str, ...]
    round: int
    before: NDArray[Any] | None
    payload: NDArray[Any]
    noisy: bool

    @property
    def is_text(self) -> bool:
        """True where the text itself was sent."""
        return self.payload.dtype.kind in "US"


class _Held(NamedTuple):
    """Weights that the party knows, and since when."""

    at: int
    round: int
    weights: NDArray[Any]


def seen_by(messages: Messages, party: str) -> Iterator[Seen]:
    """Yields the updates of others that a party works out from messages with their payloads.

    An update is read as it is. Weights that come back are compared with those that the party gave
    their sender in the same round, else with the last ones that it held: where the model travels,
    the difference is the work of all who had it in between.

    Args:
        messages: everything that was sent; no payload of others' messages is read.
        party: party that reads.

    Raises:
        InputError: if nobody of this name took part.
    """
    mine = {id(message) for message in messages.seen_by(party)}
    models: dict[str, _Held] = {}
    last: _Held | None = None
    for at, message in enumerate(messages.sent):
        if id(message) not in mine or message.payload is None:
            continue
        payload = message.payload
        if message.sender == party:
            if message.name == WEIGHTS:
                models[message.receiver] = last = _Held(at, message.round, payload)
            continue
        before = models.get(message.sender)
        if message.name == WEIGHTS:
            direct = before is not None and before.round == message.round
            start = before if direct else last
            last = _Held(at, message.round, payload)
            if start is None:
                continue
            among = (message,) if direct else messages.sent[start.at : at + 1]
            if owners := _owners(among, party):
                change = payload - start.weights
                yield Seen(owners, message.round, start.weights, change, message.noisy)
        elif message.name == UPDATE or payload.dtype.kind in "US":
            start_weights = None if before is None else before.weights
            yield Seen((message.sender,), message.round, start_weights, payload, message.noisy)


def number_of(party: str) -> int | None:
    """The number of a party that is one of many ("client 3"); None for others."""
    match = _NUMBERED.search(party)
    return None if match is None else int(match[1])


def role_of(party: str) -> str:
    """A party without its number."""
    return _NUMBERED.sub("", party)


def _owners(messages: Sequence[Message], party: str) -> tuple[str, ...]:
    """Numbered parties, without the party itself, who sent weights or an update."""
    senders = (m.sender for m in messages if m.name in (WEIGHTS, UPDATE))
    return tuple(dict.fromkeys(s for s in senders if number_of(s) is not None and s != party))


_AT_ONCE = 1024  # rows
_SIGNS = re.compile(r"[^\w\s]|_")


def readable_rows(release: TrainedRelease, corpus: Corpus) -> Corpus:
    """The training rows from which a release learns.

    Raises:
        CapabilityError: if there are none.
    """
    train = corpus.only("train")
    readable = train.take(np.flatnonzero(release.scorable(train)))
    if not len(readable):
        raise CapabilityError(f"no training row has what {type(release).__name__} predicts")
    return readable


@dataclass(frozen=True, eq=False)
class PrivateRows:
    """Training rows as the network reads them.

    A party called "client 3" holds the rows whose group "client" is 3, or those of user 3 where the
    corpus has no such group.

    Attributes:
        tokens: of each row, in order, without those that begin and end rows; None where the network
            reads no tokens.
        labels: labels of each row, those that it has; None where rows have none.
        label_names: names of labels where a row has one label; empty otherwise.
        texts: texts of each row.
        users: (rows,) user of each row.
        groups: groups of the corpus.
    """

    tokens: tuple[IntArray, ...] | None
    labels: tuple[IntArray, ...] | None
    label_names: tuple[str, ...]
    texts: tuple[str, ...]
    users: IntArray
    groups: Mapping[str, IntArray]

    @staticmethod
    def read(learner: Learner) -> PrivateRows:
        """The rows of a learner."""
        tokens: list[IntArray] = []
        labels: list[IntArray] = []
        corpus, vocabulary = learner.corpus, learner.vocabulary
        for start in range(0, len(corpus), _AT_ONCE):
            rows = np.arange(start, min(start + _AT_ONCE, len(corpus)))
            batch = learner.batch(rows, row_seeds(np.random.default_rng(0), rows.shape))
            if "tokens" in batch and vocabulary is not None:
                special = [vocabulary.begin, vocabulary.end]
                tokens += [row[~np.isin(row, special)] for row in batch["tokens"].numpy()]
            if "labels" in batch:
                labels += [row[row >= 0] for row in batch["labels"].reshape(len(rows), -1).numpy()]
        one_each = all(len(row) == 1 for row in labels)
        return PrivateRows(
            tokens=tuple(tokens) or None,
            labels=tuple(labels) or None,
            label_names=corpus.label_names if labels and one_each else (),
            texts=tuple(corpus.texts),
            users=corpus.users,
            groups=corpus.groups,
        )

    def rows_of(self, party: str) -> IntArray:
        """Rows that a party holds."""
        number, role = number_of(party), role_of(party)
        return np.flatnonzero(self.groups.get(role, self.users) == number)

    def tokens_of(self, parties: Iterable[str]) -> IntArray:
        """Different tokens of the rows of some parties."""
        rows = [row for party in parties for row in self.rows_of(party)]
        return _different(self.tokens or (), rows)

    def tokens_of_texts(self, texts: Sequence[str]) -> IntArray:
        """Different tokens of rows that have one of these texts: who has a text has its words."""
        surfaces = {normal_surface(text) for text in texts}
        rows = [row for row, text in enumerate(self.texts) if normal_surface(text) in surfaces]
        return _different(self.tokens or (), rows)

    def labels_of(self, parties: Iterable[str]) -> IntArray:
        """Different labels of the rows of some parties."""
        rows = [row for party in parties for row in self.rows_of(party)]
        return _different(self.labels or (), rows)


@dataclass(frozen=True, eq=False)
class PublicKnowledge:
    """Public properties of tokens, which the adversary knows beforehand.

    Attributes:
        vocabulary: vocabulary of the network.
        words: (vocabulary,) True for tokens that are words, not signs of where rows begin or end
            and not the unknown word.
        names: (vocabulary,) True for words that mostly occur inside entities of private text. The
            adversary does not use it: it says which of its finds are names.
        counts: (vocabulary,) how often each occurs in text that the adversary has.
        origin: name of the text that was counted.
        known_names: share of the occurrences of words inside entities that the vocabulary has.
    """

    vocabulary: Vocabulary
    words: BoolArray
    names: BoolArray
    counts: FloatArray
    origin: str
    known_names: float | None

    @staticmethod
    def from_corpus(vocabulary: Vocabulary, corpus: Corpus) -> PublicKnowledge:
        """Counts of public text if the corpus has any, else of the private text itself."""
        train, public = corpus.only("train"), corpus.only("public")
        words = np.ones(vocabulary.size, dtype=bool)
        words[[vocabulary.begin, vocabulary.end]] = False
        if vocabulary.unknown is not None:
            words[vocabulary.unknown] = False
        spans = train.entities
        mentions = zip(spans.row.tolist(), spans.start.tolist(), spans.end.tolist(), strict=True)
        inside = _counts(vocabulary, [train.texts[row][a:b] for row, a, b in mentions])
        everywhere = _counts(vocabulary, train.texts)
        total = inside.sum()
        return PublicKnowledge(
            vocabulary=vocabulary,
            words=words,
            names=words & (2.0 * inside > everywhere),
            counts=_counts(vocabulary, public.texts) if len(public) else everywhere,
            origin="public text" if len(public) else "private text, for want of public text",
            known_names=float(inside[words].sum() / total) if total else None,
        )

    def guess(self, size: int, among: BoolArray) -> BoolArray:
        """(vocabulary,) the most frequent tokens of some, as many as `size` if there are."""
        order = np.argsort(np.where(among, -self.counts, np.inf), kind="stable")
        guess = np.zeros(len(among), dtype=bool)
        guess[order[: min(size, int(among.sum()))]] = True
        return guess


def _different(values: Sequence[IntArray], rows: Sequence[int]) -> IntArray:
    return np.unique(np.concatenate([np.empty(0, np.int64), *(values[row] for row in rows)]))


def _counts(vocabulary: Vocabulary, texts: Sequence[str]) -> FloatArray:
    """(vocabulary,) how often tokens occur in texts; unknown words are looked up in normal form."""
    token_counts = np.zeros(vocabulary.size)
    count = Counter(word for text in texts for word in text.split())
    words = list(count)
    plain = [_SIGNS.sub("", normal_surface(word)) or word for word in words]
    for word, own, other in zip(
        words, vocabulary.encode(words), vocabulary.encode(plain), strict=True
    ):
        np.add.at(token_counts, other if own == [vocabulary.unknown] else own, count[word])
    return token_counts
