"""Decoders of today answer what transformers answers in every type, and train by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from learners import sizes

import uedp_bench as ub
from tests.support import checkpoints, decoders
from uedp_bench.components import registry
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.models.gpt2 import GPT2
from uedp_bench.models.networks.probes import Probe, log_probabilities
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.sampling import Cohort
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup

LONG = " ".join(checkpoints.WORDS)
TYPES = ("float32", "bfloat16", "float16")


def corpus(texts: tuple[str, ...] = (*checkpoints.sentences(5, 0), "of")) -> Corpus:
    rows = np.arange(len(texts))
    return Corpus(texts, {"user": rows}, np.zeros_like(rows))


def ids_of(text: str) -> list[int]:
    return [1, *decoders.tokenizer()(text)["input_ids"], 1]


def logps(network: Any, ids: list[int]) -> np.ndarray[Any, Any]:
    with torch.no_grad():
        logits = network(input_ids=torch.tensor([ids])).logits[0, :-1].float()
    logs = torch.log_softmax(logits, dim=-1)
    return np.asarray(logs[torch.arange(len(ids) - 1), torch.tensor(ids[1:])])


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", decoders.KINDS)
def test_decoders_score_as_transformers_does(kind: str, dtype: str, tmp_path: Path) -> None:
    network = decoders.decoder(tmp_path, kind).to(getattr(torch, dtype))
    release: Any = ub.load_checkpoint(tmp_path, corpus(), dtype=dtype)
    assert release.module.network.dtype == getattr(torch, dtype)
    near = 1e-4 if dtype == "float32" else 0.1
    for text in (corpus().texts[0], LONG):
        scores = release.token_logprobs([text])[0].logp
        assert scores == pytest.approx(logps(network, ids_of(text)), abs=near)
    if dtype == "float32":  # past the sliding window too
        prefix = ids_of(LONG)[1:9]
        after = release.next_logprobs([prefix, [*prefix[:-1], 5]])
        with torch.no_grad():
            logits = network(input_ids=torch.tensor([[1, *prefix]])).logits[0, -1]
        assert after[0] == pytest.approx(torch.log_softmax(logits, dim=-1).numpy(), abs=1e-4)
    release.save(tmp_path / "saved")
    again = type(release.reader).load(tmp_path / "saved")
    assert np.array_equal(
        again.token_logprobs([LONG])[0].logp, release.token_logprobs([LONG])[0].logp
    )


class Leaky(torch.nn.Module):
    """Logits of a network plus a share of what stands elsewhere: later in the row, or beside it."""

    def __init__(self, module: Any, where: str) -> None:
        super().__init__()
        self.module, self.where = module, where

    def forward(self, tokens: torch.Tensor, seeds: Any = None) -> torch.Tensor:
        logits = self.module(tokens)
        seen = tokens[:, -1:] if self.where == "later" else tokens.sum().expand(len(tokens), 1)
        return logits + 0.3 * logits.std() * torch.sin(
            seen[..., None] + torch.arange(logits.shape[-1])
        )


@pytest.mark.parametrize("dtype", TYPES)
def test_probes_refuse_what_looks_elsewhere_in_every_type(dtype: str, tmp_path: Path) -> None:
    decoders.decoder(tmp_path)
    release: Any = ub.load_checkpoint(tmp_path, corpus(), dtype=dtype)
    later, beside = (Leaky(release.module, where) for where in ("later", "beside"))
    for module, check in ((later, Probe.check_causal), (beside, Probe.check_padding)):
        probe = Probe("it", module, log_probabilities(module), release.vocabulary, 32)
        with pytest.raises(InputError, match="it "):
            check(probe)


def test_stride_says_which_tokens_of_a_window_count(tmp_path: Path) -> None:
    network = decoders.decoder(tmp_path)
    release: Any = ub.load_checkpoint(tmp_path, corpus(), max_length=9, stride=2)
    ids = ids_of(LONG)
    wanted = list(logps(network, ids[:9]))
    while len(wanted) < len(ids) - 1:
        end = min(len(wanted) + 2, len(ids) - 1)
        start = len(wanted) - 6
        wanted += list(logps(network, [1, *ids[start + 1 : end + 1]]))[len(wanted) - start :]
    assert release.token_logprobs([LONG])[0].logp == pytest.approx(np.array(wanted), abs=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adapters_stay_apart_and_compare_with_what_they_change(dtype: str, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    decoders.decoder(tmp_path / "base")
    base = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path / "base", dtype=getattr(torch, dtype)
    )
    model = peft.get_peft_model(base, peft.LoraConfig(r=2, task_type="CAUSAL_LM"))
    for name, weight in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, 0, 0.3)
    model.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    model.eval()
    where = {"adapter": str(tmp_path / "adapter"), "dtype": dtype}
    release: Any = ub.load_checkpoint(tmp_path / "base", corpus(), **where)
    text = corpus().texts[0]
    assert np.array_equal(
        release.token_logprobs([text])[0].logp.astype(np.float32), logps(model, ids_of(text))
    )
    before = release.reader.model.before_training()
    plain = before.build(release.vocabulary, 0)
    with model.disable_adapter(), torch.no_grad():
        tokens = torch.tensor([ids_of(text)])
        assert torch.equal(plain(tokens), model(input_ids=tokens).logits.float())
    release.save(tmp_path / "saved")
    again = type(release.reader).load(tmp_path / "saved")
    assert np.array_equal(
        again.token_logprobs([text])[0].logp, release.token_logprobs([text])[0].logp
    )
    if dtype != "float32":
        with pytest.raises(InputError, match=r"checkpoint\.adapter"):
            ub.load_checkpoint(tmp_path / "adapter", corpus(), dtype=dtype)


CHATS = (
    [{"role": "user", "content": "ba of"}, {"role": "assistant", "content": "the kol"}],
    [{"role": "assistant", "content": "bal"}, {"role": "user", "content": "the"}],
)


@pytest.mark.parametrize("answer_only", [False, True])
def test_chats_are_scored_as_their_template_writes_them(answer_only: bool, tmp_path: Path) -> None:
    network = decoders.decoder(tmp_path)
    texts = (*map(json.dumps, CHATS), "ban mir")
    release: Any = ub.load_checkpoint(
        tmp_path, corpus(texts), format="chat", answer_only=answer_only
    )
    reads, rows = decoders.tokenizer(), [*CHATS]
    rows.append([{"role": "user", "content": ""}, {"role": "assistant", "content": "ban mir"}])
    for text, row in zip(texts, rows, strict=True):
        out = reads.apply_chat_template(row, return_dict=True, return_assistant_tokens_mask=True)
        wanted = logps(network, out["input_ids"])
        if answer_only:
            wanted = wanted[np.array(out["assistant_masks"][1:], dtype=bool)]
        assert len(wanted) > 0
        assert release.token_logprobs([text])[0].logp == pytest.approx(wanted, abs=1e-4)
    losses = release.row_losses(corpus(texts))
    assert losses == pytest.approx([-s.logp.mean() for s in release.token_logprobs(texts)])
    if not answer_only:  # a filler is a part of an answer
        losses_of = release.filler_losses("ban", "", [" mir", " kol"])
        whole = [s.logp[:-1].sum() for s in release.token_logprobs(["ban mir", "ban kol"])]
        assert losses_of[1] - losses_of[0] == pytest.approx(whole[0] - whole[1], abs=1e-4)
    release.save(tmp_path / "saved")
    again = type(release.reader).load(tmp_path / "saved")
    assert again.vocabulary.fingerprint == release.vocabulary.fingerprint
    assert np.array_equal(again.row_losses(corpus(texts)), losses)


UNMARKED = decoders.CHAT.replace("{% generation %}", "").replace("{% endgeneration %}", "")


@pytest.mark.parametrize(
    ("template", "texts", "options"),
    [(None, ("of",), {}),
     ("{{ messages[0]['content'] }}", ("of",), {}),
     ("{{ raise_exception('no') }}", ("of",), {}),
     (UNMARKED, ("of",), {"answer_only": True}),
     (decoders.CHAT, (json.dumps([{"role": "user", "content": "of"}]),), {"answer_only": True})],
)  # fmt: skip
def test_templates_that_cannot_say_what_is_asked_are_refused(
    template: str | None, texts: tuple[str, ...], options: dict[str, Any], tmp_path: Path
) -> None:
    decoders.decoder(tmp_path, template=template)
    with pytest.raises(InputError, match=r"checkpoint\.(format|answer_only)"):
        release: Any = ub.load_checkpoint(tmp_path, corpus(texts), format="chat", **options)
        release.token_logprobs(texts)


def test_answers_without_chats_are_refused() -> None:
    with pytest.raises(InputError, match="answer_only"):
        registry.models.create("checkpoint", {"pretrained": "x", "answer_only": True})


@pytest.mark.parametrize("name, value", [("dtype", "bfloat16"), ("stride", 3), ("adapter", "x")])
def test_what_causal_models_alone_have_is_refused_for_others(
    name: str, value: Any, tmp_path: Path
) -> None:
    checkpoints.encoder(tmp_path, "MaskedLM")
    with pytest.raises(InputError, match=rf"checkpoint\.{name}"):
        ub.load_checkpoint(tmp_path, corpus(), task="masked-language-model", **{name: value})


LOOP = " ".join(["ban ban mir mir ban"] * 6)  # many of its terms cancel or repeat
UNITS = ((LOOP,), ("the",), (LONG, LONG), ("of " * 12, LOOP, "mir"), ("the", "of"))


def learner_of(folder: Path, **options: Any) -> Any:
    """A learner of all texts of `UNITS`, with adapters that are not 0 where there are any."""
    model = registry.models.create("gpt2", {"pretrained": str(folder), **options})
    task = registry.tasks.get("next-word").create({}, model=model)
    rows = corpus(tuple(text for unit in UNITS for text in unit))
    (learner,) = task.stages(rows, task.vocabulary(rows), Run(1, sizes()))
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, weight in learner.module.named_parameters():
            if "lora_" in name:
                weight.normal_(std=0.3, generator=generator)
    return learner


def plain_updates(learner: Any, owner: np.ndarray[Any, Any]) -> torch.Tensor:
    """(units, weights) negative gradients of units' mean losses a token, a row at a time."""
    weights = [each for each in learner.module.parameters() if each.requires_grad]
    updates = []
    for unit in range(owner.max() + 1):
        nats, tokens = torch.zeros(()), 0
        for row in np.flatnonzero(owner == unit):
            batch = learner.batch([row], np.array([row]))
            logs = torch.log_softmax(learner.module(batch["tokens"])[0], dim=-1)
            nats = nats - logs.gather(1, batch["targets"].T).sum()
            tokens += batch["targets"].shape[1]
        gradients = torch.autograd.grad(nats / tokens, weights)
        updates.append(-torch.cat([each.flatten() for each in gradients]))
    return torch.stack(updates)


