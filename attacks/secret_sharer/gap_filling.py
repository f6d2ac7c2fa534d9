"""Secrets in a gap: ranked among all words that could stand there, and extracted by filling it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api import Estimate, Leakage
from uedp_bench.api.capabilities import Completer, Tokenised
from uedp_bench.api.statistics import fraction_estimate, mean_estimate
from uedp_bench.statistics.exposure import NULL_MEAN
from uedp_bench.statistics.intervals import checked

if TYPE_CHECKING:
    from uedp_bench.api import Run
    from uedp_bench.api.networks import Vocabulary
    from uedp_bench.attacks.secret_sharer.canary import PlantedCanaries, PlantedSecret

UNCHECKED = "the release does not show its vocabulary: every word of the pool is a candidate"
"""Note."""


class _Filled(NamedTuple):
    """One secret among the candidates.

    Attributes:
        secret: secret that was planted.
        loss: loss of its text from the gap on, in nats.
        rank: 1 + the other candidates with a lower or equal loss.
        bits: exposure.
    """

    secret: PlantedSecret
    loss: float
    rank: int
    bits: float


def fill_gaps(release: Completer, planted: PlantedCanaries, run: Run) -> Leakage:
    """Ranks every secret among all candidates at its place.

    A candidate is a word of the pool that is one token of the release's vocabulary. A secret that
    is no candidate is not ranked, and counted: it has no exposure, neither a small one nor a large.
    """
    notes = list(planted.notes)
    if isinstance(release, Tokenised):
        token_words = one_token_words(release.vocabulary, planted.words)
    else:
        token_words = {word: word for word in planted.words}
        notes.append(UNCHECKED)
    candidates = tuple(dict.fromkeys(token_words.values()))
    scorable = [secret for secret in planted.secrets if secret.secret in token_words]
    missing = [secret for secret in planted.secrets if secret.secret not in token_words]
    total = len(planted.secrets)
    metrics = {"secrets_scored": fraction_estimate(len(scorable), total)}
    if missing:
        notes.append(
            f"{len(missing)} of {total} secrets are not one token of the release's vocabulary: "
            "they have no exposure, and no number counts them"
        )
    filled = []
    for done, secret in enumerate(scorable):
        run.progress("secret-sharer: filling gaps", done, len(scorable))
        filled.append(_fill(release, candidates, secret, token_words[secret.secret]))
    if filled:
        most = max(secret.occurrences for secret in planted.secrets)
        metrics |= _metrics(filled, len(candidates), most, run)
    details: dict[str, Any] = {
        "null_exposure": NULL_MEAN,
        "pool": len(planted.words),
        "candidates": len(candidates),
        "canaries": [_row(one) for one in filled],
        "not_scored": [secret.model_dump() | {"text": secret.text} for secret in missing],
        "by_occurrences": [_group(key, filled) for key in _groups(planted.secrets)],
        "notes": notes,
    }
    return Leakage(metrics, details)


def one_token_words(vocabulary: Vocabulary, words: Sequence[str]) -> dict[str, str]:
    """The words that are one known token each where they follow another word.

    Each stands beside the first word with its token: a vocabulary that takes off accents cannot
    tell "naïve" from "naive", and asks about one of them.
    """
    first = words[0]
    (alone,), pairs = vocabulary.encode([first]), vocabulary.encode([f"{first} {w}" for w in words])
    first_of: dict[int, str] = {}
    return {
        word: first_of.setdefault(tokens[-1], word)
        for word, tokens in zip(words, pairs, strict=True)
        if len(tokens) == len(alone) + 1
        and tokens[:-1] == alone
        and tokens[-1] != vocabulary.unknown
    }


def _fill(
    release: Completer, candidates: tuple[str, ...], secret: PlantedSecret, word: str
) -> _Filled:
    """One secret, and the word that it is asked about as, among the candidates."""
    # A release joins texts as they stand: spaces belong to what is around the gap. All candidates
    # are asked about at once, so that their losses are rounded in the same way.
    after = f" {secret.after}" if secret.after else ""
    raw_losses = release.filler_losses(f"{secret.before} ", after, candidates)
    losses = checked(raw_losses, "losses of candidates")
    own = losses[candidates.index(word)]
    rank = int((losses <= own).sum())  # the secret is one of them
    return _Filled(secret, float(own), rank, math.log2(len(losses)) - math.log2(rank))


Group = tuple[str, int | float]
"""A layout and how often a secret was to be planted."""


def _groups(secrets: Sequence[PlantedSecret]) -> list[Group]:
    return list(dict.fromkeys((secret.layout, secret.copies) for secret in secrets))


def _of_group(group: Group, filled: Sequence[_Filled]) -> list[_Filled]:
    return [one for one in filled if (one.secret.layout, one.secret.copies) == group]


def _metrics(
    filled: Sequence[_Filled], candidates: int, most: int, run: Run
) -> dict[str, Estimate]:
    rng = run.shared("secret-sharer", "bootstrap")
    bits = np.array([one.bits for one in filled])
    held = np.array([one.secret.occurrences for one in filled])
    out: dict[str, Estimate] = {}
    if (held == most).any():  # else no secret of that many rows is ranked, and none stands for it
        out["exposure_max_repeats"] = mean_estimate(bits[held == most], rng)
    out["exposure_mean"] = mean_estimate(bits, rng)
    out["exposure_limit"] = Estimate(value=math.log2(candidates))
    ranked_first = [one.rank == 1 for one in filled if one.secret.occurrences]
    if ranked_first:
        out["extracted_filling"] = fraction_estimate(sum(ranked_first), len(ranked_first))
    for layout, copies in _groups([one.secret for one in filled]):
        these = np.array([one.bits for one in _of_group((layout, copies), filled)])
        out[f"exposure_{layout}_{copies}"] = mean_estimate(these, rng)
    return out


def _row(one: _Filled) -> dict[str, Any]:
    return one.secret.model_dump() | {
        "kind": one.secret.layout,
        "text": one.secret.text,
        "loss": one.loss if math.isfinite(one.loss) else None,
        "rank": one.rank,
        "exposure": one.bits,
    }


def _group(group: Group, filled: Sequence[_Filled]) -> dict[str, Any]:
    """Exposure of a layout and a number of occurrences, beside the rows and users that hold it."""
    these = _of_group(group, filled)
    out: dict[str, Any] = {"layout": group[0], "copies": group[1], "scored": len(these)}
    if not these:
        return out
    return out | {
        "rows": these[0].secret.occurrences,
        "users": float(np.mean([one.secret.sharers for one in these])),
        "most_users": max(one.secret.sharers for one in these),
        "exposure": float(np.mean([one.bits for one in these])),
        "extracted": float(np.mean([one.rank == 1 for one in these])),
    }
