"""Files, tests and names of code that the page of proofs relies on exist."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import pytest
from examples import ROOT

TEXT = (ROOT / "docs" / "proofs.md").read_text("utf-8")
PACKAGES = ("uedp_bench", "mechanisms", "attacks", "tasks", "leaderboard")
DEFINITIONS = {"1", "2"}


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def sections(text: str) -> dict[str, str]:
    """Numbered sections by number."""
    parts = re.split(r"^## (\d+) .*$", text.partition("## What no theorem")[0], flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def missing_files(text: str) -> list[str]:
    """Paths of the repository that do not exist, and file names that stand for none or several."""
    paths = [name for name in quoted(text) if re.fullmatch(r"[\w./-]+/[\w./-]*", name)]
    bare = [name for name in quoted(text) if re.fullmatch(r"\w+\.py", name)]
    return [
        *(path for path in paths if not (ROOT / path).exists()),
        *(name for name in bare if len(list((ROOT / "tests").rglob(name))) != 1),
    ]


def defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def members(owners: set[str]) -> dict[str, set[str]]:
    """Names that these modules, folders and classes have, by their own last name."""
    names: defaultdict[str, set[str]] = defaultdict(set)
    classes = re.compile(rf"^ *class ({'|'.join(owners)})\b", re.MULTILINE)
    for folder in PACKAGES:
        for file in (ROOT / folder).rglob("*.py"):
            names[file.parent.name].add(file.stem)
            code = file.read_text("utf-8")
            if file.stem not in owners and not classes.search(code):
                continue
            tree = ast.parse(code)
            names[file.stem] |= {*defined(tree.body)}
            for node in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
                names[node.name] |= {*defined(node.body)}
    return names


def missing_names(text: str) -> list[str]:
    """Dotted names whose owner has no such member."""
    dotted = [
        (name, *name.split(".")[-2:])
        for name in quoted(text)
        if re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", name)
        if not name.endswith((".py", ".json")) and not name.startswith("uedp_bench.")
    ]
    by_owner = members({owner for _, owner, _ in dotted})
    return [name for name, owner, member in dotted if member not in by_owner.get(owner, ())]


def test_files_and_names_of_proofs_exist():
    assert missing_files(TEXT) == []
    assert missing_names(TEXT) == []


def test_a_file_or_name_that_is_gone_is_reported():
    text = "`tests/no/test_x.py` `test_x.py` `users.capped_weight` `ledger.check_plan`"
    assert missing_files(text) == ["tests/no/test_x.py", "test_x.py"]
    assert missing_names(text) == ["users.capped_weight"]


@pytest.mark.parametrize("number", sorted(set(sections(TEXT)) - DEFINITIONS, key=int))
def test_every_section_names_its_code_and_its_tests(number):
    paths = [name for name in quoted(sections(TEXT)[number]) if "/" in name]
    assert any(path.startswith((*PACKAGES, "benchmarks")) for path in paths)
    assert any(path.startswith("tests/") for path in paths)


def test_every_theorem_has_a_proof():
    for number, text in sections(TEXT).items():
        statements = len(re.findall(r"^\*\*(?:Theorem|Lemma|Corollary)", text, re.M))
        assert len(re.findall(r"^\*Proof\.\*", text, re.M)) >= statements, number
        assert text.count("∎") >= statements, number
