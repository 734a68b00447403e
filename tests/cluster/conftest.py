"""`jobflow serve` as a process on the real API server, and a replacement for Volcano."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served, registered
from support.sandbox.servers import Server, real_server


@pytest_asyncio.fixture
async def api(real: RealCluster, namespace_of_test: str, tmp_path: Path) -> AsyncIterator[Server]:
    """The API server and a separate namespace for the test."""
    async with real_server(real, namespace_of_test, tmp_path) as server:
        yield server


@pytest.fixture
def kubectl(real: RealCluster, tmp_path: Path) -> Kubectl:
    return Kubectl(real.plane.kubeconfig("alice"), tmp_path)


@pytest.fixture
def served(real: RealCluster, tmp_path: Path) -> Iterator[Served]:
    serve = Served(real, tmp_path)
    with serve.running(), registered(real, serve):
        yield serve
