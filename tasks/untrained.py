"""What tasks share that judge what was published, and train nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from uedp_bench.component import P
from uedp_bench.release import PublishedOnly
from uedp_bench.task import Task

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus
    from uedp_bench.learner import Learner, Role
    from uedp_bench.release import Release
    from uedp_bench.run_context import Run
    from uedp_bench.word_counts import WordCounts


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
        """What was published; it is made again by the run, not saved."""
        return PublishedOnly()
