from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from uedp_bench.components.registry import models, tasks
from uedp_bench.contracts.capabilities import Completer, Generator, Scorer
from uedp_bench.contracts.learner import Schedule
from uedp_bench.contracts.results import Estimate
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.models.word_vocabularies import WordVocabulary
from uedp_bench.tasks.language.language_model import LanguageModelRelease
from uedp_bench.training.plain import train_plain

STATS = CorpusStats(users=40, rows=200, sensitive_rows=0, entities=0, public=False)
SMALL: dict[str, dict[str, Any]] = {
    "lstm-small": {"embedding": 8, "units": 12},
    "awd-lstm": {"embedding": 8, "units": 12},
    "gpt2": {"vocabulary_size": 300},
}


def chain_corpus(rows: int = 400, order: int = 1, words: int = 12) -> Corpus:
    """Text of a Markov chain: the next word is one of two, given the last `order` words."""
    rng = np.random.default_rng(0)
    follow = rng.integers(words, size=(*[words] * order, 2))
    texts = []
    for _ in range(rows):
        row = rng.integers(words, size=order).tolist()
        while len(row) < 6 + order:
            row.append(int(rng.choice(follow[tuple(row[-order:])])))
        texts.append(" ".join(f"w{i}" for i in row))
    split = np.resize(
        [SPLITS.index(s) for s in ("train", "train", "valid", "test", "public")], rows
    )
    return Corpus(tuple(texts), {"user": np.arange(rows) // 7}, split)


def task_with(model: str = "lstm-small", **params: Any) -> Any:
    torch.set_num_threads(1)
    kind = tasks.get("next-word")
    task = kind.create(params)
    return kind(task.params, models.create(model, SMALL[model]))


def release_of(task: Any, corpus: Corpus, seed: int = 1) -> LanguageModelRelease:
    vocabulary = task.vocabulary(corpus)
    learner = task.stages(corpus, vocabulary, Run(seed, STATS))[-1]
    release: LanguageModelRelease = learner.release(learner.module)
    return release


def test_a_uniform_model_has_the_vocabulary_s_size_as_perplexity() -> None:
    task, corpus = task_with(), chain_corpus()
    release = release_of(task, corpus)
    with torch.no_grad():
        for parameter in release.module.parameters():
            parameter.zero_()
    score = task.score(release, corpus)
    assert set(score) == {one.name for one in task.metrics}
    for name in ("perplexity", "perplexity_token"):
        assert score[name].value == pytest.approx(release.vocabulary.size, rel=1e-5)
        assert score[name].low == pytest.approx(score[name].high, rel=1e-5)
    (scores,) = release.token_logprobs(["w1 w2"])
    np.testing.assert_allclose(scores.logp, [-math.log(release.vocabulary.size)] * 3, rtol=1e-5)
    np.testing.assert_allclose(scores.mean, scores.logp, rtol=1e-5)
    np.testing.assert_allclose(scores.std, 0.0, atol=1e-3)


def test_perplexity_divides_by_words_and_one_end_per_row() -> None:
    """With bytes as tokens, a uniform model needs log V for each byte, so V^(tokens / words)."""
    task = task_with("gpt2")
    texts = ("ab cd", "efg", "x", "yz")
    split = np.array([SPLITS.index(s) for s in ("test", "test", "train", "public")])
    corpus = Corpus(texts, {"user": np.arange(4)}, split)
    release = release_of(task, corpus)
    with torch.no_grad():
        for parameter in release.module.parameters():
            parameter.zero_()
    tokens = sum(len(release.encode(text)) + 1 for text in texts[:2])
    words = (2 + 1) + (1 + 1)
    score = task.score(release, corpus)
    size = release.vocabulary.size
    assert score["perplexity"].value == pytest.approx(size ** (tokens / words), rel=1e-4)
    assert score["perplexity_token"].value == pytest.approx(size, rel=1e-4)
    assert score["oov_rate"].value == 0.0


@pytest.mark.parametrize("name", SMALL)
def test_scores_are_those_of_the_logits(name: str) -> None:
    """Batched, padded and sorted by length, against one row at a time from the definition."""
    task, corpus = task_with(name), chain_corpus()
    release = release_of(task, corpus)
    vocabulary = release.vocabulary
    texts = ["w1 w2 w3", "", "w4", "w5 unseen w1 w2 w3 w4 w5 w6 w7", "w3 w2"]
    for text, scores in zip(texts, release.token_logprobs(texts), strict=True):
        targets = [*vocabulary.encode([text])[0], vocabulary.end]
        with torch.no_grad():
            logits = release.module(torch.tensor([[vocabulary.begin, *targets[:-1]]]))[0].double()
        logs = torch.log_softmax(logits, dim=-1).numpy()
        p = np.exp(logs)
        mean = (p * logs).sum(axis=1)
        np.testing.assert_allclose(scores.logp, logs[range(len(targets)), targets], atol=1e-5)
        np.testing.assert_allclose(scores.mean, mean, atol=1e-5)
        spread = np.sqrt((p * logs**2).sum(axis=1) - mean**2)
        np.testing.assert_allclose(scores.std, spread, atol=1e-4)
        assert scores.correct.tolist() == (logs.argmax(axis=1) == targets).tolist()


@pytest.mark.parametrize("name", SMALL)
def test_losses_of_a_row_do_not_see_other_rows(name: str) -> None:
    task, corpus = task_with(name), chain_corpus()
    (learner,) = task.stages(corpus, task.vocabulary(corpus), Run(1, STATS))
    learner.module.train()
    batch = dict(learner.batch([0, 1, 2], np.arange(3)))
    whole = learner.losses(learner.module, batch)
    alone = learner.losses(learner.module, {key: value[1:2] for key, value in batch.items()})
    torch.testing.assert_close(alone.nats[0], whole.nats[1], atol=1e-4, rtol=1e-5)
    assert (
        alone.targets[0] == whole.targets[1] == len(corpus.only("train").texts[1].split()) + 1
        or name == "gpt2"
    )


@pytest.mark.parametrize("name", SMALL)
def test_a_saved_release_answers_alike(name: str, tmp_path: Path) -> None:
    task, corpus = task_with(name, preprocessing="paper"), chain_corpus(120)
    learner = task.stages(corpus, task.vocabulary(corpus), Run(1, STATS))[-1]
    plan = Schedule(epochs=1, batch_size=16, learning_rate=1e-2)
    release = learner.release(train_plain(plan, learner, Run(1, STATS)))
    release.save(tmp_path / "release")
    again = task.load(tmp_path / "release")
    assert task.score(again, corpus) == task.score(release, corpus)
    assert again.encode("W1, w2!") == release.encode("w1 w2")


def test_scores_are_the_same_to_the_bit_in_any_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = chain_corpus()
    release = release_of(task_with(), corpus)
    whole = release.token_logprobs(corpus.texts)
    monkeypatch.setattr("uedp_bench.tasks.tokens.rows.IN_CACHE", 1)
    for one, other in zip(release.token_logprobs(corpus.texts), whole, strict=True):
        for mine, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_fillers_do_not_depend_on_their_company() -> None:
    release = release_of(task_with(), chain_corpus())
    fillers = [f"w{a} w{b} w{c}" for a in range(12) for b in range(12) for c in range(12)]
    many = release.filler_losses("w1 ", "", fillers)
    few = release.filler_losses("w1 ", "", fillers[5:9])
    np.testing.assert_allclose(many[5:9], few, atol=1e-4)
    assert release.filler_losses("w1 ", "", []).shape == (0,)


def test_fillers_that_join_the_last_word_are_compared_from_that_word_on() -> None:
    release = release_of(task_with(), chain_corpus())
    losses = release.filler_losses("w1 w", "", ["2 w5", "3 w5"])
    for text, loss in zip(["w1 w2 w5", "w1 w3 w5"], losses, strict=True):
        (scores,) = release.token_logprobs([text])
        assert loss == pytest.approx(-scores.logp[1:3].sum(), abs=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_next_logprobs_are_those_of_scoring(name: str) -> None:
    release = release_of(task_with(name), chain_corpus())
    for capability in (Scorer, Completer, Generator):
        assert isinstance(release, capability)
    (scores,) = release.token_logprobs(["w1 w2 w3"])
    ids = release.encode("w1 w2 w3")
    for at, token in enumerate(ids):
        table = release.next_logprobs([ids[:at]] * 2)
        assert table.shape == (2, release.vocabulary.size)
        np.testing.assert_allclose(np.exp(table).sum(axis=1), 1.0, rtol=1e-6)
        assert table[1, token] == pytest.approx(scores.logp[at], abs=1e-4)
    assert release.decode(ids) == "w1 w2 w3"


def test_long_texts_are_scored_whole_and_trained_truncated() -> None:
    corpus = chain_corpus(60)
    long = " ".join(["w1 w2 w3 w4"] * 300)
    corpus = corpus.with_texts([long if i % 20 == 0 else t for i, t in enumerate(corpus.texts)])
    task, run = task_with("gpt2"), Run(1, STATS)
    (learner,) = task.stages(corpus, task.vocabulary(corpus), run)
    assert learner.truncated == run.counts["rows_truncated"] == 3
    assert learner.batch([0], np.arange(1))["tokens"].shape == (1, 255)
    release = learner.release(learner.module)
    (scores,) = release.token_logprobs([long])
    assert len(scores.logp) == len(release.encode(long)) + 1
    assert release.next_logprobs([release.encode(long)]).shape == (1, release.vocabulary.size)


def test_max_tokens_counts_targets_and_drops_the_end() -> None:
    corpus, run = chain_corpus(60), Run(1, STATS)
    task = task_with(max_tokens=3)
    (learner,) = task.stages(corpus, task.vocabulary(corpus), run)
    batch = learner.batch([0, 1], np.arange(2))
    assert batch["targets"].shape == (2, 3)
    assert int((batch["targets"] == learner.vocabulary.end).sum()) == 0
    assert run.counts["rows_truncated"] == len(corpus.only("train"))


def test_floors_fall_with_the_order_that_made_the_text() -> None:
    corpus = chain_corpus(3000, order=2, words=6)
    task = task_with()
    score = task.score(release_of(task, corpus), corpus)
    assert score["bigram_perplexity"].value < 0.95 * score["unigram_perplexity"].value


@pytest.mark.long
def test_training_beats_the_unigram_floor() -> None:
    corpus, task = chain_corpus(), task_with()
    learner = task.stages(corpus, task.vocabulary(corpus), Run(1, STATS))[-1]
    plan = Schedule(epochs=25, batch_size=16, learning_rate=2e-2)
    release = learner.release(train_plain(plan, learner, Run(1, STATS)))
    score = task.score(release, corpus)
    assert score["perplexity"].high < score["unigram_perplexity"].low
    assert score["perplexity"].low <= score["perplexity"].value <= score["perplexity"].high
    assert score["accuracy"].value > 0.35


def test_public_stage_comes_first_on_public_rows_and_shares_the_module() -> None:
    corpus = chain_corpus()
    task = task_with(pretraining_epochs=2, pretraining_learning_rate=0.01)
    public, private = task.stages(corpus, task.vocabulary(corpus), Run(1, STATS))
    assert (public.role, private.role) == task.roles() == ("public", "private")
    assert public.module is private.module
    assert public.schedule == Schedule(epochs=2, batch_size=64, learning_rate=0.01)
    assert private.schedule is None
    assert public.corpus.texts == corpus.only("public").texts
    assert public.corpus.where("train").all()
    train, valid = corpus.only("train"), corpus.only("valid")
    assert list(private.corpus.texts) == [*train.texts, *valid.texts]
    assert private.corpus.where("train").tolist() == [True] * len(train) + [False] * len(valid)


def test_vocabulary_by_origin(tmp_path: Path) -> None:
    corpus = chain_corpus()
    train = ["only-private"] * len(corpus)
    kept = np.where(corpus.where("public"), np.array(corpus.texts), np.array(train))
    corpus = corpus.with_texts([str(t) for t in kept])
    public = task_with().vocabulary(corpus)
    assert not public.private
    assert "only-private" not in public.words
    private = task_with(vocabulary="private").vocabulary(corpus)
    assert private.private
    assert private.words == ("only-private",)
    path = tmp_path / "words.txt.gz"
    path.write_bytes(gzip.compress(b"from a FILE!\n\nof words\n"))
    of_file = task_with(vocabulary=str(path), preprocessing="paper").vocabulary(corpus)
    assert sorted(of_file.words) == ["a", "file", "from", "of", "words"]
    assert not of_file.private


@pytest.mark.parametrize(
    ("params", "message"),
    [({}, r"source\.public"), ({"vocabulary": "/no/such/file"}, "/no/such/file")],
)
def test_missing_public_text_is_an_input_error(params: dict[str, str], message: str) -> None:
    corpus = chain_corpus().only("train", "valid", "test")
    with pytest.raises(InputError, match=message):
        task_with(**params).vocabulary(corpus)


def test_other_bad_input() -> None:
    corpus = chain_corpus()
    task = task_with(pretraining_epochs=1)
    vocabulary = task.vocabulary(corpus)
    with pytest.raises(InputError, match="pretraining_epochs"):
        task.stages(corpus.only("train"), vocabulary, Run(1, STATS))
    with pytest.raises(InputError, match="'train'"):
        task.stages(corpus.only("public"), vocabulary, Run(1, STATS))
    with pytest.raises(InputError, match="'test'"):
        task.score(release_of(task_with(), corpus), corpus.only("train", "valid"))
    with pytest.raises(CapabilityError, match="Scorers"):
        task.score(object(), corpus)
    with pytest.raises(CapabilityError, match="lstm-small"):
        tasks.create("next-word").vocabulary(corpus)


def test_out_of_vocabulary_words_count_as_they_are() -> None:
    task, corpus = task_with(), chain_corpus(60)
    release = release_of(task, corpus)
    assert isinstance(release.vocabulary, WordVocabulary)
    text = f"x y {release.vocabulary.words[0]}"
    texts = np.where(corpus.where("test"), text, np.array(corpus.texts)).tolist()
    score = task.score(release, corpus.with_texts(texts))
    assert score["oov_rate"].value == pytest.approx(0.5)  # two of three words and an end


def test_accuracy_is_of_known_targets_so_that_guessing_unknown_earns_nothing() -> None:
    """Four DP runs of four on text with 36 % unknown words scored exactly the unknown rate."""
    task, corpus = task_with(), chain_corpus(60)
    release = release_of(task, corpus)
    word = release.vocabulary.words[0]
    texts = np.where(corpus.where("test"), f"x y {word}", np.array(corpus.texts)).tolist()
    corpus = corpus.with_texts(texts)

    def always(token: int, height: float = 5.0) -> dict[str, Any]:
        with torch.no_grad():
            for parameter in release.module.parameters():
                parameter.zero_()
            release.module.output_bias[token] = height
        return task.score(release, corpus)

    guesses_unknown = always(release.vocabulary.unknown)
    assert guesses_unknown["accuracy"].value == 0.0
    assert (
        guesses_unknown["accuracy_with_unknown"].value == guesses_unknown["oov_rate"].value == 0.5
    )
    ends = always(release.vocabulary.end)
    assert ends["accuracy"].value == 0.5  # of a word and an end
    assert ends["accuracy_with_unknown"].value == 0.25
    # It costs on known words what it wins on unknown ones.
    assert guesses_unknown["perplexity"].value < ends["perplexity_known"].value * 2
    assert guesses_unknown["perplexity_known"].value > guesses_unknown["perplexity"].value
    impossible = always(release.vocabulary.unknown, -math.inf)
    assert impossible["perplexity"] == Estimate(value=math.inf)
    assert impossible["perplexity_known"].value == pytest.approx(release.vocabulary.size - 1)


def test_the_constant_guess_is_the_most_frequent_known_target_of_training() -> None:
    split = np.array([SPLITS.index(s) for s in ("train", "train", "test", "test", "public")])
    texts = ("new new new a a a", "a", "a b", "a", "a b c")
    corpus = Corpus(texts, {"user": np.arange(5)}, split)
    task = task_with()
    score = task.score(release_of(task, corpus), corpus)
    assert score["constant_accuracy"].value == pytest.approx(2 / 5)  # "a", of a b end a end


def test_two_scores_of_one_corpus_count_once_and_agree(monkeypatch: Any) -> None:
    task, corpus = task_with(), chain_corpus()
    release = release_of(task, corpus)
    first = task.score(release, corpus)
    with monkeypatch.context() as patched:
        patched.setattr(task, "ngrams", lambda *_: pytest.fail("counted again"))
        assert task.score(release, corpus) == first
    assert task.score(release, corpus.only("train", "test")) != first


def test_the_mark_of_unknown_words_in_published_text_stays_one():
    from uedp_bench.models.word_vocabularies import WordVocabulary
    from uedp_bench.tasks.tokens.rows import encode_targets, prepare

    texts = ["The <unk> sat, <unk>. x<unk>y < unk >", "<UNK> <unk>"]
    assert prepare(texts, "paper") == ["the <unk> sat unk xunky unk", "unk <unk>"]
    vocabulary = WordVocabulary.build(prepare(["the <unk> sat"], "paper"), 9, origin="test")
    assert vocabulary.words == ("sat", "the")
    (row,) = encode_targets(["The <unk>"], vocabulary, "paper")
    assert row == [4, vocabulary.unknown, vocabulary.end]
