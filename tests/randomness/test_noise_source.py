"""Where the numbers that protect come from: the seed, or the operating system."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat
from scipy import stats
from split import WordsLearner, topic_corpus
from tiny import runs
from toy import ToyLearner

from uedp_bench.accounting.guarantee import NoiseSource
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.validation.identity import check_identity
from uedp_bench.mechanisms.documents.sentence_mechanism import row_rng
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.mechanisms.private_training.uedp_group import UeDPGroup
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.mechanisms.representations.dpnr import DPNR
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.randomness import Stream
from uedp_bench.spec.grid import expand
from uedp_bench.spec.identity import identity_parts
from uedp_bench.spec.spec import parse_spec

STATS = CorpusStats(10, 10, 0, 0, public=True)
USERS = [0, 1, 2, 3, 4, 5]


def word(rng: np.random.Generator) -> int:
    return int(rng.integers(2**62))


def test_noise_of_the_operating_system_is_never_the_same() -> None:
    runs = [Run(1, STATS, scope="s", noise_source="os") for _ in range(2)]
    assert word(runs[0].stream("a").rng()) != word(runs[1].stream("a").rng())
    # Within a run a row that is asked for twice gets the same noise.
    assert word(runs[0].stream("a").rng()) == word(runs[0].stream("a").rng())
    assert word(runs[0].shared("a")) == word(runs[1].shared("a"))


def test_noise_of_the_operating_system_has_the_distribution() -> None:
    rng = Stream.root(1, "", "os").rng("noise")
    assert stats.kstest(rng.standard_normal(20_000), "norm").pvalue > 1e-6
    assert stats.kstest(rng.random(20_000), "uniform").pvalue > 1e-6
    assert stats.kstest(rng.laplace(size=20_000), "laplace").pvalue > 1e-6


class _Watched:
    """Counts generators whose numbers follow from a seed, shared ones apart."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.secret = self.shared = 0
        real = np.random.PCG64

        def seeded_bits(seed: object) -> np.random.PCG64:
            assert isinstance(seed, np.random.SeedSequence)
            assert isinstance(seed.entropy, list)
            # Seed and four words of a name, or eight words of a hash.
            self.shared += len(seed.entropy) == 5
            self.secret += len(seed.entropy) == 8
            return real(seed)

        monkeypatch.setattr(np.random, "PCG64", seeded_bits)


def _federated(run: Run) -> torch.Tensor:
    learner = ToyLearner(np.ones((6, 50)), USERS)
    params = {"rounds": 2, "users_per_round": 3, "rows_per_user": 1}
    return flat(UserDP.create(params).train(learner, learner.corpus, run)[0])


def _group(run: Run) -> torch.Tensor:
    learner = ToyLearner(np.ones((6, 50)), USERS)
    params = {"rounds": 2, "users": 10, "noise_multiplier": 1.0}
    return flat(UeDPGroup.create(params).train(learner, learner.corpus, run)[0])


def _plain(run: Run) -> torch.Tensor:
    learner = NetworkLearner(12)
    return flat(Noiseless.create({"batch_size": 2}).train(learner, learner.corpus, run)[0])


def _representations(run: Run) -> torch.Tensor:
    learner = WordsLearner(topic_corpus(40), 40, 8)
    params = {"epsilon": 1.0, "dimension": learner.width, "word_dropout": 0.2, "epochs": 1}
    mechanism = DPNR.create(params)
    mechanism.serve(_Served(), run)
    return flat(mechanism.train(learner, learner.corpus, run)[0])


def _documents(run: Run) -> torch.Tensor:
    corpus = WordsLearner(topic_corpus(40), 40, 8).corpus
    drawn = [row_rng(corpus, row, run).laplace() for row in range(len(corpus))]
    return torch.tensor(drawn)


class _Served(Release):
    def through(self, mechanism: object, noise: Stream) -> Release:
        assert noise.source == "os" or noise.key
        noise.rng("row").laplace()
        return self


@pytest.mark.parametrize("draw", [_federated, _group, _representations, _documents])
def test_with_the_operating_system_nothing_secret_follows_from_a_seed(
    draw: Callable[[Run], torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = _Watched(monkeypatch)
    seeded = [draw(Run(1, STATS, scope="s")) for _ in range(2)]
    assert watched.secret > 0
    assert torch.equal(*seeded)
    watched.secret = watched.shared = 0
    fresh = [draw(Run(1, STATS, scope="s", noise_source="os")) for _ in range(2)]
    assert watched.secret == watched.shared == 0
    assert not torch.equal(*fresh)
    assert not torch.equal(seeded[0], fresh[0])


@pytest.mark.parametrize("noise_source", ["seed", "os"])
def test_order_of_training_without_noise_follows_from_the_seed(
    noise_source: NoiseSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It protects nobody, and pairs the rows of a seed."""
    watched = _Watched(monkeypatch)
    drawn = [_plain(Run(1, STATS, scope=s, noise_source=noise_source)) for s in ("s", "t")]
    assert torch.equal(*drawn)
    assert (watched.secret, watched.shared) == (0, 2)
    assert not torch.equal(drawn[0], _plain(Run(2, STATS, scope="s", noise_source=noise_source)))


def test_results_of_the_other_noise_source_have_ids_of_their_own() -> None:
    data = {"mechanisms": [["noiseless"]]}
    (seeded,), (other,) = (
        expand(parse_spec({**data, **more})) for more in ({}, {"noise_source": "os"})
    )
    assert "noise_source" not in identity_parts(seeded, "f")
    assert identity_parts(other, "f")["noise_source"] == "os"
    with pytest.raises(InputError, match="noise_source"):
        parse_spec({**data, "noise_source": "dice"})


def test_a_run_says_where_its_noise_came_from(tmp_path: Path) -> None:
    private = {"name": "user-dp", "params": {"rounds": 1, "users": 60, "users_per_round": 5}}
    noise_sources = []
    for source in ("seed", "os"):
        (run,) = runs(private, noise_source=source)
        result = execute(run, Execution(out=tmp_path, device="cpu", keep_release=False))
        assert result.status == "finished", result.error
        (guarantee,) = [g for g in result.guarantees if g.kind == "proven"]
        noise_sources.append({"seed", "operating"} & set(" ".join(guarantee.assumptions).split()))
        assert result.spec.noise_source == source
        assert list(check_identity(result)) == []
    assert noise_sources == [{"seed"}, {"operating"}]
