"""Models that plain transformers code made: loaded whole, attacked by the splits, or refused."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import uedp_bench as ub
from tests.support import checkpoints
from uedp_bench.accounting.events import DECLARED
from uedp_bench.errors import InputError
from uedp_bench.models.checkpoint import Checkpoint
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

BIO = ("O", "B-PER", "I-PER")


def rows_of(splits: dict[str, list[str]], **columns: Any) -> list[dict[str, Any]]:
    return [
        {"text": text, "user": f"{split}{at}", "split": split,
         **{name: of(text) for name, of in columns.items()}}
        for split, texts in splits.items() for at, text in enumerate(texts)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def splits() -> dict[str, list[str]]:
    sizes = {"train": 50, "held_out": 50, "test": 12}
    return {split: checkpoints.sentences(n, at) for at, (split, n) in enumerate(sizes.items())}


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


def run(where: Path, folder: Path | str, file: Path, task: str = "next-word", **more: Any) -> Any:
    """The result of attacking a folder on the rows of a file."""
    columns = {"text_column": "text", "user_column": "user", "split_column": "split"}
    fields: dict[str, Any] = {
        "task": {"name": task, "params": more.pop("task_params", {})},
        "source": {"name": "text", "params": {"path": str(file), **columns,
                                              **more.pop("columns", {})}},
        "model": {"name": "checkpoint", "params": {"pretrained": str(folder),
                                                   **more.pop("model", {})}},
        "mechanisms": [[{"name": "trained-elsewhere", "params": more.pop("claim", {})}]],
        "attacks": more.pop("attacks", [{"name": "membership", "params": {}}]),
        **more,
    }  # fmt: skip
    (result,) = ub.run(fields, out=where / "runs", workers=0)
    assert result.error is None, result.error
    return result


def test_members_of_an_overfitted_model_show_and_those_of_a_fresh_one_do_not(
    where: Path, splits: dict[str, list[str]], overfitted: Path
) -> None:
    file = checkpoints.write_rows(where / "rows.csv", rows_of(splits))
    claim = {"claimed_epsilon": 8.0, "claimed_delta": 1e-5, "claimed_source": "its model card"}
    attacks = [{"name": name, "params": {}} for name in ("membership", "secret-sharer")]
    over, fresh = (
        run(where, folder, file, claim=claim, attacks=attacks)
        for folder in (overfitted, checkpoints.causal(where / "fresh", splits["train"], 0))
    )
    assert over.leakage["membership"]["auc"].value > 0.9
    assert fresh.leakage["membership"]["auc"].low < 0.5 < fresh.leakage["membership"]["auc"].high
    (skipped,) = over.skipped_attacks
    assert skipped.name == "secret-sharer" and "uedp-bench plant" in skipped.reason
    claimed, proven = over.guarantees
    assert (claimed.accountant, claimed.epsilon, claimed.unit) == (DECLARED, 8.0, "user")
    assert proven.notion == "none" and "no event" in proven.reason
    assert over.diagnostics["scored_split"] == "test"
    corpus = ub.load_corpus("text", **over.spec.source.params)
    assert int(corpus.where("train").sum()) == len(splits["train"])
    again = ub.attack(overfitted, corpus, "membership").metrics["auc"]
    assert again.value == pytest.approx(over.leakage["membership"]["auc"].value)
    assert "public-only" not in over.floors  # the model that came is no model before training


def test_what_the_base_finds_likely_too_is_no_sign_of_membership(where: Path) -> None:
    easy = checkpoints.sentences(1, 99)[0].split()

    def of_any_difficulty(count: int, seed: int) -> list[str]:
        """Sentences that begin with so many words of one that the base knows."""
        lengths = np.random.default_rng(seed).integers(0, 7, count)
        rows = zip(lengths.tolist(), checkpoints.sentences(count, seed), strict=True)
        return [" ".join([*easy[:length], *text.split()[length:]]) for length, text in rows]

    base = checkpoints.causal(where / "base", of_any_difficulty(200, 9), 40)
    texts = {"train": of_any_difficulty(50, 1), "held_out": of_any_difficulty(50, 2),
             "test": of_any_difficulty(12, 3)}  # fmt: skip
    file = checkpoints.write_rows(where / "tuned.csv", rows_of(texts))
    tuned = checkpoints.causal(where / "tuned", texts["train"], 8, begin=base)
    alone = run(where, tuned, file)
    beside = run(where, tuned, file, model={"base": str(base)})
    scores = [each.details["membership"]["main_score"] for each in (alone, beside)]
    assert scores == ["loss", "ez"]
    apart = [each.leakage["membership"]["auc"].value for each in (alone, beside)]
    assert apart[1] > apart[0] + 0.1
    assert 0.0 < beside.diagnostics["weights_of_base"] < 0.5
    assert "public-only" in beside.floors
    corpus = ub.load_corpus("text", **beside.spec.source.params)
    again = ub.attack(tuned, corpus, "membership", base=base).metrics["auc"]
    assert again.value == pytest.approx(apart[1])


def test_the_base_of_another_tokenizer_is_refused(
    where: Path, splits: dict[str, list[str]]
) -> None:
    file = checkpoints.write_rows(where / "other.csv", rows_of(splits))
    other = checkpoints.causal(where / "other-words", words=checkpoints.WORDS[::-1])
    with pytest.raises(AssertionError, match=r"checkpoint\.base"):
        run(where, checkpoints.causal(where / "mine"), file, model={"base": str(other)})


def test_one_model_is_no_sample_of_trainings() -> None:
    model = {"name": "checkpoint", "params": {"pretrained": "there"}}
    fields = {"mechanisms": ["trained-elsewhere"], "model": model, "seeds": [1, 2, 3]}
    with pytest.raises(InputError, match=r"3 seeds.*--seeds 1"):
        expand(parse_spec(fields))


def test_a_classifier_answers_as_it_does_in_transformers_its_classes_found_by_name(
    where: Path, splits: dict[str, list[str]]
) -> None:
    def label(text: str) -> str:
        return ("neg", "pos", "mixed")[zlib.crc32(text.encode()) % 3]  # to be learnt by heart

    # Attackers of representations are chosen by rows of valid, which nobody cuts off members.
    rows = rows_of({**splits, "valid": checkpoints.sentences(6, 9)}, label=label)
    file = checkpoints.write_rows(where / "labelled.csv", rows)
    folder = where / "classifier"
    model, reads = checkpoints.encoder(folder, "SequenceClassification", ("mixed", "Pos", "neg"))
    batch = dict(reads(splits["train"], padding=True, return_tensors="pt"))
    numbers = {"mixed": 0, "pos": 1, "neg": 2}
    batch["labels"] = torch.tensor([numbers[label(text)] for text in splits["train"]])
    checkpoints.descend(model, batch, 30)
    checkpoints.saved(model, reads, folder)
    result = run(
        where, folder, file, "text-classification", columns={"label_column": "label"},
        attacks=[{"name": name, "params": {}} for name in ("membership", "embedding-inversion")],
    )  # fmt: skip
    assert result.leakage["membership"]["auc"].value > 0.7
    release: Any = ub.load_release(where / "runs" / result.id)
    corpus = ub.load_corpus("text", **result.spec.source.params).only("test")
    logprobs = release.class_logprobs(corpus)
    with torch.no_grad():
        theirs = model.eval()(**reads(list(corpus.texts), padding=True, return_tensors="pt")).logits
    order = [numbers[name] for name in corpus.label_names]
    assert np.allclose(logprobs, torch.log_softmax(theirs, dim=1)[:, order].numpy(), atol=1e-4)


def test_a_tagger_gives_the_labels_that_it_gives_in_transformers(
    where: Path, splits: dict[str, list[str]]
) -> None:
    def spans(text: str) -> str:
        first = text.split()[0]
        return json.dumps([{"start": 0, "end": len(first), "type": "PER"}])

    file = checkpoints.write_rows(where / "tagged.csv", rows_of(splits, names=spans))
    model, reads = checkpoints.encoder(
        where / "tagger", "TokenClassification", ("B-PER", "O", "I-PER")
    )
    result = run(
        where, where / "tagger", file, "tagging",
        columns={"entities_column": "names"},
    )  # fmt: skip
    assert result.leakage["membership"]["auc"].low < 0.5
    release: Any = ub.load_release(where / "runs" / result.id)
    with torch.no_grad():
        theirs = model.eval()(**reads(splits["test"][:1], return_tensors="pt")).logits[0, 1:-1]
    scores = release.module(
        release.learner(
            ub.load_corpus("text", **result.spec.source.params).only("test")
        ).batch([0], np.zeros(1, dtype=np.int64))
    )  # fmt: skip
    assert np.allclose(scores[0].detach(), theirs[:, [1, 0, 2]], atol=1e-5)


def test_a_masked_model_is_asked_with_its_own_head(
    where: Path, splits: dict[str, list[str]]
) -> None:
    file = checkpoints.write_rows(where / "masked.csv", rows_of(splits))
    checkpoints.encoder(where / "masked", "MaskedLM")
    result = run(where, where / "masked", file, "masked-language-model")
    assert result.leakage["membership"]["auc"].low < 0.5 < result.leakage["membership"]["auc"].high
    assert abs(result.utility["pseudo_perplexity"].value - len(checkpoints.WORDS)) < 15


@pytest.fixture(scope="module")
def overfitted(where: Path, splits: dict[str, list[str]]) -> Path:
    """A model that knows its rows by heart."""
    return checkpoints.causal(where / "heart", splits["train"], 40)


@pytest.fixture(scope="module")
def refused(where: Path) -> Path:
    checkpoints.causal(where / "good")
    checkpoints.encoder(where / "classes", "SequenceClassification", ("neg", "pos"))
    for name, change in {
        "wider": {"n_embd": 64},
        "deeper": {"n_layer": 2},
        "shallower": {"n_layer": 0},
        "code": {"model_type": "zork", "auto_map": {"AutoConfig": "theirs.Config"}},
        "nameless": {"architectures": None},
    }.items():
        folder = checkpoints.causal(where / name)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, **change}))
        (folder / "theirs.py").write_text("raise SystemExit('it ran')")
    return where


@pytest.mark.parametrize(
    ("folder", "task", "message"),
    [
        ("wider", "next-word", r"wider': .*transformer\.h\.0"),
        ("deeper", "next-word", "weights lack transformer.h.1"),
        ("shallower", "next-word", r"transformer\.h\.0\.attn\.c_attn\.weight"),
        ("code", "next-word", "(code|nowhere)' .*hub"),
        ("nameless", "next-word", "nameless' .*architectures"),
        ("nowhere", "next-word", "(code|nowhere)' .*hub"),
        ("classes", "next-word", "BertForSequenceClassification.*next-word.*text-classification"),
        ("good", "masked-language-model", "good': .*tokenizer"),
        ("classes", "masked-language-model", "BertForSequenceClassification.*text-classification"),
        ("classes", "text-classification", "class 'posi'.*'pos'"),
    ],
)
def test_folders_that_do_not_fit_are_refused(
    refused: Path, folder: str, task: str, message: str
) -> None:
    model = Checkpoint.create({"pretrained": str(refused / folder)})
    build = {
        "next-word": model.build,
        "masked-language-model": model.build_masked,
        "text-classification": lambda v, s: model.build_encoder(v, s).head(("neg", "posi")),
    }[task]
    with pytest.raises(InputError, match=message):
        build(model.vocabulary((), origin="", private=False), 1)


@pytest.mark.parametrize(
    ("mechanism", "model", "message"),
    [
        ("noiseless", {"name": "checkpoint", "params": {"pretrained": "good"}}, "noiseless"),
        ("trained-elsewhere", {"name": "lstm-small"}, "lstm-small.*--model checkpoint"),
        ("deidentify+trained-elsewhere", {"name": "checkpoint", "params": {"pretrained": "good"}},
         "deidentify.*trained-elsewhere"),
    ],
)  # fmt: skip
def test_what_was_trained_elsewhere_is_not_trained_here_nor_the_reverse(
    mechanism: str, model: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        ub.run({"model": model, "mechanisms": [mechanism]}, out=tmp_path, workers=0)


def test_members_stay_members_and_utility_is_of_other_rows(
    where: Path, splits: dict[str, list[str]], overfitted: Path
) -> None:
    members = {name: texts for name, texts in splits.items() if name != "test"}
    file = checkpoints.write_rows(where / "two.csv", rows_of(members))
    result = run(where, overfitted, file)
    params = result.spec.source.params
    corpus = ub.load_corpus("text", **params)
    assert (params["valid"], params["test"]) == (0.0, 0.0)
    assert int(corpus.where("train").sum()) == len(splits["train"])
    assert result.diagnostics["scored_split"] == "held_out"
    release: Any = ub.load_release(where / "runs" / result.id)
    nats = -np.concatenate([one.logp for one in release.token_logprobs(splits["held_out"])])
    words = sum(len(text.split()) + 1 for text in splits["held_out"])
    assert result.utility["perplexity"].value == pytest.approx(np.exp(nats.sum() / words))


def test_rows_of_train_alone_and_shares_of_them_are_refused(
    where: Path, splits: dict[str, list[str]]
) -> None:
    folder = checkpoints.causal(where / "alone")
    file = checkpoints.write_rows(where / "alone.csv", rows_of({"train": splits["train"]}))
    with pytest.raises((InputError, AssertionError), match=r"split train.*held_out"):
        run(where, folder, file, attacks=[])
    with pytest.raises(InputError, match=r"source\.test is 0\.2.*trained-elsewhere"):
        run(where, folder, file, attacks=[], columns={"test": 0.2})
