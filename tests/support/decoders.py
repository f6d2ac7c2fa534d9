"""Decoders of today with a few thousand weights, as `transformers` saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from tests.support import checkpoints

SIZES = {
    "num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 64, "head_dim": 4,
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "Llama": {},  # SmolLM and SmolLM2 too
    "Qwen3": {},
    "Gemma2": {"sliding_window": 4, "query_pre_attn_scalar": 4},
    "Gemma3": {"sliding_window": 4, "query_pre_attn_scalar": 4},
    "SmolLM3": {"no_rope_layers": [1, 0]},
}
CHAT = (
    "{% for m in messages %}{{ '<s> ' + m['role'] + ' ' }}{% if m['role'] == 'assistant' %}"
    "{% generation %}{{ m['content'] + ' <end>' }}{% endgeneration %}"
    "{% else %}{{ m['content'] + ' <end>' }}{% endif %}{{ '\n' }}{% endfor %}"
)


def tokenizer(template: str | None = CHAT) -> Any:
    """A word-level tokenizer with a chat template whose messages end with `<end>`."""
    reads = checkpoints.tokenizer(
        pairs=False, words=(*checkpoints.WORDS, "<s>", "user", "assistant")
    )
    reads.add_special_tokens({"additional_special_tokens": ["<s>"]})
    reads.chat_template = template
    return reads


def decoder(folder: Path, kind: str = "Llama", template: str | None = CHAT) -> Any:
    """A fresh network with weights that matter, saved with its tokenizer."""
    torch.manual_seed(1)
    reads = tokenizer(template)
    config = "Gemma3Text" if kind == "Gemma3" else kind
    network = getattr(transformers, f"{kind}ForCausalLM")(
        getattr(transformers, f"{config}Config")(
            vocab_size=len(reads), **SIZES, **KINDS[kind], bos_token_id=1, eos_token_id=1,
            pad_token_id=0,
        )
    ).eval()  # fmt: skip
    for weight in network.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, 0, 0.3)
    checkpoints.saved(network, reads, folder)
    return network
