"""A fresh API server for each test, and a webhook that it may call."""

from collections.abc import AsyncIterator

import pytest

from support.network.webhook_server import Hook, hook
from support.sandbox.rest_client import Rest, rest


@pytest.fixture
async def api() -> AsyncIterator[Rest]:
    async with rest() as client:
        yield client


@pytest.fixture
async def asked() -> AsyncIterator[Hook]:
    async with hook() as webhook:
        yield webhook
