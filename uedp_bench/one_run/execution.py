"""How a run is carried out: where, on what device, how fast; never what is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from uedp_bench.contracts.checkpoints import Pace
from uedp_bench.contracts.run_context import Points, Progress, Speed, no_points, no_progress


@dataclass(frozen=True)
class Execution:
    """How to run, never what: nothing here enters a run's identity.

    Attributes:
        out: folder of results; a run writes into `out/<id>/`.
        device: "auto", "cpu", "cuda" or any torch device.
        failures: how often the run has failed before, other than on bad input.
        keep_release: what was released is kept beside the result, and checkpoints of a run that
            failed.
        state: folder of checkpoints and of models that runs share, where they are kept whatever
            `keep_release` says; None: `out`.
        pace: how often trainings are written down.
        points: hears of the series of a run while it trains.
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
