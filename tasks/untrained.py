"""Base of tasks that judge published text, and train nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from uedp_bench.api import PublishedOnly, Task
from uedp_bench.components.component import P

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Release, Run
    from uedp_bench.api.networks import Learner, Role, WordCounts


class UntrainedTask(Task[P]):
    """A task without stages: its score is of what a mechanism published."""

    def vocabulary(self, corpus: Corpus, words: WordCounts | None = None) -> None:
        """None: nothing is trained."""
        return

    def stages(self, corpus: Corpus, vocabulary: object, run: Run) -> Sequence[Learner]:
        """None: nothing is trained."""
        return ()

    def roles(self) -> tuple[Role, ...]:
        """None: nothing is trained."""
        return ()

    def load(self, folder: Path) -> Release:
        """Published release; the run makes it again instead of loading it."""
        return PublishedOnly()
