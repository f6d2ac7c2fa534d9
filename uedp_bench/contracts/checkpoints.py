"""Checkpoints of a run: a training that was interrupted goes on from the last one.

A killed run starts again from its beginning: it plants, publishes and chooses a vocabulary as it
did before, to the bit, for every draw is keyed (`randomness`). Only loops are not repeated.
`Run.checkpointed` numbers them in their order, writes their state between steps, and in the next
attempt puts it back and goes on with the step that follows. Steps that were done after the last
checkpoint are repeated with the same draws, so that nothing is released or spent twice.
"""

from __future__ import annotations

import copy
import hashlib
import pickle
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from uedp_bench.contracts.saved_state import StateError, digest_of, load_state, state_of
from uedp_bench.io.files import FormError, file_text, parse
from uedp_bench.io.folders import private_folder, write_json
from uedp_bench.io.sealed_files import sealed_file, unsealed
from uedp_bench.randomness import Name, Stream

if TYPE_CHECKING:
    from torch import Tensor

_HEADER = "run.json"
_FORMAT = 4  # of all files; raised when what `_Training.state` has changes its form
_MOST_SHARE = 20.0
"""Writing takes at most this part (one in so many) of the time of a training."""


class Pace(BaseModel):
    """Pace of checkpoints; it does not enter the identity of a run.

    Attributes:
        seconds: least time between two checkpoints; a shorter training writes none. 0: the clock
            has no say.
        steps: steps of a training (rounds, or batches) between two checkpoints; 0: their number
            has no say.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    seconds: float = Field(default=60.0, ge=0)
    steps: int = Field(default=0, ge=0)


class ResumedRun(Protocol):
    """A `Run` as far as checkpoints know it."""

    device: str
    diary: Any

    @property
    def progress(self) -> Callable[[str, int, int], None]:
        """See `Run.progress`."""
        ...

    def stream(self, *names: Name) -> Stream:
        """See `Run.stream`."""
        ...


class Checkpoints:
    """Checkpoints of the trainings of one run.

    Args:
        folder: folder of the checkpoints; None for no checkpoints.
        made_by: function that returns the conditions for a training to go on to the bit, by name:
            identity of the run, code, libraries, device. It is called when there is something to
            write or to read.
        pace: pace of checkpoints.
        around: checkpoints of the run for which a shared model is trained; they count resumptions.

    Attributes:
        folder, pace: folder and pace of the checkpoints.
        resumed: number of times that the run was resumed, this attempt included.
        earlier_seconds: seconds that earlier attempts spent on steps which this one did not repeat.
        messages: reasons why a checkpoint could not be resumed, or a training cannot be written
            down; empty if all went well.
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
        self.messages: list[str] = []
        self._made_by, self._around = made_by, around
        self._root: Stream | None = None
        self._begun, self._resuming, self._header_written = 0, False, False
        if folder is not None and folder.is_dir() and not folder.is_symlink():
            self._open(folder)

    @property
    def _on(self) -> bool:
        return self.folder is not None and bool(self.pace.seconds or self.pace.steps)

    def root(self, drawn: Stream) -> Stream:
        """Root of the run's secret streams: that of the attempt before, if it was kept.

        Args:
            drawn: fresh root, for a run that starts anew.
        """
        if drawn.source != "os" or self.folder is None:
            return drawn  # a seed draws it again
        self._root = self._root or drawn
        return self._root

    def steps(
        self, name: str, run: ResumedRun, total: int, parts: Mapping[str, Any]
    ) -> Iterator[int]:
        """See `Run.checkpointed`."""
        if not self._on or self.folder is None:
            yield from range(total)
            return
        file = self.folder / f"{self._begun:03d}-{name}.pt"
        self._begun += 1
        training = _Training(file, name, run, total, parts)
        writes = self._can_be_written(training)
        first = self._restored_steps(training, run) if writes else 0
        began = written = time.monotonic()
        wait, last = self.pace.seconds, first
        for step in range(first, total):
            yield step
            stepped = time.monotonic()
            by_time = self.pace.seconds > 0 and stepped - written >= wait
            by_steps = self.pace.steps > 0 and (step + 1) % self.pace.steps == 0
            whole = step + 1 == total and (last > 0 or stepped - began >= self.pace.seconds > 0)
            if writes and (by_time or by_steps or whole):
                writes = self._write(training, step + 1, stepped - began)
                written, last = time.monotonic(), step + 1
                wait = max(self.pace.seconds, _MOST_SHARE * (written - stepped))

    def went_on(self) -> None:
        """Count once that this attempt resumes an earlier one."""
        if not self._resuming:
            self._resuming = True
            self.resumed += 1
            if self._on:
                self._write_header()

    def forget(self) -> None:
        """Remove all checkpoints: the run has ended, and nobody is to read secrets in them."""
        if self.folder is not None:
            remove(self.folder)

    def _open(self, folder: Path) -> None:
        """Read the checkpoints of an earlier attempt; remove them if they cannot be resumed."""
        why = ""
        try:
            header = parse(file_text(folder / _HEADER)).value
            before, after = dict(header["made_by"]), dict(self._made_by())
            names = before.keys() | after
            others = sorted(name for name in names if before.get(name) != after.get(name))
            if header["format"] != _FORMAT or others:
                why = f"{' and '.join(others) or 'the format'} changed since it was written"
            else:
                self.resumed = int(header["resumed"])
                if header["root"] is not None:
                    self._root = Stream(bytes.fromhex(header["root"]), "os")
                self._header_written = True
        except (FormError, ValueError, KeyError, TypeError, AttributeError, OverflowError):
            why = "it is damaged" if any(folder.glob("*.pt")) else ""
        if not self._header_written:
            remove(folder)
        if why:
            self.messages.append(f"starts anew, without the checkpoint: {why}")

    def _can_be_written(self, training: _Training) -> bool:
        try:
            training.begin()
        except StateError as error:
            self._say(f"{training.name} has no checkpoints: {error}", training.run)
            return False
        return True

    def _restored_steps(self, training: _Training, run: ResumedRun) -> int:
        """Put the state of a checkpoint back, and return the number of steps that are done."""
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
        """Write a checkpoint; False if the training cannot be written down."""
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
        header = {"format": _FORMAT, "made_by": dict(self._made_by()), "resumed": self.resumed,
                  "root": root}  # fmt: skip
        write_json(self.folder / _HEADER, header, private=True)
        self._header_written = True

    def _say(self, message: str, run: ResumedRun) -> None:
        self.messages.append(message)
        run.progress(message, 0, 1)


