"""Tiny models that plain `transformers` code trains and saves, as somebody elsewhere would."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

WORDS = (*(f"{a}{b}" for a in ("ba", "ko", "mi", "ru", "te", "zo") for b in "lmnprst"), "the", "of")
SIZES = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2,
         "intermediate_size": 64, "max_position_embeddings": 64}  # fmt: skip


def sentences(count: int, seed: int, words: int = 7) -> list[str]:
    """Random sentences: nothing tells two sets of them apart but who trained on them."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, words)) for _ in range(count)]


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """A csv file of rows."""
    every = list(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(every[0]))
        writer.writeheader()
        writer.writerows(every)
    return path


def tokenizer(*, pairs: bool, words: Sequence[str] = WORDS) -> Any:
    """A word-level tokenizer: of BERT's kind, with special tokens around a text, or of GPT-2's."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if pairs else ("[UNK]", "<end>")
    ids = {word: at for at, word in enumerate((*special, *words))}
    word_level = Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    word_level.pre_tokenizer = pre_tokenizers.Whitespace()
    if not pairs:
        return PreTrainedTokenizerFast(
            tokenizer_object=word_level, unk_token="[UNK]", bos_token="<end>", eos_token="<end>"
        )
    word_level.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = dict(zip(("pad", "unk", "cls", "sep", "mask"), special, strict=True))
    return PreTrainedTokenizerFast(
        tokenizer_object=word_level, **{f"{name}_token": token for name, token in names.items()}
    )


def causal(
    folder: Path,
    texts: Sequence[str] = (),
    steps: int = 0,
    *,
    begin: Path | None = None,
    words: Sequence[str] = WORDS,
) -> Path:
    """A GPT-2 of one layer, trained on texts of equally many words.

    Args:
        folder: to write.
        texts: to learn.
        steps: of Adam.
        begin: folder of the weights to begin with; new ones where there is none.
        words: of the tokenizer, in order.
    """
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    reads = tokenizer(pairs=False, words=words)
    config = GPT2Config(
        vocab_size=len(reads), n_layer=1, n_head=2, n_embd=32, n_positions=64,
        bos_token_id=1, eos_token_id=1, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config) if begin is None else GPT2LMHeadModel.from_pretrained(begin)
    if steps:
        rows = [[1, *reads(text)["input_ids"], 1] for text in texts]
        width = max(map(len, rows))
        tokens = torch.tensor([row + [1] * (width - len(row)) for row in rows])
        inside = torch.arange(width)[None] < torch.tensor([len(row) for row in rows])[:, None]
        labels = tokens.masked_fill(~inside, -100)
        descend(model, {"input_ids": tokens, "labels": labels}, steps)
    return saved(model, reads, folder)


def encoder(folder: Path, kind: str, labels: Sequence[str] = ()) -> tuple[Any, Any]:
    """A fresh BERT of one layer with a head ("MaskedLM", "SequenceClassification", ...)."""
    import transformers

    torch.manual_seed(1)
    reads = tokenizer(pairs=True)
    names = dict(enumerate(labels))
    more = {"id2label": names, "label2id": {v: k for k, v in names.items()}} if labels else {}
    config = transformers.BertConfig(
        vocab_size=len(reads), **SIZES, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        pad_token_id=0, **more,
    )  # fmt: skip
    model = getattr(transformers, f"BertFor{kind}")(config)
    saved(model, reads, folder)
    return model, reads


def descend(model: Any, batch: Mapping[str, torch.Tensor], steps: int) -> None:
    """Adam on one batch."""
    model.train()
    adam = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        adam.zero_grad()
        model(**batch).loss.backward()
        adam.step()


def saved(model: Any, reads: Any, folder: Path) -> Path:
    """The folder, with model and tokenizer."""
    model.save_pretrained(folder)
    reads.save_pretrained(folder)
    return folder
