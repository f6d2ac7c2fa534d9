"""Share of a round's work, and its sum, which is equal wherever it is computed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from uedp_bench.accounting.events import AnyEvent
from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import PrivacyError
from uedp_bench.training.bounds import Limits, NetworkLayer
from uedp_bench.training.clipping import clipped_sum, layered_sum, row_clipped_updates
from uedp_bench.training.clipping_rule import described, one_pass_refusal, settings_refusal
from uedp_bench.training.device import (
    by_rows,
    check_precision,
    chunk_size,
    chunks,
    denormals_as_zeros,
    pin_float32,
    row_numbers,
    waits,
)
from uedp_bench.training.ghost.gradients import UnknownUse
from uedp_bench.training.ghost.single_pass import SinglePass
from uedp_bench.training.local import LocalTraining, LocalWork, units_at_once
from uedp_bench.training.sampling import Cohort
from uedp_bench.training.vector import inject


class Share(NamedTuple):
    """Some of the units of a round, their rows, seeds and unit weights: plain arrays."""

    cohort: Cohort
    weights: FloatArray

    def take(self, units: IntArray) -> Share:
        """The share of some of its units."""
        return Share(self.cohort.take(units), self.weights[units])


class RoundWork(NamedTuple):
    """Work of a round that all its shares have in common.

    Attributes:
        theta: (d,) shared weights.
        limits: limits of each unit.
        keep_updates: True to keep the clipped update of each unit, for a transcript.
    """

    theta: Tensor
    limits: Limits
    keep_updates: bool = False


@dataclass(frozen=True)
class UnitSum:
    """Sum of some units' updates in a round, with its diagnostics. Never released as it is.

    Attributes:
        total: (d,) the weighted sum of their clipped updates.
        units: number of the units.
        rows: number of rows that they used.
        short: number of units that sent no more than `Count.below`; 0 where no count is needed.
        clipped: number of clipped units.
        dropped: number of units that sent something not finite, and count as nothing.
        dropped_rows: number of rows that were not finite, where rows are clipped one by one.
        injected: number of units that an audit replaced; None without an audit.
        losses: losses of the units before their first steps.
        clipping: units by the rule that clips them (`clipping_rule.described`).
        updates: (units, d) clipped updates; None where nobody needs them.
        unit_events: number and events of each unit that draws for itself.
        inner: norm of the sum and deviation of the noise of all steps inside such units.
    """

    total: Tensor
    units: int = 0
    rows: int = 0
    short: int = 0
    clipped: int = 0
    dropped: int = 0
    dropped_rows: int = 0
    injected: int | None = None
    losses: list[float] = field(default_factory=list)
    clipping: Counter[str] = field(default_factory=Counter)
    updates: Tensor | None = None
    unit_events: tuple[tuple[int, tuple[AnyEvent, ...]], ...] = ()
    inner: tuple[tuple[float, float], ...] = ()


@runtime_checkable
class DrawingTrainer(Protocol):
    """A `UnitTrainer` whose units draw rows and noise for themselves (`PrivateSteps`).

    Attributes:
        worker: computes their steps.
    """

    worker: ShareWorker

    def counted(self, unit_sum: UnitSum) -> UnitSum:
        """Add the counts of the steps inside of these units to their sum."""
        ...


def joined(parts: Iterator[UnitSum], zero: Tensor) -> UnitSum:
    """Add all parts in their order, on which bits depend; the first part holds the sum."""
    total: Tensor | None = None
    losses, injected = list[float](), None
    updates: list[Tensor] = []
    unit_events: list[tuple[int, tuple[AnyEvent, ...]]] = []
    inner: list[tuple[float, float]] = []
    clipping = Counter[str]()
    counts = dict.fromkeys(("units", "rows", "short", "clipped", "dropped", "dropped_rows"), 0)
    for part in parts:
        total = part.total if total is None else total.add_(part.total)
        losses.extend(part.losses)
        clipping += part.clipping
        unit_events.extend(part.unit_events)
        inner.extend(part.inner)
        for name in counts:
            counts[name] += getattr(part, name)
        if part.updates is not None:
            updates.append(part.updates)
        if part.injected is not None:
            injected = (injected or 0) + part.injected
        del part  # its sum would be held while the next is computed
    sent = torch.cat(updates) if updates else None
    total = torch.zeros_like(zero) if total is None else total
    return UnitSum(
        total, **counts, injected=injected, losses=losses, clipping=clipping, updates=sent,
        unit_events=tuple(unit_events), inner=tuple(inner),
    )  # fmt: skip


@dataclass(frozen=True)
class WorkerSetup:
    """Setup of all rounds of a training. It is pickled for other ranks.

    Attributes:
        learner: learner that is trained.
        local: settings of a unit's training.
        device: torch device.
        seed: seed of an audit's injections; no noise and no coin is drawn from it.
        injected: users whose updates an audit replaces.
        most: number of units whose updates are held at once (`Speed.chunk`).
        refusal: reason why no unit is clipped in one pass, "" if those of one local step are; None
            until the network was looked at (`decided`).
    """

    learner: Learner
    local: LocalWork
    device: str
    seed: int
    injected: tuple[int, ...]
    most: int
    refusal: str | None = None

    def decided(self) -> WorkerSetup:
        """Setup with its clipping rule, which all ranks of a training share."""
        if self.refusal is not None:
            return self
        return replace(self, refusal=one_pass_refusal(self.learner, self.local, self.device) or "")


class ShareWorker:
    """Computes shares one by one, in the process that it is in."""

    def __init__(self, setup: WorkerSetup) -> None:
        pin_float32()
        self._setup = setup = setup.decided()
        self.trainer = setup.local.trainer(setup.learner, setup.device)
        self._users = setup.learner.corpus.users
        self._single_pass: SinglePass | None = None
        if isinstance(local := setup.local, LocalTraining) and not setup.refusal:
            flat = self.trainer.flat
            self._single_pass = SinglePass(setup.learner, local, flat, setup.device)

    def layers(self) -> tuple[NetworkLayer, ...]:
        """Weights of the network, in the order of an update."""
        return self.trainer.flat.layers()

    @denormals_as_zeros()
    def unit_sum(self, work: RoundWork, share: Share) -> UnitSum:
        """Add the clipped updates of the units of a share.

        The rule that clips a unit depends on that unit, the settings and the network: never on
        the units beside it (`clipping_rule`).

        Raises:
            PrivacyError: if updates are bounded, and a component lowered the precision of float32.
        """
        unit_sum = self._unit_sum(work, share)
        if math.isfinite(work.limits.total):
            check_precision()
        return unit_sum

    def _unit_sum(self, work: RoundWork, share: Share) -> UnitSum:
        local, single_pass = self._setup.local, self._single_pass
        reason = settings_refusal(local, keep_updates=work.keep_updates) or self._setup.refusal
        way = described(local, reason or None)
        if reason or single_pass is None or not isinstance(local, LocalTraining):
            return self._one_by_one(work, share, way)
        single = local.of_one_step((share.cohort.weights > 0).sum(axis=1))
        if single.all():
            return self._as_it_fits(single_pass, work, share, way)
        parts = [self._one_by_one(work, share.take(np.flatnonzero(~single)), way)]
        if single.any():
            units = share.take(np.flatnonzero(single))
            parts.append(self._as_it_fits(single_pass, work, units, way))
        return joined(iter(parts), work.theta)

    def _one_by_one(self, work: RoundWork, share: Share, way: str) -> UnitSum:
        """The sum by way of the update of each unit, or that of two halves for want of memory."""
        try:
            return self._of_updates(work, share, way)
        except torch.OutOfMemoryError:
            alone = len(share.weights) == 1 or isinstance(self.trainer, DrawingTrainer)
            if alone or work.keep_updates:  # which are kept in the order of the share
                raise
        self.trainer.losses = []  # of the part that fitted
        return self._of_halves(work, share, lambda half: self._one_by_one(work, half, way))

    def _of_updates(self, work: RoundWork, share: Share, way: str) -> UnitSum:
        learner, most = self._setup.learner, self._setup.most
        if share.cohort.rows.shape[1] > 1:
            most = units_at_once(learner, len(work.theta), self._setup.device, most)
        parts = shares(share.cohort, share.weights, learner.row_size, work.theta, most)
        unit_sum = self._by_updates(work, parts, lambda part: self._updates(work, part), way)
        return (
            self.trainer.counted(unit_sum) if isinstance(self.trainer, DrawingTrainer) else unit_sum
        )

    def _as_it_fits(
        self, single_pass: SinglePass, work: RoundWork, share: Share, way: str
    ) -> UnitSum:
        """The sum in one pass, or that of two halves where a pass of all units fails.

        The device may lack memory for it. Or the network may use a weight, for some row, in a way
        that it did not use it in for the example rows: the unit of that row alone is clipped by the
        norm of its update, and all others as ever.

        Raises:
            PrivacyError: if rows are bounded too: other rows of that unit would be clipped by
                another rule with that row than without it.
        """
        units = len(share.weights)
        try:
            return self._in_one_pass(single_pass, work, share, way)
        except torch.OutOfMemoryError:
            if units == 1:
                raise
        except UnknownUse as use:
            if work.limits.rows is not None:
                raise PrivacyError(
                    f"two-level clipping: for some row the network uses {use}, as for no example "
                    "row, so that this row decides by which rule others of its user are clipped; "
                    "take one-level clipping"
                ) from use
            if units == 1:
                return self._one_by_one(work, share, way)
        return self._of_halves(
            work, share, lambda half: self._as_it_fits(single_pass, work, half, way)
        )

    def _of_halves(
        self, work: RoundWork, share: Share, sum_of: Callable[[Share], UnitSum]
    ) -> UnitSum:
        """The sum of two halves; no frame of what failed holds its tables any more."""
        if waits(work.theta.device):
            torch.cuda.empty_cache()
        units = np.array_split(np.arange(len(share.weights)), 2)
        return joined((sum_of(share.take(at)) for at in units), work.theta)

    def _in_one_pass(
        self, single_pass: SinglePass, work: RoundWork, share: Share, way: str
    ) -> UnitSum:
        theta, limits, cohort = work.theta, work.limits, share.cohort
        replaced = self._replaced(cohort, limits)
        weights = np.where(replaced, 0.0, share.weights)
        clipped = single_pass.clipped(
            theta, cohort, limits, torch.as_tensor(weights).to(theta.device)
        )
        marks, norms, over = Marks(limits), clipped.norms, clipped.over
        if replaced.any():
            keep = torch.as_tensor(np.flatnonzero(~replaced), device=theta.device)
            norms, over = norms[keep], over[keep]
        marks.add(norms, over, clipped.dropped_rows)
        looked = replace(
            marks.read(clipped.total, clipped.losses),
            units=len(cohort.rows),
            rows=int((cohort.weights > 0).sum()),
            injected=0 if self._setup.injected and math.isfinite(limits.total) else None,
            clipping=Counter({way: len(cohort.rows)}),
        )
        return self._with_canaries(work, share, replaced, looked) if replaced.any() else looked

    def _replaced(self, cohort: Cohort, limits: Limits) -> NDArray[np.bool_]:
        """(units,) True where an audit puts something in the place of what a unit sends."""
        injected = self._setup.injected if math.isfinite(limits.total) else ()
        return np.isin(self._users[cohort.rows[:, 0]], injected)

    def _with_canaries(
        self, work: RoundWork, share: Share, replaced: NDArray[np.bool_], unit_sum: UnitSum
    ) -> UnitSum:
        """The sum with something in the place of the updates of some units, clipped and added."""
        d, units = len(work.theta), np.flatnonzero(replaced)
        size = chunk_size(d, self._setup.most)
        parts = (
            Share(share.cohort.take(part), share.weights[part])
            for part in (units[start : start + size] for start in range(0, len(units), size))
        )

        def zeros(part: Share) -> tuple[Tensor, None]:
            return work.theta.new_zeros((len(part.weights), d)), None

        canaries = self._by_updates(work, parts, zeros, "")
        return replace(
            unit_sum,
            total=unit_sum.total.add_(canaries.total),
            short=unit_sum.short + canaries.short,
            clipped=unit_sum.clipped + canaries.clipped,
            dropped=unit_sum.dropped + canaries.dropped,
            injected=canaries.injected,
        )

    def _updates(self, work: RoundWork, share: Share) -> tuple[Tensor, Tensor | None]:
        """Updates of units before they are clipped as a whole, and the number of dropped rows."""
        if (bound := work.limits.rows) is None:
            return self.trainer.updates(work.theta, share.cohort), None
        row_size = self._setup.learner.row_size
        return row_clipped_updates(self.trainer, work.theta, share.cohort, bound, row_size)

    def _by_updates(
        self,
        work: RoundWork,
        parts: Iterable[Share],
        updates_of: Callable[[Share], tuple[Tensor, Tensor | None]],
        way: str,
    ) -> UnitSum:
        """The sum by way of the update of each unit, some units at a time."""
        limits, marks = work.limits, Marks(work.limits)
        total: Tensor | None = None
        injected, kept = None, list[Tensor]()
        units = rows = 0
        for part in parts:
            updates, dropped_rows = updates_of(part)
            updates, replaced = self._injected(updates, part.cohort, limits.total)
            weights = torch.as_tensor(part.weights, dtype=updates.dtype, device=updates.device)
            total, norms, over = self._clipped_sum(updates, limits, weights, total)
            marks.add(norms, over, dropped_rows)
            units += len(norms)
            rows += int((part.cohort.weights > 0).sum())
            injected = injected if replaced is None else (injected or 0) + replaced
            if work.keep_updates:
                kept.append(self._each(updates, limits))
            del updates  # the next ones take their place
        losses, self.trainer.losses = self.trainer.losses, []
        return replace(
            marks.read(torch.zeros_like(work.theta) if total is None else total),
            units=units,
            rows=rows,
            injected=injected,
            losses=losses,
            clipping=Counter({way: units}),
            updates=torch.cat(kept) if kept else None,
        )

    def _clipped_sum(
        self, updates: Tensor, limits: Limits, weights: Tensor, into: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The sum (added to `into`), the norms before, and which units were clipped."""
        if limits.layers:
            sizes = [layer.size for layer in self.layers()]
            added, norms, over = layered_sum(updates, sizes, limits.layers, weights)
            return added if into is None else into.add_(added), norms, over
        total, norms = clipped_sum(updates, limits.total, weights, into)
        return total, norms, norms > limits.total

    def _each(self, updates: Tensor, limits: Limits) -> Tensor:
        """(units, d) the updates as they enter the sum, before unit weights."""
        one = updates.new_ones(1)
        alone = [self._clipped_sum(update, limits, one)[0] for update in torch.split(updates, 1)]
        return torch.stack(alone)

    def _injected(self, updates: Tensor, cohort: Cohort, bound: float) -> tuple[Tensor, int | None]:
        if not self._setup.injected:
            return updates, None
        # A run of this share alone: it counts what it injects, and holds no key of any noise.
        run = Run(self._setup.seed, _NO_SIZES, injected=self._setup.injected)
        updates = inject(updates, self._users[cohort.rows[:, 0]], bound, run)
        injected_updates: int | None = run.diagnostics.get("injected_updates")
        return updates, injected_updates


