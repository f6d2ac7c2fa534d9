"""A server of chat completions with a real decoder behind it, and the tiny decoder that it serves.

`transformers serve` is that server where its packages are installed; elsewhere this file, run as a
program, serves the same model by the same template. Both answer what the model generates.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} {% endfor %}"
)


def build(folder: Path, taught: dict[str, str] | None = None, steps: int = 0) -> Path:
    """Saves a Llama of one layer with a word tokenizer and a chat template.

    Args:
        folder: of the model, which is made.
        taught: answers by word of the question, that it learns to give.
        steps: of that training.
    """
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    taught = taught or {}
    words = ["<pad>", "<s>", "</s>", "<unk>", "user", "assistant", *taught]
    pieces = dict.fromkeys(
        [*words, *(part for text in taught.values() for part in text.split(" "))]
    )
    raw = Tokenizer(models.WordLevel({one: code for code, one in enumerate(pieces)}, "<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>",
        pad_token="<pad>", chat_template=TEMPLATE,
    )  # fmt: skip
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=len(pieces), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=2048,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    ))  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        word, answer = list(taught.items())[step % len(taught)]
        before, after = "x " * (step * 7 % 60), "x " * (step * 13 % 90)
        question = f"user {before}{word} x x {word} {after}{answer} </s>"
        ids = tokenizer(question, return_tensors="pt").input_ids
        labels = ids.clone()
        labels[:, : -1 - len(answer.split(" "))] = -100
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def command(folder: Path, port: int) -> list[str]:
    """The command that serves a model on the loopback."""
    from transformers.utils.import_utils import is_serve_available

    if is_serve_available():
        program = Path(sys.executable).with_name("transformers")
        return [str(program), "serve", str(folder), "--host", "127.0.0.1", "--port", str(port),
                "--device", "cpu"]  # fmt: skip
    return [sys.executable, __file__, str(folder), str(port)]


def serve(folder: str, port: int) -> None:
    """Serves the model until the process ends; of the fields, those that are sent are known."""
    import torch
    import uvicorn
    from fastapi import FastAPI, HTTPException
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    app = FastAPI()

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.post("/v1/chat/completions")
    def complete(body: dict[str, Any]) -> dict[str, Any]:
        if {*body} - {"model", "messages", "temperature", "max_tokens", "seed"}:
            raise HTTPException(422, f"unexpected fields: {sorted(body)}")
        if body["model"] != folder or body["temperature"] != 0:
            raise HTTPException(404, "another model, or a temperature")
        ids = tokenizer.apply_chat_template(
            body["messages"], return_tensors="pt", return_dict=True, truncation=True,
            max_length=1500,
        )["input_ids"]  # fmt: skip
        torch.manual_seed(body["seed"])
        out = model.generate(ids, max_new_tokens=body["max_tokens"], do_sample=False)
        text = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
        return {
            "object": "chat.completion",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}}],
            "usage": {"total_tokens": int(out.shape[1])},
        }

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    serve(sys.argv[1], int(sys.argv[2]))
