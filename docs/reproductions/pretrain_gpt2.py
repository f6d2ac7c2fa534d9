"""Pre-trains a GPT-2 on public text, for `--set model.pretrained=DIR`.

    python docs/reproductions/pretrain_gpt2.py read FILES --vocabulary 20000 --out data/gpt2-public
    python docs/reproductions/pretrain_gpt2.py train data/gpt2-public --epochs 2

Nobody's privacy depends on how public text was learnt, so nothing of the engine is used: rows come
in batches of about as many tokens each, in bfloat16 on a GPU. `read` splits files into sentences as
`source.public` does, prepares them as `task.preprocessing=paper` does, and trains a tokenizer.
`train` writes the folder in the format of `transformers`, with `pretraining.json` beside: texts,
tokens seen, loss. The weights are those of this text, and never those that OpenAI published.

On a CPU with glibc set MALLOC_MMAP_THRESHOLD_=1048576 for `train`. Batches have many shapes, and
what one frees does not fit the next: without this the process grows by some ten MB a step.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from uedp_bench.models.tokenizers import TokenizerVocabulary
from uedp_bench.tasks.tokens.rows import TextRows, prepare
from uedp_bench.text.sentences import read_public

SIZES = {"tiny": (4, 128, 4), "small": (12, 768, 12)}
"""Layers, width and heads."""

TOKENS, RECORD = "tokens.npz", "pretraining.json"
POSITIONS, LONGEST = 256, 64


def read(files: Sequence[Path], size: int, most: int | None, out: Path) -> None:
    """Write the tokenizer of these texts and their sentences as ids.

    Args:
        files: files of public text.
        size: largest number of ids of the tokenizer.
        most: largest number of sentences of each file.
        out: output folder.
    """
    names = ["/".join(file.parts[-2:]) for file in files]
    read_each = [read_public((file,), most) for file in files]
    texts = [
        text
        for texts_of_file in read_each
        for text in prepare(texts_of_file, "paper")
        if text.strip()
    ]
    vocabulary = TokenizerVocabulary.train(texts, size, origin=", ".join(names))
    ids = vocabulary.encode(texts)
    rows = TextRows.build([[*row[: LONGEST - 1], vocabulary.end] for row in ids], vocabulary)
    vocabulary.save(out)
    flat, lengths = rows.flat.astype(np.uint16), rows.lengths.astype(np.uint8)
    np.savez_compressed(out / TOKENS, flat=flat, lengths=lengths)
    record = {
        "texts": dict(zip(names, map(len, read_each), strict=True)),
        "sentences": len(rows),
        "tokens": len(flat),
        "vocabulary": vocabulary.size,
    }
    (out / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(record))


def batches(
    lengths: NDArray[np.int64], tokens: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Numbers of rows, in batches of at most so many tokens each, padding too, in a random order.

    Args:
        lengths: (rows,) targets of each row.
        tokens: tokens of a batch; a longer row is a batch by itself.
        rng: generator of the order of rows of one length, and of the batches.
    """
    order = rng.permutation(len(lengths))
    order = order[np.argsort(-lengths[order], kind="stable")]  # the longest first
    parts, start = [], 0
    while start < len(order):
        end = start + max(1, tokens // int(lengths[order[start]]))
        parts.append(order[start:end])
        start = end
    return [parts[at] for at in rng.permutation(len(parts))]


def rows_of(folder: Path, vocabulary: TokenizerVocabulary) -> TextRows:
    """The sentences that `read` wrote, each with the end token."""
    with np.load(folder / TOKENS) as arrays:
        flat, lengths = arrays["flat"].astype(np.int64), arrays["lengths"].astype(np.int64)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
    return TextRows(flat, offsets, vocabulary.begin, vocabulary.end)


def network_of(size: str, vocabulary: TokenizerVocabulary) -> Any:
    """A GPT-2 of that size with new weights, without dropout."""
    from transformers import GPT2Config, GPT2LMHeadModel

    layers, width, heads = SIZES[size]
    torch.manual_seed(1)
    return GPT2LMHeadModel(
        GPT2Config(
            n_layer=layers, n_embd=width, n_head=heads, n_positions=POSITIONS,
            vocab_size=vocabulary.size, bos_token_id=vocabulary.begin,
            eos_token_id=vocabulary.end, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        )
    )  # fmt: skip


def train(folder: Path, options: argparse.Namespace) -> None:
    """Train on the rows of a folder, and write the network into it."""
    vocabulary = TokenizerVocabulary.load(folder)
    rows, rng = rows_of(folder, vocabulary), np.random.default_rng(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = network_of(options.size, vocabulary).to(device).train()
    every = (batches(rows.lengths, options.batch_tokens, rng) for _ in range(options.epochs))
    steps = [batch for epoch in every for batch in epoch][: options.steps]
    fused = device == "cuda"
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=options.learning_rate,
        betas=(0.9, 0.95),
        weight_decay=0.1,
        fused=fused,
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: _rate(at, len(steps)))
    lengths = rows.lengths
    losses, seen, start = list[Tensor](), 0, time.perf_counter()
    for batch in tqdm(steps, disable=None):
        inputs, targets = (torch.from_numpy(each).to(device) for each in rows.padded(batch))
        with torch.autocast("cuda", torch.bfloat16) if device == "cuda" else nullcontext():
            logits = network(input_ids=inputs, use_cache=False).logits
            loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
        seen += int(lengths[batch].sum())
    network.eval().save_pretrained(folder)
    last = torch.stack(losses[-max(1, len(losses) // 20) :]).mean()
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    record |= {
        "size": options.size,
        "weights": sum(weight.numel() for weight in network.parameters()),
        "steps": len(steps),
        "tokens_seen": seen,
        "last_loss": round(float(last), 4),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "torch": str(torch.__version__),
    }
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(json.dumps({**record, "seconds": round(time.perf_counter() - start, 1)}))


def _rate(at: int, steps: int) -> float:
    """Part of the learning rate: up for a fiftieth of the steps, then down along a cosine."""
    warm = max(1, steps // 50)
    if at < warm:
        return (at + 1) / warm
    return 0.05 + 0.95 * 0.5 * (1.0 + math.cos(math.pi * (at - warm) / max(1, steps - warm)))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read or train."""
    parser = argparse.ArgumentParser(description="Pre-train a GPT-2 on public text.")
    kinds = parser.add_subparsers(dest="kind", required=True)
    reading = kinds.add_parser("read", help="texts to a tokenizer and ids")
    reading.add_argument("files", nargs="+", type=Path)
    reading.add_argument("--vocabulary", type=int, default=20_000, help="ids, at most")
    reading.add_argument("--most", type=int, help="sentences of each file, at most")
    reading.add_argument("--out", type=Path, required=True)
    training = kinds.add_parser("train", help="ids to a network")
    training.add_argument("folder", type=Path)
    training.add_argument("--size", choices=sorted(SIZES), default="small")
    training.add_argument("--epochs", type=int, default=2)
    training.add_argument("--steps", type=int, help="stop after so many")
    training.add_argument("--batch-tokens", type=int, default=16_384)
    training.add_argument("--learning-rate", type=float, default=6e-4)
    options = parser.parse_args(arguments)
    if options.kind == "read":
        read(options.files, options.vocabulary, options.most, options.out)
    else:
        train(options.folder, options)


if __name__ == "__main__":
    main()