class _Training:
    """One loop of a run, its state, and the file that holds it.

    Args:
        file: file of its checkpoint.
        name: name for people.
        run: the run as the loop sees it.
        total: number of steps.
        parts: everything that changes from step to step, by name.

    Attributes:
        initial: digest of the state before the first step, of the run's secret streams and calls,
            and of the number of steps: a checkpoint of another training is never taken for one of
            this.
    """

    def __init__(
        self, file: Path, name: str, run: ResumedRun, total: int, parts: Mapping[str, Any]
    ) -> None:
        self.file, self.name, self.run, self.total = file, name, run, total
        self._parts, self._seconds_before = dict(parts), 0.0
        self._around = {"diary": run.diary, "torch": _TorchGenerators(run.device)}
        self.initial = ""

    def begin(self) -> None:
        """Record the state before the first step.

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
        """Content of a file after `step` steps, and `seconds` of this attempt.

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
        """Write a file that others see whole or not at all, for its owner alone."""
        import torch

        with sealed_file(self.file, private=True) as out:
            torch.save(dict(state), out)

    def restore(self) -> tuple[int, float, int]:
        """Put the state of the file back.

        Returns:
            Number of done steps, the seconds that they took, and the number of trainings that the
            run had begun by then.

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
    """Remove a folder of checkpoints; a link is left alone."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class PublicStages:
    """Models after a public stage, which the runs of an output folder share.

    Attributes:
        folder: folder that all runs share, across processes.
        identity: identity of the task and the model, as JSON.
        checkpoints: function that returns the checkpoints of a model in a folder: a run that is
            killed while it trains for all leaves them to the next one.
        saved_seconds: duration of the training that this run did not repeat, less its wait for the
            run that did.
    """

    folder: Path
    identity: str
    checkpoints: Callable[[Path], Checkpoints] = lambda folder: Checkpoints()
    saved_seconds: float = 0.0

    def saved(self, seconds: float) -> None:
        """Note that a run did not repeat a training of `seconds` seconds."""
        self.saved_seconds += seconds
