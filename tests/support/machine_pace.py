"""Pace of this machine now, against the idle one that limits of time were set on."""

from __future__ import annotations

import time
from typing import Any

_WORK_SECONDS, _WORK_MS = 0.04, 115.0
"""Time of both loops below on the idle machine."""

_WORK = """(() => {
  const start = performance.now();
  let sum = 0;
  for (let at = 0; at < 1e8; at += 1) {
    sum += at % 7;
  }
  return performance.now() - start + 0 * sum;
})()"""


def processor_pace() -> float:
    """Processor time of this process for what took a second of it there; 1 at least."""

    def seconds() -> float:
        began = time.process_time()
        sum(at * at for at in range(10**6))
        return time.process_time() - began

    return max(1.0, min(seconds() for _ in range(3)) / _WORK_SECONDS)


def browser_pace(page: Any) -> float:
    """Time by the clock of what took a browser a second there; 1 at least.

    Args:
        page: open page of Playwright.
    """
    return max(1.0, page.evaluate(_WORK) / _WORK_MS)
