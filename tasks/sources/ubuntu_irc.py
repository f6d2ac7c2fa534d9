"""Ubuntu IRC: chat by real users about computer problems; a nick is a user."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import SPLITS, Corpus, InputError, Source, SourceParams, Spans, equals
from uedp_bench.api.text import (
    DetectionParams,
    add_entities,
    dense_ids,
    named_users,
    normal_id,
    open_text,
)
from uedp_bench.tasks.sources.reading.files import find_file, object_with

FILES: dict[str, tuple[str, ...]] = {
    "train": ("train.raw.jsonl", "train*.jsonl"),
    "valid": ("dev.raw.jsonl", "dev*.jsonl", "valid*.jsonl"),
    "test": ("test.raw.jsonl", "test*.jsonl"),
}
NICK = "NICK"
COUNTED = (
    "neighbours that differ in a message of a user differ so after min_messages and max_messages "
    "were applied, and users of several splits were left out of all but one"
)
NICKS = "neighbours have the same list of nicks, by which messages count as addressed to somebody"
"""Assumptions of guarantees: a message less may take a user out, or let others in, from valid even;
a user less may leave a nick in the messages of others that is no entity any more."""
_MESSAGE = re.compile(r"\[\d\d:\d\d\] <([^>]+)>(.*)")
_ADDRESSED = re.compile(r"([^\s:,]+)[:,](?=\s)")  # "nick: message" or "nick, message"


class UbuntuIRCParams(DetectionParams, SourceParams):
    """Files of the data, and users whose messages are kept."""

    path: Path = Field(description="folder with train*.jsonl, dev*.jsonl, test*.jsonl (or .gz)")
    min_messages: int = Field(
        default=20, ge=1, description="training users with fewer messages are left out"
    )
    max_messages: int | None = Field(
        default=None,
        exclude_if=equals(None),
        ge=1,
        description="keep the first so many messages of a training user, so that nobody has more",
    )
    bots: tuple[str, ...] = Field(
        default=("ubotu", "ubottu"), description="nicks of programs, whose messages are left out"
    )


class Message(NamedTuple):
    """One message: who (case-folded nick), where (the log file) and what."""

    nick: str
    log: str
    text: str


class UbuntuIRC(Source[UbuntuIRCParams]):
    """Messages of the #ubuntu channel: one object {file, text} a line, text being a log.

    A row is a message (`[hh:mm] <nick> message`; notices, actions and empty messages are left
    out), its user the nick, whose case means nothing on IRC; the log file is the group `document`.
    The splits have no user in common: messages in test by users of train, and in valid by users of
    train or test, are left out, whether or not those users write enough to be kept. Nicks that a
    message is addressed to (`nick: ...`, where some user has that nick) are entities of the type
    NICK; a detector finds further ones. The list of nicks counts as public, as a channel's list of
    users is: what is proven for mechanisms that look at entities holds with that list fixed.
    """

    name: ClassVar[str] = "ubuntu-irc"
    title: ClassVar[str] = "Ubuntu IRC"
    source: ClassVar[str] = (
        "Kummerfeld et al., A Large-Scale Corpus for Conversation Disentanglement, ACL 2019"
    )
    Params = UbuntuIRCParams

    def read(self) -> Corpus:
        """The corpus with the splits train, valid and test.

        Raises:
            InputError: for a missing or malformed file, or if no message is left.
        """
        bots = {normal_id(nick.casefold()) for nick in self.params.bots}
        files = {
            split: find_file(self.params.path, names, self.name) for split, names in FILES.items()
        }
        parts = {
            split: [message for message in read_messages(file) if message.nick not in bots]
            for split, file in files.items()
        }
        nicks = {message.nick for part in parts.values() for message in part}
        kept = self._without_shared_users(parts)
        if not kept["train"]:
            raise InputError(
                f"ubuntu-irc: no training user has min_messages={self.params.min_messages} messages"
            )
        messages = [message for part in kept.values() for message in part]
        texts = tuple(message.text for message in messages)
        users, names = named_users([message.nick for message in messages])
        counts = [len(part) for part in kept.values()]
        addressed = [
            (row, *match.span(1), 0)
            for row, match in enumerate(map(_ADDRESSED.match, texts))
            if match and match[1].casefold() in nicks
        ]
        corpus = Corpus(
            texts=texts,
            groups={"user": users, "document": dense_ids([message.log for message in messages])},
            split=np.repeat([SPLITS.index(split) for split in kept], counts),
            entities=Spans.build(texts, addressed),
            entity_types=(NICK,),
            user_names=names,
            quotas=(COUNTED, NICKS),
        )
        return add_entities(corpus, self.params)

    def _without_shared_users(self, parts: dict[str, list[Message]]) -> dict[str, list[Message]]:
        written = Counter(message.nick for message in parts["train"])
        enough = {nick for nick, count in written.items() if count >= self.params.min_messages}
        in_test = {message.nick for message in parts["test"]}
        train = [message for message in parts["train"] if message.nick in enough]
        return {
            "train": _first_of_each(train, self.params.max_messages),
            "valid": [
                message
                for message in parts["valid"]
                if message.nick not in written and message.nick not in in_test
            ],
            "test": [message for message in parts["test"] if message.nick not in written],
        }


def _first_of_each(messages: list[Message], most: int | None) -> list[Message]:
    """The first `most` messages of every nick, in their order; all of them for None."""
    seen: Counter[str] = Counter()
    kept = []
    for message in messages:
        seen[message.nick] += 1
        if most is None or seen[message.nick] <= most:
            kept.append(message)
    return kept


def read_messages(file: Path) -> Iterator[Message]:
    """Messages of a file of logs, in order.

    Raises:
        InputError: naming file and line, if a line is not an object with `file` and `text`.
    """
    with open_text(file, "ubuntu-irc.path") as lines:
        for number, line in enumerate(lines, start=1):
            with object_with("file and text", f"ubuntu-irc.path: {file}, line {number}"):
                record = json.loads(line)
                log, text = str(record["file"]), str(record["text"])
            for match in map(_MESSAGE.fullmatch, text.split("\n")):
                words = " ".join(match[2].split()) if match else ""
                if match and words:
                    yield Message(normal_id(match[1].casefold()), log, words)
