"""Gradient inversion: what a server, or the next client, reads in the updates that it is sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import (
    Attack,
    BoolArray,
    CapabilityError,
    Estimate,
    InputError,
    IntArray,
    Leakage,
    Metric,
    Params,
    Planted,
    TrainedRelease,
)
from uedp_bench.api.capabilities import ServedRelease, Transcript
from uedp_bench.api.statistics import ratio_estimate
from uedp_bench.attacks.gradient_inversion.layers import Layers, tokens_in_update
from uedp_bench.attacks.gradient_inversion.seen_updates import (
    PrivateRows,
    PublicKnowledge,
    Seen,
    number_of,
    readable_rows,
    seen_by,
)
from uedp_bench.attacks.gradient_inversion.short_rows import ShortRows

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Release, Run
    from uedp_bench.api.networks import Vocabulary


@dataclass(eq=False)
class Sets:
    """Sets that were found in messages, beside what is true and what a guess finds.

    Attributes:
        name: name of their elements ("words").
        counts: of each message, members that were found rightly, found, true, guessed rightly.
    """

    name: str
    counts: list[tuple[int, int, int, int]] = field(default_factory=list)
    _owners: list[int] = field(default_factory=list)

    def add(self, owner: int, named: BoolArray, true: BoolArray, guess: BoolArray) -> None:
        """Counts one message.

        Args:
            owner: number of whose text it was made of; messages of one are resampled together.
            named: (n,) members that the adversary names.
            true: (n,) members that are in the text.
            guess: (n,) what a guess of equal size names.
        """
        self._owners.append(owner)
        self.counts.append(
            (
                int((named & true).sum()),
                int(named.sum()),
                int(true.sum()),
                int((guess & true).sum()),
            )
        )

    def metrics(self, rng: np.random.Generator) -> dict[str, Estimate]:
        """Precision, recall, and the same of guesses; over all messages together.

        What has no denominator is left out.
        """
        if not self.counts:
            return {}
        hits, named, true, lucky = np.array(self.counts, dtype=np.float64).T
        _, owners = np.unique(self._owners, return_inverse=True)
        wanted = {
            "precision": (hits, named), "recall": (hits, true),
            "precision_guessed": (lucky, named), "recall_guessed": (lucky, true),
        }  # fmt: skip
        return {
            f"{self.name}_{what}": ratio_estimate(top, bottom, rng, owners.astype(np.int64))
            for what, (top, bottom) in wanted.items()
            if bottom.sum() > 0
        }


def members(ids: IntArray, size: int) -> BoolArray:
    """(size,) True for members of a set of ids."""
    is_member = np.zeros(size, dtype=bool)
    is_member[ids] = True
    return is_member


SERVER = "server"
COVERED = (
    "what is proven of the release holds of the messages: noise was added before they were sent"
)
NOT_COVERED = (
    "none: nothing hid what the messages carried when they were sent; noise that is added "
    "afterwards protects the release alone"
)
PARTLY = "some messages were hidden by noise before they were sent, others were not"
FIXED_EMBEDDING = "not trained: no update shows which tokens were looked up"
FROZEN_TABLE = (
    "not trained: updates of fewer different words than a vector has numbers show them in the next "
    "layer"
)


class GradientInversionParams(Params):
    """Parameters of `gradient-inversion`: the party that reads, and limits of its work."""

    party: str = Field(
        default="server", description="who reads what it is sent: server, or a client (client 1)"
    )
    rounds: int = Field(
        default=1, ge=1,
        description="rounds whose messages are read; a client to whom the model comes back needs 2",
    )  # fmt: skip
    false_tokens: float = Field(
        default=1.0,
        gt=0,
        description="under noise, tokens that a message is wrongly said to have, in expectation, "
        "where it has none",
    )
    order_messages: int = Field(
        default=10, ge=0, description="short messages whose words are put in order; 0 for none"
    )
    order_words: int = Field(
        default=8, ge=2, description="different tokens that a short message has at most"
    )
    orders: int = Field(default=2000, ge=100, description="orders to try for each, about")


class GradientInversion(Attack[GradientInversionParams]):
    """Reads the words, names among them, and the labels of clients in their updates.

    The adversary is a party of the protocol that follows it and keeps what it sees. It knows the
    network, the vocabulary and the weights that were sent, and works out what it says from messages
    that were written down while they were sent. Intervals are bootstrapped over clients.
    """

    name = "gradient-inversion"
    version = 2
    source = (
        "Melis et al. 2019 (rows of embeddings); Zhao et al. 2020, arXiv:2001.02610 (labels); "
        "Gupta et al. 2022, arXiv:2205.08514; Balunovic et al. 2022, arXiv:2202.08827; Petrov et "
        "al. 2024, arXiv:2405.15586"
    )
    Params = GradientInversionParams
    metrics = (
        Metric.rate("*_precision_guessed", "precision of guesses of", "of as many, the most "
                    "frequent ones"),
        Metric.rate("*_recall_guessed", "recall of guesses of", "of as many, the most frequent "
                    "ones"),
        Metric.rate("words_recall", "words read", "share of clients' words that a receiver of "
                    "their messages names", "lower", main=True),
        Metric.rate("words_precision", "words right", "share of the words that it names that are "
                    "theirs", "lower"),
        Metric.rate("names_recall", "names read", "share of clients' words of names that it names",
                    "lower", main=True),
        Metric.rate("names_precision", "names right", "share of the names that it names that are "
                    "theirs", "lower", main=True),
        Metric.rate("labels_recall", "labels read", "share of clients' labels that it names",
                    "lower"),
        Metric.rate("labels_precision", "labels right", "share of the labels that it names that "
                    "are theirs", "lower"),
        Metric.rate("rows_recovered", "rows read", "share of short messages whose row is read word "
                    "by word", "lower", main=True),
        Metric.rate("rows_rouge_l", "ROUGE-L of rows", "F1 of the longest common subsequence of a "
                    "read row with the closest one of the client", "lower"),
        Metric.rate("rows_rouge_l_random", "ROUGE-L, random order", "of random orders of the same "
                    "words"),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Transcript,)

    def payload_rounds(self) -> int:
        """See `Attack`."""
        return self.params.rounds

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Nothing."""
        return corpus, Planted()

    def refuses(self, release: Release, corpus: Corpus) -> str | None:
        """See `Attack`: messages that cannot be read, or whose reading nobody can judge."""
        if isinstance(release, Transcript) and (dealt := release.transcript.dealt):
            return f"{dealt}, so that nobody can tell whose words an update shows"
        release = _trained(release)
        if not isinstance(release, TrainedRelease):
            return f"{type(release).__name__} does not say how its network reads rows (`learner`)"
        try:
            Layers.from_module(
                release.learner(readable_rows(release, corpus).take(np.array([0]))).module
            )
        except CapabilityError as refused:
            return str(refused)
        return None

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """See the class.

        Raises:
            CapabilityError: if the network does not say where its layers are.
            InputError: if the party took no part, or is not the server and received nothing of
                others' text.
        """
        trained = _trained(release)
        if not isinstance(trained, TrainedRelease) or not isinstance(release, Transcript):
            raise CapabilityError(f"{self.name} needs the Transcript of a trained release")
        seen = list(seen_by(release.transcript, self.params.party))
        if not seen:
            message = (
                f"{self.name}.party: {self.params.party!r} received nothing that was made of "
                f"others' text in {self.params.rounds} rounds"
            )
            if self.params.party != SERVER:
                raise InputError(message)
            # Coins may draw nobody, and a client that is visited first may have no rows.
            return Leakage(
                {}, {"party": SERVER, "notes": [f"{message}: read more of them (rounds)"]}
            )
        target = Target.from_release(trained, corpus)
        rng = run.shared("attack", self.name)
        reading = Reading(target, self.params.false_tokens)
        p = self.params
        short = ShortRows(
            trained, target, p.order_messages, p.order_words, p.orders, run.device,
            run.shared("attack", self.name, "order"),
        )  # fmt: skip
        for number, each in enumerate(seen):
            run.progress(f"attack {self.name}", number, len(seen))
            tokens = reading.read(each)
            if tokens is not None and not each.is_text:
                short.read(each, tokens)
        return Leakage(
            metrics=reading.metrics(rng) | short.metrics(rng),
            details={
                "party": self.params.party,
                "guarantee": _guarantee(seen),
                "messages": len(seen),
                "clients": len({owner for each in seen for owner in each.owners}),
                "clients_by_message": float(np.mean([len(each.owners) for each in seen])),
                "embedding": _state(target.layers),
                **_vocabulary_details(target.public),
                **short.details(),
            },
        )


