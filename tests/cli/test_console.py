"""What strangers write never reaches the terminal as something that it obeys."""

from __future__ import annotations

import io
import json
import math
import textwrap
from types import SimpleNamespace

import pytest
from hostile import answer

from uedp_bench.cli.console import console, echo, print_json
from uedp_bench.contracts.results import Cost
from uedp_bench.errors import plain

ESCAPES = (
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x07",
    "\b\b",
    "\r",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "\x9b1m",
    "\x9d0;t\x9c",
    "\x00",
    "\x7f",
    "\ud800",
)


@pytest.mark.parametrize("text", ESCAPES)
def test_tables_and_lines_hold_nothing_that_a_terminal_obeys(capsys, text):
    from rich.table import Table
    from rich.text import Text

    table = Table(f"column {text}", title=f"title {text}")
    table.add_row(Text(f"cell {text}"))
    out = console()
    out.print(table)
    out.print(f"a line {text}", markup=False)
    echo(f"two\nlines {text}")
    echo(text, err=True)
    printed = capsys.readouterr()
    for output in (printed.out, printed.err):
        assert plain(output, lines=True) == output
    assert "cell" in printed.out


def test_own_colours_and_long_lines_stay(capsys):
    out = console()
    out.print("x" * 500, soft_wrap=True)
    assert "x" * 500 in capsys.readouterr().out
    out._force_terminal, out._color_system = True, out._detect_color_system()
    with out.capture() as capture:
        out.print("[bold]strong[/bold] \x1b[31m")
    assert "strong" in capture.get()
    assert "\ufffd[31m" in capture.get()
    assert "\x1b[31m" not in capture.get()


PLUGIN = textwrap.dedent('''
    from pydantic import Field
    from uedp_bench.components.component import Params
    from uedp_bench.contracts.mechanism import PublishingMechanism
    from uedp_bench.components.registry import mechanisms

    class EvilParams(Params):
        """."""
        x: str = Field(default="\\x1b[31m", description="\\x1b]0;title\\x07 [/x] \\u202e")

    @mechanisms.register
    class Evil(PublishingMechanism):
        """Summary \\x1b[31m [/x] \\u202e \\x9b1m."""
        name, Params, source, unit = "evil\\x1b[31m", EvilParams, "here\\x07 [/x]", "word"
        def plan(self, stats): return ()
        def publish(self, corpus, run): return corpus, ()
''')


def test_components_of_strangers(tmp_path, monkeypatch):
    from uedp_bench.components import registry

    monkeypatch.setattr(registry.mechanisms, "_plugins", {})
    file = tmp_path / f"evil_{tmp_path.name}.py"
    file.write_text(PLUGIN)
    plugin = ["--plugin", str(file)]
    _, output, _ = answer(["list", "mechanisms", *plugin], codes=(0,))
    assert "evil\\x1b[31m" in output
    _, output, _ = answer(["describe", "mechanism/evil\x1b[31m", *plugin], codes=(0,))
    assert "title" in output
    answer(["account", "evil\x1b[31m", *plugin])
    answer(["account", "evil\x1b[31m", "--set", "x=[", *plugin], codes=(2,))
    answer(["run", "--mechanism", "evil\x1b[30m", *plugin], codes=(2,))


@pytest.mark.parametrize("kind", ["Bars", "Lines"])
def test_progress_of_strangers(kind):
    from rich.console import Console

    from uedp_bench.grid import progress

    job = SimpleNamespace(id="1", label="evil \x1b[31m [/x]", done=None, todo=True)
    result = SimpleNamespace(status="finished", cost=Cost(train_seconds=1, attack_seconds=1))
    screen = Console(file=io.StringIO(), force_terminal=kind == "Bars", width=200)
    with getattr(progress, kind)(screen) as shown:
        shown.begin([job])
        shown.update(SimpleNamespace(id="1", phase="a\x07[/y]", done=1, total=2))
        screen.print("")
        shown.finish(job, result)
    output = screen.file.getvalue()
    assert "evil \\x1b[31m [/x]: a\\x07[/y]" in output
    assert "\x1b[31m " not in output
    assert "\x07" not in output


def test_infinity_is_a_string_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"value": math.inf}, (-math.inf, 1.5)])
    assert json.loads(capsys.readouterr().out) == [{"value": "inf"}, ["-inf", 1.5]]
    with pytest.raises(ValueError, match="value: NaN"):
        print_json({"value": math.nan})
