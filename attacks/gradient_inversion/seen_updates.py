"""Changes of the weights that a party works out from what it sent and received."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from uedp_bench.api.capabilities import Message, Messages

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
