"""A sandbox whose API server records requests and injects faults."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jobflow.app import sandbox_world as module
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld, sandbox_world
from support.sandbox.api_server import ApiServer


@asynccontextmanager
async def recorded_world(options: SandboxOptions | None = None) -> AsyncIterator[SandboxWorld]:
    """Run a sandbox with such a server, which `server_of` returns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ApiServer", ApiServer)
        async with sandbox_world(options) as world:
            yield world


def server_of(world: SandboxWorld) -> ApiServer:
    """Return the API server of a recorded sandbox."""
    assert isinstance(world.server, ApiServer)
    return world.server
