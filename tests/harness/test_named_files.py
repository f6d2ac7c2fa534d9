"""Files that parameters name are looked for before anything is loaded, aligned or trained."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import runs

from uedp_bench.errors import InputError
from uedp_bench.harness import known_rows
from uedp_bench.harness.named_files import check_files
from uedp_bench.harness.scheduler import jobs_of
from uedp_bench.models.marian import Marian, MarianParams


def test_a_translator_that_is_not_there_is_refused_before_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_rows, "load_data", lambda sources: pytest.fail("data were read"))
    (spec,) = runs(
        "noiseless", source="parallel-embedded", task="translation",
        model={"name": "marian", "params": {"pretrained": str(tmp_path / "opus")}},
    )  # fmt: skip
    said = r"marian.pretrained: .*opus is not there; allowed is .*local folder of a Marian model"
    with pytest.raises(InputError, match=said):
        jobs_of([spec], tmp_path / "out")


def test_a_folder_must_hold_what_it_is_said_to_hold(tmp_path: Path) -> None:
    model = Marian(MarianParams(pretrained=tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"has no vocab\.json, no source\.spm, no target\.spm;"):
        check_files([model])
    for name in ("vocab.json", "source.spm", "target.spm"):
        (tmp_path / name).write_text("")
    check_files([model])
