"""Marian from a folder: a tiny random model with pieces of its own, in the library's format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import parallel_rows
import pytest
import torch
from toy import cohort_of

from uedp_bench.errors import InputError
from uedp_bench.models.translators import Marian, MarianParams
from uedp_bench.tasks.translation.translator import (
    PairReader,
    TranslatorRelease,
)
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Marian model of two layers of 16, with sentencepiece models of the generated pairs."""
    import sentencepiece
    from transformers import MarianConfig, MarianMTModel

    out = tmp_path_factory.mktemp("marian")
    rows = parallel_rows.corpus()
    pieces = {"</s>": 0, "<unk>": 1}
    for name, texts in (("source", rows.texts), ("target", rows.targets or ())):
        (out / f"{name}.txt").write_text("\n".join(texts), encoding="utf-8")
        sentencepiece.SentencePieceTrainer.train(
            input=str(out / f"{name}.txt"), model_prefix=str(out / name), vocab_size=120,
            bos_id=-1, eos_id=0, unk_id=1, minloglevel=2,
        )  # fmt: skip
        (out / f"{name}.model").rename(out / f"{name}.spm")
        model = sentencepiece.SentencePieceProcessor(str(out / f"{name}.spm"))
        for at in range(2, model.get_piece_size()):
            pieces.setdefault(model.id_to_piece(at), len(pieces))
    pieces["<pad>"] = len(pieces)
    (out / "vocab.json").write_text(json.dumps(pieces), encoding="utf-8")
    languages = {"source_lang": "de", "target_lang": "en"}
    (out / "tokenizer_config.json").write_text(json.dumps(languages), encoding="utf-8")
    torch.manual_seed(1)
    sizes = {"layers": 1, "attention_heads": 2, "ffn_dim": 16}
    config = MarianConfig(
        vocab_size=len(pieces),
        d_model=16,
        max_position_embeddings=40,
        pad_token_id=len(pieces) - 1,
        eos_token_id=0,
        decoder_start_token_id=len(pieces) - 1,
        scale_embedding=True,
        **{f"encoder_{name}": size for name, size in sizes.items()},
        **{f"decoder_{name}": size for name, size in sizes.items()},
    )
    MarianMTModel(config).save_pretrained(out)
    return out


@pytest.fixture(scope="module")
def release(folder: Path) -> TranslatorRelease:
    model = Marian(MarianParams(pretrained=folder))
    vocabulary = model.vocabulary((), origin="", private=False)
    return TranslatorRelease(
        PairReader(model, vocabulary, max_tokens=30), model.build_translator(vocabulary, seed=1)
    )


def test_tags_are_entries_that_no_translation_has(release: TranslatorRelease) -> None:
    vocabulary = release.vocabulary
    plain, tagged = vocabulary.encode(["der Arzt", "<P> der Arzt </P>"])
    assert len({tagged[0], tagged[-1], *plain}) == len({*plain}) + 2
    assert {tagged[0], tagged[-1], vocabulary.start} <= {*vocabulary.never}
    assert vocabulary.decode(vocabulary.encode_targets(["a doctor ."])[0]) == "a doctor ."
    assert release.module.output_layer().weight.shape[0] == vocabulary.size


def test_losses_are_those_of_the_library(release: TranslatorRelease) -> None:
    rows = parallel_rows.corpus().only("test")
    reader, network = release.reader, release.module.network
    for one in (rows.take(np.array([row])) for row in range(3)):
        sides = reader.read(one)
        tokens, labels = (torch.from_numpy(sides[name].flat[None]) for name in sides)
        outputs = network(input_ids=tokens, labels=labels)
        mine = release.pair_losses(one.texts, one.targets or ())[0]
        assert mine == pytest.approx(outputs.loss.item() * labels.shape[1], rel=1e-4)


def test_rows_are_translated_by_themselves_and_a_saved_model_answers_as_before(
    release: TranslatorRelease, tmp_path: Path
) -> None:
    texts = [*parallel_rows.corpus().only("test").texts[:3], ""]
    together = release.translate(texts)
    assert together == [release.translate([text])[0] for text in texts]
    release.save(tmp_path)
    again = PairReader.load(tmp_path)
    assert again.translate(texts) == together
    assert again.vocabulary.fingerprint == release.vocabulary.fingerprint


def test_gradients_of_rows_are_their_own(release: TranslatorRelease) -> None:
    rows = parallel_rows.corpus().only("test").take(np.arange(3))
    learner = release.learner(rows)
    together = learner.losses(learner.module, learner.batch([0, 1, 2], np.zeros(3, np.int64)))
    one = learner.losses(learner.module, learner.batch([1], np.zeros(1, np.int64)))
    weight = learner.module.network.model.encoder.layers[0].fc1.weight
    both = [torch.autograd.grad(nats, weight)[0] for nats in (together.nats[1], one.nats[0])]
    assert both[0] == pytest.approx(both[1], abs=1e-5)


def test_folders_that_hold_no_model_are_named(tmp_path: Path) -> None:
    for where, message in ((tmp_path / "none", "none "), (tmp_path, "Marian")):
        model = Marian(MarianParams(pretrained=where))
        with pytest.raises(InputError, match=rf"marian\.pretrained: .*{message}"):
            model.vocabulary((), origin="", private=False)


def test_places_are_not_trained(release: TranslatorRelease) -> None:
    frozen = [name for name, p in release.module.named_parameters() if not p.requires_grad]
    assert {name.rpartition("embed_positions")[1] for name in frozen} == {"embed_positions"}


def test_a_share_of_pairs_is_the_sum_of_clipped_updates(release: TranslatorRelease) -> None:
    rows = parallel_rows.corpus().only("train").take(np.arange(6))
    learner = release.learner(rows)
    worker = ShareWorker(WorkerSetup(learner, LocalTraining(), "cpu", seed=1, injected=(), most=4))
    units = np.arange(6)
    cohort = cohort_of(units[:, None])
    cohort = cohort._replace(seeds=np.zeros((1, *cohort.rows.shape), np.int64))
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(0.05))
    together = worker.unit_sum(work, Share(cohort, np.ones(6)))
    assert together.clipping == {ONE_PASS: 6}
    alone = [worker.unit_sum(work, Share(cohort.take(units[[at]]), np.ones(1))) for at in range(6)]
    assert all(float(one.total.norm()) <= 0.05 * (1 + 1e-6) for one in alone)
    total = torch.stack([one.total for one in alone]).sum(dim=0)
    assert together.total.numpy() == pytest.approx(total.numpy(), abs=1e-6)
    assert together.clipped == 6
    nats = learner.losses(learner.module, learner.batch([2], np.zeros(1, np.int64))).nats[0]
    trained = [weight for weight in learner.module.parameters() if weight.requires_grad]
    parts = torch.autograd.grad(nats, trained)
    gradient = -torch.cat([part.reshape(-1) for part in parts])
    expected = 0.05 * gradient / gradient.norm()
    assert alone[2].total.numpy() == pytest.approx(expected.numpy(), abs=1e-4)
