"""Clients of a federation: who holds which row, whatever else is there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny import flags, runs

from uedp_bench.cli.main import run_cli
from uedp_bench.components.component import parse_params
from uedp_bench.components.registry import sources
from uedp_bench.contracts.clients import Clients, clients_of
from uedp_bench.contracts.results import read_result
from uedp_bench.corpus import Corpus, Spans, concatenate
from uedp_bench.errors import InputError
from uedp_bench.spec.identity import identity_parts


def _corpus(users: np.ndarray, labels: np.ndarray | None = None) -> Corpus:
    rows = len(users)
    return Corpus(
        ("text",) * rows, {"user": users}, np.zeros(rows, dtype=np.int64),
        labels=labels, label_names=() if labels is None else ("no", "yes"),
    )  # fmt: skip


USERS = np.repeat(np.arange(300), 4)


def test_all_rows_of_a_user_lie_with_one_client_and_shares_are_equal() -> None:
    dealt = clients_of(Clients(count=5).deal(_corpus(USERS)))
    assert (dealt.reshape(-1, 4) == dealt.reshape(-1, 4)[:, :1]).all()
    held = np.bincount(dealt, minlength=5) / len(dealt)
    assert held == pytest.approx([0.2] * 5, abs=0.08)
    other = clients_of(Clients(count=5, seed=1).deal(_corpus(USERS)))
    assert (other != dealt).any()


def test_rows_are_dealt_one_by_one_and_shares_may_be_unequal() -> None:
    federation = Clients(count=4, by="random", alpha=0.7)
    corpus = federation.deal(_corpus(USERS))
    (shares,) = federation.shares()
    assert shares.sum() == pytest.approx(1.0)
    assert max(shares) > 2 * min(shares)
    held = np.bincount(clients_of(corpus), minlength=4) / len(corpus)
    assert held == pytest.approx(shares, abs=0.05)
    assert federation.public_shares(corpus) == pytest.approx(shares)


def _of_file(path: Path, users: np.ndarray) -> Corpus:
    lines = [f"u{user},row {row} of u{user}" for row, user in enumerate(users) if user >= 0]
    path.write_text("\n".join(["who,text", *lines]))
    params = {"path": path, "user_column": "who", "valid": 0, "test": 0}
    corpus: Corpus = sources.create("text", params).load()
    return corpus


@pytest.mark.parametrize("by", ["user", "random"])
@pytest.mark.parametrize("gone", [[0], [3, 11, 400], [*range(520, 524)]])
def test_who_leaves_a_file_moves_nobody_else(tmp_path: Path, by: str, gone: list[int]) -> None:
    """Rows are taken out of the file: numbers of all others change, and names do not."""
    federation = Clients.model_validate({"count": 7, "by": by})
    users = USERS.copy()
    users[gone] = -1
    before, after = (
        federation.deal(_of_file(tmp_path / f"{name}.csv", of))
        for name, of in (("a", USERS), ("b", users))
    )
    client = dict(zip(before.texts, clients_of(before).tolist(), strict=True))
    assert len(after) == len(before) - len(gone)
    assert [client[text] for text in after.texts] == clients_of(after).tolist()


@pytest.mark.parametrize("by", ["user", "random", "dirichlet"])
def test_a_planted_row_goes_to_the_client_of_its_user(by: str) -> None:
    federation = Clients.model_validate({"count": 6, "by": by, "alpha": 1.0})
    corpus = _corpus(USERS)
    planted = replace(_corpus(np.array([3, 3, 299])), origin=np.full(3, -1))
    clients = clients_of(federation.deal(concatenate(corpus, planted)))[-3:]
    assert clients[0] == clients[1]
    if by == "user":
        assert clients.tolist() == clients_of(federation.deal(corpus))[[12, 13, 1196]].tolist()


def test_dirichlet_skews_labels_and_publishes_no_count_of_them() -> None:
    labels = (np.arange(len(USERS)) % 10 == 0).astype(np.int64)  # one in ten
    federation = Clients(count=5, by="dirichlet", alpha=0.3)
    corpus = _corpus(USERS, labels)
    dealt = clients_of(federation.deal(corpus))
    shares = federation.shares(2)
    for label in (0, 1):
        held = np.bincount(dealt[labels == label], minlength=5) / (labels == label).sum()
        assert held == pytest.approx(shares[label], abs=0.12)
    assert np.abs(shares[0] - shares[1]).max() > 0.2
    assert federation.public_shares(corpus) == federation.public_shares(_corpus(USERS, 1 - labels))


def test_without_labels_the_first_entity_says_the_kind() -> None:
    texts = ["Ann in Rome", "Rome", "nobody"] * 400
    rows = len(texts)
    mentions = [(i, 0, 3, 0) for i in range(0, rows, 3)] + [
        (i, 7, 11, 1) for i in range(0, rows, 3)
    ]
    mentions += [(i, 0, 4, 1) for i in range(1, rows, 3)]
    corpus = Corpus(
        tuple(texts), {"user": np.full(rows, -1)}, np.zeros(rows, dtype=np.int64),
        entities=Spans.build(texts, mentions), entity_types=("PER", "LOC"),
    )  # fmt: skip
    federation = Clients(count=3, by="dirichlet", alpha=0.5)
    dealt, shares = clients_of(federation.deal(corpus)), federation.shares(3)
    for kind, first in ((1, 0), (2, 1), (0, 2)):
        held = np.bincount(dealt[first::3], minlength=3) / (rows // 3)
        assert held == pytest.approx(shares[kind], abs=0.1)


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(InputError, match=r"'dirichlet'.*alpha"):
        runs(clients={"count": 3, "by": "dirichlet"})
    with pytest.raises(InputError, match=r"'counts'.*'count'"):
        runs(clients={"counts": 3})
    with pytest.raises(InputError, match=r"clients: .*list"):
        runs(clients={"count": []})
    with pytest.raises(InputError, match=r"clients\.count"):
        clients_of(_corpus(USERS))
    dealt = Clients(count=2).deal(_corpus(USERS))
    with pytest.raises(InputError, match=r"clients: .*source.*spec"):
        Clients(count=2).deal(dealt)


def test_clients_enter_the_identity_only_where_they_are_given() -> None:
    (plain,) = runs()
    assert "clients" not in identity_parts(plain, "x")
    assert "clients" not in plain.model_dump(mode="json")
    specs = runs(clients={"count": [2, 5]})
    assert [run.clients and run.clients.count for run in specs] == [2, 5]
    parts = identity_parts(specs[0], "x")["clients"]
    assert parts == {"count": 2, "by": "user", "alpha": None, "seed": 0}


def test_a_run_has_them_and_its_result_says_so(tmp_path: Path) -> None:
    command = flags(
        tmp_path, "--mechanism", "noiseless", "--set", "mechanism.epochs=1",
        "--set", "clients.count=3", "--set", "clients.by=random",
    )  # fmt: skip
    assert run_cli(command) == 0
    (path,) = tmp_path.glob("*/result.json")
    result = read_result(path)
    assert result.spec.clients == Clients(count=3, by="random")


@pytest.mark.parametrize("alpha", [1e308, 2e6, 0.0, -1.0, float("nan")])
def test_a_parameter_whose_shares_would_overflow_is_refused(alpha: float) -> None:
    with pytest.raises(InputError, match=r"clients\.alpha is .*(1000000|greater than 0|finite)"):
        parse_params(Clients, {"count": 3, "by": "dirichlet", "alpha": alpha}, "clients")


@pytest.mark.parametrize("alpha", [1e-300, 1e-3, 1e6])
def test_shares_of_every_allowed_parameter_add_up(alpha: float) -> None:
    shares = Clients(count=1000, by="dirichlet", alpha=alpha).shares(3)
    assert shares.sum(axis=1) == pytest.approx(1.0)
