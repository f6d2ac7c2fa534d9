"""Pairs of releases with tasks and attacks: these name capabilities, releases offer them."""

from __future__ import annotations

from uedp_bench.contracts.capabilities import Classifier, LabelOnly, RowScorer, capabilities
from uedp_bench.contracts.release import Release, published_of


def lacks(needs: tuple[type, ...], release: Release) -> str | None:
    """A sentence if a release has none of these capabilities; None if it has one."""
    if any(isinstance(release, need) for need in needs):
        return None
    names = " or ".join(need.__name__ for need in needs)
    offers = ", ".join(capabilities(release)) or "nothing"
    return f"needs a release that is a {names}; this one offers {offers}"


def withheld(needs: tuple[type, ...], release: Release) -> str | None:
    """Reason why attacks cannot ask about rows of their choice; None if they can.

    A release may take vectors that only the mechanism makes, and none of them were released.
    """
    if published_of(release) is not None or not release.takes_vectors:
        return None
    offered = {need for need in needs if isinstance(release, need)}
    if not offered or not offered <= {Classifier, LabelOnly, RowScorer}:
        return None
    return "the classifier takes vectors that only the mechanism makes, and none were released"
