"""Events of a plug-in file: worth what a hand computes, alone and beside those of the package."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from tiny import plugged

from uedp_bench.accounting.accountants.basic_composition import promises
from uedp_bench.accounting.accountants.composing import compose
from uedp_bench.accounting.accountants.dominating_pairs import DiscretePair
from uedp_bench.accounting.accountants.joint_accountants import joint_accountants
from uedp_bench.accounting.accountants.loss_pairs import loss_pairs
from uedp_bench.accounting.accountants.renyi import ORDERS, renyi, renyi_divergences
from uedp_bench.accounting.event_contract import Event, Promise
from uedp_bench.accounting.events import (
    FixedSizeSampled,
    Gaussian,
    PoissonSampled,
    PrivacyEvent,
    Protected,
    PureDP,
    Repeated,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import Answer, Refusal
from uedp_bench.accounting.ledger import proven
from uedp_bench.cli.main import run_cli
from uedp_bench.components import registry
from uedp_bench.errors import PluginError

FILE = Path(__file__).parents[1] / "support" / "coin_event.py"
DELTA = 1e-5
ANY = "add-or-remove"
NOISE = Gaussian(noise_multiplier=4.0)


@pytest.fixture(autouse=True)
def _plugged() -> Iterator[None]:
    with plugged(FILE):
        yield


def coin(truth: float = 0.75) -> Event:
    event: Event = registry.events.create("randomized-response", {"truth": truth})
    return event


def curve(slope: float = 0.01) -> Event:
    event: Event = registry.events.create("curve", {"slope": slope})
    return event


def epsilon(*events: Event, adjacency: str = ANY, delta: float = DELTA) -> float:
    return compose(events, adjacency, delta).epsilon


def by_hand(deltas: float, delta: float = DELTA) -> float:
    return brentq(lambda e: deltas(e) - delta, 0.0, 60.0, xtol=1e-12)


def of_gaussian(e: float, shift: float) -> float:
    """Balle and Wang 2018, Theorem 8."""
    return norm.cdf(shift / 2 - e / shift) - math.exp(e) * norm.cdf(-shift / 2 - e / shift)


def of_coin(e: float, truth: float = 0.75, times: int = 1) -> dict[float, float]:
    """Losses of so many answers, with their probabilities."""
    loss = math.log(truth / (1 - truth))
    return {
        loss * (2 * k - times): math.comb(times, k) * truth**k * (1 - truth) ** (times - k)
        for k in range(times + 1)
    }


def test_alone_it_is_worth_what_a_hand_computes():
    # 0.75 - e^epsilon 0.25 = delta
    expected = math.log((0.75 - DELTA) / 0.25)
    assert epsilon(coin()) == pytest.approx(expected, rel=2e-3)
    assert epsilon(coin()) >= expected


@pytest.mark.parametrize("adjacency", [ANY, "replace-one", "zero-out"])
def test_it_composes_with_gaussian_noise_by_privacy_losses(adjacency):
    shift = (2.0 if adjacency == "replace-one" else 1.0) * math.sqrt(5) / 4.0
    parts = of_coin(0.0, times=3)
    expected = by_hand(lambda e: sum(p * of_gaussian(e - x, shift) for x, p in parts.items()))
    answer = compose([Repeated(count=5, event=NOISE), Repeated(count=3, event=coin())],
                     adjacency, DELTA)  # fmt: skip
    assert answer.accountant == "pairs-pld"
    assert expected <= answer.epsilon <= 1.005 * expected
    # Adding up would cost more: what is given is no sum.
    apart = epsilon(Repeated(count=5, event=NOISE), adjacency=adjacency) + 3 * math.log(3.0)
    assert answer.epsilon < apart - 0.05


def test_pairs_of_sampled_rounds_are_those_of_their_own_accountant():
    """Beside an event that tells nothing, the common currency gives what dp-accounting gives."""
    nothing = coin(0.5 + 1e-12)
    for adjacency in (ANY, "replace-one"):
        for round_ in (PoissonSampled(rate=0.05, event=Gaussian(noise_multiplier=0.8)), NOISE):
            own = compose([Repeated(count=50, event=round_)], adjacency, DELTA)
            both = compose([Repeated(count=50, event=round_), nothing], adjacency, DELTA)
            assert both.values["pairs-pld"] == pytest.approx(own.values["pld"], rel=5e-3)


def test_renyi_divergences_add_up_where_a_pair_is_missing():
    """Slope 1/(2 s^2) is a Gaussian mechanism's: two in sequence are one of less noise."""
    answer = compose([NOISE, curve(1 / 32)], ANY, DELTA)
    assert answer.accountant == "rdp"
    twice = compose([Repeated(count=2, event=NOISE)], ANY, DELTA).values["rdp"]
    assert answer.epsilon == pytest.approx(twice, rel=0.02)
    assert answer.epsilon >= compose([Repeated(count=2, event=NOISE)], ANY, DELTA).values["pld"]


