"""Settings of an execution: folder, device, speed; never what is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from uedp_bench.contracts.checkpoints import Pace
from uedp_bench.contracts.run_context import Points, Progress, Speed, no_points, no_progress


@dataclass(frozen=True)
class Execution:
    """Settings of an execution; none of them enters a run's identity.

    Attributes:
        out: folder of results; a run writes into `out/<id>/`.
        device: "auto", "cpu", "cuda" or any torch device.
        failures: number of earlier failures of the run, other than on bad input.
        keep_release: True to keep the release beside the result, and checkpoints of a run that
            failed.
        state: folder of checkpoints and of models that runs share, where they are kept whatever
            `keep_release` says; None: `out`.
        pace: interval between checkpoints of a training.
        points: receiver of the series of a run while it trains.
    """

    out: Path
    device: str = "auto"
    speed: Speed = field(default_factory=Speed)
    progress: Progress = no_progress
    failures: int = 0
    keep_release: bool = True
    state: Path | None = None
    pace: Pace = field(default_factory=Pace)
    points: Points = no_points

    @property
    def state_folder(self) -> Path:
        """Folder of checkpoints, by run, and of models that runs share."""
        return self.out if self.state is None else self.state

    @property
    def keeps_checkpoints(self) -> bool:
        """True if checkpoints of a run that failed are kept."""
        return self.keep_release or self.state is not None
