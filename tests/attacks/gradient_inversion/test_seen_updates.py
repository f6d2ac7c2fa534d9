"""A party works out changes of the weights from what it sent and received itself."""

from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.attacks.gradient_inversion.seen_updates import number_of, role_of, seen_by
from uedp_bench.contracts.transcript import Message, Messages
from uedp_bench.errors import InputError


def exchange(*messages):
    """Messages (sender, receiver, round, name, payload)."""
    return Messages(tuple(
        Message(*who, (1,), 8, None if payload is None else np.array([payload]))
        for *who, payload in messages
    ))  # fmt: skip


def updates_of(messages, party):
    return [(one.owners, one.round, float(one.payload[0])) for one in seen_by(messages, party)]


def test_a_server_reads_updates_as_they_are_and_knows_what_they_started_from():
    messages = exchange(
        ("server", "client 4", 0, "weights", 1.0),
        ("client 4", "server", 0, "update", 0.5),
        ("server", "client 9", 1, "weights", 1.25),
        ("client 9", "server", 1, "update", None),  # after the rounds that were asked for
    )
    (one,) = seen_by(messages, "server")
    assert (one.owners, one.before.item(), one.payload.item()) == (("client 4",), 1.0, 0.5)
    assert list(seen_by(messages, "client 4")) == []


def test_weights_that_clients_send_back_are_compared_with_those_that_each_was_given():
    messages = exchange(
        ("server", "client 1", 0, "weights", 1.0),
        ("server", "client 2", 0, "weights", 1.0),
        ("client 1", "server", 0, "weights", 1.5),
        ("client 2", "server", 0, "weights", 3.0),
    )
    assert updates_of(messages, "server") == [(("client 1",), 0, 0.5), (("client 2",), 0, 2.0)]


def test_a_model_that_travels_comes_back_with_the_work_of_all_in_between():
    messages = exchange(
        ("client 0", "client 1", 0, "weights", 1.0),
        ("client 1", "client 2", 0, "weights", 1.5),
        ("client 2", "client 0", 0, "weights", 3.5),
        ("client 0", "client 1", 1, "weights", 4.0),
        ("client 1", "client 2", 1, "weights", 9.0),
    )
    assert updates_of(messages, "client 0") == [(("client 1", "client 2"), 0, 2.5)]
    assert updates_of(messages, "client 1") == [(("client 2", "client 0"), 1, 2.5)]


def test_of_two_clients_each_sees_the_other_alone():
    messages = exchange(
        ("client 0", "client 1", 0, "weights", 1.0),
        ("client 1", "client 0", 0, "weights", 1.5),
        ("client 0", "client 1", 1, "weights", 4.0),
    )
    assert updates_of(messages, "client 0") == [(("client 1",), 0, 0.5)]
    assert updates_of(messages, "client 1") == [(("client 0",), 1, 2.5)]


def test_a_client_sees_what_the_others_of_a_round_did_together():
    messages = exchange(
        ("server", "client 0", 0, "weights", 1.0),
        ("server", "client 1", 0, "weights", 1.0),
        ("client 0", "server", 0, "update", 0.5),
        ("client 1", "server", 0, "update", 1.5),
        ("server", "client 0", 1, "weights", 2.0),
    )
    assert updates_of(messages, "client 0") == [(("client 1",), 1, 1.0)]


def test_text_is_read_as_it_is_and_parties_are_told_by_their_numbers():
    text = Message("client 3", "server", 0, "text", (1,), 8, np.array(["a b"]))
    (one,) = seen_by(Messages((text,)), "server")
    assert one.is_text
    assert (number_of("client 3"), role_of("client 3")) == (3, "client")
    assert (number_of("server"), role_of("server")) == (None, "server")
    with pytest.raises(InputError, match=r"'alice'.*server"):
        list(seen_by(Messages((text,)), "alice"))
