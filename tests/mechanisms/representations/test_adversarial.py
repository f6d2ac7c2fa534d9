"""Adversarial training: who minimises what, which variables, and what it does to them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat
from split import WordsLearner, split_run, topic_corpus
from torch import nn

from uedp_bench.accounting.ledger import check_plan
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import Corpus
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.mechanisms.representations.adversarial import Adversarial
from uedp_bench.mechanisms.representations.split_training import Attackers

STATS = CorpusStats(users=4, rows=9, sensitive_rows=0, entities=0, public=False)


def adversarial(**params: object) -> Adversarial:
    values = {"learning_rate": 0.02, "attacker_hidden": 32, "attacker_learning_rate": 0.01}
    trainer: Adversarial = Adversarial.create({**values, **params})
    return trainer


def attackers_of(classes: dict[str, int], width: int = 5, seed: int = 0) -> Attackers:
    heads = Attackers(width, classes, 7, seed)
    heads.start(0.05)
    return heads


def with_age(corpus: Corpus, values: np.ndarray) -> Corpus:
    return replace(
        corpus,
        attributes={**corpus.attributes, "age": values},
        attribute_names={**corpus.attribute_names, "age": ("20", "30", "40")},
    )


# The two objectives


def test_attackers_learn_from_representations_that_they_do_not_change() -> None:
    attackers = attackers_of({"a": 2, "b": 3})
    z = torch.randn(60, 5, generator=torch.Generator().manual_seed(1), requires_grad=True)
    private = [(z[:, 0] > 0).long(), (z[:, 1] > 0).long() + (z[:, 1] > 1).long()]

    def nats() -> list[float]:
        return [
            float(nn.functional.cross_entropy(network(z), truth).detach())
            for network, truth in zip(attackers.networks, private, strict=True)
        ]

    before = nats()
    for _ in range(60):
        attackers.step(z, private)
    assert all(after < 0.5 * first for first, after in zip(before, nats(), strict=True))
    assert z.grad is None


def test_fooling_is_the_log_probability_of_any_other_value() -> None:
    attackers = attackers_of({"a": 2, "b": 3})
    z = torch.randn(20, 5, generator=torch.Generator().manual_seed(1))
    private = [torch.arange(20) % 2, torch.arange(20) % 3]
    nats = attackers.fooling_nats(z, private)
    probabilities = [network(z).softmax(dim=1) for network in attackers.networks]
    rows = torch.arange(20)
    expected = sum(
        -torch.log(1 - p[rows, truth]) for p, truth in zip(probabilities, private, strict=True)
    )
    torch.testing.assert_close(nats, expected)
    # Of two values it is the cross-entropy of the other one.
    alone = nn.functional.cross_entropy(attackers.networks[0](z), 1 - private[0], reduction="none")
    torch.testing.assert_close(attackers.fooling_nats(z, [private[0], private[1] * 0 - 1]), alone)


def test_sure_attackers_leave_finite_gradients() -> None:
    attackers = attackers_of({"a": 2})
    with torch.no_grad():
        attackers.networks[0][2].weight *= 1e4
    z = torch.randn(20, 5, generator=torch.Generator().manual_seed(1)).requires_grad_()
    attackers.fooling_nats(z, [torch.zeros(20, dtype=torch.long)]).sum().backward()
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()
    assert float(z.grad.abs().max()) > 0


def test_rows_of_unknown_value_count_for_nobody() -> None:
    attackers = attackers_of({"a": 2})
    z = torch.randn(6, 5)
    some = torch.tensor([0, -1, 1, -1, 0, -1])
    assert (attackers.fooling_nats(z, [some])[some < 0] == 0).all()
    before = flat(attackers)
    attackers.step(z, [some * 0 - 1])
    assert torch.equal(flat(attackers), before)


# Training


def separation(module: nn.Module, first: int, second: int) -> float:
    """Distance of the vectors of two words."""
    vectors = module.vectors.detach()  # type: ignore[operator, union-attr]
    return float((vectors[first + 1] - vectors[second + 1]).norm())


def test_the_private_variable_shrinks_and_the_label_stays() -> None:
    learner = WordsLearner(topic_corpus(400, 0), 8, 8, 0)
    apart = {}
    for weight in (0.0, 0.1):
        mechanism = adversarial(adversary_weight=weight, epochs=30, attacker_steps=5)
        module, events = mechanism.train(learner, learner.corpus, split_run(0))
        check_plan(mechanism.plan(STATS), events)
        test = np.flatnonzero(learner.corpus.where("test"))
        batch = learner.batch(test, np.arange(len(test)))
        assert (learner.losses(module, batch).nats < math.log(2)).double().mean() == 1.0
        apart[weight] = separation(module, 2, 3)
    assert apart[0.1] < 0.85 * apart[0.0]


def test_a_weight_of_zero_is_ordinary_training() -> None:
    learner = WordsLearner(topic_corpus(80), 8, 8)
    one, two = (
        adversarial(adversary_weight=0.0, epochs=2, attacker_steps=steps).train(
            learner, learner.corpus, split_run()
        )[0]
        for steps in (1, 4)
    )
    assert torch.equal(flat(one), flat(two))


# Which variables


def test_named_variables_alone_are_hidden() -> None:
    corpus = with_age(topic_corpus(80), np.arange(80) % 3)
    learner = WordsLearner(corpus, 8, 8)
    weights = {
        names: flat(adversarial(attributes=names, epochs=2).train(learner, corpus, split_run())[0])
        for names in ((), ("gender",), ("gender", "age"), ("gender", "gender"))
    }
    assert torch.equal(weights[()], weights["gender", "age"])
    assert torch.equal(weights["gender",], weights["gender", "gender"])
    assert not torch.equal(weights[()], weights["gender",])


@pytest.mark.parametrize(
    ("values", "names", "message"),
    [
        (np.arange(80) % 3, ("gendre",), "'gendre'"),
        (np.arange(80) % 3, ("zzz",), "gender, age"),
        (np.full(80, 1), ("age",), "rows: 30"),
        (np.full(80, -1), (), "rows: none"),
        (np.where(topic_corpus(80).where("train"), 2, 0), (), "training rows: 40"),
    ],
)
def test_wrong_variables_are_one_line(values: np.ndarray, names: tuple, message: str) -> None:
    learner = WordsLearner(with_age(topic_corpus(80), values), 8, 8)
    with pytest.raises(InputError) as error:
        adversarial(attributes=names).train(learner, learner.corpus, split_run())
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_source_without_attributes_is_refused() -> None:
    corpus = replace(topic_corpus(80), attributes={}, attribute_names={})
    learner = WordsLearner(corpus, 8, 8)
    with pytest.raises(InputError, match=r"adversarial.*attributes"):
        adversarial().train(learner, corpus, split_run())


def test_a_network_in_one_part_is_refused() -> None:
    learner = NetworkLearner(6)
    with pytest.raises(CapabilityError, match="text-classification"):
        adversarial().train(learner, learner.corpus, split_run())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"adversary_weight": -1}, "adversarial.adversary_weight is -1"),
        ({"attacker_hidden": 0}, "adversarial.attacker_hidden is 0"),
        ({"attribute": ["age"]}, "'attributes'"),
    ],
)
def test_bad_parameters_are_one_line(params: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as error:
        Adversarial.create(params)
    assert message in str(error.value)
