"""The sandbox's API server, for commands that need a cluster."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.sandbox.running_controller import Cluster, cluster


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with cluster() as world:
        yield world


@pytest.fixture
def kubeconfig(world: Cluster, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    world.server.write_kubeconfig(path)
    return path