def test_events_without_a_common_currency_add_up_at_shares_of_delta():
    answer = compose([coin(), curve()], ANY, DELTA)
    expected = epsilon(coin(), delta=DELTA / 2) + epsilon(curve(), delta=DELTA / 2)
    assert answer.epsilon == pytest.approx(expected)
    assert sorted(answer.accountant.split(" + ")) == ["pairs-pld", "rdp"]
    # Fixed-size rounds have no pair under add-or-remove, and no Renyi divergences either.
    fixed = FixedSizeSampled(population=100, sample=10, event=NOISE)
    answer = compose([fixed, coin()], ANY, DELTA)
    assert answer.epsilon == pytest.approx(
        epsilon(fixed, delta=DELTA / 2) + epsilon(coin(), delta=DELTA / 2)
    )


def test_promises_compose_with_everything_for_no_more_than_their_sum():
    plain = compose([NOISE, coin()], ANY, DELTA)
    answer = compose([PureDP(epsilon=0.5), NOISE, coin()], ANY, DELTA)
    assert answer.values["pairs-pld + basic"] == pytest.approx(plain.epsilon + 0.5)
    # The worst pair of the promise is randomised response.
    likely = 1 / (1 + math.exp(-0.5))
    losses = {0.5: likely, -0.5: 1 - likely}
    parts = {x + y: p * q for x, p in of_coin(0.0).items() for y, q in losses.items()}
    expected = by_hand(lambda e: sum(p * of_gaussian(e - x, 0.25) for x, p in parts.items()))
    assert expected <= answer.epsilon <= 1.005 * expected < plain.epsilon + 0.5


def counted(rounds, adjacency, delta, points):
    return Answer(0.1 * sum(count for _, count in rounds), "counted")


def test_an_event_may_bring_an_accountant_that_composes_its_like():
    @registry.events.register
    class Counted(Event):
        kind: Literal["counted"] = "counted"

    joint_accountants.register(Counted)(counted)
    renyi_divergences.register(Counted)(lambda event, neighbours, orders: 0.01 * orders)
    both = compose([Counted(), Repeated(count=4, event=Counted())], ANY, DELTA)
    assert (both.epsilon, both.accountant, both.source) == (pytest.approx(0.5), "counted", "")
    # Beside others, what it declares counts; where nothing is common, its accountant at its share.
    assert compose([Counted(), NOISE], ANY, DELTA).accountant == "rdp"
    assert compose([Counted(), coin()], ANY, DELTA).epsilon == pytest.approx(
        0.1 + epsilon(coin(), delta=DELTA / 2)
    )


def test_it_composes_at_every_point_of_a_curve():
    rounds = Repeated(count=20, event=UserEntityGaussian(rate=0.1, noise_multiplier=5.0, users=40))
    alone = PrivacyEvent(unit="user-entity", event=rounds)
    both = (alone, PrivacyEvent(unit="user-entity", event=coin()))
    (without, _), (guarantee, user) = proven([alone], delta=DELTA), proven(both, delta=DELTA)
    assert [p.spread for p in guarantee.curve] == [p.spread for p in without.curve]
    for point, less in zip(guarantee.curve, without.curve, strict=True):
        assert less.epsilon < point.epsilon <= 1.03 * less.epsilon + math.log(3.0)
    assert guarantee.epsilon == guarantee.curve[-1].epsilon
    assert (user.unit, user.epsilon) == ("user", pytest.approx(guarantee.curve[0].epsilon))


def test_no_noise_beside_it_is_no_protection():
    none = Gaussian(noise_multiplier=0.0)
    answer = compose([none, coin()], ANY, DELTA)
    assert math.isinf(answer.epsilon)
    assert answer.reason
    silent = Gaussian(noise_multiplier=math.inf)
    assert epsilon(silent, coin()) == pytest.approx(epsilon(coin()), rel=1e-3)
    assert epsilon(Repeated(count=0, event=none), coin()) == pytest.approx(epsilon(coin()))


