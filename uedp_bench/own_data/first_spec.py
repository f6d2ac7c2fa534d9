"""From a path to a spec that runs, with all that was found and guessed on the way."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.own_data.column_roles import Role
from uedp_bench.own_data.measured import Measured, measure
from uedp_bench.own_data.origins import Origin, load, origin_of
from uedp_bench.own_data.sizes import CROWD, FEW_USERS, MOST_WORDS, sizes_of
from uedp_bench.own_data.spec_text import spec_text
from uedp_bench.own_data.suggestion import Suggestion, declared_classes, suggest, task_of

LEAST_ROWS = 60
PUBLIC_SHARE, VALID_SHARE, TEST_SHARE = 0.15, 0.1, 0.15
MUCH_UNKNOWN = 0.3


@dataclass(frozen=True)
class FirstSpec:
    """A spec and where it comes from.

    Attributes:
        text: the YAML.
        task: its task.
        found: lines on what is in the file.
        guesses: lines on what was guessed, each with the option that says otherwise.
        suggestion: what to run.
    """

    text: str
    task: str
    found: tuple[str, ...]
    guesses: tuple[str, ...]
    suggestion: Suggestion


def first_spec(
    path: Path,
    given: Mapping[Role, str],
    *,
    task: str | None,
    public: tuple[Path, ...],
    names: tuple[str, str],
) -> FirstSpec:
    """A spec for a file, or for a folder that a source knows.

    Args:
        path: of it.
        given: columns that the user named, by role; "none" for none.
        task: that the user named.
        public: files of public text.
        names: of the spec's file, and of the folder of results.

    Raises:
        InputError: if the file cannot be read, or too little is in it.
    """
    origin = origin_of(path, given)
    corpus = load(origin.with_params(**_cuts(origin, 0.0)))
    if len(corpus) < LEAST_ROWS:
        raise InputError(
            f"init: {len(corpus)} rows are too few to train, test and attack anything: {LEAST_ROWS}"
            " or more are needed"
        )
    chosen = task_of(origin, corpus, task)
    origin = declared_classes(_with_users(origin, corpus, given), corpus)
    origin, corpus = _with_public(origin, public, chosen)
    most = MOST_WORDS[chosen]
    found = measure(corpus, most)
    sizes = sizes_of(found, chosen)
    if sizes.sample < 1:
        whole = f"{found.training:,} training rows"
        origin = origin.with_params(
            f"{sizes.sample:.0%} of the users are taken, for {whole} would train for long "
            "(source.sample)",
            sample=sizes.sample,
        )
        all_of_it = found
        corpus = load(origin)
        found = measure(corpus, most)
        sizes = sizes_of(all_of_it, chosen)
    suggestion = suggest(chosen, corpus, found, sizes)
    guesses = (f"{_why(chosen, task)}", *origin.guesses, *_units(found), *_unknown(found))
    guesses += tuple(f"left out: {line}" for line in suggestion.left_out)
    text = spec_text(suggestion, origin, found, *names)
    return FirstSpec(text, chosen, (*origin.found, *found.lines), guesses, suggestion)


def _why(chosen: str, asked: str | None) -> str:
    if asked is not None:
        return f"task: {chosen}, as you said"
    why = {
        "next-word": "no column is called like a label, and nothing is tagged",
        "text-classification": "there is a label for each row",
        "tagging": "words are tagged",
    }
    return f"task: {chosen}, for {why[chosen]} (--task next-word, text-classification or tagging)"


def _cuts(origin: Origin, public: float) -> dict[str, Any]:
    """Shares that are cut off where the file does not say which rows train."""
    if "split_column" in origin.params or origin.source != "text":
        return {"public_share": public} if public else {}
    return {"valid": VALID_SHARE, "test": TEST_SHARE} | ({"public_share": public} if public else {})


def _with_users(origin: Origin, corpus: Corpus, given: Mapping[Role, str]) -> Origin:
    """Without the column of users where they are too few to be cut into splits."""
    users = len({*corpus.users.tolist()})
    name = origin.params.get("user_column")
    if name is None or users >= FEW_USERS or given.get("user") == name:
        return origin
    return origin.with_params(
        f"only {users} users are in the column {name!r}: too few to hold some out, so every row "
        f"counts as a user of its own (--user {shlex.quote(name)} insists)",
        user_column=None,
    )


def _with_public(origin: Origin, public: tuple[Path, ...], task: str) -> tuple[Origin, Corpus]:
    """The origin with public text, and its corpus; the last resort is a private vocabulary."""
    if public:
        files = [str(file) for file in public]
        told = origin.with_params(**_cuts(origin, 0.0), public=files)
        return told, load(told)
    bare = origin.with_params(**_cuts(origin, 0.0))
    corpus = load(bare)
    if corpus.where("public").any():
        return bare, corpus
    shares = (PUBLIC_SHARE, 0.3)
    for share in shares:
        told = origin.with_params(
            f"no public text was given: {share:.0%} of the training users play it, drawn by hash "
            "(--public FILE gives text that anybody may see, one sentence a line)",
            **_cuts(origin, share),
        )
        try:
            return told, load(told)
        except InputError:
            continue
    said = "no public text, and no user's can be taken for it: nothing will be proven (--public)"
    return bare.with_params(said), corpus


def _units(found: Measured) -> tuple[str, ...]:
    users = found.training_users
    if users >= CROWD or users == found.training:
        return ()
    return (f"{users} users train: user-dp wants {CROWD} or more, so rows are protected (dp-sgd)",)


def _unknown(found: Measured) -> tuple[str, ...]:
    if not found.public:
        return ()
    said = f"about {found.unknown:.0%} of the training words are unknown to public text"
    more = ": more of it, or text of the same kind, helps (--public)"
    return (said + (more if found.unknown > MUCH_UNKNOWN else ""),)
