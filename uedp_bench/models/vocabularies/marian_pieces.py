"""The vocabulary of a Marian model: each language has pieces of its own, and ids are shared."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uedp_bench.models.vocabularies.tokenizer import TokenizerVocabulary


class MarianPieces(TokenizerVocabulary):
    """A `MarianTokenizer` with an id for each tag; see `PairVocabulary`.

    Args:
        tokenizer: of `transformers`; tags that it does not know are added after its own ids.
        tags: words that are one id each, and in no translation.
        start: id that the decoder begins with (Marian's padding).
        origin: where it comes from, in words.
    """

    def __init__(self, tokenizer: Any, tags: Sequence[str], start: int, *, origin: str) -> None:
        tokenizer.add_tokens([*tags], special_tokens=True)
        super().__init__(tokenizer, origin=origin)
        self.start = start
        ids = tokenizer.convert_tokens_to_ids([*tags])
        self.never: tuple[int, ...] = (*{start, tokenizer.pad_token_id}, *ids)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """See `PairVocabulary`."""
        if not texts:
            return []
        found = self._tokenizer(text_target=list(texts), add_special_tokens=False, verbose=False)[
            "input_ids"
        ]
        return [list(ids) for ids in found]

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of ids of a translation, without start, end and tags."""
        kept = [int(i) for i in tokens if i not in (self.start, self.end)]
        return str(self._tokenizer.decode(kept, skip_special_tokens=True)).strip()

    def save(self, folder: Path) -> None:
        """Writes the tokenizer, and `vocabulary.json`."""
        super().save(folder)
        file = folder / "vocabulary.json"
        content = json.loads(file.read_text(encoding="utf-8")) | {"start": self.start}
        file.write_text(json.dumps(content), encoding="utf-8")

    @staticmethod
    def read(folder: Path, tags: Sequence[str]) -> MarianPieces:
        """What `save` wrote, with the same tags."""
        from transformers import MarianTokenizer

        content = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        tokenizer = MarianTokenizer.from_pretrained(folder, local_files_only=True)
        return MarianPieces(tokenizer, tags, content["start"], origin=content["origin"])
