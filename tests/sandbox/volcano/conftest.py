"""A new API server without a job controller for each test."""

from collections.abc import AsyncIterator

import pytest

from support.sandbox.volcano_world import World, small_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with small_world() as world:
        yield world
