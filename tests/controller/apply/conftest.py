"""A flow `f` with one step, and an applier for its plans."""

from collections.abc import AsyncIterator

import pytest

from support.sandbox.applier_world import World
from support.sandbox.running_controller import cluster, flow


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with cluster() as servers:
        await servers.apply(flow("f", {"a": ""}))
        yield World(servers, await servers.flow("f"))
