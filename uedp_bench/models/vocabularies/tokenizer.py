"""A vocabulary of word pieces: a tokenizer of the `transformers` library."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Self

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
        text = f"{self.begin} {self.end} {definition}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

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
