"""The messages that users see most are those of `messages.txt`.

`python tests/test_messages.py` runs the commands of that file again and writes their messages.
Other tests match fields, values and names alone, so that a better wording changes one file.
"""

from __future__ import annotations

import contextlib
import io
import shlex
import tempfile
from pathlib import Path

from uedp_bench.cli.main import run_cli

MESSAGES = Path(__file__).with_name("messages.txt")

FILES = {
    "mail.csv": "body,who\nhello,ann\nbye,bo\n",
    "mail.docx": "no table",
    "late.py": "import math\n\nraise ValueError(math.pi)\n",
    "blank.csv": "body,who\nhello,ann\n,bo\n",
    "rows.jsonl": '{"text": "hello"}\n[1]\n',
    "broken.yaml": "mechanisms: [noiseless\n",
    "keys.yaml": "mechanisms: [noiseless]\ntsak: next-word\nseeds: [1, 1]\n",
    "order.yaml": "mechanisms: [[noiseless, deidentify], [user-dp, noiseless]]\n",
    "users.yaml": "source: {name: embedded, params: {users: 60, sentences: 2}}\nmechanisms: "
    "[{name: user-dp, params: {users: 10, users_per_round: 5, sampling: fixed}}]\n",
    "columns.yaml": "source: {name: text, params: {path: mail.csv, text_column: bdy}}\n"
    "mechanisms: [noiseless]\n",
}


def complaints(command: str) -> str:
    """Errors that a command line prints, a line each."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_cli(shlex.split(command))
    assert (code, out.getvalue()) == (2, ""), command
    assert all(line.startswith("error: ") for line in err.getvalue().splitlines()), command
    return err.getvalue()


def messages() -> str:
    """Commands of the golden file, each above its errors."""
    commands = [line for line in MESSAGES.read_text().splitlines() if line.startswith("$ ")]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, text in FILES.items():
            Path(name).write_text(text)
        text = "".join(f"{line}\n{complaints(line[2:])}" for line in commands)
        assert {path.name for path in Path().iterdir()} == {*FILES}, "a refused command wrote"
    return text


def test_messages_are_those_of_the_golden_file() -> None:
    assert messages() == MESSAGES.read_text()


if __name__ == "__main__":
    MESSAGES.write_text(messages())
