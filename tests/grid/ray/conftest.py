"""Several nodes of Ray on this machine: each is a raylet of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any

import pytest
from only_where_named import skip_elsewhere

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

QUICK_TO_NOTICE = {
    "worker_niceness": 0,
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 3,
}
"""A node that is gone refuses three questions in two seconds; one that is slow has ten for each."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Processes that share out the tests would each start clusters of their own."""
    skip_elsewhere(config, items, Path(__file__).resolve().parent)


@pytest.fixture(scope="session", autouse=True)
def temporary() -> Iterator[str]:
    """The folder of temporary files of all nodes: what others do on this machine is not seen.

    Names of sockets have room for a hundred characters, so that it is not below that of pytest.
    """
    get_temp_dir()  # of this process, which looks for it once more after all fixtures are gone
    with (
        tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        # Postgres of later tests runs as another user, who must pass through it.
        Path(folder).chmod(0o711)
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield folder


@pytest.fixture(scope="session")
def cluster(temporary) -> Iterator[Any]:
    """A head that does no runs, and two nodes that do one at a time each.

    It lasts as long as the process: Ray ends one that asks a head which has been gone for a minute.
    """
    pytest.importorskip("ray", reason="needs Ray: install the extra cluster")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": QUICK_TO_NOTICE,
            "object_store_memory": 10**8}  # fmt: skip
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=10**8)
    yield cluster
    cluster.shutdown()
