"""Fixtures of tests of requests to an API server."""

from collections.abc import AsyncIterator

import pytest

from support.network.scripted_server import ScriptedServer


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server
