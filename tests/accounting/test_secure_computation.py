"""Computation that nobody sees: its failure, and that other units stand beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from uedp_bench.accounting.accountants.composing import compose
from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.events import (
    Gaussian,
    NonPrivate,
    PrivacyEvent,
    PureDP,
    Repeated,
)
from uedp_bench.accounting.guarantee import REAL_VALUED, Guarantee, Refusal
from uedp_bench.accounting.ledger import proven
from uedp_bench.accounting.protocol_events import SecureComputation
from uedp_bench.accounting.selection import Trials, charge
from uedp_bench.cli.main import run_cli

DELTA = 1e-5
TRAINED = PrivacyEvent(unit="user", event=Gaussian(noise_multiplier=2.0), stage="user-dp")


def secure(**fields: Any) -> SecureComputation:
    return SecureComputation(parties=2, setup="trusted-dealer", reveals="the label", **fields)


def served(event: Any = None, **fields: Any) -> PrivacyEvent:
    declaration = {"unit": "computation", "adjacency": "replace-one", "stage": "mpc", **fields}
    return PrivacyEvent(event=event or secure(), **declaration)


def by_unit(*events: PrivacyEvent) -> dict[str, Guarantee]:
    return {guarantee.unit: guarantee for guarantee in proven(events, delta=DELTA)}


# ------------------------------------------------------------------------------ beside other units


@pytest.mark.parametrize("order", [1, -1])
def test_both_promises_stand_beside_each_other(order):
    guarantees = by_unit(*(TRAINED, served())[::order])
    (alone,) = proven([TRAINED], delta=DELTA)
    assert guarantees["user"] == alone
    computed = guarantees["computation"]
    assert (computed.status, computed.notion, computed.epsilon) == ("given", "simulation", 0.0)
    assert (computed.accountant, computed.delta) == ("simulation", 0.0)
    assert any("semi-honest" in text for text in computed.assumptions)
    assert any("dealer with nobody" in text for text in computed.assumptions)
    assert any("are public" in text for text in computed.assumptions)
    assert REAL_VALUED not in computed.assumptions


def test_a_stage_that_speaks_of_another_unit_still_spoils():
    other = PrivacyEvent(unit="record", event=PureDP(epsilon=1.0), stage="other")
    guarantees = by_unit(TRAINED, other, served())
    assert guarantees["user"].status == guarantees["record"].status == "refused"
    assert "stage other" in guarantees["user"].reason
    assert "mpc" not in guarantees["user"].reason
    assert guarantees["computation"].status == "given"


def test_unprotected_training_stays_infinite_and_computation_stands():
    bare = PrivacyEvent(unit="user", event=NonPrivate(reason="no noise"), stage="noiseless")
    guarantees = by_unit(bare, served())
    assert (guarantees["user"].epsilon, guarantees["user"].notion) == (math.inf, "none")
    assert guarantees["computation"].epsilon == 0.0


def test_computation_in_the_clear_spoils_computation_alone():
    clear = served(NonPrivate(reason="the server reads the text"), stage="server")
    guarantees = by_unit(TRAINED, served(), clear)
    assert math.isfinite(guarantees["user"].epsilon)
    assert guarantees["computation"].epsilon == math.inf
    assert guarantees["computation"].reason == "the server reads the text"


def test_one_stage_may_emit_both():
    mixed = served(stage="user-dp")
    guarantees = by_unit(TRAINED, mixed)
    assert guarantees["user"].epsilon == by_unit(TRAINED)["user"].epsilon
    assert guarantees["computation"].epsilon == 0.0


# -------------------------------------------------------------------------------------- what fails


def test_failures_add_up_over_executions():
    event = secure(ring_bits=64, fraction_bits=16, truncations=8_700, largest=2.0)
    assert event.failure == pytest.approx(8_700 * 2.0 / 2**31)
    guarantees = by_unit(served(Repeated(count=200, event=event)))
    # Above the delta that was asked for: a failure is told, and is no delta to compare with.
    assert guarantees["computation"].delta == pytest.approx(200 * 8_700 * 2.0 / 2**31)
    assert guarantees["computation"].epsilon == 0.0
    # A run answers more texts than that, should nobody say so.
    counted = [any("events count" in text for text in by_unit(each)["computation"].assumptions)
               for each in (served(event), served())]  # fmt: skip
    assert counted == [True, False]


@pytest.mark.parametrize("product", [1, 37, 200, 900, -1, -37, -900])
def test_truncated_shares_fail_as_rarely_as_stated(product):
    """Local truncation of both shares of a product (SecureML), for every share in a small ring."""
    bits, fraction = 12, 2
    ring = 2**bits
    share = np.arange(ring)
    other = (product - share) % ring
    opened = ((share >> fraction) - ((ring - other) % ring >> fraction)) % ring
    off = np.minimum(
        (opened - (product >> fraction)) % ring, (-opened + (product >> fraction)) % ring
    )
    failed = float(np.mean(off > 1))
    event = secure(ring_bits=bits, fraction_bits=fraction, truncations=1,
                   largest=abs(product) / 4**fraction)  # fmt: skip
    assert 0.4 * event.failure - 2 / ring <= failed <= event.failure


def test_what_fails_for_certain_promises_nothing():
    event = secure(truncations=2**40, largest=1e6)
    guarantee = by_unit(served(event))["computation"]
    assert (guarantee.epsilon, guarantee.notion) == (math.inf, "none")


def test_the_command_line_names_the_notion(tmp_path, capsys):
    file = tmp_path / "events.json"
    file.write_text(f"[{TRAINED.model_dump_json()}, {served().model_dump_json()}]")
    assert run_cli(["account", "--events", str(file)]) == 0
    (line,) = (x for x in capsys.readouterr().out.splitlines() if x.startswith("stated  comp"))
    assert "0 (simulation)" in line


def test_choosing_settings_costs_no_computation():
    chosen = Selection(tried={"model.units": [8, 16]})
    events = (TRAINED, served())
    trials = Trials(selection=chosen, events=(events, events))
    guarantees, record = charge(proven(events, delta=DELTA), trials)
    (user, computed), before = guarantees, by_unit(*events)
    assert user.epsilon > before["user"].epsilon
    assert computed == before["computation"]
    assert [entry["unit"] for entry in record["guarantees"]] == ["user"]


# ------------------------------------------------------------------------------------ what it says


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (served(unit="user"), "not of user"),
        (served(adjacency="add-or-remove"), "replaced inputs"),
        (served(PureDP(epsilon=1.0)), "pure-dp"),
    ],
)
def test_misplaced_events_are_refused(event, reason):
    (guarantee,) = proven([event], delta=DELTA)
    assert guarantee.status == "refused"
    assert reason in guarantee.reason


def test_a_simulation_composes_with_nothing_else():
    with pytest.raises(Refusal, match=r"events.*: dp, simulation"):
        compose([secure(), PureDP(epsilon=1.0)], "replace-one", DELTA)
    with pytest.raises(Refusal, match="notions"):
        compose([secure(), Gaussian(noise_multiplier=1.0)], "replace-one", DELTA)


@pytest.mark.parametrize("fields", [{"corrupted": 2}, {"largest": math.inf}, {"truncations": -1}])
def test_impossible_protocols_are_refused(fields):
    with pytest.raises(ValidationError):
        secure(**fields)
