"""Stable names of rows: their ids in files outside of a run, and public numbers drawn by names.

Whatever decides about a unit without being secret (its split, client, cohort, round, whether it is
sampled, held out or public, which rows a cap keeps) compares such a number with a threshold. The
number is a keyed hash of the unit's own name, so that it is the same whoever else is there:
neighbouring files stay neighbours (`docs/proofs.md`, C6, C8, C9). No position in a file, no
permutation and no quota of those present decides about anybody.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import repeat
from pathlib import Path

import numpy as np

from uedp_bench.corpus.keys import (
    FloatArray,
    IntArray,
    NameArray,
    Names,
    as_array,
    digest_of,
    each_once,
    names_of_ids,
    normal_id,
)
from uedp_bench.corpus.table import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.io.files import shown_path


def keyed_uniform(names: NameArray, seed: int, *use: str | int) -> FloatArray:
    """(names,) numbers in [0, 1): a keyed hash of each name (BLAKE2b, 53 bits).

    Args:
        names: (names, 16) digests of `Names`.
        seed: public seed.
        use: use of the numbers; numbers of different uses are independent.
    """
    key = digest_of("public number", json.dumps([seed, *use]))
    data = np.ascontiguousarray(names).tobytes()
    width = names.shape[1]
    hashed = b"".join(
        blake2b(data[at : at + width], digest_size=8, key=key).digest()
        for at in range(0, len(data), width)
    )
    bits = np.frombuffer(hashed, dtype="<u8") >> np.uint64(11)
    return np.asarray(bits * 2.0**-53, dtype=np.float64)


def row_numbers(corpus: Corpus, seed: int, *use: str | int) -> FloatArray:
    """(rows,) public number of each row."""
    return keyed_uniform(row_names(corpus).array, seed, *use)


def user_numbers(corpus: Corpus, seed: int, *use: str | int) -> FloatArray:
    """(users,) public number of each user, by id; users without rows have one too."""
    return keyed_uniform(user_names(corpus).array[: corpus.user_count], seed, *use)


def owner_numbers(corpus: Corpus, seed: int, *use: str | int) -> FloatArray:
    """(rows,) public number of each row's user; a row without a user has its own."""
    alone = corpus.users < 0
    numbers = np.append(user_numbers(corpus, seed, *use), 0.0)[corpus.users]
    if alone.any():
        numbers[alone] = keyed_uniform(row_names(corpus).array[alone], seed, *use, "alone")
    return numbers


def with_names(corpus: Corpus) -> Corpus:
    """Give a corpus names that stay whatever is done to it; names that it has are kept."""
    return replace(corpus, row_names=row_names(corpus), user_names=corpus.user_names)


def row_names(corpus: Corpus) -> Names:
    """(rows,) names of rows: ids where the source has them, else content and occurrence.

    Of a user's rows of equal content, which nobody can tell apart, the first is the first, and so
    on. Rows of no user are counted together.
    """
    if corpus.row_names is not None:
        return corpus.row_names
    if corpus.ids is not None:
        return names_of_ids("row", corpus.ids)
    # Where content does not tell the user, a count over all users would depend on the others.
    return Names(
        lambda: as_array(each_once(_contents(corpus), corpus.users.tolist())), of_content=True
    )


def user_names(corpus: Corpus) -> Names:
    """(users,) names of users by id; their numbers where the source gives no names."""
    count, names = corpus.user_count, corpus.user_names
    if names is None:
        return names_of_ids("user", range(count))

    def long_enough() -> NameArray:
        own = names.array
        more = [digest_of("user number", str(user)) for user in range(len(own), count)]
        return np.concatenate([own, as_array(more)]) if more else own

    return Names(long_enough, of_content=names.of_content)


def with_lone_rows(corpus: Corpus) -> Corpus:
    """Name the users of a corpus, every row of which is a user of its own, as their rows.

    Args:
        corpus: corpus whose users are numbered as its rows are.
    """
    bare = replace(corpus, user_names=Names(lambda: as_array([]), of_content=True))
    users = np.full(len(bare), -1, dtype=np.int64)
    names = row_names(replace(bare, groups={**bare.groups, "user": users}))
    return replace(corpus, row_names=names, user_names=names)


def with_documents(corpus: Corpus) -> Corpus:
    """Name the users of a corpus, which are documents without names, by their content.

    Of documents of equal content, which nobody can tell apart, the first is the first, and so on.
    A document that loses a row has another name, and its rows keep theirs.
    """

    def names() -> NameArray:
        own = Names(lambda: as_array([]), of_content=True)
        rows = [*_contents(replace(corpus, user_names=own))]
        users = range(corpus.user_count)
        whole = (digest_of(*(rows[row] for row in corpus.rows_of_user[user])) for user in users)
        return as_array(each_once(whole))

    return replace(corpus, user_names=Names(names, of_content=True))


def named_users(names: Sequence[str | None]) -> tuple[IntArray, Names]:
    """Number users (rows,), dense from 0, and name them; names of one normal form are one.

    Args:
        names: (rows,) id of each row's user; None for nobody, whose number is -1.
    """
    normal = {name: normal_id(name) for name in dict.fromkeys(names) if name is not None}
    number: dict[str, int] = {}
    for name in normal.values():
        number.setdefault(name, len(number))
    ids = np.array([-1 if n is None else number[normal[n]] for n in names], dtype=np.int64)
    return ids, names_of_ids("user", tuple(number))


