"""Where a task's vocabulary comes from: the public split, the training split, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.tasks.tokens.rows import Preprocessing, prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uedp_bench.corpus import Corpus
    from uedp_bench.model import TextModel, Vocabulary
    from uedp_bench.word_counts import WordCounts

WORDS = ("public", "private")
"""Values of the parameter `vocabulary` that are no file."""

DESCRIPTION = (
    "where the vocabulary comes from: 'public' (the corpus' public split), 'private' (its training "
    "split: every proven epsilon is then infinite), or the path of a file of public text (plain or "
    "gzipped, one sentence a line)"
)


def words_of(model: TextModel[Any], texts: Sequence[str], how: Preprocessing) -> list[list[str]]:
    """Words of each text as a model reads them, for a mechanism that chooses among them.

    Raises:
        CapabilityError: if the model brings its vocabulary, or has none.
    """
    if model.frozen() or model.brings_vocabulary():
        raise CapabilityError(
            f"the model {model.name} brings its own vocabulary, and a mechanism would choose "
            "another: leave the vocabulary mechanism out, or train the model from scratch"
        )
    return model.words(prepare(texts, how))


def make_vocabulary(
    model: TextModel[Any],
    where: str,
    corpus: Corpus,
    how: Preprocessing,
    words: WordCounts | None = None,
) -> Vocabulary:
    """The vocabulary of a model; a pretrained one brings its own, whatever `where` says.

    Args:
        model: whose vocabulary it is.
        where: the parameter `vocabulary`.
        corpus: its splits public and train.
        how: texts are preprocessed.
        words: that a vocabulary mechanism chose of `words_of`: made from them alone.

    Raises:
        InputError: if there is no public text and it is asked for, the file cannot be read, or a
            mechanism chose the words and `where` is not its default.
    """
    if words is not None:
        if where != WORDS[0]:
            raise InputError(
                f"task.vocabulary is {where!r}, and a mechanism chooses the vocabulary: leave one "
                "of the two out"
            )
        return model.vocabulary(words.texts(), origin=words.origin, private=False)
    if model.brings_vocabulary():
        return model.vocabulary((), origin="the pretrained model", private=False)
    private = where == "private"
    if where in WORDS:
        texts = list(corpus.only("train" if private else "public").texts)
        origin = f"{'train' if private else 'public'} split"
        if not texts and not private:
            raise InputError(
                "task.vocabulary is 'public', but the corpus has no public text: give "
                "source.public files, say source.valid_is_public=true where the split valid is "
                "public, or task.vocabulary a file of public text"
            )
    else:
        texts, origin = _read_lines(Path(where)), f"file {Path(where).name}"
    return model.vocabulary(prepare(texts, how), origin=origin, private=private)


def _read_lines(path: Path) -> list[str]:
    from uedp_bench.files.text_files import open_text

    with open_text(path, "task.vocabulary") as lines:
        texts = [" ".join(line.split()) for line in lines if line.strip()]
    if not texts:
        raise InputError(f"task.vocabulary: {path} holds no sentence")
    return texts
