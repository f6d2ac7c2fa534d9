"""WordPiece tokenizers, as BERT's, trained on a text of one's own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

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