_NO_SIZES = CorpusStats(0, 0, 0, 0, public=False)


class Marks:
    """Marks by which units are counted. They stay on their device, and are read once for a share.

    Args:
        limits: limits of the round.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._marks: list[Tensor] = []

    def add(self, norms: Tensor, over: Tensor, dropped_rows: Tensor | None) -> None:
        """Add units: norms (units,), which were clipped (units,), how many rows count as nothing.

        Whoever sends no more than is counted is short.
        """
        nobody = torch.zeros((), dtype=torch.int64, device=norms.device)
        count = self._limits.count
        short = nobody if count is None else (norms <= count.below).sum()
        dropped = (~torch.isfinite(norms)).sum()
        lost = nobody if dropped_rows is None else dropped_rows
        self._marks.append(torch.stack([short, over.sum(), dropped, lost]))

    def read(self, total: Tensor, losses: Tensor | None = None) -> UnitSum:
        """The counts of all units that were added, beside their sum and losses (losses,)."""
        if not self._marks:
            return UnitSum(total)
        counts = torch.stack(self._marks).sum(dim=0).double()
        every = counts.tolist() if losses is None else torch.cat([counts, losses.double()]).tolist()
        short, clipped, dropped, dropped_rows = map(int, every[:4])
        return UnitSum(
            total, short=short, clipped=clipped, dropped=dropped, dropped_rows=dropped_rows,
            losses=every[4:],
        )  # fmt: skip


def round_shares(
    work: RoundWork, local: LocalWork, learner: Learner, cohort: Cohort,
    unit_weights: FloatArray, most: int,
) -> Iterator[Share]:  # fmt: skip
    """Split a round into shares, by facts that are equal in all ranks.

    Args:
        work: work of the round.
        local: settings of a unit's training.
        learner: learner whose `row_size` bounds a share in any case.
        cohort: units that take part and have rows to use.
        unit_weights: (units,) weights of the units.
        most: number of units whose updates are held at once (`Speed.chunk`). Where no update is
            held, a share has as many units as fit.
    """
    refused = settings_refusal(local, keep_updates=work.keep_updates) is not None
    if refused or not isinstance(local, LocalTraining):
        yield from shares(cohort, unit_weights, learner.row_size, work.theta, most)
        return
    sizes = (cohort.weights > 0).sum(axis=1)
    single = local.of_one_step(sizes)
    one_step_units = np.flatnonzero((sizes > 0) & single)
    if learner.row_lengths is None:
        order: IntArray = one_step_units[np.argsort(sizes[one_step_units], kind="stable")]
        parts = by_rows(order, sizes[order] * learner.row_size, work.theta.device)
    else:
        # Rows of similar length side by side: each share is padded to its own longest.
        numbers = sizes * row_numbers(cohort, learner.row_lengths, learner.row_size)
        order = one_step_units[np.argsort(numbers[one_step_units], kind="stable")]
        parts = chunks(order, numbers[order], len(order), work.theta.device)
    everybody = Share(cohort, unit_weights)
    for units in parts:
        yield everybody.take(units)
    if not single.all():
        others = everybody.take(np.flatnonzero(~single))
        yield from shares(others.cohort, others.weights, learner.row_size, work.theta, most)


def shares(
    cohort: Cohort, unit_weights: FloatArray, row_size: int, theta: Tensor, most: int
) -> Iterator[Share]:
    """A round in shares of units of similar size, from the smallest to the largest.

    Args:
        cohort: everybody who takes part and has rows to use.
        unit_weights: (units,).
        row_size: numbers in the largest tensor that one row needs.
        theta: (d,) the shared weights, on the device that computes.
        most: units in a share (`Speed.chunk`).
    """
    sizes = (cohort.weights > 0).sum(axis=1)
    order: IntArray = np.argsort(sizes, kind="stable")
    if cohort.places is not None:  # each trains alone, and one without rows as well
        yield from (Share(cohort.take(unit), unit_weights[unit]) for unit in order[:, None])
        return
    order = order[sizes[order] > 0]
    most = chunk_size(len(theta), most, single_rows=cohort.rows.shape[1] == 1)
    for units in chunks(order, sizes[order] * row_size, most, theta.device):
        yield Share(cohort.take(units), unit_weights[units])
