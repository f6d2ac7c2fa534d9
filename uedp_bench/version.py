"""The version of the installed package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("uedp-bench")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"
