"""From a path to a spec that runs, with all that was found and guessed on the way."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.first_spec.column_roles import Role
from uedp_bench.first_spec.origins import Origin, load, origin_of
from uedp_bench.first_spec.sizes import CROWD, FEW_USERS, MOST_WORDS, Measured, measure, sizes_of
from uedp_bench.first_spec.suggestion import (
    SEEDS,
    Part,
    Suggestion,
    declared_classes,
    suggest,
    task_of,
)
from uedp_bench.io.yaml_files import load_yaml

WIDTH = 100

PARAMETERS = {
    "public_share": "the text of this share of the training users plays public text: vocabulary "
    "and pre-training come from it. Better: public: [FILE], text that anybody may see",
    "public": "text that anybody may see: vocabulary and pre-training come from it",
    "valid": "share of the users by whose rows noiseless chooses its epoch and learning rate; "
    "they train nothing, and no guarantee speaks of them",
    "test": "share of the users whom utility is measured on",
    "label_names": "the classes, declared: collected from private rows they would prove nothing",
    "entity_types": "the types, declared: collected from private rows they would prove nothing",
    "skip_blank": "rows without text (or user) are left out",
    "sample": "share of the users that are taken, for a first look; 1 takes all",
    "text_column": "what is learnt and protected",
    "user_column": "who wrote a row; all rows of a user are protected together by user-dp",
}
"""Comments on parameters of a source."""


def _block(key: str, part: Part) -> list[str]:
    comments = [line for reason in part.says for line in _comment(reason)]
    return [*comments, f"{key}: {_flow({'name': part.name, 'params': dict(part.params)})}"]


def _item(part: Part) -> list[str]:
    out = [line for reason in part.says for line in _comment(reason, 2)]
    if not part.before:
        return [*out, *_folded(part.name, part.params)]
    for at, each in enumerate((*part.before, part)):  # mechanisms that act one after the other
        lines = [f"  {line}" for line in _folded(each.name, each.params)]
        out += lines if at else [f"  - {lines[0].lstrip()}", *lines[1:]]
    return out


def _folded(name: str, params: Mapping[str, Any]) -> list[str]:
    if not params:
        return [f"  - {name}"]
    head, rest = f"  - name: {name}", "    params: "
    wrapped = textwrap.wrap(
        _flow(dict(params)), WIDTH - len(rest), break_long_words=False, break_on_hyphens=False
    )
    return [
        head,
        f"{rest}{wrapped[0]}",
        *(f"{' ' * (len(rest) + 1)}{line}" for line in wrapped[1:]),
    ]


def _comment(text: str, indent: int = 0) -> list[str]:
    before = f"{' ' * indent}# "
    return [f"{before}{line}" for line in textwrap.wrap(
        text, WIDTH - len(before), break_long_words=False, break_on_hyphens=False)]  # fmt: skip


def _flow(value: Any) -> str:
    """A value on one line."""
    dumped = yaml.safe_dump(
        value, default_flow_style=True, width=10**9, allow_unicode=True, sort_keys=False
    )
    return str(dumped).removesuffix("...\n").strip()


LEAST_ROWS = 60
PUBLIC_SHARE, VALID_SHARE, TEST_SHARE = 0.15, 0.1, 0.15
MUCH_UNKNOWN = 0.3


@dataclass(frozen=True)
class FirstSpec:
    """A spec and where it comes from.

    Attributes:
        facts: lines about the file.
        guesses: lines about guesses, each with the option that overrides it.
        suggestion: parts of the spec.
        origin: origin of the rows.
        measured: measurements of the rows.
    """

    facts: tuple[str, ...]
    guesses: tuple[str, ...]
    suggestion: Suggestion
    origin: Origin
    measured: Measured

    def text(self, names: tuple[str, str], by: str = "init") -> str:
        """The YAML.

        Args:
            names: names of the spec's file, and of the folder of results.
            by: command that writes it.
        """
        suggestion, origin = self.suggestion, self.origin
        command = "#   uedp-bench run {} --out {}".format(*map(shlex.quote, names))
        about = f"{self.measured.units}, {self.measured.words[0]:.0f} words a row."
        where = str(origin.params.get("path", origin.source))
        lines = [
            *_comment(f"Written by: uedp-bench {by}. {about} Change what you like; then"),
            f"{command} --dry-run    what would happen, and how long",
            command,
            *_comment("'uedp-bench describe NAME' lists the parameters of every component here."),
            f"description: {_flow(f'First run on {where}')}",
            *_block("task", suggestion.task),
            "source:",
            f"  name: {origin.source}",
            "  params:",
        ]
        for name, value in origin.params.items():
            lines += [*_comment(PARAMETERS.get(name, ""), 4), f"    {name}: {_flow(value)}"]
        lines += [*_block("model", suggestion.model), "mechanisms:  # each is a row of the table"]
        for part in suggestion.mechanisms:
            lines += _item(part)
        for reason in suggestion.left_out:
            lines += _comment(f"left out: {reason}", 2)
        lines += ["attacks: []"] if not suggestion.attacks else ["attacks:"]
        for part in suggestion.attacks:
            lines += _item(part)
        lines += [
            *_comment("each seed is another run; the table has means and intervals"),
            f"seeds: {list(SEEDS)}",
            *_comment("delta of every guarantee; smaller than one in the number of users"),
            f"delta: {suggestion.delta:.1e}",
        ]
        text = "\n".join(lines) + "\n"
        load_yaml(text)  # what is written can be read
        return text


def first_spec(
    path: Path,
    named: Mapping[Role, str],
    *,
    task: str | None,
    public: tuple[Path, ...],
    epsilons: Sequence[float],
    effort: float = 1.0,
    layout: Mapping[str, str] = MappingProxyType({}),
) -> FirstSpec:
    """Suggest a spec for a file, or for a folder that a source knows.

    Args:
        path: path of the file or folder.
        named: columns that the user named, by role; "none" for none.
        task: task that the user named.
        public: files of public text.
        epsilons: epsilons of each private mechanism, one row each.
        effort: factor of the tokens that one training looks at.
        layout: delimiter and quoting that the user named.

    Raises:
        InputError: if the file cannot be read, or too little is in it.
    """
    origin = origin_of(path, named, layout)
    # Without cuts: users who are too few to be cut are no users.
    corpus = load(origin.with_params(**dict.fromkeys(_cuts(origin, 0.0), 0.0)))
    if len(corpus) < LEAST_ROWS:
        left = " with text and user" if "user_column" in origin.params else " with text"
        raise InputError(
            f"init: {len(corpus)} rows{left if 'skip_blank' in origin.params else ''} are too few "
            f"to train, test and attack anything: {LEAST_ROWS} or more are needed"
        )
    chosen = task_of(origin, corpus, task)
    origin = declared_classes(_with_users(origin, corpus, named), corpus)
    origin, corpus = _with_public(origin, public, chosen)
    most = MOST_WORDS[chosen]
    measured = measure(corpus, most)
    sizes = sizes_of(measured, chosen, effort)
    if sizes.sample < 1:
        whole = f"{measured.training:,} training rows"
        origin = origin.with_params(
            f"{100 * sizes.sample:.0f} % of the users are taken, for {whole} would train for long "
            "(source.sample)",
            sample=sizes.sample,
        )
        corpus = load(origin)
        measured = measure(corpus, most)
    suggestion = suggest(chosen, corpus, measured, sizes, epsilons)
    guesses = (f"{_why(chosen, task)}", *origin.guesses, *_units(measured), *_unknown(measured))
    guesses += tuple(f"left out: {line}" for line in suggestion.left_out)
    facts = (*origin.facts, *measured.lines)
    return FirstSpec(facts, guesses, suggestion, origin, measured)


def _why(chosen: str, wanted: str | None) -> str:
    if wanted is not None:
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


def _with_users(origin: Origin, corpus: Corpus, named: Mapping[Role, str]) -> Origin:
    """Drop the column of users where they are too few to be cut into splits."""
    users = len({*corpus.users.tolist()})
    name = origin.params.get("user_column")
    if name is None or users >= FEW_USERS or named.get("user") == name:
        return origin
    why = (
        f"every row counts as a user of its own: only {users} users are in the column {name!r}, "
        f"too few to hold some out (--user {shlex.quote(name)} insists)"
    )
    lines = (why if line == origin.user_guess else line for line in origin.guesses)
    return replace(origin.with_params(user_column=None), guesses=tuple(lines))


def _with_public(origin: Origin, public: tuple[Path, ...], task: str) -> tuple[Origin, Corpus]:
    """The origin with public text, and its corpus; the last resort is a private vocabulary."""
    if public:
        files = [str(file) for file in public]
        with_public = origin.with_params(**_cuts(origin, 0.0), public=files)
        return with_public, load(with_public)
    bare = origin.with_params(**_cuts(origin, 0.0))
    corpus = load(bare)
    if corpus.where("public").any():
        return bare, corpus
    for share in (PUBLIC_SHARE, 0.3):
        with_public = origin.with_params(
            f"no public text was given: {100 * share:.0f} % of the training users play it, drawn "
            "by hash (--public FILE gives text that anybody may see, one sentence a line)",
            **_cuts(origin, share),
        )
        try:
            return with_public, load(with_public)
        except InputError:
            continue
    guess = "no public text, and no user's can be taken for it: nothing will be proven (--public)"
    return bare.with_params(guess), corpus


def _units(measured: Measured) -> tuple[str, ...]:
    users = measured.training_users
    if users >= CROWD or users == measured.training:
        return ()
    return (f"{users} users train: user-dp wants {CROWD} or more, so rows are protected (dp-sgd)",)


def _unknown(measured: Measured) -> tuple[str, ...]:
    if not measured.public:
        return ()
    fact = f"about {100 * measured.unknown:.0f} % of the training words are unknown to public text"
    more = ": more of it, or text of the same kind, helps (--public)"
    return (fact + (more if measured.unknown > MUCH_UNKNOWN else ""),)
