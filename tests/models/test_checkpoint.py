"""Networks of other makers answer what transformers answers, or are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import uedp_bench as ub
from tests.support import checkpoints
from uedp_bench.components.component import MayBePath
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.models.checkpoint import Checkpoint
from uedp_bench.spec.identity import content_of

LONG = " ".join(checkpoints.WORDS)


def corpus(labels: bool = False) -> Corpus:
    texts = (*checkpoints.sentences(5, 0), LONG, "of", checkpoints.sentences(1, 1)[0])
    more: dict[str, Any] = {}
    if labels:
        more = {"labels": np.arange(len(texts)) % 2, "label_names": ("neg", "pos")}
    users, split = np.arange(len(texts)), np.zeros(len(texts), dtype=np.int64)
    return Corpus(texts, {"user": users}, split, **more)


def bert_kind(kind: str, config: str, folder: Path, **more: Any) -> Any:
    """A fresh network of one layer with weights that matter."""
    torch.manual_seed(1)
    reads = checkpoints.tokenizer(pairs=True)
    own = getattr(transformers, config)(
        vocab_size=len(reads),
        **{**checkpoints.SIZES, "max_position_embeddings": 24},
        pad_token_id=0,
        id2label={0: "neg", 1: "pos"},
        label2id={"neg": 0, "pos": 1},
        **more,
    )
    model = getattr(transformers, kind)(own).eval()
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, 0, 0.3)
    checkpoints.saved(model, reads, folder)
    return model


@pytest.mark.parametrize(
    ("kind", "config"), [("BertLMHeadModel", "BertConfig"), ("RobertaForCausalLM", "RobertaConfig")]
)
def test_language_model_that_sees_the_next_token_is_refused(
    kind: str, config: str, tmp_path: Path
) -> None:
    model = bert_kind(kind, config, tmp_path / "blind", is_decoder=True)
    bert_kind(kind, config, tmp_path / "sighted", is_decoder=False)
    release: Any = ub.load_checkpoint(tmp_path / "blind", corpus())
    texts = list(corpus().texts[:2])
    alone = release.token_logprobs(texts[:1])[0].logp
    assert alone == pytest.approx(release.token_logprobs([*texts, LONG])[0].logp, abs=1e-4)
    tokens = [
        2,
        *checkpoints.tokenizer(pairs=True)(texts[0], add_special_tokens=False)["input_ids"],
        3,
    ]
    with torch.no_grad():
        logs = torch.log_softmax(model(input_ids=torch.tensor([tokens])).logits[0], dim=-1)
    wanted = logs[torch.arange(len(tokens) - 1), torch.tensor(tokens[1:])]
    assert alone == pytest.approx(wanted.numpy(), abs=1e-4)
    with pytest.raises(InputError, match=r"sighted.*tokens.*place 2"):
        ub.load_checkpoint(tmp_path / "sighted", corpus())


def theirs(folder: Path, texts: list[str], limit: int) -> np.ndarray[Any, Any]:
    """Log-probabilities by transformers, one row at a time."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    reads = transformers.AutoTokenizer.from_pretrained(folder)
    rows = []
    with torch.no_grad():
        for text in texts:
            tokens = reads(text, return_tensors="pt")["input_ids"]
            if tokens.shape[1] > limit:
                tokens = torch.cat([tokens[:, : limit - 1], tokens[:, -1:]], dim=1)
            rows.append(torch.log_softmax(model(input_ids=tokens).logits[0], dim=-1).numpy())
    return np.array(rows)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("Roberta", 23), ("MPNet", 22), ("RobertaPreLayerNorm", 23), ("XLMRobertaXL", 23),
     ("Data2VecText", 23), ("Longformer", 23), ("Bert", 24), ("Electra", 24)],
)  # fmt: skip
def test_classifiers_read_rows_up_to_their_last_position(
    name: str, limit: int, tmp_path: Path
) -> None:
    more = {"attention_window": [8]} if name == "Longformer" else {}
    bert_kind(f"{name}ForSequenceClassification", f"{name}Config", tmp_path, **more)
    model = Checkpoint.create({"pretrained": str(tmp_path)})
    assert model.max_length() == limit
    release: Any = ub.load_checkpoint(tmp_path, corpus(labels=True), task="text-classification")
    wanted = theirs(tmp_path, list(corpus().texts), limit)
    assert release.class_logprobs(corpus(labels=True)) == pytest.approx(wanted, abs=1e-4)


SMALL = {"n_layer": 1, "n_head": 2, "n_embd": 32, "n_positions": 24}
BART = {
    "d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
    "decoder_start_token_id": 3, "forced_eos_token_id": None,
}  # fmt: skip


