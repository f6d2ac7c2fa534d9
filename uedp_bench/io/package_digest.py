"""Digest of the running code, which may make things otherwise than other code did."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

_ENDINGS = (".py", ".j2", ".js", ".css", ".yaml")


@cache
def package_digest() -> str:
    """SHA-256 over the files of this package and their names, 32 hexadecimal digits."""
    root = Path(__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for folder, below, names in os.walk(root, followlinks=True):
        # Results and compiled files lie within a checkout.
        below[:] = sorted({*below} - {"__pycache__", "results"})
        for name in sorted(names):
            if name.endswith(_ENDINGS):
                path = Path(folder) / name
                digest.update(f"{path.relative_to(root)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:32]