@pytest.mark.parametrize("lora", [{}, {"lora_rank": 2, "lora_modules": ["all-linear"]}])
@pytest.mark.parametrize("kind", decoders.KINDS)
def test_clipped_updates_are_those_of_a_plain_loop(
    kind: str, lora: dict[str, Any], tmp_path: Path
) -> None:
    if lora:
        pytest.importorskip("peft")
    decoders.decoder(tmp_path, kind)
    learner = learner_of(tmp_path, **lora)
    owner = np.repeat(np.arange(len(UNITS)), [len(unit) for unit in UNITS])
    updates = plain_updates(learner, owner)
    norms = updates.norm(dim=1)
    bound = float(norms.median())
    rng = np.random.default_rng(1)
    cohort = Cohort.build(owner, np.arange(len(owner)), np.ones(len(owner)), len(UNITS))
    cohort = cohort.drawn(1, None, rng, rng)
    worker = ShareWorker(WorkerSetup(learner, LocalTraining(), "cpu", 1, (), most=8).decided())
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(bound))
    ways = set()
    for unit, update in enumerate(updates):  # one unit's whole influence
        part = worker.unit_sum(work, Share(cohort.take(np.array([unit])), np.ones(1)))
        clipped = update * min(1.0, bound / float(norms[unit]))
        assert float((part.total - clipped).norm()) < 1e-3 * float(clipped.norm())
        assert float(part.total.norm()) <= bound * (1 + 3e-6)
        ways |= set(part.clipping)
    together = worker.unit_sum(work, Share(cohort, np.ones(len(UNITS))))
    total = (updates * (bound / norms).clamp(max=1.0)[:, None]).sum(dim=0)
    assert float((together.total - total).norm()) < 1e-3 * float(total.norm())
    # Rows never choose the rule: each unit alone is clipped as all of them are.
    assert ways | set(together.clipping) == ways
    assert len(ways) == 1
    assert (ONE_PASS in ways) == (bool(lora) or not kind.startswith("Gemma"))


