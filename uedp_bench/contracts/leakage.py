"""The contract of attacks: plant something before, measure what leaks after."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

from uedp_bench.components.component import Component, P
from uedp_bench.contracts.results import Estimate, LowerBound, Sample

if TYPE_CHECKING:
    import numpy as np

    from uedp_bench.accounting.events import PrivacyEvent
    from uedp_bench.contracts.release import Release
    from uedp_bench.contracts.run_context import Run
    from uedp_bench.corpus import Corpus


class Planted(BaseModel):
    """Rows that an attack put into the corpus, or kept out of it; saved beside the release.

    Attacks subclass it. It must survive a round trip through JSON, so that an attack can run again
    on a saved release.

    Attributes:
        withdrawn: rows that the runner moves to the split `held_out` once every attack has planted
            and public sizes are counted: neither they nor what others plant show who is out.
        injected: users whose updates an audit replaces (`Run.injected`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    withdrawn: tuple[int, ...] = ()
    injected: tuple[int, ...] = ()


@dataclass(frozen=True)
class Leakage:
    """Measurements of an attack.

    Attributes:
        metrics: the headline numbers, with 95 % intervals.
        details: everything else that a reader of the run page wants (JSON values).
        lower_bounds: epsilons that the attack refuted from below.
        samples: readings of a few private texts. Results keep them only of text that may be shown
            (`Source.shows_samples`).
    """

    metrics: dict[str, Estimate]
    details: dict[str, Any] = field(default_factory=dict)
    lower_bounds: tuple[LowerBound, ...] = ()
    samples: tuple[Sample, ...] = ()


@dataclass(frozen=True)
class StoredLeakage:
    """Numbers and details of one attack in a stored result, which may be anybody's.

    Attributes:
        metrics: metrics of the attack; empty if only bounds are stored.
        details: details of the attack, in any form.
        lower_bounds: bounds of the attack, by their number among all bounds of the result.
        delta: delta of the run.
        version: version of the attack that the result records; None if it records none.
        planted: what it planted, by coins that somebody revealed; None if nobody did.
    """

    metrics: Mapping[str, Estimate]
    details: Mapping[str, Any]
    lower_bounds: Mapping[int, LowerBound]
    delta: float
    version: int | None
    planted: Planted | None = None


class Attack(Component[P]):
    """Base of all attacks.

    Attributes:
        needs: capabilities; a release must offer at least one of them.
        holds_out: `plant` moves whole users to the split `held_out`. Such attacks plant before
            all others, so that nothing planted is held out.
        replaces_users: `plant` replaces whole users. Such attacks plant next, so that the others
            can leave those users alone.
        planted_type: the type of what `plant` returns.
        judges_users_since: first version whose details say how many users it judged (`judged`), so
            that proofs bound its metrics; None for an attack that judges no users.
    """

    needs: ClassVar[tuple[type, ...]]
    holds_out: ClassVar[bool] = False
    replaces_users: ClassVar[bool] = False
    planted_type: ClassVar[type[Planted]] = Planted
    judges_users_since: ClassVar[int | None] = None

    def required_capabilities(self) -> tuple[type, ...]:
        """Capabilities of which a release must offer one, at its parameters; `needs` by default."""
        return self.needs

    def retrainings(self, offers: tuple[type, ...]) -> Mapping[str, int]:
        """Number of models that the attack may ask `Run.retrain` for; none by default.

        Args:
            offers: capabilities of what the run's task trains, as far as the task declares them;
                none if it trains nothing.

        Returns:
            Number by the parameter that sets it, or by "" where no parameter does.
        """
        return {}

    def payload_rounds(self) -> int:
        """Number of rounds of messages that it needs with payloads (`Transcript`); 0 for none.

        Messages are kept for attacks that ask for them before anything is sent, and for attacks
        whose `needs` name `Transcript`.
        """
        return 0

    def refuses(self, release: Release, corpus: Corpus) -> str | None:
        """Reason why it cannot attack a release that has what `needs` names; None by default.

        The attack is then skipped with this reason. `corpus` is the one that `run` would get.
        """
        return None

    def refuses_events(self, events: Sequence[PrivacyEvent]) -> str | None:
        """Reason why it cannot attack a release of such events; None by default.

        It is called with the planned events before anything is trained, and with those of the
        release.
        The attack is then skipped with this reason.
        """
        return None

    @abstractmethod
    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Plant in the corpus to protect, before any vocabulary is made; return both."""

    def planted_in(self, corpus: Corpus) -> Planted | None:
        """Rows that it would have planted in a corpus whose splits already say who trained.

        A release that was trained elsewhere is attacked with them: rows of the split `train` were
        trained on, rows of `held_out` were not. None by default: nothing of the kind.

        Raises:
            InputError: if the splits do not hold what the attack needs.
        """
        return None

    def contradictions(self, stored: StoredLeakage) -> Iterator[tuple[str, str]]:
        """Contradictions of a stored result, whose numbers do not follow from its details.

        Nothing is computed again by default.

        Args:
            stored: metrics, details and bounds of this attack, which had these parameters.

        Yields:
            Place ("details.canaries.3.rank", "leakage.auc.value", "lower_bounds.2.epsilon") and
            error.

        Raises:
            ValidationError: of pydantic, if details have not the form that the attack gives them.
        """
        yield from ()

    @abstractmethod
    def run(self, release: Release, planted: Any, corpus: Corpus, run: Run) -> Leakage:
        """Measure the leakage of a release; `corpus` is the planted corpus, all splits."""