@pytest.mark.parametrize("wrong", [math.nan * ORDERS, -ORDERS, ORDERS[1:]])
def test_divergences_that_are_none_are_refused(wrong):
    class Broken(Event):
        kind: Literal["broken"] = "broken"

    renyi_divergences.register(Broken)(lambda event, neighbours, orders: wrong)
    with pytest.raises(Refusal, match=r"broken.*negative"):
        renyi([Broken()], ANY, Protected(spread=0))


@pytest.mark.parametrize("promise", [(-1.0, 0.0), (math.nan, 0.0), (1.0, 1.5), (1.0, math.nan)])
def test_promises_that_are_none_are_refused(promise):
    class Broken(Event):
        kind: Literal["broken"] = "broken"

    promises.register(Broken)(lambda event, adjacency: Promise(*promise))
    with pytest.raises(Refusal, match=r"broken.*\((-1|nan|1), "):
        compose([Broken()], ANY, DELTA)


@pytest.mark.parametrize("sides", [([0.5, 0.6], [0.5, 0.5]), ([1.2, -0.2], [1, 0]), ([1], [1, 0])])
def test_pairs_that_are_none_are_refused(sides):
    with pytest.raises(ValueError, match="pair"):
        DiscretePair(*sides)


# --------------------------------------------------------------------- who may register accountants


def test_an_event_without_an_accountant_proves_nothing():
    class Silent(Event):
        kind: Literal["silent"] = "silent"

    with pytest.raises(Refusal, match="silent"):
        compose([Silent()], ANY, DELTA)
    with pytest.raises(Refusal, match="silent"):
        compose([Silent(), NOISE], ANY, DELTA)


@pytest.mark.parametrize("table", [promises, loss_pairs, renyi_divergences, joint_accountants])
@pytest.mark.parametrize("kind", [Event, Gaussian, FixedSizeSampled, PureDP, UserEntityGaussian])
def test_strangers_register_no_accountant_for_events_of_others(table, kind):
    before = compose([NOISE], ANY, DELTA)
    with pytest.raises(PluginError, match=kind.__name__):
        table.register(kind)(lambda *_: None)
    assert compose([NOISE], ANY, DELTA) == before


def test_no_accountant_replaces_another():
    with pytest.raises(PluginError, match="Twice"):

        class Twice(Event):
            kind: Literal["twice"] = "twice"

        promises.register(Twice)(lambda event, adjacency: Promise(1.0))
        promises.register(Twice)(lambda event, adjacency: Promise(0.0))


def test_a_subclass_of_an_event_of_the_package_has_its_accountants():
    class Mine(Gaussian):
        kind: Literal["mine"] = "mine"

    assert compose([Mine(noise_multiplier=4.0)], ANY, DELTA) == compose([NOISE], ANY, DELTA)


# ------------------------------------------------------------------------------- the command line


def test_account_takes_it_from_a_file(tmp_path, capsys):
    events = [
        {"unit": "user", "event": {"kind": "randomized-response", "truth": 0.75}},
        {"unit": "user", "event": {"kind": "gaussian", "noise_multiplier": 4.0}},
    ]
    file = tmp_path / "events.json"
    file.write_text(json.dumps(events))
    assert run_cli(["account", "--events", str(file), "--plugin", str(FILE), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    (guarantee,) = shown["guarantees"] if isinstance(shown, dict) else shown
    expected = by_hand(lambda e: sum(p * of_gaussian(e - x, 0.25) for x, p in of_coin(0.0).items()))
    assert guarantee["epsilon"] == pytest.approx(expected, rel=5e-3)


def test_list_and_describe_show_it(capsys):
    assert run_cli(["list", "events", "--plugin", str(FILE)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"randomized-response +A bit of every unit is released", shown)
    assert run_cli(["describe", "randomized-response", "--plugin", str(FILE), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert (described["kind"], described["source"]) == ("event", "Warner 1965")
    truth = next(p for p in described["parameters"] if p["name"] == "truth")
    assert truth["range"] == "> 0.5, < 1.0"


def test_account_without_the_plug_in_names_the_kind(tmp_path, capsys):
    file = tmp_path / "events.json"
    file.write_text(json.dumps([{"unit": "user", "event": {"kind": "gausian"}}]))
    assert run_cli(["account", "--events", str(file)]) == 2
    message = capsys.readouterr().err
    assert "'gausian'" in message
