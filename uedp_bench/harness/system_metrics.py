"""CPU, memory, disk, network and GPU of this machine, under the names that MLflow gives them.

They are those of the whole machine: runs side by side, and everybody else's work, count together.
"""

from __future__ import annotations

import math
import os
import time
from typing import Any

from uedp_bench.harness.tracking_client import import_mlflow

SECONDS = 10.0
"""Between two samples, where `MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL` says nothing else."""

_SWITCH = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"
_INTERVAL = "MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL"


class SystemMetrics:
    """Samples the machine now and then, with MLflow's own monitors as far as they work here.

    MLflow's variable `MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING=false` turns it off.
    """

    def __init__(self) -> None:
        self._monitors: list[Any] | None = None
        self._seconds, self._last = _interval(), -math.inf

    def sample(self) -> dict[str, float]:
        """Numbers by name (`system/cpu_utilization_percentage`); none if it is too early."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return {}
        self._last = now
        if self._monitors is None:
            self._monitors = _monitors()
        found: dict[str, float] = {}
        for monitor in self._monitors:
            try:
                monitor.collect_metrics()
                values = monitor.aggregate_metrics()
                monitor.clear_metrics()
            except Exception:  # noqa: S112  # drivers raise what they like
                continue
            found |= {f"system/{name}": float(value) for name, value in values.items()}
        return {name: value for name, value in found.items() if math.isfinite(value)}


def _interval() -> float:
    try:
        return max(float(os.environ.get(_INTERVAL, SECONDS)), 0.0)
    except ValueError:
        return SECONDS


def _monitors() -> list[Any]:
    """Those of MLflow that work here; none without psutil, or where the user wants none."""
    if os.environ.get(_SWITCH, "").lower() in ("false", "0"):
        return []
    try:
        import_mlflow()
        from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
        from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
        from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
        from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor
    except ImportError:
        return []
    found = []
    for kind in (CPUMonitor, DiskMonitor, NetworkMonitor, GPUMonitor):
        try:
            found.append(kind())
        except Exception:  # noqa: S112  # no such device, or no driver
            continue
    return found
