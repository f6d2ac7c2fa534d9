"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("uedp-bench")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"

ENGINE = 2
"""Version of all code that computes outside of components: corpus, splits, streams, training,
accounting of what is drawn. It is part of a run's identity, so raise it when such a change moves
numbers; a component whose own numbers move raises its `version` instead."""
