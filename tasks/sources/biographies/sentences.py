"""Sentences of the pages of `wiki-biographies`, with what people would mark in them.

A template is words between single spaces, with places in braces. `{X}` is the value that is told;
other places are filled with what nobody marks.
"""

from __future__ import annotations

from collections.abc import Mapping

Mark = tuple[int, int, str]
"""Start and end of the characters that are marked, and the tag."""

TOLD: Mapping[str, tuple[str, ...]] = {
    "BD": (
        "{subject} ( born {X} ) is a retired {work} .",
        "{subject} was born on {X} in {place} .",
        "{He} was born in {place} on {X} , the youngest of the family .",
        "According to the parish register {he} was born on {X} .",
        "Born on {X} , {he} grew up in {place} .",
        "{His} birthday , {X} , is printed on the cover of the book .",
    ),
    "PR": (
        "{His} parents came from {place} ; {X} worked there as a {work} .",
        "{He} is the child of {X} , a {work} from {place} .",
        "{X} raised {him} alone after {year} .",
        "{He} learnt the trade from {X} , in whose house {he} grew up .",
        "{He} was brought up in {place} by {X} and a grandmother .",
        "In {year} {he} lost {X} , to whom the first book is dedicated as a parent .",
    ),
    "SP": (
        "In {year} {he} married {X} in {place} .",
        "{He} has been married to {X} since {year} .",
        "{He} and {X} divorced in {year} .",
        "{He} met {X} , a {work} , at a wedding , and they married in {year} .",
        "{X} and {he} have lived in {place} since the wedding .",
        "After the wedding with {X} the couple moved to {place} .",
    ),
    "CH": (
        "{His} eldest child , {X} , is a {work} in {place} .",
        "{X} was born to the couple in {year} .",
        "{He} adopted {X} in {year} .",
        "{He} wrote the lullaby for {X} , then two weeks old .",
        "{He} is the parent of {X} , who became a {work} .",
        "{His} child {X} studied in {place} from {year} .",
    ),
    "ED": (
        "{He} studied at {X} until {year} .",
        "{He} graduated from {X} in {year} .",
        "{He} holds a degree from {X} .",
        "{He} was a pupil of {X} , where {he} also rowed .",
        "At {X} {he} read law for three years .",
        "{He} left {X} without a degree in {year} .",
    ),
}
"""Sentences that tell a value of the subject, by tag."""

PLAIN: tuple[str, ...] = (
    "{He} moved to {place} in {year} and opened a shop .",
    "{He} won the award of the city of {place} in {year} .",
    "The second book was printed in {place} in {year} .",
    "{He} worked as a {work} for eleven years .",
    "In {year} {he} joined the orchestra of {place} .",
    "{He} retired in {year} after an injury .",
    "Critics praised the film , which was shot in {place} .",
    "{His} collection was sold in {year} .",
)
"""Sentences that tell nothing of the register."""

AMBIGUOUS: Mapping[str, tuple[str, ...]] = {
    "subject": (
        "{Y} moved to {place} in {year} and opened a shop .",
        "In {year} {Y} joined the orchestra of {place} .",
        "The jury gave {Y} the award of the city in {year} .",
        "{Y} worked as a {work} for eleven years .",
    ),
    "CH": (
        "{He} moved to {Y} in {year} and opened a shop .",
        "The second book was printed in {Y} in {year} .",
        "{He} played the part of {Y} in a film of {year} .",
        "In {year} {he} joined the orchestra of {Y} .",
    ),
}
"""Sentences in which `{Y}` looks like a value and is something else: the family name is the
subject's own, a child's first name a town or a part in a film."""

OTHERS: Mapping[str, tuple[str, ...]] = {
    "ED": (
        "{bystander} , a lecturer at {Y} , reviewed the book in {year} .",
        "The letters are kept at {Y} since {year} .",
        "{bystander} , who taught at {Y} , wrote the preface .",
    ),
    "BD": (
        "{bystander} was born in {place} on {Y} as well .",
        "The bridge of {place} was opened on {Y} , long before the war .",
    ),
    "SP": (
        "{He} worked for the {Y} family , bankers in {place} .",
        "The {Y} brothers , no relatives , hired {him} in {year} .",
    ),
}
"""Sentences in which `{Y}` is a value of the subject, and is said of somebody else."""

WORK: tuple[str, ...] = (
    "painter", "surgeon", "goalkeeper", "cellist", "judge", "teacher", "chemist", "novelist",
    "carpenter", "senator", "engineer", "actor", "farmer", "printer", "sailor", "singer",
)  # fmt: skip


def fill(template: str, words: Mapping[str, str], mark: str = "") -> tuple[str, tuple[int, int]]:
    """The text of a template, and where `{X}` stands in it, or the part of it that is `mark`.

    Args:
        template: of this module.
        words: what its places are filled with.
        mark: what people mark of `words["X"]`, by default all of it.

    Returns:
        The text and (start, end), which is (0, 0) where the template has no `{X}`.
    """
    before, there, _ = template.partition("{X}")
    text = template.format_map(words)
    if not there:
        return text, (0, 0)
    told = mark or words["X"]
    start = len(before.format_map(words)) + words["X"].index(told)
    return text, (start, start + len(told))