def _trained(release: Release) -> Release:
    """The model whose updates were sent: a protocol that answers for it hides none of these."""
    return release.behind if isinstance(release, ServedRelease) else release


class Target(NamedTuple):
    """The network whose updates are read, and the text behind them."""

    layers: Layers
    rows: PrivateRows
    public: PublicKnowledge | None

    @staticmethod
    def from_release(release: TrainedRelease, corpus: Corpus) -> Target:
        """Reads the text that a release was trained on, as its network reads it."""
        learner = release.learner(readable_rows(release, corpus))
        rows = PrivateRows.read(learner)
        if rows.tokens is None or learner.vocabulary is None:
            return Target(Layers.from_module(learner.module), rows, None)
        public = PublicKnowledge.from_corpus(learner.vocabulary, corpus)
        return Target(Layers.from_module(learner.module), rows, public)


class Reading:
    """Scores of all messages that were read so far."""

    def __init__(self, target: Target, false_tokens: float) -> None:
        self._target, self._false_tokens = target, false_tokens
        self.words, self.names, self.labels = Sets("words"), Sets("names"), Sets("labels")

    def read(self, seen: Seen) -> BoolArray | None:
        """Reads one message; (vocabulary,) the tokens that it seems to have, if that can be told.

        Raises:
            InputError: if it is neither text nor an update of this network.
        """
        size = self._target.layers.size
        if not seen.is_text and seen.payload.shape != (size,):
            raise InputError(
                f"a message has the shape {seen.payload.shape}, and the network has {size} "
                "trainable weights: it is not an update of this network"
            )
        owner = number_of(seen.owners[0]) or 0
        self._labels(seen, owner)
        return self._words(seen, owner)

    def _words(self, seen: Seen, owner: int) -> BoolArray | None:
        _, rows, public = self._target
        if public is None or (tokens := self._tokens_shown(seen, public.vocabulary)) is None:
            return None
        true = members(rows.tokens_of(seen.owners), len(tokens))
        for sets, among in ((self.words, public.words), (self.names, public.names)):
            named = tokens & among
            sets.add(owner, named, true & among, public.guess(int(named.sum()), among))
        return tokens

    def _tokens_shown(self, seen: Seen, vocabulary: Vocabulary) -> BoolArray | None:
        """(vocabulary,) tokens that the adversary names as in the text."""
        layers = self._target.layers
        if seen.is_text:
            texts = [str(text) for text in seen.payload.reshape(-1)]
            return members(self._target.rows.tokens_of_texts(texts), vocabulary.size)
        return tokens_in_update(
            seen.payload, seen.before, layers, noisy=seen.noisy, false_tokens=self._false_tokens
        )

    def _labels(self, seen: Seen, owner: int) -> None:
        layers, rows, _ = self._target
        if seen.is_text or rows.labels is None:
            return
        heights = layers.labels_of(seen.payload)
        if heights is None:
            return
        rising = heights > 0
        true = members(rows.labels_of(seen.owners), len(rising))
        counts = np.bincount(np.concatenate(rows.labels), minlength=len(rising))
        guess = members(np.argsort(-counts, kind="stable")[: int(rising.sum())], len(rising))
        self.labels.add(owner, rising, true, guess)

    def metrics(self, rng: np.random.Generator) -> dict[str, Estimate]:
        """Scores of words, names and labels, as far as there are any."""
        return {
            name: value
            for sets in (self.words, self.names, self.labels)
            for name, value in sets.metrics(rng).items()
        }


def _guarantee(seen: list[Seen]) -> str:
    noisy = {each.noisy for each in seen}
    return PARTLY if len(noisy) > 1 else COVERED if True in noisy else NOT_COVERED


def _vocabulary_details(public: PublicKnowledge | None) -> dict[str, Any]:
    if public is None:
        return {"words": "left out: the network reads no tokens of a vocabulary"}
    return {
        "guesses": f"the most frequent words of {public.origin}",
        "names_in_vocabulary": public.known_names,
    }


def _state(layers: Layers) -> str:
    if layers.embedding is None:
        return FROZEN_TABLE if layers.readers else FIXED_EMBEDDING
    return "trained, and the output layer's too" if layers.tied else "trained"
