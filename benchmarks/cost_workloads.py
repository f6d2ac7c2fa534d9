"""Networks of every family at chosen sizes, and users to train them: the work that is measured.

A `Work` says everything: the family, the sizes of its network, and how many users of how many rows
take how many local steps. Rows have the same number of words, whose frequencies fall as 1 / rank.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from workloads import Numbers, lstm_network, numbers_corpus, stats_of
from workloads import Sizes as RoundSizes

from uedp_bench.corpus import SPLITS, Corpus, Spans
from uedp_bench.learner import Learner
from uedp_bench.registry import mechanisms, models, tasks
from uedp_bench.run_context import Run
from uedp_bench.tasks.language.learner import LanguageModelLearner


@dataclass(frozen=True)
class Work:
    """The work of one round.

    Attributes:
        family: one of `FAMILIES`.
        sizes: of the network, by the family's own names.
        vocabulary: words, or tokens of a trained tokenizer at most.
        users: of a round.
        steps: local steps of a user; 1 is one pass over all users.
        rows: of a local step.
        tokens: words of a row.
    """

    family: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    vocabulary: int = 2_000
    users: int = 8
    steps: int = 2
    rows: int = 4
    tokens: int = 20

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)

    @staticmethod
    def of(values: Mapping[str, Any]) -> Work:
        """The work that `to_dict` wrote."""
        return Work(**values)


def learner_of(work: Work) -> Learner:
    """Rows of all users of a round, and the network."""
    return FAMILIES[work.family](work)


def train(work: Work, learner: Learner, rounds: int, device: str, lap: Callable[[], None]) -> None:
    """Rounds of `user-dp` in which everybody takes part; `lap` is called after each."""
    mechanism = mechanisms.create("user-dp", {
        "users": work.users, "users_per_round": work.users, "rounds": rounds, "sampling": "fixed",
        "local_batch_size": None if work.steps == 1 else work.rows, "local_learning_rate": 0.01,
    })  # fmt: skip
    run = Run(1, stats_of(learner.corpus), device=device, progress=lambda *_: lap())
    mechanism.train(learner, learner.corpus, run)


def parameters_of(learner: Learner) -> int:
    """Weights that are trained."""
    return sum(each.numel() for each in learner.module.parameters() if each.requires_grad)


def _numbers(work: Work) -> Corpus:
    rows = work.steps * work.rows
    return numbers_corpus(RoundSizes(work.users, rows, work.tokens), work.vocabulary)


def _language(work: Work, model: Any, module: Any) -> Learner:
    return LanguageModelLearner(model, module, Numbers(work.vocabulary), _numbers(work))


def _gpt(work: Work) -> Learner:
    """GPT-2 with these `layers`, and `width`, a head for every 64."""
    from transformers import GPT2Config, GPT2LMHeadModel

    from uedp_bench.models.networks.causal_transformer import TransformerNetwork

    torch.manual_seed(1)
    width = work.sizes["width"]
    config = GPT2Config(
        n_layer=work.sizes["layers"], n_embd=width, n_head=max(width // 64, 1), n_positions=1024,
        vocab_size=work.vocabulary, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    found = _language(work, models.create("gpt2", {"configuration": "small"}), None)
    found.module = TransformerNetwork(GPT2LMHeadModel(config))
    return found


def _cifg(work: Work) -> Learner:
    model = models.create("cifg-lstm", dict(work.sizes))
    return _language(work, model, model.build(Numbers(work.vocabulary), seed=1))


def _lstm(work: Work) -> Learner:
    """The LSTM of federated benchmarks: gates apart, a projection, output tied."""
    module = lstm_network(work.vocabulary, work.sizes["embedding"], work.sizes["units"])
    return _language(work, models.create("cifg-lstm", {}), module)


def _awd(work: Work) -> Learner:
    model = models.create("awd-lstm", dict(work.sizes))
    return _language(work, model, model.build(Numbers(work.vocabulary), seed=1))


def _labelled(work: Work) -> Corpus:
    """Rows with two labels, an entity in each and the next row as translation, and public rows.

    Public rows have every word once, so that a vocabulary of words has exactly these.
    """
    private = _numbers(work)
    words = [f"w{number}" for number in range(work.vocabulary - 3)]
    rng = np.random.default_rng(3)
    texts = [" ".join(f"w{word}" for word in text.split()) for text in private.texts]
    public = [" ".join(words[at : at + 20]) for at in range(0, len(words), 20)]
    mentions = [(row, 0, len(text.split()[0]), row % 2) for row, text in enumerate(texts)]
    every = (*texts, *public)
    users = np.concatenate([private.users, np.full(len(public), work.users)])
    split = [SPLITS.index("train")] * len(texts) + [SPLITS.index("public")] * len(public)
    labels = np.concatenate([rng.integers(2, size=len(texts)), np.full(len(public), -1)])
    return Corpus(
        every, {"user": users}, np.array(split), labels=labels, label_names=("no", "yes"),
        entities=Spans.build(every, mentions), entity_types=("even", "odd"),
        targets=(*every[1:], every[0]),
    )  # fmt: skip


def _of_task(work: Work, name: str, model: Any, params: Mapping[str, Any]) -> Learner:
    """The private stage of a task, on private rows alone."""
    corpus = _labelled(work)
    kind = tasks.get(name)
    task = kind(kind.create(dict(params)).params, model)
    vocabulary = task.vocabulary(corpus)
    private = corpus.take(np.flatnonzero(corpus.where("train")))
    *_, found = task.stages(private, vocabulary, Run(1, stats_of(private)))
    return found


def _bert(task: str) -> Callable[[Work], Learner]:
    def made(work: Work) -> Learner:
        configuration = ("micro", "tiny", "small")[work.sizes["size"]]
        params = {"configuration": configuration, "vocabulary_size": work.vocabulary}
        return _of_task(work, task, models.create("bert", params), {})

    return made


def _bilstm(task: str) -> Callable[[Work], Learner]:
    def made(work: Work) -> Learner:
        params = {"embedding_size": work.sizes["embedding"], "units": work.sizes["units"]}
        model = models.create("bilstm", {**params, "vocabulary_size": work.vocabulary})
        return _of_task(work, task, model, {})

    return made


def _awd_encoder(work: Work) -> Learner:
    model = models.create("awd-lstm", {**work.sizes, "vocabulary_size": work.vocabulary})
    return _of_task(work, "text-classification", model, {})


def _tfidf(work: Work) -> Learner:
    model = models.create("tfidf", {"vocabulary_size": work.vocabulary})
    return _of_task(work, "text-classification", model, {"hidden": (work.sizes["hidden"],)})


def _text_cnn(work: Work) -> Learner:
    """Convolutions over words; their vectors are random, and written to a file for the model."""
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory(prefix="uedp-bench-") as folder:
        file = Path(folder) / "vectors.txt"
        lines = [
            " ".join([f"w{word}", *(f"{value:.3f}" for value in rng.normal(size=50))])
            for word in range(work.vocabulary - 3)
        ]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        params = {"embedding": file, "filters": work.sizes["filters"]}
        return _of_task(work, "text-classification", models.create("text-cnn", params), {})


def _transformer(work: Work) -> Learner:
    width = work.sizes["width"]
    model = models.create("transformer-small", {
        "layers": work.sizes["layers"], "width": width, "inner": 4 * width, "heads": width // 32,
        "vocabulary_size": work.vocabulary,
    })  # fmt: skip
    return _of_task(work, "translation", model, {})


FAMILIES: dict[str, Callable[[Work], Learner]] = {
    "next-word gpt2": _gpt,
    "next-word cifg-lstm": _cifg,
    "next-word lstm": _lstm,
    "next-word awd-lstm": _awd,
    "classification bert": _bert("text-classification"),
    "classification bilstm": _bilstm("text-classification"),
    "classification awd-lstm": _awd_encoder,
    "classification tfidf": _tfidf,
    "classification text-cnn": _text_cnn,
    "tagging bilstm": _bilstm("tagging"),
    "tagging bert": _bert("tagging"),
    "masked language bert": _bert("masked-language-model"),
    "translation transformer": _transformer,
}
"""Who makes the learner of each family."""
