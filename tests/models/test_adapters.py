"""LoRA adapters of gpt2 and bert: what is trained, what stays, what is saved, what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learners import sizes
from torch import nn
from toy import cohort_of
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

from uedp_bench.components.registry import models, tasks
from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.models.tokenizers import TokenizerVocabulary, train_wordpiece
from uedp_bench.one_run.training_stages import train_plainly
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup

TEXTS = ["the cat sat on the mat", "a dog ran in the park", "birds sing in the tall old trees"] * 4
TASKS = {"gpt2": "next-word", "bert": "text-classification"}


@pytest.fixture(scope="module", params=["gpt2", "bert"])
def pretrained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    """A model's name, and a folder with a small network of its kind and a tokenizer."""
    where, name = tmp_path_factory.mktemp(request.param), request.param
    torch.manual_seed(0)
    if name == "gpt2":
        vocabulary = TokenizerVocabulary.train(TEXTS, 290, origin="test")
        shape = {"n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 24}
        GPT2LMHeadModel(GPT2Config(**shape, vocab_size=vocabulary.size)).save_pretrained(where)
        vocabulary._tokenizer.save_pretrained(where)
        return name, str(where)
    tokenizer = train_wordpiece(TEXTS, 120)
    BertModel(
        BertConfig(
            num_hidden_layers=2, hidden_size=16, num_attention_heads=2, intermediate_size=32,
            max_position_embeddings=24, vocab_size=len(tokenizer),
        )
    ).save_pretrained(where)  # fmt: skip
    tokenizer.save_pretrained(where)
    return name, str(where)


def stages_of(pretrained: tuple[str, str], task: dict[str, Any] | None = None, **model: Any) -> Any:
    """The model and the stages of its task, on four users with three rows each and public rows."""
    name, where = pretrained
    adapted = models.create(name, {"pretrained": where, **model})
    rows = len(TEXTS)
    corpus = Corpus(
        (*TEXTS, *TEXTS[:3]),
        {"user": np.array([*np.arange(rows) % 4, 4, 5, 6])},
        np.array([SPLITS.index("train")] * rows + [SPLITS.index("public")] * 3),
        labels=np.arange(rows + 3) % 2,
        label_names=("no", "yes"),
    )
    kind = tasks.get(TASKS[name])
    whole = kind(kind.create(task or {}).params, adapted)
    run = Run(1, sizes(users=4, rows=rows))
    return adapted, whole.stages(corpus, whole.vocabulary(corpus), run)


def encoder(module: nn.Module) -> nn.Module:
    """The adapted part: all of a language model, and of a classifier what stands under its head."""
    inside = module.encoder if hasattr(module, "encoder") else module
    network: nn.Module = inside.network  # type: ignore[assignment]
    return network


def trainable(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in module.named_parameters() if p.requires_grad}


def losses(learner: Learner, module: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        rows = np.arange(4)
        return learner.losses(module.eval(), learner.batch(rows, rows)).nats


def test_untrained_adapters_add_nothing_and_are_all_that_is_trained(
    pretrained: tuple[str, str],
) -> None:
    _, (plain,) = stages_of(pretrained)
    _, (adapted,) = stages_of(pretrained, lora_rank=3)
    assert torch.equal(losses(adapted, adapted.module), losses(plain, plain.module))
    inside = trainable(encoder(adapted.module))
    assert inside
    assert all("lora_" in name for name in inside)
    # Two layers; c_attn maps 16 to 48, query and value map 16 to 16 each.
    expected = 2 * 3 * (16 + 48) if pretrained[0] == "gpt2" else 2 * 2 * 3 * (16 + 16)
    assert sum(p.numel() for p in inside.values()) == expected
    assert all(not p.any() for name, p in inside.items() if "lora_B" in name)
    head = [name for name in trainable(adapted.module) if "lora_" not in name]
    assert bool(head) == (pretrained[0] == "bert")  # a classifier's head is new, and trained


def test_the_seed_draws_the_first_matrices(pretrained: tuple[str, str]) -> None:
    name, where = pretrained
    adapted = models.create(name, {"pretrained": where, "lora_rank": 2})
    build = adapted.build if name == "gpt2" else adapted.build_encoder
    vocabulary = adapted.vocabulary([], origin="", private=False)
    one, same, other = (build(vocabulary, seed) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    first = [p for n, p in one.named_parameters() if "lora_A" in n]
    second = [p for n, p in other.named_parameters() if "lora_A" in n]
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_private_training_moves_adapters_and_no_other_weight(pretrained: tuple[str, str]) -> None:
    _, (learner,) = stages_of(pretrained, lora_rank=3, lora_alpha=6)
    before = {name: p.detach().clone() for name, p in learner.module.named_parameters()}
    mechanism = UserDP.create({"users": 4, "users_per_round": 4, "rounds": 2, "clip": 1.0})
    run = Run(1, sizes(users=4, rows=len(TEXTS)))
    module, _ = mechanism.train(learner, learner.corpus, run)
    for name, after in module.named_parameters():
        moved = not torch.equal(after.detach(), before[name])
        assert moved == learner.module.get_parameter(name).requires_grad, name
    assert "lora_A" in "".join(trainable(module))
    adapters = sum(p.numel() for p in module.parameters() if p.requires_grad)
    assert run.counts["weights_trained"] == adapters < sum(p.numel() for p in before.values())
    # A second training of the same name adds none.
    mechanism.train(learner, learner.corpus, run)
    assert run.counts["weights_trained"] == adapters


def test_public_text_trains_the_network_and_leaves_the_adapters_out(
    pretrained: tuple[str, str],
) -> None:
    _, (public, private) = stages_of(pretrained, {"pretraining_epochs": 1}, lora_rank=3)
    before = {name: p.detach().clone() for name, p in public.module.named_parameters()}
    run = Run(1, sizes())
    trained = train_plainly(public, run, keep=False)
    weights = sum(p.numel() for name, p in before.items() if "lora_" not in name)
    assert run.counts["weights_pretrain"] == weights
    for name, after in trained.named_parameters():
        if "lora_" in name:
            assert torch.equal(after.detach(), before[name]), name
    start = dict(encoder(private.module).named_parameters())
    inside = [(n, p) for n, p in encoder(trained).named_parameters() if "lora_" not in n]
    assert any(not torch.equal(weight, start[name]) for name, weight in inside)
    private.start_from(trained)
    assert torch.equal(losses(private, private.module), losses(private, trained))
    assert all("lora_" in name for name in trainable(encoder(private.module)))


def test_what_is_saved_answers_as_before_without_the_pretrained_folder(
    pretrained: tuple[str, str], tmp_path: Path
) -> None:
    name, _ = pretrained
    model, (learner,) = stages_of(pretrained, lora_rank=2)
    module = learner.module if name == "gpt2" else learner.module.encoder
    with torch.no_grad():
        for weight in trainable(module).values():
            weight.normal_(generator=torch.Generator().manual_seed(3))
    gone = models.create(name, {**model.params.model_dump(), "pretrained": str(tmp_path / "gone")})
    save, load = ("save_network", "load_network") if name == "gpt2" else (
        "save_encoder", "load_encoder")  # fmt: skip
    getattr(model, save)(module, tmp_path)
    again = getattr(gone, load)(learner.vocabulary, tmp_path)
    tokens = (torch.tensor([[1, 2, 3]]),) + ((torch.tensor([3]),) if name == "bert" else ())
    assert torch.equal(again.eval()(*tokens), module.eval()(*tokens))
    assert set(trainable(again)) == set(trainable(module))


def test_all_linear_layers_can_have_adapters(pretrained: tuple[str, str]) -> None:
    _, (usual,) = stages_of(pretrained, lora_rank=2)
    _, (every,) = stages_of(pretrained, lora_rank=2, lora_modules=["all-linear"])
    assert len(trainable(every.module)) > len(trainable(usual.module))
    unused = {n for n in trainable(encoder(every.module)) if "pooler" in n or "lm_head" in n}
    assert not unused, "the loss never sees them: they would get noise for nothing"


@pytest.mark.parametrize("name", ["gpt2", "bert"])
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"lora_alpha": 4.0}, r"lora_alpha is 4\.0.*lora_rank"),
        ({"lora_modules": ["c_attn"]}, "lora_modules is .*lora_rank"),
        ({"lora_rank": 0}, "lora_rank is 0"),
    ],
)
def test_settings_of_no_adapters_are_refused(
    name: str, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        models.create(name, params)


def test_a_frozen_encoder_has_no_adapters() -> None:
    with pytest.raises(InputError, match=r"frozen.*lora_rank"):
        models.create("bert", {"frozen": True, "lora_rank": 4})


def test_a_module_that_is_not_there_is_one_line(pretrained: tuple[str, str]) -> None:
    with pytest.raises(InputError, match=r"lora_modules is \['nowhere'\]") as caught:
        stages_of(pretrained, lora_rank=2, lora_modules=["nowhere"])
    assert "\n" not in str(caught.value)


def test_without_the_library_a_line_says_how_to_install_it(
    pretrained: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(InputError, match=r"peft.*lora_rank.*uedp-bench\[lora"):
        stages_of(pretrained, lora_rank=2)


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_specs_without_adapters_keep_their_ids(name: str) -> None:
    assert not any("lora" in key for key in models.create(name, {}).params.model_dump())
    params = {"lora_rank": 4, "lora_alpha": 8.0, "lora_modules": ["all-linear"]}
    dumped = models.create(name, params).params.model_dump(mode="json")
    assert dumped.items() >= params.items()


def test_a_row_s_update_does_not_depend_on_the_rows_beside_it(pretrained: tuple[str, str]) -> None:
    _, (learner,) = stages_of(pretrained, lora_rank=3)
    module = learner.module.train()
    rows = np.arange(3)
    together = learner.losses(module, learner.batch(rows, rows)).nats
    alone = [learner.losses(module, learner.batch([row], np.array([row]))).nats for row in rows]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("limits", [Limits(0.05), Limits(0.04, rows=0.03)], ids=["flat", "rows"])
def test_adapters_are_clipped_in_one_pass_as_update_by_update(
    pretrained: tuple[str, str], limits: Limits
) -> None:
    _, (learner,) = stages_of(pretrained, lora_rank=3, lora_modules=["all-linear"])
    generator = torch.Generator().manual_seed(3)
    for weight in trainable(learner.module).values():  # so that both matrices have gradients
        weight.normal_(std=0.3, generator=generator)
    rng = np.random.default_rng(1)
    cohort = cohort_of([[0, 1, 2], [3], [4, 5]]).drawn(1, None, rng, rng)
    sums, workers = [], []
    for refused in (None, "a test asks for it"):
        setup = WorkerSetup(learner, LocalTraining(), "cpu", 1, (), most=4, refusal=refused)
        worker = ShareWorker(setup)
        workers.append(worker)
        work = RoundWork(worker.trainer.flat.vector.clone(), limits)
        sums.append(worker.unit_sum(work, Share(cohort, np.ones(3))))
    fast, slow = sums
    assert ONE_PASS in fast.clipping
    assert ONE_PASS not in slow.clipping
    assert slow.clipped > 0 or limits.rows
    assert fast.clipped == slow.clipped
    assert float((fast.total - slow.total).norm()) < 1e-3 * float(slow.total.norm())
    for user in range(3):  # one user's whole influence
        share = Share(cohort.take(np.array([user])), np.ones(1))
        assert float(workers[0].unit_sum(work, share).total.norm()) <= limits.total * (1 + 3e-6)
