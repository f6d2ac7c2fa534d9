"""Who can read what was made: tasks and attacks name capabilities, releases offer them."""

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
    """Why attacks cannot ask for classes or losses of rows that they choose; None where they can.

    A release may take vectors that only the mechanism makes, and none of them were released.
    """
    if published_of(release) is not None or not release.takes_vectors:
        return None
    asked = {need for need in needs if isinstance(release, need)}
    if not asked or not asked <= {Classifier, LabelOnly, RowScorer}:
        return None
    return "the classifier takes vectors that only the mechanism makes, and none were released"