@pytest.mark.parametrize(("kind", "padding"), [("GPT2", 0), ("GPT2", None), ("Bart", 0)])
def test_classifiers_that_look_for_the_last_token_find_that_of_their_row(
    kind: str, padding: int | None, tmp_path: Path
) -> None:
    sizes = SMALL if kind == "GPT2" else {**BART, "max_position_embeddings": 24}
    marks = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": padding}
    torch.manual_seed(1)
    reads = checkpoints.tokenizer(pairs=True)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(reads), **sizes, **marks, num_labels=2, id2label={0: "neg", 1: "pos"},
        label2id={"neg": 0, "pos": 1},
    )  # fmt: skip
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config).eval()
    checkpoints.saved(model, reads, tmp_path)
    release: Any = ub.load_checkpoint(tmp_path, corpus(labels=True), task="text-classification")
    wanted = theirs(tmp_path, list(corpus().texts), 24)
    assert release.class_logprobs(corpus(labels=True)) == pytest.approx(wanted, abs=1e-4)


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "MptForCausalLM"])
def test_long_rows_are_scored_in_windows(kind: str, tmp_path: Path) -> None:
    sizes = {
        "GPT2LMHeadModel": {**SMALL, "n_positions": 8},
        "MptForCausalLM": {"d_model": 32, "n_layers": 1, "n_heads": 2, "max_seq_len": 8},
    }[kind]
    torch.manual_seed(1)
    reads = checkpoints.tokenizer(pairs=True)
    own = getattr(
        transformers, kind.replace("LMHeadModel", "Config").replace("ForCausalLM", "Config")
    )
    model = getattr(transformers, kind)(own(vocab_size=len(reads), **sizes)).eval()
    checkpoints.saved(model, reads, tmp_path)
    release: Any = ub.load_checkpoint(tmp_path, corpus())
    logp = release.token_logprobs([LONG])[0].logp
    begin, tokens = release.vocabulary.begin, [*reads(LONG, add_special_tokens=False)["input_ids"]]
    tokens.append(release.vocabulary.end)
    assert len(logp) == len(tokens)
    with torch.no_grad():
        # Windows of 7 targets; 3 of each but the first were scored before.
        for start, first, end in [(0, 0, 7), (4, 7, 11), (8, 11, 15)]:
            seen = torch.tensor([[begin, *tokens[start : end - 1]]])
            logs = torch.log_softmax(model(input_ids=seen).logits[0], dim=-1)
            wanted = [float(logs[at - start, tokens[at]]) for at in range(first, end)]
            assert logp[first:end] == pytest.approx(wanted, abs=1e-4)
    row = int(np.argmax([len(text) for text in corpus().texts]))
    assert release.row_losses(corpus())[row] == pytest.approx(-logp.mean())


def adapted(folder: Path, base: Path) -> Any:
    """A LoRA adapter of the base, saved apart from it; the merged network."""
    peft = pytest.importorskip("peft")
    network = transformers.AutoModelForCausalLM.from_pretrained(base)
    config = peft.LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(network, config)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, 0, 0.3)
    model.save_pretrained(folder)
    return model.merge_and_unload().eval()


@pytest.mark.parametrize("beside", [True, False])
def test_saved_adapters_are_merged_into_their_network(beside: bool, tmp_path: Path) -> None:
    base = checkpoints.causal(tmp_path / "base")
    folder = base if beside else tmp_path / "adapter"
    merged = adapted(folder, base)
    release: Any = ub.load_checkpoint(folder, corpus())
    text = corpus().texts[0]
    tokens = torch.tensor([[1, *checkpoints.tokenizer(pairs=False)(text)["input_ids"], 1]])
    with torch.no_grad():
        logs = torch.log_softmax(merged(input_ids=tokens).logits[0], dim=-1)
    wanted = logs[torch.arange(tokens.shape[1] - 1), tokens[0, 1:]].numpy()
    assert release.token_logprobs([text])[0].logp == pytest.approx(wanted, abs=1e-4)
    release.save(tmp_path / "saved")
    again = type(release.reader).load(tmp_path / "saved")
    assert again.token_logprobs([text])[0].logp == pytest.approx(wanted, abs=1e-4)


def test_adapters_without_their_network_or_of_another_kind_are_named(tmp_path: Path) -> None:
    base = checkpoints.causal(tmp_path / "base")
    adapted(tmp_path / "adapter", base)
    config = tmp_path / "adapter" / "adapter_config.json"
    content = json.loads(config.read_text())
    for change, message in (
        ({"base_model_name_or_path": "someone/else"}, "adapter of 'someone/else'.*folder"),
        ({"peft_type": "LOHA"}, r"kind 'LOHA'"),
        ({"megatron_config": {"x": 1}, "megatron_core": "antigravity"}, r"kind 'LORA'"),
    ):
        config.write_text(json.dumps({**content, **change}))
        with pytest.raises(InputError, match=message):
            ub.load_checkpoint(tmp_path / "adapter", corpus())


def test_identity_of_adapters_is_that_of_their_network_too(tmp_path: Path) -> None:
    base = checkpoints.causal(tmp_path / "base")
    adapted(tmp_path / "adapter", base)
    first = content_of(str(tmp_path / "adapter"), MayBePath())
    base.rename(tmp_path / "elsewhere")
    assert content_of(str(tmp_path / "adapter"), MayBePath()) != first


def test_a_base_of_the_hub_is_that_of_its_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the hub's own layout of downloads, without a network."""
    hub = tmp_path / "hub" / "models--people--base"
    commits = {"main": "a" * 40, "v1": "b" * 40}
    for name, commit in commits.items():
        (hub / "snapshots" / commit).mkdir(parents=True)
        (hub / "snapshots" / commit / "config.json").write_text("{}")
        (hub / "refs").mkdir(exist_ok=True)
        (hub / "refs" / name).write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    params = {"pretrained": "people/tuned", "base": "people/base"}
    for name in ("v1", "b" * 40):
        before = Checkpoint.create({**params, "base_revision": name}).before_training()
        assert before is not None
        assert before.params.pretrained == str(hub / "snapshots" / commits["v1"])
        assert (before.params.base, before.params.base_revision) == (None, None)
    with pytest.raises(InputError, match=r"checkpoint\.base_revision .*'people/base@v2'"):
        Checkpoint.create({**params, "base_revision": "v2"}).before_training()
    for base in (None, str(tmp_path)):
        with pytest.raises(InputError, match="base_revision"):
            Checkpoint.create({**params, "base": base, "base_revision": "v1"})
