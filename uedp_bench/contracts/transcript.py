"""Messages between parties of a protocol: a server and its clients, or two that compute together.

A mechanism records each message while it sends it (`Run.send`); nothing is made up afterwards.
Sizes are always counted. The messages themselves, and their payloads in the first rounds, are kept
if an attack of the run needs them (`Attack.payload_rounds`, `needs`), and only then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from uedp_bench.contracts.capabilities import capability
from uedp_bench.errors import InputError
from uedp_bench.io.folders import new_file


class Size(NamedTuple):
    """Size of a message without a single array behind it.

    Attributes:
        shape: shape of the payload.
        nbytes: bytes on the wire.
    """

    shape: tuple[int, ...]
    nbytes: int


class Sent(Protocol):
    """Payload of a message: an array (NumPy, torch), or a `Size` alone."""

    @property
    def shape(self) -> Sequence[int]:
        """Shape of the array."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes on the wire."""
        ...


class Message(NamedTuple):
    """One message, as sender and receiver see it.

    Attributes:
        sender, receiver: parties; those of one role are numbered ("client 3").
        round: round of the protocol, from 0.
        name: name of the message ("update", "weights").
        shape, bytes: shape and size of the payload.
        payload: payload; None after the rounds that attacks need, and where no array was sent.
        noisy: True if the sender hid the payload by noise before it was sent, so that proofs of the
            release hold for the message too. Noise that the receiver adds hides nothing.
    """

    sender: str
    receiver: str
    round: int
    name: str
    shape: tuple[int, ...]
    bytes: int
    payload: NDArray[Any] | None = None
    noisy: bool = False


@dataclass(frozen=True)
class Messages:
    """All messages of a run, in order; an adversary sees the part of one party.

    Attributes:
        sent: messages by anybody to anybody.
        dealt: description of a new deal of rows among the parties; empty if each party has the rows
            that the corpus gives it. If it is not empty, nobody can tell from the corpus whose text
            a message was made of.
    """

    sent: tuple[Message, ...]
    dealt: str = ""

    @property
    def parties(self) -> tuple[str, ...]:
        """Parties that sent or received something, in the order in which they first did."""
        named = (party for message in self.sent for party in (message.sender, message.receiver))
        return tuple(dict.fromkeys(named))

    def seen_by(self, party: str) -> Iterator[Message]:
        """Messages that a party sent and received.

        Raises:
            InputError: if nobody of this name took part.
        """
        if party not in self.parties:
            raise InputError(f"no party {party!r} took part: {', '.join(self.parties)} did")
        return (one for one in self.sent if party in (one.sender, one.receiver))

    def save(self, file: Path) -> None:
        """Write an npz file that only its owner can read."""
        headers = [message._replace(payload=None) for message in self.sent]
        payloads = {
            f"payload_{number}": message.payload
            for number, message in enumerate(self.sent)
            if message.payload is not None
        }
        with new_file(file, private=True) as out:
            np.savez_compressed(
                out,
                messages=np.array(json.dumps(headers)),
                dealt=np.array(self.dealt),
                **payloads,  # type: ignore[arg-type]
            )

    @staticmethod
    def load(file: Path) -> Messages:
        """Read the file that `save` wrote."""
        with np.load(file, allow_pickle=False) as data:
            headers = json.loads(str(data["messages"]))
            dealt = str(data["dealt"]) if "dealt" in data.files else ""
            kept = {name: data[name] for name in data.files if name not in ("messages", "dealt")}
        return Messages(tuple(
            Message(sender, receiver, step, name, tuple(shape), size,
                    kept.get(f"payload_{number}"), *rest[1:])
            for number, (sender, receiver, step, name, shape, size, *rest) in enumerate(headers)
        ), dealt)  # fmt: skip


@capability(None)
@runtime_checkable
class Transcript(Protocol):
    """Release that parties made together, with the messages between them.

    A guarantee about the release alone says nothing of a party's view on the way: an attack on
    messages bounds an epsilon only if the noise was in them (`Message.noisy`).

    Attributes:
        transcript: messages before the attack.
    """

    transcript: Messages


_SENT = "bytes_sent_by_"