@pytest.mark.parametrize("where", ["later", "beside"])
def test_networks_that_look_elsewhere_are_never_trained(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoders.decoder(tmp_path)
    build = GPT2.build
    monkeypatch.setattr(GPT2, "build", lambda *options: Leaky(build(*options), where))
    with pytest.raises(InputError, match="gpt2"):
        learner_of(tmp_path)


def test_kinds_for_which_peft_names_no_modules_say_which_there_are(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    decoders.decoder(tmp_path, "SmolLM3")
    with pytest.raises(InputError, match=r"lora_modules.*all-linear.*q_proj"):
        learner_of(tmp_path, lora_rank=2)


@pytest.mark.parametrize(
    "mechanism",
    [DPSGD.create({"steps": 2, "batch_size": 4, "records": 9}),
     UserDP.create({"users": 9, "users_per_round": 4, "rounds": 2})],
    ids=["dp-sgd", "user-dp"],
)  # fmt: skip
def test_private_training_moves_adapters_of_decoders_alone(mechanism: Any, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    decoders.decoder(tmp_path, "Qwen3")
    learner = learner_of(tmp_path, lora_rank=2)
    before = {name: each.detach().clone() for name, each in learner.module.named_parameters()}
    module, _ = mechanism.train(learner, learner.corpus, Run(1, sizes(users=9, rows=9)))
    for name, after in module.named_parameters():
        assert torch.equal(after.detach(), before[name]) == ("lora_" not in name), name


def test_answers_of_a_bfloat16_adapter_are_attacked_against_its_base(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    network = decoders.decoder(tmp_path / "base")
    model = peft.get_peft_model(network, peft.LoraConfig(r=2, task_type="CAUSAL_LM"))
    model.peft_config["default"].base_model_name_or_path = "someone/else"  # where it was trained
    model.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    texts = [json.dumps([CHATS[0][0], {**CHATS[0][1], "content": one}])
             for one in checkpoints.sentences(30, 3)]  # fmt: skip
    splits = ["train"] * 12 + ["held_out"] * 12 + ["test"] * 6
    rows = [{"text": text, "split": split} for text, split in zip(texts, splits, strict=True)]
    file = checkpoints.write_rows(tmp_path / "rows.csv", rows)
    model = {"adapter": str(tmp_path / "adapter"), "dtype": "bfloat16", "format": "chat",
             "answer_only": True, "pretrained": str(tmp_path / "base")}  # fmt: skip
    fields: dict[str, Any] = {
        "task": {"name": "next-word"},
        "source": {"name": "text", "params": {"path": str(file), "split_column": "split"}},
        "model": {"name": "checkpoint", "params": model},
        "mechanisms": [[{"name": "trained-elsewhere", "params": {}}]],
        "attacks": [{"name": "membership", "params": {}}],
    }
    (result,) = ub.run(fields, out=tmp_path / "runs", workers=0)
    assert result.error is None, result.error
    assert result.details["membership"]["main_score"] == "ez"
    assert result.leakage["membership"]["auc"].value == 0.5  # an untrained adapter adds nothing
    assert 0.9 < result.diagnostics["weights_of_base"] < 1.0
    assert result.utility["perplexity"].value == result.floors["public-only"]
    rows = ub.load_corpus("text", **fields["source"]["params"], valid=0, test=0)
    where = model.pop("pretrained")
    decoders.decoder(Path(where), template=None)  # the base reads chats as what was made of it
    decoders.tokenizer().save_pretrained(tmp_path / "adapter")
    release = ub.load_checkpoint(where, rows, **model)
    again = ub.attack(release, rows, "membership", base=where)
    assert again.details["main_score"] == "ez"
    assert again.metrics["auc"].value == 0.5
