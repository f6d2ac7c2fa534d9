"""Packages beyond the base installation that components need at some of their parameters."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uedp_bench.errors import MissingExtraError, Problems

if TYPE_CHECKING:
    from uedp_bench.components.component import Component


@dataclass(frozen=True)
class Requirement:
    """A package that a component needs.

    Attributes:
        module: module that is imported.
        use: the package and its use ("peft (lora_rank)"), for messages.
        install: command that installs it.
    """

    module: str
    use: str
    install: str

    def is_installed(self) -> bool:
        """True if the module can be imported; it is not imported for that."""
        try:
            return importlib.util.find_spec(self.module) is not None
        except ValueError:  # a module that somebody made without a spec
            return True

    def check(self, owner: str = "") -> None:
        """Refuse to go on without the package.

        Args:
            owner: component that needs it, for the message.

        Raises:
            MissingExtraError: with the command that installs it.
        """
        if not self.is_installed():
            raise MissingExtraError(f"{owner}: {self.use}" if owner else self.use, self.install)


def of_extra(module: str, use: str, extra: str) -> Requirement:
    """Requirement of a package that an extra of this package installs."""
    return Requirement(module, use, f"pip install 'uedp-bench[{extra}]'")


DATASETS = of_extra("datasets", "datasets", "hub")
FAISS = of_extra("faiss", "faiss, which has approximate indexes (search=hnsw),", "approximate")
GENSIM = of_extra("gensim", "gensim, which reads .kv, .model and .bin,", "embeddings")
PEFT = of_extra("peft", "peft (lora_rank)", "lora")
PRESIDIO = (
    of_extra("presidio_analyzer", "presidio-analyzer (finds entities)", "ner"),
    of_extra("tldextract", "tldextract (finds addresses)", "ner"),
)
SACREBLEU = of_extra("sacrebleu", "sacrebleu (BLEU and chrF)", "translation")
SENTENCEPIECE = of_extra("sentencepiece", "sentencepiece (reads Marian's pieces)", "translation")


def of_detector(detector: str, pipeline: str | None) -> tuple[Requirement, ...]:
    """Requirements of a detector of entities.

    Args:
        detector: "spacy", "presidio", or another that needs nothing.
        pipeline: name of an installed spaCy pipeline, or a folder; None for none.
    """
    if detector not in ("spacy", "presidio"):
        return ()
    needs = PRESIDIO if detector == "presidio" else ()
    if pipeline is None or not pipeline.isidentifier():  # a folder
        return needs
    return (*needs, of_pipeline(pipeline))


def of_pipeline(name: str) -> Requirement:
    """Requirement of a spaCy pipeline that is installed as a package."""
    return Requirement(name, f"the spaCy pipeline {name}", f"python -m spacy download {name}")


def of_embedding(embedding: str | None) -> tuple[Requirement, ...]:
    """Requirements of a file of word vectors, a folder, or `spacy:NAME`; None needs nothing."""
    if embedding is None:
        return ()
    if embedding.startswith("spacy:"):
        return (of_pipeline(embedding.removeprefix("spacy:")),)
    return (GENSIM,) if embedding.endswith((".kv", ".model", ".bin")) else ()


def check_requirements(components: Iterable[Component[Any]]) -> None:
    """Refuse components whose packages are missing, before data are read.

    Raises:
        MissingExtraError: naming the component and the command that installs the package.
        SeveralInputError: if there are several.
    """
    problems = Problems()
    for component in components:
        for requirement in component.requires():
            with problems.collect():
                requirement.check(component.name)
    problems.check()
