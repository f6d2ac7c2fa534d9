"""20 Newsgroups: Usenet messages with their group; who wrote it, by address, is the user."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from uedp_bench.api import SPLITS, Corpus, CorpusStats, InputError, Source, SourceParams
from uedp_bench.api.text import (
    DetectionParams,
    SplitParams,
    add_entities,
    cut_missing_splits,
    named_users,
)
from uedp_bench.tasks.sources.reading.files import class_ids, find_splits, read_records, read_splits

GROUPS: tuple[str, ...] = (
    "alt.atheism", "comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware", "comp.windows.x", "misc.forsale", "rec.autos", "rec.motorcycles",
    "rec.sport.baseball", "rec.sport.hockey", "sci.crypt", "sci.electronics", "sci.med",
    "sci.space", "soc.religion.christian", "talk.politics.guns", "talk.politics.mideast",
    "talk.politics.misc", "talk.religion.misc",
)  # fmt: skip
FIELDS: tuple[str, ...] = ("group", "text")
Part = Literal["headers", "footers", "quotes"]

_FROM = re.compile(r"^From:[ \t]*(.*)$", re.MULTILINE | re.IGNORECASE)
_ADDRESS = re.compile(r'[^\s<>()",;]+@[^\s<>()",;]+')
_COMMENT = re.compile(r"\([^()]*\)")
_QUOTE = re.compile(r"writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^[|>]")
_USERS, _ROWS = 5_754, 11_314


class NewsgroupsParams(DetectionParams, SplitParams, SourceParams):
    """Files of the data, and parts to remove from messages."""

    path: Path = Field(
        description="folder with train.jsonl and test.jsonl (plain or .gz), each line an object "
        "with group and text (the message with its headers)"
    )
    remove: tuple[Part, ...] = Field(
        default=(),
        description="parts of messages to remove, as scikit-learn does: headers, footers "
        "(signatures), quotes; a message of which nothing is left is left out",
    )


class Newsgroups(Source[NewsgroupsParams]):
    """The messages of 20 groups, divided by date into train and test; labels are the groups.

    A row is a message, its user the address in its `From:` line (what that line says where it has
    no address). Many users wrote in both train and test, since the division is by date; the split
    valid, if there is no file of it, is cut off the training users. With its headers a message
    names its author; classifiers read the group off headers, signatures and quotes as well.
    """

    name: ClassVar[str] = "20-newsgroups"
    title: ClassVar[str] = "20 Newsgroups"
    source: ClassVar[str] = (
        "Lang, NewsWeeder: Learning to Filter Netnews, ICML 1995; the version by date of "
        "Rennie, without headers that name the group"
    )
    Params = NewsgroupsParams

    def read(self) -> Corpus:
        """The corpus; splits without a file are cut off the training users.

        Raises:
            InputError: for a missing, malformed or empty file, a message without a `From:` line,
                a split without a message that is left, and see `add_entities`.
        """
        files = find_splits(self.params.path, self.name)
        records, split = read_splits(files, FIELDS, self.name)
        texts = [without(message, self.params.remove) for _, message in records]
        kept = np.array([bool(text.strip()) for text in texts])
        for name in files:
            if not kept[split == SPLITS.index(name)].any():
                raise InputError(
                    f"{self.name}.remove: without {', '.join(self.params.remove)} no message of "
                    f"the split {name} is left"
                )
        rows = np.flatnonzero(kept).tolist()
        user, names = named_users([author(records[row][1]) for row in rows])
        corpus = Corpus(
            texts=tuple(texts[row] for row in rows),
            groups={"user": user},
            split=split[kept],
            labels=class_ids([records[row][0] for row in rows], GROUPS, self.name, "group"),
            label_names=GROUPS,
            user_names=names,
        )
        return add_entities(cut_missing_splits(corpus, self.params, self.name), self.params)

    def documented(self) -> CorpusStats | None:
        """The sizes of the published training file, if all of it is trained on.

        That is with `valid=0` (or a file of its own for valid), `remove=()`, which leaves every
        message a row, and no detector, whose findings nobody published.
        """
        files = find_splits(self.params.path, self.name)
        cut = "test" not in files or ("valid" not in files and self.params.valid > 0)
        if cut or self.params.remove or self.params.detector != "none":
            return None
        texts = [text for (text,) in read_records(files["train"], ("text",), self.name)]
        if (len(texts), len({author(text) for text in texts})) != (_ROWS, _USERS):
            return None
        return CorpusStats(users=_USERS, rows=_ROWS, sensitive_rows=0, entities=0, public=True)


def author(message: str) -> str:
    """The address in a message's `From:` line, case-folded.

    Where it holds no address with an `@`, what it says apart from comments in parentheses (a
    UUCP path, a name), else the comments themselves: authors who left the line empty are one.

    Raises:
        InputError: if the headers have no such line.
    """
    head, _, _ = message.partition("\n\n")
    line = _FROM.search(head)
    if line is None:
        raise InputError(
            f"20-newsgroups.path: a message has no From: line; it starts {message[:60]!r}"
        )
    address = _ADDRESS.search(line[1])
    sender = address[0] if address else _COMMENT.sub(" ", line[1]).strip() or line[1]
    return " ".join(sender.split()).casefold()


def without(message: str, parts: tuple[Part, ...]) -> str:
    """The message without the named parts, removed in the order headers, footers, quotes."""
    if "headers" in parts:
        message = message.partition("\n\n")[2]
    if "footers" in parts:
        message = _without_footer(message)
    if "quotes" in parts:
        message = "\n".join(line for line in message.split("\n") if not _QUOTE.search(line))
    return message


def _without_footer(message: str) -> str:
    """Text before the last line that is blank or made of hyphens; all of it without one."""
    lines = message.strip().split("\n")
    rules = [at for at, line in enumerate(lines) if not line.strip().strip("-")]
    return "\n".join(lines[: rules[-1]]) if rules and rules[-1] > 0 else message
