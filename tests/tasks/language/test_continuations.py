"""Shared work gives the losses that every text has alone, and ranks are those of counting."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from uedp_bench.components.registry import models
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.statistics.exposure import PoolCompleter, TextPoolCompleter, by_pool, texts_of
from uedp_bench.tasks.language import continuations
from uedp_bench.tasks.language.continuations import WordPool
from uedp_bench.tasks.language.language_model import LanguageModelRelease, LanguageReader

SMALL: dict[str, dict[str, Any]] = {
    "lstm-small": {"embedding": 8, "units": 12},
    "awd-lstm": {"embedding": 8, "units": 12},
    "gpt2": {"vocabulary_size": 300},
}
WORDS = ("cat", "dog", "mat", "sat", "tree", "unseenword", "otherword")
TEXT = " ".join(WORDS[:5]) + " the on in of a"
BEFORE = "the cat "


class Plain(torch.nn.Module):
    """A network of a stranger: it maps tokens to logits and does nothing else."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, tokens: torch.Tensor, seeds: None = None) -> Any:
        return self.inner(tokens)


class Resumed(Plain):
    """A stranger's network that can go on from a prefix."""

    def prefix_state(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens

    def resume(self, tokens: torch.Tensor, state: torch.Tensor) -> Any:
        whole = torch.cat([state.expand(len(tokens), -1), tokens], dim=1)
        return self.inner(whole)[:, state.shape[1] :]


def language_model(name: str) -> LanguageModelRelease:
    """A release with weights that are far from uniform; two words are unknown to word models."""
    torch.set_num_threads(1)
    model = models.create(name, SMALL[name])
    vocabulary = model.vocabulary([TEXT] * 3, origin="test", private=False)
    module = model.build(vocabulary, seed=3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(6.0)
    return LanguageModelRelease(LanguageReader(model, vocabulary), module)


@pytest.fixture(params=[*SMALL, "plain", "resumed"])
def release(request: pytest.FixtureRequest) -> LanguageModelRelease:
    if request.param in SMALL:
        return language_model(request.param)
    learnt = language_model("gpt2")
    learnt.module = {"plain": Plain, "resumed": Resumed}[request.param](learnt.module).eval()
    return learnt


@pytest.mark.parametrize(("before", "after"), [(BEFORE, ""), (BEFORE, " mat"), ("", " mat")])
def test_losses_of_fillers_of_any_length_are_those_of_full_rows(
    release: LanguageModelRelease, before: str, after: str
) -> None:
    fillers = ["cat", "cat dog", "cat dog mat", "sat", "cat dog", "tree cat sat unseenword"]
    losses = release.filler_losses(before, after, fillers)
    start = len(release.encode(before.rstrip()))
    scores = [release.token_logprobs([before + text + after])[0] for text in fillers]
    np.testing.assert_allclose(losses, [-one.logp[start:-1].sum() for one in scores], atol=2e-3)
    assert losses[1] == losses[4]


def test_suffixes_by_number_have_the_losses_of_their_texts(
    release: LanguageModelRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffixes = np.random.default_rng(0).integers(len(WORDS), size=(90, 3))
    assert isinstance(release, PoolCompleter)
    expected = release.filler_losses(BEFORE, "", texts_of(WORDS, suffixes))
    monkeypatch.setattr(continuations, "ROWS_AT_ONCE", 7)
    losses = release.pool_losses(BEFORE, WORDS, suffixes)
    np.testing.assert_allclose(losses, expected, rtol=2e-5, atol=1e-4)
    assert np.ptp(losses) > 0.5
    assert release.pool_losses(BEFORE, WORDS, suffixes[:0]).shape == (0,)


def test_the_exact_rank_is_that_of_counting_one_by_one(
    release: LanguageModelRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = np.array(list(product(range(len(WORDS)), repeat=3)))
    losses = release.filler_losses(BEFORE, "", texts_of(WORDS, every))
    order = np.argsort(losses, kind="stable")
    monkeypatch.setattr(continuations, "CELLS_AT_ONCE", 99)
    for at in (0, 171, len(every) - 1):
        own = order[at]
        expected = int((losses <= losses[own]).sum())
        assert release.pool_rank(BEFORE, WORDS, every[own]) == expected
        assert TextPoolCompleter(release).pool_rank(BEFORE, WORDS, every[own]) == expected


def test_words_that_the_model_does_not_know_tie() -> None:
    release = language_model("lstm-small")
    every = np.array(list(product(range(len(WORDS)), repeat=2)))
    tied = np.array([5, 6])
    losses = release.pool_losses(BEFORE, WORDS, every)
    same = np.isin(every, tied).all(axis=1)
    assert same.sum() == 4
    assert len(set(losses[same])) == 1
    ranks = {release.pool_rank(BEFORE, WORDS, suffix) for suffix in every[same]}
    assert ranks == {int((losses <= losses[same][0]).sum())}


def test_a_model_without_preferences_ranks_every_suffix_last() -> None:
    release = language_model("lstm-small")
    with torch.no_grad():
        for parameter in release.module.parameters():
            parameter.zero_()
    assert release.pool_rank(BEFORE, WORDS, np.array([3, 1, 2])) == len(WORDS) ** 3


def test_beginnings_above_the_loss_are_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    release, sizes = language_model("lstm-small"), []
    tree = type(release.module).tree_logits

    def counting(module: Any, start: Any, nodes: Any, wanted: Any) -> Any:
        sizes.append(int(wanted.sum()))
        return tree(module, start, nodes, wanted)

    monkeypatch.setattr(type(release.module), "tree_logits", counting)
    every = np.array(list(product(range(len(WORDS)), repeat=3)))
    losses = release.pool_losses(BEFORE, WORDS, every)
    for place, bound in ((int(losses.argmin()), 15), (int(losses.argmax()), 100)):
        sizes.clear()
        release.pool_rank(BEFORE, WORDS, every[place])
        # A path of three nodes for the own loss; then the start, its 6 pieces, and their 36.
        assert 3 + 1 + 2 <= sum(sizes) <= bound
    assert sum(sizes) == 3 + 1 + 6 + 36


def test_tokens_that_depend_on_the_next_word_are_asked_by_text() -> None:
    def encode(texts: Any) -> list[list[int]]:
        # "new york" is one token; a space before a word belongs to it.
        pieces = [t.replace("new york", "N").replace(" ", "").replace("york", "Y") for t in texts]
        return [[ord(c) for c in piece.replace("new", "n")] for piece in pieces]

    assert WordPool.build(encode, "a ", ("new", "york", "b")) is None
    assert WordPool.build(encode, "a ", ("new", "b", "c")) is not None
    # The same letter begins a word and stands inside another: "ab c" and "a bc" are one.
    assert WordPool.build(encode, "x ", ("ab", "a", "bc", "c")) is None


def test_a_release_that_knows_no_pools_is_asked_by_text() -> None:
    class Texts:
        def filler_losses(self, before: str, after: str, fillers: Any) -> np.ndarray:
            return np.array([float(len((before + f + after).split()[1])) for f in fillers])

    asker = by_pool(Texts())
    assert asker.pool_rank("the ", WORDS, np.array([0, 4])) == 28
    assert asker.pool_rank("the ", WORDS, np.array([4, 0])) == 35
    assert asker.pool_losses("the ", WORDS, np.array([[0, 4], [6, 0]])).tolist() == [3.0, 9.0]


def test_nan_is_an_error_in_every_answer(release: LanguageModelRelease) -> None:
    with torch.no_grad():
        next(iter(release.module.parameters()))[3:] = torch.nan
    suffix = np.array([0, 1])
    for ask in (
        lambda: release.pool_losses(BEFORE, WORDS, suffix[None]),
        lambda: release.pool_rank(BEFORE, WORDS, suffix),
        lambda: TextPoolCompleter(release).pool_rank(BEFORE, WORDS, suffix),
        lambda: release.filler_losses(BEFORE, "", ["cat"]),
        lambda: release.token_logprobs(["cat dog"]),
        lambda: release.next_logprobs([[3]]),
    ):
        with pytest.raises(UedpBenchError, match="NaN"):
            ask()


def test_what_does_not_fit_the_model_is_refused() -> None:
    release = language_model("gpt2")
    long = np.zeros((1, 300), dtype=np.int64)
    with pytest.raises(InputError, match=r"599.*256"):
        release.pool_losses(BEFORE, WORDS, long)
    before = " ".join(["the"] * 400) + " "
    suffix = np.array([[1, 2]])
    expected = release.filler_losses(before, "", texts_of(WORDS, suffix))
    np.testing.assert_allclose(release.pool_losses(before, WORDS, suffix), expected, atol=1e-4)
