"""A suggestion as YAML with comments that teach."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Mapping
from typing import Any

import yaml

from uedp_bench.files.yaml_files import load_yaml
from uedp_bench.own_data.measured import Measured
from uedp_bench.own_data.origins import Origin
from uedp_bench.own_data.suggestion import SEEDS, Part, Suggestion

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
    "user_column_left_out": "",
}
"""What comments say of parameters of a source."""


def spec_text(suggestion: Suggestion, origin: Origin, found: Measured, file: str, out: str) -> str:
    """The spec as text.

    Args:
        suggestion: what to run.
        origin: of the rows.
        found: measured on them.
        file: name of the spec, for its commands.
        out: folder of its results.
    """
    quoted, folder = shlex.quote(file), shlex.quote(out)
    about = f"{found.rows:,} rows of {found.users:,} users, {found.words[0]:.0f} words a row."
    where = str(origin.params.get("path", origin.source))
    lines = [
        *_comment(f"Written by: uedp-bench init. {about} Change what you like; then"),
        f"#   uedp-bench run {quoted} --out {folder} --dry-run    what would happen, and how long",
        f"#   uedp-bench run {quoted} --out {folder}",
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
    for said in suggestion.left_out:
        lines += _comment(f"left out: {said}", 2)
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


def _block(key: str, part: Part) -> list[str]:
    said = [line for says in part.says for line in _comment(says)]
    return [*said, f"{key}: {_flow({'name': part.name, 'params': dict(part.params)})}"]


def _item(part: Part) -> list[str]:
    said = [line for says in part.says for line in _comment(says, 2)]
    if part.before:
        return [*said, *_composed(part)]
    if not part.params:
        return [*said, f"  - {part.name}"]
    return [*said, *_folded(part.name, part.params)]


def _composed(part: Part) -> list[str]:
    """Mechanisms that act one after the other."""
    out = []
    for at, each in enumerate((*part.before, part)):
        lines = _folded(each.name, each.params) if each.params else [f"  - {each.name}"]
        lines = [f"  {line}" for line in lines]
        out += lines if at else [f"  - {lines[0].lstrip()}", *lines[1:]]
    return out


def _folded(name: str, params: Mapping[str, Any]) -> list[str]:
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
