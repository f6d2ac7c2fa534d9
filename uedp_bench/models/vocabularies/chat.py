"""Rows as the conversations that a tokenizer's chat template writes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from uedp_bench.corpus import BoolArray
from uedp_bench.errors import InputError
from uedp_bench.models.vocabularies.tokenizer import TokenizerVocabulary

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
        text = f"{plain} {self._tokenizer.chat_template}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

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
