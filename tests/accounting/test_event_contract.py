"""The open field of events: by kind through the registry, written as before, strangers kept."""

from __future__ import annotations

from typing import ClassVar, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from uedp_bench.accounting.accountants.basic_composition import promises
from uedp_bench.accounting.event_contract import MOST_UNKNOWN, AnyEvent, Event, UnknownEvent
from uedp_bench.accounting.events import (
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    Repeated,
)
from uedp_bench.accounting.ledger import proven
from uedp_bench.components import registry
from uedp_bench.errors import PluginError

FIELD = TypeAdapter(AnyEvent)
NESTED = Repeated(count=3, event=PoissonSampled(rate=0.5, event=Gaussian(noise_multiplier=1.0)))
TEXT = (
    '{"kind":"repeated","count":3,"event":{"kind":"poisson-sampled","rate":0.5,'
    '"event":{"kind":"gaussian","noise_multiplier":1.0}}}'
)
STRANGE = {"kind": "from-elsewhere", "zeta": [1, {"a": None}], "alpha": "x"}


def test_events_are_written_and_read_as_they_always_were():
    assert NESTED.model_dump_json() == TEXT
    assert FIELD.validate_json(TEXT) == NESTED
    event = PrivacyEvent(unit="user", event=NESTED, stage="a")
    assert PrivacyEvent.model_validate(event.model_dump(mode="json")) == event
    assert event.model_dump_json().startswith('{"unit":"user","adjacency":"add-or-remove","event":')
    assert TEXT in event.model_dump_json()


@pytest.mark.parametrize("kind", registry.events.names())
def test_every_kind_is_found_under_its_name(kind):
    event_class = registry.events.get(kind)
    assert issubclass(event_class, Event)
    assert (event_class.name, event_class.model_fields["kind"].default) == (kind, kind)


def test_faults_of_a_known_kind_are_told_where_they_are():
    bad = {"unit": "user", "event": {"kind": "repeated", "count": 1,
           "event": {"kind": "gaussian", "noise_multiplier": -1}}}  # fmt: skip
    with pytest.raises(ValidationError) as raised:
        PrivacyEvent.model_validate(bad)
    (problem,) = raised.value.errors()
    assert problem["loc"] == ("event", "event", "noise_multiplier")
    assert "greater than or equal to 0" in problem["msg"]


@pytest.mark.parametrize("value", [None, 3, "gaussian", {}, {"kind": 3}, [], {"kind": "x" * 101}])
def test_what_is_no_event_is_refused(value):
    with pytest.raises(ValidationError):
        FIELD.validate_python(value)


@pytest.mark.parametrize("inner", [NonPrivate(reason="r"), NESTED])
def test_what_stands_by_itself_is_not_repeated(inner):
    with pytest.raises(ValidationError, match=r"'non-private'|'repeated'"):
        Repeated(count=1, event=inner)


# ------------------------------------------------------------------------------ kinds of strangers


def test_an_unknown_event_is_kept_as_it_is():
    event = FIELD.validate_python(STRANGE)
    assert isinstance(event, UnknownEvent)
    assert event.model_dump(mode="json") == STRANGE
    again = FIELD.validate_python(STRANGE)
    assert (event, hash(event)) == (again, hash(again))
    assert FIELD.validate_python({**STRANGE, "alpha": "y"}) != event
    whole = PrivacyEvent(unit="user", event=event)
    assert PrivacyEvent.model_validate_json(whole.model_dump_json()) == whole


@pytest.mark.parametrize("repeated", [False, True])
def test_nothing_is_proven_from_an_unknown_event(repeated):
    event = FIELD.validate_python({**STRANGE, "kind": "gausian"})
    event = Repeated(count=2, event=event) if repeated else event
    noise = PrivacyEvent(unit="user", event=Gaussian(noise_multiplier=1.0))
    (guarantee,) = proven([noise, PrivacyEvent(unit="user", event=event)], delta=1e-5)
    assert (guarantee.status, guarantee.epsilon) == ("refused", float("inf"))
    assert "kind 'gausian'" in guarantee.reason
    assert "'gaussian'" in guarantee.reason


def test_an_unknown_event_is_bounded():
    long = {"kind": "from-elsewhere", "said": "x" * MOST_UNKNOWN}
    with pytest.raises(ValidationError, match="16,384"):
        FIELD.validate_python(long)
    shown = FIELD.validate_python({"kind": "k\x1b[2J", "said": "y" * 10_000}).text("user")
    assert len(shown) < 1000
    assert shown.isprintable()


def test_fields_of_strangers_hide_no_method():
    forged = {"kind": "from-elsewhere", "promise": 0, "pairs": 0, "text": "z", "event": {"kind": 1},
              "count": 5, "notion": "dp", "name": "gaussian", "model_fields": 1}  # fmt: skip
    event = FIELD.validate_python(forged)
    assert promises(event, "add-or-remove") is None
    assert "from-elsewhere" in event.text("user")
    assert event.model_dump(mode="json") == forged


class Unregistered(Event):
    kind: Literal["unregistered"] = "unregistered"


def test_a_mechanism_emits_no_event_that_nobody_could_read_again():
    with pytest.raises(ValidationError, match=r"Unregistered.*--plugin"):
        PrivacyEvent(unit="user", event=Unregistered())


def test_an_event_class_has_a_kind():
    class Nameless(Event):
        notion: ClassVar[Literal["dp"]] = "dp"

    with pytest.raises(PluginError, match=r"Nameless.*name"):
        registry.events.register(Nameless)


def test_two_events_of_one_kind_are_an_error():
    class Other(Event):
        kind: Literal["gaussian"] = "gaussian"

    with pytest.raises(PluginError, match="'gaussian'"):
        registry.events.register(Other)


def test_pure_guarantees_still_add_up():
    two = [PrivacyEvent(unit="user", event=PureDP(epsilon=0.5)) for _ in range(2)]
    assert proven(two, delta=1e-5)[0].epsilon == 1.0
