"""Both ways through a recurrent layer are timed on the same batch, and their gradients agree."""

from __future__ import annotations

import json
import sys

import packed_rows
import pytest

from uedp_bench.models.fast import recurrence_packing


def test_a_share_is_printed_for_each_number_of_units(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recurrence_packing, "LARGE", recurrence_packing.LARGE)  # put back after it
    monkeypatch.setattr(sys, "argv", ["packed_rows.py", "--units", "8", "16", "--json"])
    packed_rows.main()
    shares = json.loads(capsys.readouterr().out)
    assert list(shares) == ["8", "16"]
    assert all(0 < share < 10 for share in shares.values())