@dataclass
class MessageLog:
    """Messages of a run: counted always, kept as far as attacks need them.

    Attributes:
        keep: True if messages are kept, each with its sizes.
        payload_rounds: number of rounds whose payloads are kept too.
        open: True if messages still count.
        dealt: see `Messages`.
    """

    keep: bool = False
    payload_rounds: int = 0
    open: bool = True
    dealt: str = ""
    _kept: list[Message] = field(default_factory=list)
    _rounds: set[int] = field(default_factory=set)
    _counts: dict[str, int] = field(default_factory=dict)
    _parties: dict[str, set[str]] = field(default_factory=dict)

    def keeps_payload(self, round: int) -> bool:  # noqa: A002
        """True if payloads of a round are kept."""
        return self.keep and self.open and round < self.payload_rounds

    def deal(self, description: str) -> None:
        """Note that parties have other rows than the corpus gives them (`Messages.dealt`)."""
        if self.open:
            self.dealt = description

    def add(self, message: Message, payload: Sent) -> None:
        """Count a message that has no payload yet, and keep as much of it as is needed."""
        if not self.open:
            return
        self._rounds.add(message.round)
        for party in (message.sender, message.receiver):
            if party != (role := _role(party)):
                self._parties.setdefault(role, set()).add(party)
        for name in ("messages", f"{_SENT}{_role(message.sender)}",
                     f"bytes_received_by_{_role(message.receiver)}"):  # fmt: skip
            self._counts[name] = self._counts.get(name, 0) + (
                1 if name == "messages" else message.bytes
            )
        if self.keeps_payload(message.round) and not isinstance(payload, Size):
            message = message._replace(payload=_copied(payload))
        if self.keep:
            self._kept.append(message)

    def state_dict(self) -> dict[str, Any]:
        """State of all messages so far; payloads as tensors."""
        import torch

        return {
            "kept": [message._replace(payload=None) for message in self._kept],
            "payloads": {
                place: torch.from_numpy(message.payload)
                for place, message in enumerate(self._kept)
                if message.payload is not None
            },
            "rounds": sorted(self._rounds),
            "counts": self._counts,
            "parties": {role: sorted(names) for role, names in self._parties.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Go on after these messages."""
        self._kept = [Message(*fields) for fields in state["kept"]]
        for place, payload in state["payloads"].items():
            self._kept[place] = self._kept[place]._replace(payload=payload.numpy())
        self._rounds, self._counts = set(state["rounds"]), state["counts"]
        self._parties = {role: set(names) for role, names in state["parties"].items()}

    def closed(self) -> Messages | None:
        """Close the log; return kept messages, None if there are none."""
        self.open = False
        return Messages(tuple(self._kept), self.dealt) if self._kept else None

    def cost(self) -> dict[str, float]:
        """Messages, rounds and bytes, in all and by party; empty where nothing was sent.

        Parties of one role are added up; `by_each` is the mean over parties of a role that sent or
        received anything.
        """
        if not self._counts:
            return {}
        sent = sum(value for name, value in self._counts.items() if name.startswith(_SENT))
        each = {
            f"{name}_by_each_{role}": count / len(self._parties[role])
            for name in ("bytes_sent", "bytes_received")
            for role in self._parties
            if (count := self._counts.get(f"{name}_by_{role}"))
        }
        rounds = len(self._rounds)
        return {
            **self._counts,
            **each,
            **{f"parties_{role}": len(parties) for role, parties in self._parties.items()},
            "message_bytes": sent,
            "message_mb_a_round": sent / rounds / 1e6,
            "message_rounds": rounds,
        }


@lru_cache(maxsize=2**14)  # a client speaks in many rounds
def _role(party: str) -> str:
    """Role of a party, its name without a number: clients are counted together."""
    return re.sub(r"\W+", "_", re.sub(r"\s+\d+$", "", party))


def _copied(payload: Any) -> NDArray[Any]:
    """Copy a payload: senders go on writing into theirs."""
    if hasattr(payload, "detach"):  # a tensor, wherever it lives
        payload = payload.detach().cpu().numpy()
    return np.array(payload)
