"""A new API server for each test, and a webhook that it can call."""

from collections.abc import AsyncIterator

import pytest

from support.network.webhook_server import Hook, running_hook
from support.sandbox.rest_client import Rest, rest


@pytest.fixture
async def api() -> AsyncIterator[Rest]:
    async with rest() as client:
        yield client


@pytest.fixture
async def hook() -> AsyncIterator[Hook]:
    async with running_hook() as webhook:
        yield webhook