def _contents(corpus: Corpus) -> Iterator[bytes]:
    """Digest of each row's content, without any number of a class or of a position.

    The user is a part of it, unless its name is itself made of what its rows say.
    """
    blocks = [np.array([_short(name) for name in SPLITS])[corpus.split]]
    if corpus.user_names is None:
        blocks.append(corpus.users.astype("<i8").view("V8"))
    elif not corpus.user_names.of_content:
        names = np.concatenate([user_names(corpus).array, np.zeros((1, 16), dtype=np.uint8)])
        halves = np.ascontiguousarray(names[corpus.users]).view("V8")
        blocks += [halves[:, 0], halves[:, 1]]
    coded = [(corpus.labels, corpus.label_names)] if corpus.labels is not None else []
    coded += [(corpus.attributes[key], corpus.attribute_names[key]) for key in corpus.attributes]
    for codes, classes in coded:
        blocks.append(np.array([*map(_short, classes), _short(None)])[codes])
    width = 8 * len(blocks)
    packed = np.stack(blocks, axis=1).tobytes()
    marks = _marks(corpus)
    targets = repeat("") if corpus.targets is None else corpus.targets
    for row, (text, target) in enumerate(zip(corpus.texts, targets, strict=False)):
        hashed = blake2b(packed[row * width : (row + 1) * width], digest_size=16)
        hashed.update(f"{_field(text)}{_field(target)}".encode("utf-8", "surrogatepass"))
        if row in marks:
            hashed.update("".join(sorted(marks[row])).encode("utf-8", "surrogatepass"))
        yield hashed.digest()


def _field(text: str) -> str:
    """Text and the NUL that ends it; NUL within it is escaped, so that fields never run over."""
    return text.replace("\1", "\1\1").replace("\0", "\1\2") + "\0"


def _short(name: str | None) -> np.void:
    return np.void(digest_of("class", name)[:8] if name is not None else bytes(8))


def _marks(corpus: Corpus) -> dict[int, list[str]]:
    """Spans that people marked in each row; those of a detector follow from the text."""
    marks: dict[int, list[str]] = {}
    layers = [(name, layer.spans, layer.types) for name, layer in sorted(corpus.layers.items())]
    if corpus.detector is None:
        layers.append(("entities", corpus.entities, corpus.entity_types))
    for name, spans, types in layers:
        if spans.lost:
            continue
        columns = (spans.row, spans.start, spans.end, spans.type)
        for row, start, end, kind in zip(*(one.tolist() for one in columns), strict=True):
            marks.setdefault(row, []).append(f"{_field(name)}{start}\0{end}\0{_field(types[kind])}")
    return marks


PLANTED = "planted-"
"""Prefix of the ids of rows that an attack planted."""


def row_ids(corpus: Corpus) -> list[str]:
    """(rows,) id of each row: the source's own, else the row's number in the source's corpus.

    They are equal in a part of the corpus. A row that an attack planted has another text than the
    row whose place it takes, so it has an id of its own, which is made of its user and its text: a
    file that was made before the planting, or for another seed, does not have it.
    """
    own, origin, users = corpus.ids, corpus.origin.tolist(), corpus.users.tolist()
    before: Counter[str] = Counter()
    out: list[str] = []
    for row, source in enumerate(origin):
        if source >= 0:
            out.append(str(source) if own is None else own[row])
            continue
        content = f"{users[row]}\0{corpus.texts[row]}".encode("utf-8", "surrogatepass")
        name = PLANTED + hashlib.sha256(content).hexdigest()[:16]
        out.append(f"{name}-{before[name]}" if before[name] else name)
        before[name] += 1
    return out


COLUMNS = ("id", "split", "user", "text")
"""Columns of the file: the row's id, its split, the number of its user (-1 for none), its text."""

ENDINGS = (".jsonl", ".csv")
"""Kinds of files that are written."""


def write_rows(corpus: Corpus, out: Path) -> int:
    """Write the rows outside the split `public`, in order, for their owner alone to read.

    Args:
        corpus: corpus of a source, with planted rows.
        out: new file, whose ending decides its kind.

    Returns:
        Number of written rows.

    Raises:
        InputError: if the ending is another, there is such a file, or it cannot be written.
    """
    if out.suffix.lower() not in ENDINGS:
        raise InputError(f"--out {shown_path(out)} must end in {' or '.join(ENDINGS)}")
    private = np.flatnonzero(~corpus.where("public")).tolist()
    ids, users = row_ids(corpus), corpus.users.tolist()
    rows = ((ids[at], SPLITS[int(corpus.split[at])], users[at], corpus.texts[at]) for at in private)
    try:
        out.touch(mode=0o600, exist_ok=False)
        with out.open("w", encoding="utf-8", newline="") as file:
            if out.suffix.lower() == ".csv":
                csv.writer(file).writerows([COLUMNS, *rows])
            else:
                file.writelines(
                    json.dumps(dict(zip(COLUMNS, row, strict=True)), ensure_ascii=False) + "\n"
                    for row in rows
                )
    except FileExistsError:
        raise InputError(f"--out {shown_path(out)} is there already: name a new file") from None
    except OSError as error:
        raise InputError(f"--out {shown_path(out)} cannot be written: {error.strerror}") from None
    return len(private)
