"""Checkpoints of a run: a training that was interrupted goes on from the last one.

A killed run starts again from its beginning: it plants, publishes and chooses a vocabulary as it
did before, to the bit, for every draw is keyed (`randomness.streams`). Only loops are not repeated.
`Run.checkpointed` numbers them in their order, writes their state between steps, and in the next
attempt puts it back and goes on with the step that follows. Steps that were done after the last
checkpoint are repeated with the same draws, so that nothing is released or spent twice.
"""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from uedp_bench.contracts.saved_state import StateError, digest_of, load_state, state_of
from uedp_bench.io.json_files import FormError, file_text
from uedp_bench.io.output_folder import private_folder, write_json
from uedp_bench.io.sealed_files import sealed_file, unsealed
from uedp_bench.randomness.streams import Stream

if TYPE_CHECKING:
    from torch import Tensor

    from uedp_bench.contracts.run_context import Run

_HEADER = "run.json"
_FORMAT = 4  # of all files; raised when what `_Training.state` has changes its form
_MOST_SHARE = 20.0
"""Writing takes at most one part in so many of the time of a training."""


class Pace(BaseModel):
    """How often trainings are written down; it does not enter the identity of a run.

    Attributes:
        seconds: between two checkpoints, at least; a training that takes less writes none. 0: the
            clock has no say.
        steps: of a training (rounds, or batches) after which one is written; 0: their number has
            no say.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    seconds: float = Field(default=60.0, ge=0)
    steps: int = Field(default=0, ge=0)


class Checkpoints:
    """Where one run writes its trainings down, and finds them again.

    Args:
        folder: of the checkpoints; None writes and finds nothing.
        made_by: what must be the same for a training to go on to the bit, by name: identity of the
            run, code, libraries, device. It is asked when there is something to write or to find.
        pace: how often to write.
        around: the run for which a model is trained that others share; it is the one that says how
            often it was resumed.

    Attributes:
        folder, pace: see above.
        resumed: how often the run was resumed, this attempt included.
        earlier_seconds: that attempts before spent on the steps which this one did not repeat.
        said: why something that was found could not be gone on from, or a training cannot be
            written down; empty if all went well.
    """

    def __init__(
        self,
        folder: Path | None = None,
        made_by: Callable[[], Mapping[str, str]] = dict,
        pace: Pace | None = None,
        around: Checkpoints | None = None,
    ) -> None:
        self.folder, self.pace = folder, pace or Pace()
        self.resumed, self.earlier_seconds = 0, 0.0
        self.said: list[str] = []
        self._made_by, self._around = made_by, around
        self._root: Stream | None = None
        self._begun, self._resuming, self._header_written = 0, False, False
        if folder is not None and folder.is_dir() and not folder.is_symlink():
            self._open(folder)

    @property
    def _on(self) -> bool:
        return self.folder is not None and bool(self.pace.seconds or self.pace.steps)

    def root(self, drawn: Stream) -> Stream:
        """The root of the run's secret streams: the one of the attempt before, if it was kept.

        Args:
            drawn: for a run that starts anew.
        """
        if drawn.source != "os" or self.folder is None:
            return drawn  # a seed draws it again
        self._root = self._root or drawn
        return self._root

    def steps(self, name: str, run: Run, total: int, parts: Mapping[str, Any]) -> Iterator[int]:
        """See `Run.checkpointed`."""
        if not self._on or self.folder is None:
            yield from range(total)
            return
        file = self.folder / f"{self._begun:03d}-{name}.pt"
        self._begun += 1
        training = _Training(file, name, run, total, parts)
        writes = self._can_be_written(training)
        first = self._found(training, run) if writes else 0
        began = written = time.monotonic()
        wait, last = self.pace.seconds, first
        for step in range(first, total):
            yield step
            now = time.monotonic()
            by_time = self.pace.seconds > 0 and now - written >= wait
            by_steps = self.pace.steps > 0 and (step + 1) % self.pace.steps == 0
            whole = step + 1 == total and (last > 0 or now - began >= self.pace.seconds > 0)
            if writes and (by_time or by_steps or whole):
                writes = self._write(training, step + 1, now - began)
                written, last = time.monotonic(), step + 1
                wait = max(self.pace.seconds, _MOST_SHARE * (written - now))

    def went_on(self) -> None:
        """Counts that this attempt goes on from what another did, once."""
        if not self._resuming:
            self._resuming = True
            self.resumed += 1
            if self._on:
                self._write_header()

    def forget(self) -> None:
        """Removes all checkpoints: the run has ended, and nobody is to read secrets in them."""
        if self.folder is not None:
            remove(self.folder)

    def _open(self, folder: Path) -> None:
        """Reads what an earlier attempt left; removes it if nobody can go on from it."""
        why = ""
        try:
            found = json.loads(file_text(folder / _HEADER))
            before, now = dict(found["made_by"]), dict(self._made_by())
            others = sorted(key for key in before.keys() | now if before.get(key) != now.get(key))
            if found["format"] != _FORMAT or others:
                why = f"{' and '.join(others) or 'the format'} changed since it was written"
            else:
                self.resumed = int(found["resumed"])
                if found["root"] is not None:
                    self._root = Stream(bytes.fromhex(found["root"]), "os")
                self._header_written = True
        except (FormError, OSError, ValueError, KeyError, TypeError, AttributeError):
            why = "it is damaged" if any(folder.glob("*.pt")) else ""
        if not self._header_written:
            remove(folder)
        if why:
            self.said.append(f"starts anew, without the checkpoint: {why}")

    def _can_be_written(self, training: _Training) -> bool:
        try:
            training.begin()
        except StateError as error:
            self._say(f"{training.name} has no checkpoints: {error}", training.run)
            return False
        return True

    def _found(self, training: _Training, run: Run) -> int:
        """The number of steps that are done, with the state after them put back."""
        if not self._header_written or not training.file.is_file():
            return 0
        try:
            step, seconds, self._begun = training.restore()
        except StateError as error:
            self._say(f"starts {training.name} anew, without its checkpoint: {error}", run)
            return 0
        self.earlier_seconds += seconds
        (self._around or self).went_on()
        run.progress(f"resumed {training.name}", step, training.total)
        return step

    def _write(self, training: _Training, step: int, seconds: float) -> bool:
        """Writes a checkpoint; False if the training cannot be written down."""
        try:
            state = training.state(step, seconds) | {"begun": self._begun}
        except StateError as error:
            self._say(f"{training.name} goes on without a checkpoint: {error}", training.run)
            return False
        if not self._header_written:
            self._write_header()
        training.write(state)
        return True

    def _write_header(self) -> None:
        if self.folder is None:
            return
        private_folder(self.folder)
        kept = self._root is not None and self._root.source == "os"
        root = self._root.key.hex() if kept and self._root is not None else None
        found = {"format": _FORMAT, "made_by": dict(self._made_by()), "resumed": self.resumed,
                 "root": root}  # fmt: skip
        write_json(self.folder / _HEADER, found, private=True)
        self._header_written = True

    def _say(self, said: str, run: Run) -> None:
        self.said.append(said)
        run.progress(said, 0, 1)


class _Training:
    """One loop of a run, its state, and the file that holds it.

    Args:
        file: of its checkpoint.
        name: for people.
        run: as the loop sees it.
        total: steps.
        parts: everything that changes from step to step, by name.

    Attributes:
        initial: digest of the state before the first step, of the run's secret streams and calls,
            and of the number of steps: a checkpoint of another training is never taken for one of
            this.
    """

    def __init__(
        self, file: Path, name: str, run: Run, total: int, parts: Mapping[str, Any]
    ) -> None:
        self.file, self.name, self.run, self.total = file, name, run, total
        self._parts, self._seconds_before = dict(parts), 0.0
        self._around = {"diary": run.diary, "torch": _TorchGenerators(run.device)}
        self.initial = ""

    def begin(self) -> None:
        """Looks at the state before the first step.

        Raises:
            StateError: if no checkpoint can hold it.
        """
        run = self.run
        secret = hashlib.sha256(run.stream("checkpoint").key).hexdigest()
        calls, parts = run.diary.calls, self._state(self._parts)
        self.initial = digest_of((self.name, self.total, secret, calls, parts))

    @staticmethod
    def _state(parts: Mapping[str, Any]) -> dict[str, Any]:
        return {name: state_of(part, name) for name, part in parts.items()}

    def state(self, step: int, seconds: float) -> dict[str, Any]:
        """The content of a file after so many steps, and seconds of this attempt.

        Raises:
            StateError: if no checkpoint can hold it.
        """
        return {
            "initial": self.initial,
            "step": step,
            "seconds": self._seconds_before + seconds,
            "parts": self._state(self._parts),
            "around": self._state(self._around),
        }

    def write(self, state: Mapping[str, Any]) -> None:
        """Writes a file that others see whole or not at all, for its owner alone."""
        import torch

        with sealed_file(self.file, private=True) as out:
            torch.save(dict(state), out)

    def restore(self) -> tuple[int, float, int]:
        """Puts the state of the file back.

        Returns:
            Steps that are done, the seconds that they took, and how many trainings of the run had
            begun by then.

        Raises:
            StateError: if the file is damaged, of another training, or does not fit; everything is
                then as before the first step.
        """
        import torch

        try:
            saved = torch.load(unsealed(self.file), weights_only=True)
            step, seconds, begun = int(saved["step"]), float(saved["seconds"]), int(saved["begun"])
            initial, states = saved["initial"], (saved["parts"], saved["around"])
        except (OSError, RuntimeError, EOFError, ValueError, KeyError, TypeError,
                AttributeError, pickle.UnpicklingError) as error:  # fmt: skip
            raise StateError("it is damaged") from error
        if initial != self.initial or not 0 < step <= self.total:
            raise StateError("the training is not the one that was written down")
        parts = self._parts, self._around
        before = copy.deepcopy([self._state(each) for each in parts])
        try:
            self._load(states)
        except Exception as error:  # of any part
            self.file.unlink(missing_ok=True)
            self._load(before)
            raise StateError(f"it does not fit ({type(error).__name__}: {error})") from error
        self._seconds_before = seconds
        return step, seconds, begun

    def _load(self, states: Sequence[Mapping[str, Any]]) -> None:
        for parts, state in zip((self._parts, self._around), states, strict=True):
            for name, part in parts.items():
                load_state(part, state[name])


class _TorchGenerators:
    """States of torch's own generators, for networks that draw from them."""

    def __init__(self, device: str) -> None:
        self._device = device

    def state_dict(self) -> dict[str, Tensor]:
        import torch

        own = {"cpu": torch.get_rng_state()}
        if not self._device.startswith("cuda"):
            return own
        return own | {"cuda": torch.cuda.get_rng_state(self._device)}

    def load_state_dict(self, state: Mapping[str, Tensor], /) -> None:
        import torch

        torch.set_rng_state(state["cpu"])
        if self._device.startswith("cuda"):
            torch.cuda.set_rng_state(state["cuda"], self._device)


def remove(folder: Path) -> None:
    """Removes a folder of checkpoints; a link is left alone."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class PublicStages:
    """Where one run finds models after a public stage, or leaves them.

    Attributes:
        folder: shared by all runs of an output folder, across processes.
        identity: of the task and the model, as JSON.
        checkpoints: makes those of a model in a folder: a run that is killed while it trains for
            all leaves them to whichever comes next.
        saved_seconds: what the training took that this run did not repeat, less what it waited for
            the run that did.
    """

    folder: Path
    identity: str
    checkpoints: Callable[[Path], Checkpoints] = lambda folder: Checkpoints()
    saved_seconds: float = 0.0

    def saved(self, seconds: float) -> None:
        """Notes that a run did not repeat a training that took so long."""
        self.saved_seconds += seconds
