"""WordPiece tokenizers, as BERT's, trained on a text of one's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def train_wordpiece(texts: Sequence[str], size: int) -> Any:
    """An uncased WordPiece tokenizer (Devlin et al. 2019, section 3) of `transformers`.

    Args:
        texts: already preprocessed.
        size: largest number of ids, the five special ones included.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordPiece(unk_token=_SPECIALS["unk_token"]))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(_SPECIALS.values()), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **_SPECIALS)
