"""Vocabularies of word pieces: tokenizers of `transformers`, trained WordPiece, and chats."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from uedp_bench.corpus import BoolArray
from uedp_bench.errors import InputError

_END_OF_TEXT = "<|endoftext|>"


def words_of_bytes(texts: Sequence[str]) -> list[list[str]]:
    """Words of each text before bytes of them are joined: with the space that stands before them.

    Args:
        texts: already preprocessed.
    """
    from tokenizers import pre_tokenizers

    split = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    return [[text[start:end] for _, (start, end) in split(text)] for text in texts]


class TokenizerVocabulary:
    """A sub-word tokenizer of the `transformers` library.

    Args:
        tokenizer: a `PreTrainedTokenizerBase` with a begin or an end token; where one of the two
            is missing, the other stands for both, as in GPT-2. Tokenizers with neither, as BERT's,
            begin with their classification token and end with their separator.
        origin: origin in words.
        private: True if it was trained on private text.
        size: ids that the network knows, where those are more than the tokenizer's.

    Attributes:
        mask, special: see `MaskedVocabulary`; -1 where there is no mask.

    Raises:
        InputError: if the tokenizer has neither a begin nor an end token.
    """

    def __init__(
        self, tokenizer: Any, *, origin: str, private: bool = False, size: int | None = None
    ) -> None:
        self._tokenizer = tokenizer
        self.origin, self.private = origin, private
        self.size = max(len(tokenizer), size or 0)
        pairs = (
            (tokenizer.bos_token_id, tokenizer.eos_token_id),
            (tokenizer.cls_token_id, tokenizer.sep_token_id),
        )
        ids = next(
            (defined for pair in pairs if (defined := [i for i in pair if i is not None])), []
        )
        if not ids:
            raise InputError(f"the tokenizer ({origin}) has neither a begin nor an end token")
        self.begin: int = ids[0]
        self.end: int = ids[-1]
        self.unknown: int | None = tokenizer.unk_token_id
        if self.unknown in ids:  # GPT-2 names its end-of-text token here; byte level never needs it
            self.unknown = None
        self.mask: int = -1 if tokenizer.mask_token_id is None else tokenizer.mask_token_id
        self.special: tuple[int, ...] = tuple(tokenizer.all_special_ids)
        self._literal = False

    @staticmethod
    def train(
        texts: Sequence[str], size: int, *, origin: str, private: bool = False
    ) -> TokenizerVocabulary:
        """Byte-level byte-pair encoding, as in GPT-2 (Radford et al. 2019, section 2.2).

        Args:
            texts: already preprocessed.
            size: largest number of ids; the 256 bytes and one end-of-text token are among them.
            origin: see the class.
            private: see the class.
        """
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
        from transformers import PreTrainedTokenizerFast

        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=[_END_OF_TEXT],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(texts, trainer)
        wrapped = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer, bos_token=_END_OF_TEXT, eos_token=_END_OF_TEXT
        )
        return TokenizerVocabulary(wrapped, origin=origin, private=private)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the tokenizer's whole definition, or of its ids where it has none to print."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        definition = (
            json.dumps(sorted(self._tokenizer.get_vocab().items()))
            if backend is None
            else json.dumps(
                # Padding and truncation are a caller's state, not the tokenizer's definition.
                {**json.loads(backend.to_str()), "padding": None, "truncation": None},
                sort_keys=True,
            )
        )
        return hashlib.sha256(f"{self.begin} {self.end} {definition}".encode()).hexdigest()[:16]

    def literal(self) -> TokenizerVocabulary:
        """Copy for texts of which no word is a special token.

        "[MASK]" or "[PAD]" in a text are brackets and letters then; `encode` of any other
        vocabulary reads the mask and the padding.
        """
        literal = copy(self)
        literal._literal = True
        return literal

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without begin and end."""
        if not texts:
            return []
        encoded = self._tokenizer(
            list(texts), add_special_tokens=False, split_special_tokens=self._literal, verbose=False
        )
        return [list(ids) for ids in encoded["input_ids"]]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of ids; begin and end are left out."""
        kept = [int(i) for i in tokens if i not in (self.begin, self.end)]
        return str(self._tokenizer.decode(kept, clean_up_tokenization_spaces=False))

    def save(self, folder: Path) -> None:
        """Write the tokenizer in the format of `transformers`, and `vocabulary.json`."""
        folder.mkdir(parents=True, exist_ok=True)
        self._tokenizer.save_pretrained(folder)
        content = {"origin": self.origin, "private": self.private, "size": self.size}
        (folder / "vocabulary.json").write_text(json.dumps(content), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, **options: Any) -> Self:
        """Read what `save` wrote; options are further arguments of the class."""
        from transformers import AutoTokenizer

        content = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return cls(tokenizer, **content, **options)


_SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_INSIDE = "##"


def train_wordpiece(texts: Sequence[str], size: int) -> Any:
    """An uncased WordPiece tokenizer (Devlin et al. 2019, section 3) of `transformers`.

    Args:
        texts: already preprocessed.
        size: largest number of ids, the five special ones included. At most a quarter of them are
            characters, the most frequent ones, and as many the same characters inside words.
    """
    from tokenizers import models, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = _pipeline(models.WordPiece(unk_token=_SPECIALS["unk_token"]))
    characters, inside = _alphabet(tokenizer, texts, size // 4)
    # The trainer numbers pieces inside words in the order of a hash table, and breaks ties by these
    # numbers. It numbers special tokens as they are given, so they are given to it as such ones.
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=[*_SPECIALS.values(), *inside],
        initial_alphabet=characters,
        limit_alphabet=len(characters),
        continuing_subword_prefix=_INSIDE,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids = tokenizer.get_vocab()
    trained = _pipeline(models.WordPiece(vocab=ids, unk_token=_SPECIALS["unk_token"]))
    ends = (_SPECIALS["sep_token"], _SPECIALS["cls_token"])
    trained.post_processor = processors.BertProcessing(*((end, ids[end]) for end in ends))
    return PreTrainedTokenizerFast(tokenizer_object=trained, **_SPECIALS)


def words_of_bert(texts: Sequence[str]) -> list[list[str]]:
    """Words of each text before they are cut into pieces: in lower case, signs apart."""
    from tokenizers import models

    tokenizer = _pipeline(models.WordPiece(unk_token=_SPECIALS["unk_token"]))
    clean, split = tokenizer.normalizer.normalize_str, tokenizer.pre_tokenizer.pre_tokenize_str
    return [[word for word, _ in split(clean(text))] for text in texts]


def _pipeline(model: Any) -> Any:
    """BERT's normalisation and splitting around a model of pieces."""
    from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers

    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def _alphabet(tokenizer: Any, texts: Sequence[str], most: int) -> tuple[list[str], list[str]]:
    """The most frequent characters, and pieces inside words of those that do not stand alone."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokenizer.normalizer.normalize_str(text))
    split = tokenizer.pre_tokenizer.pre_tokenize_str
    ranked = sorted(counts, key=lambda c: (-counts[c], c))
    characters = [c for c in ranked if not c.isspace()][:most]
    return characters, [_INSIDE + c for c in characters if len(split(f"a{c}")) == 1]


Message = dict[str, str]

_FORMAT = "checkpoint.format is 'chat'"


class ChatVocabulary(TokenizerVocabulary):
    """A tokenizer whose rows are conversations.

    A text is a JSON list of messages with `role` and `content`; any other text is the answer to an
    empty message. The template writes the tokens that begin and end a row, so none is added. What
    stands after its last special token (a line break) is left out.

    Args:
        tokenizer: tokenizer with a chat template.
        answer_only: count the tokens of answers alone.
        options: further arguments of `TokenizerVocabulary`.

    Raises:
        InputError: if there is no template, it ends no message with a special token, or it does not
            mark answers that are to be counted.
    """

    def __init__(self, tokenizer: Any, *, answer_only: bool = False, **options: Any) -> None:
        super().__init__(tokenizer, **options)
        self._answer_only = answer_only
        added = tokenizer.added_tokens_decoder.items()
        self._special = {*self.special, *(number for number, token in added if token.special)}
        if not tokenizer.chat_template:
            raise InputError(
                f"{_FORMAT}: the tokenizer ({self.origin}) has no chat template; allowed is 'plain'"
            )
        ids, answers = self._row("a")
        self.begin, self.end = ids[0], ids[-1]
        if answer_only and not any(answers):
            raise InputError(
                "checkpoint.answer_only is true: the chat template of the tokenizer "
                f"({self.origin}) does not mark answers by {{% generation %}}"
            )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of tokenizer and template."""
        plain = TokenizerVocabulary(self._tokenizer, origin=self.origin).fingerprint
        return hashlib.sha256(f"{plain} {self._tokenizer.chat_template}".encode()).hexdigest()[:16]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each conversation, without the first and the last.

        Raises:
            InputError: if the template refuses a conversation, or begins or ends it otherwise.
        """
        return [self._row(text, number)[0][1:-1] for number, text in enumerate(texts)]

    def counted(self, texts: Sequence[str]) -> list[BoolArray] | None:
        """(targets,) of each text: True where a token belongs to an answer; None if all count.

        Raises:
            InputError: if a conversation has no answer.
        """
        if not self._answer_only:
            return None
        rows = [np.array(self._row(text, at)[1][1:], dtype=bool) for at, text in enumerate(texts)]
        for number, row in enumerate(rows):
            if not row.any():
                raise InputError(
                    "checkpoint.answer_only is true: the answers of the conversation of text "
                    f"{number} have no token"
                )
        return rows

    def _row(self, text: str, number: int | None = None) -> tuple[list[int], list[int]]:
        """Ids of a conversation and marks of its answers, up to its last special token."""
        row = "an example" if number is None else f"text {number}"
        try:
            out = self._tokenizer.apply_chat_template(
                _messages(text), tokenize=True, return_dict=True,
                return_assistant_tokens_mask=self._answer_only,
            )  # fmt: skip
        except Exception as error:  # templates are code of their authors
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InputError(f"{_FORMAT}: the chat template refuses {row}: {reason}") from error
        ids = list(out["input_ids"])
        stop = max((at + 1 for at, each in enumerate(ids) if each in self._special), default=0)
        ids, marks = ids[:stop], list(out.get("assistant_masks", ids))[:stop]
        if len(ids) < 2 or (number is not None and (ids[0], ids[-1]) != (self.begin, self.end)):
            raise InputError(
                f"{_FORMAT}: the chat template does not begin and end {row} with the tokens of all "
                "conversations"
            )
        return ids, marks


def _messages(text: str) -> list[Message]:
    """The messages of a text."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, list) and content and all(map(_is_message, content)):
        return content
    return [{"role": "user", "content": ""}, {"role": "assistant", "content": text}]


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(k), str) for k in ("role", "content")
    )
