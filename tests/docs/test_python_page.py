"""The page on Python runs as printed, but for sizes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tiny import MODEL, SOURCE

import uedp_bench as ub
from uedp_bench.python_api.results import Results

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.mark.long
def test_every_block_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    whole = ub.run

    def smaller(**keywords: object) -> Results:
        sizes = {f"source.{name}": value for name, value in SOURCE.items()}
        sizes |= {f"model.{name}": value for name, value in MODEL.items()}
        sizes |= {"mechanism.user-dp.rounds": 2, "mechanism.user-dp.users_per_round": 10}
        sizes |= {"mechanism.noiseless.epochs": 1, "attack.membership.held_out_users": 10}
        sizes |= {"attack.membership.shadow_models": 2}
        return whole(**{**keywords, "settings": sizes, "seeds": [1], "workers": 0})  # type: ignore[arg-type]

    monkeypatch.setattr(ub, "run", smaller)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102
    output = capsys.readouterr().out
    assert (
        "utility.perplexity" in output
        and "noise_multiplier" in output
        and "Estimate" in repr(names["leakage"])
    )


def test_it_names_all_that_there_is() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in ub.__all__:
        assert f"`{name}`" in text
