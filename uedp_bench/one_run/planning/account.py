"""Guarantees from parameters alone: what a mechanism would promise, before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from uedp_bench.accounting.banded_factorization import WithCurve
from uedp_bench.accounting.by_unit import events_by_unit
from uedp_bench.accounting.event_contract import MOST_COUNT, unknown_kind
from uedp_bench.accounting.events import (
    PrivacyEvent,
    Protected,
    one_and_count,
)
from uedp_bench.accounting.guarantee import SPREADS, Condition, Guarantee, NoiseSource, Sizes
from uedp_bench.accounting.ledger import claimed, proven
from uedp_bench.errors import MOST_SHOWN, InputError, plain, shown
from uedp_bench.io.files import MOST_BYTES, FormError, faults, parse, read_text, shown_path
from uedp_bench.one_run.planning.planned_mechanisms import (
    SIZES,
    MissingSizeError,
    PlannedMechanism,
    PlannedPipeline,
)
from uedp_bench.spec.descriptions import NOISE

DELTA = 1e-5
"""Delta where none is given, as of `uedp-bench run`."""

ENDED = (
    "the number of users was not given, so the curve ends before the entity that everybody "
    "mentions; give it with --set users=N"
)

NOT_CHARGED = (
    "hyper-parameters were chosen by comparing trained models, which is not charged here; the "
    "guarantees in the result say what it costs"
)


def account(
    mechanism: PlannedMechanism | PlannedPipeline,
    delta: float,
    points: Sequence[int | None] | None = None,
) -> tuple[Guarantee, ...]:
    """Account for mechanisms: claims, then proofs.

    Args:
        mechanism: one mechanism or several in a row, at parameters.
        delta: delta at which guarantees are stated.
        points: spreads at which curves are given, None among them for everybody; by default the
            standard ones. Where sentences are sampled and the number of users was not given, the
            curve ends before everybody, and a note says so.

    Raises:
        MissingSizeError: where a public size is needed and was not given.
        InputError: for points of a guarantee that has no curve, or sizes that are not used.
    """
    sized, ended = with_users(mechanism, points)
    (events, refusals), claims = sized.plan(), sized.claims()
    taken = mechanism.taken if isinstance(mechanism, PlannedPipeline) else frozenset()
    for size in set(mechanism.sizes) - mechanism.public_sizes.seen - taken:
        raise InputError(f"{mechanism.name} has no parameter {SIZES[size][0]!r} and no use for it")
    if ended and points is None:
        points = (*SPREADS, *(e.protected.spread for e in events if e.protected))
    guarantees = prove(events, delta, refusals, points, unreviewed=mechanism.unreviewed)
    if ended:
        guarantees = tuple(_noted(g, ENDED) if g.curve else g for g in guarantees)
    return (*claimed(claims, delta), *guarantees)


def _noted(guarantee: Guarantee, note: str) -> Guarantee:
    return guarantee.model_copy(update={"note": "; ".join(filter(None, (guarantee.note, note)))})


def with_users(
    mechanism: PlannedMechanism | PlannedPipeline, points: Sequence[int | None] | None
) -> tuple[PlannedMechanism | PlannedPipeline, bool]:
    """The mechanism, and True if it was given users, whose absence would only end the curve."""
    try:
        mechanism.plan()
    except MissingSizeError as error:
        ended = None
        if error.size == "users" and None not in (points or ()):
            ended = mechanism.ending_at(max(spread or 0 for spread in points or SPREADS))
        if ended is None:
            raise
        return ended, True
    return mechanism, False


def solved_noise(
    mechanism: PlannedMechanism | PlannedPipeline, points: Sequence[int | None] | None = None
) -> dict[str, float]:
    """The noise of mechanisms that choose it for a target, by the name of the parameter.

    Args:
        mechanism: one mechanism or several in a row, at parameters.
        points: spreads at which curves are given; see `account`.

    Raises:
        MissingSizeError: where a public size is needed and was not given.
    """
    sized, _ = with_users(mechanism, points)
    parts = sized.parts if isinstance(sized, PlannedPipeline) else (sized,)
    return {
        NOISE if len(parts) == 1 else f"{part.name}.{NOISE}": part.component().noise(
            part.public_sizes
        )
        for part in parts
        if part.chooses_noise
    }


def prove(
    events: Sequence[PrivacyEvent],
    delta: float,
    refusals: Sequence[str] = (),
    points: Sequence[int | None] | None = None,
    source: NoiseSource = "seed",
    unreviewed: Sequence[str] = (),
    conditions: Sequence[Condition] = (),
) -> tuple[Guarantee, ...]:
    """`ledger.proven` at spreads in place of points.

    Args:
        events: privacy events of a run.
        delta: delta at which guarantees are stated.
        refusals: reasons why nothing can be proven.
        points: see `account` and `point_of`.
        source: source of the noise.
        unreviewed: see `ledger.proven`.
        conditions: see `ledger.proven`.

    Raises:
        InputError: for points of a guarantee that has no curve.
    """
    if points is not None and not any(event.unit == "user-entity" for event in events):
        wanted = ",".join("all" if spread is None else str(spread) for spread in points)
        raise InputError(f"spread {wanted}: only guarantees for user-entity have a curve")
    at = None if points is None else [point_of(events, spread) for spread in points]
    return proven(
        events, delta=delta, refusals=refusals, points=at, source=source, unreviewed=unreviewed,
        conditions=conditions,
    )  # fmt: skip


def point_of(events: Sequence[PrivacyEvent], spread: int | None) -> Protected:
    """The point of the curve for an entity that `spread` other users mention; None: everybody.

    Each of them does so in as many sentences as the events' declared point says, else in one;
    everybody in all of theirs.

    Raises:
        InputError: if there are not so many others.
    """
    if spread is not None and not 0 <= spread <= MOST_COUNT:
        raise InputError(f"spread is {shown(spread)}; it must be from 0 to {MOST_COUNT:,}")
    bases = [one_and_count(event.event)[0] for event in events]
    rounds = [base for base in bases if isinstance(base, WithCurve)]
    each = next((e.protected.sentences_per_user for e in events if e.protected), 1)
    if not rounds:
        return Protected(spread=spread or 0, sentences_per_user=each)
    sizes = Sizes.from_rounds(rounds)
    if spread is None:
        return sizes.everybody
    # Where sentences are sampled, only how many of others are protected counts, not whose.
    if spread > sizes.users - 1 and not sizes.sentences:
        raise InputError(f"spread {spread}: there are only {sizes.users - 1} other users")
    return Protected(spread=spread, sentences_per_user=each)


@dataclass(frozen=True)
class Happened:
    """Events of a file, and what a proof about them needs.

    Attributes:
        events: privacy events of a list, or of a result.
        refusals: reasons of a result why nothing can be proven.
        delta: delta of a result.
        selected: True if a result's hyper-parameters were chosen by comparing trained models.
        source: source of the noise of a result.
        unreviewed: components of a result that were not reviewed; the list, where there is no
            result.
        conditions: assumptions of a result's guarantees, of its data and seed too.
    """

    events: tuple[PrivacyEvent, ...]
    refusals: tuple[str, ...] = ()
    delta: float = DELTA
    selected: bool = False
    source: NoiseSource = "seed"
    unreviewed: tuple[str, ...] = ()
    conditions: tuple[Condition, ...] = ()

    def prove(
        self, delta: float | None = None, points: Sequence[int | None] | None = None
    ) -> tuple[Guarantee, ...]:
        """Prove guarantees; a note says that choosing hyper-parameters is not charged.

        Args:
            delta: delta at which guarantees are stated; None for that of the result.
            points: spreads at which curves are given; see `prove`.
        """
        delta = self.delta if delta is None else delta
        guarantees = prove(
            self.events, delta, self.refusals, points, self.source, self.unreviewed, self.conditions
        )
        if not self.selected:
            return guarantees
        return tuple(
            g.model_copy(update={"assumptions": (*g.assumptions, NOT_CHARGED)}) for g in guarantees
        )


def read_events(file: Path) -> Happened:
    """Events of a JSON list, or those of a result with its reasons to refuse and its delta.

    Raises:
        InputError: if the file is neither.
    """
    where, text = f"--events {shown_path(file)}", read_text(file, "--events", MOST_BYTES)
    try:
        data = parse(text).value
    except FormError as error:
        raise InputError(f"{where} {error}") from None
    for place, what in faults(data):
        raise InputError(f"{where}: {plain('.'.join(map(str, place)), MOST_SHOWN)}: {what}")
    if isinstance(data, dict) and "events" in data:
        from uedp_bench.contracts.recorded_identity import record_faults, unreviewed_of_result
        from uedp_bench.contracts.results import read_result

        result = read_result(file)
        proofs = [g for g in result.guarantees if g.kind != "claimed"]
        return Happened(
            result.events,
            tuple(dict.fromkeys(g.reason for g in proofs if g.status == "refused")),
            result.spec.delta,
            selected=result.spec.selection is not None,
            source=result.spec.noise_source,
            unreviewed=(
                *unreviewed_of_result(result),
                *(f"the record ({fault})" for fault in record_faults(result)),
            ),
            conditions=tuple(
                Condition(text, frozenset({g.unit}), g.adjacency)
                for g in proofs
                for text in g.assumptions
            ),
        )
    try:
        listed = TypeAdapter(tuple[PrivacyEvent, ...]).validate_python(data)
        # A list that somebody wrote is worth nothing where a kind is not known; a result says so.
        for kind in (kind for claim in events_by_unit(listed) for kind in claim.unknown):
            raise InputError(f"{where}: {unknown_kind(kind)}")
        for number, event in enumerate(listed):
            count = one_and_count(event.event)[1]
            if count > MOST_COUNT:
                raise InputError(
                    f"{where}: {number}.event.count is {shown(count)}; it must be at most "
                    f"{MOST_COUNT:,}"
                )
        return Happened(listed, unreviewed=("the list of events",))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = plain(".".join(map(str, first["loc"])), MOST_SHOWN) or "the file"
        raise InputError(
            f"{where}: {field}: {plain(first['msg'], 2 * MOST_SHOWN)}; give a list of privacy "
            "events, or a result.json"
        ) from None
    except (OverflowError, RecursionError) as error:
        raise InputError(f"{where}: a number is too large: {error}") from None
