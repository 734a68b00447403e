"""Fixtures of controller tests. Time is simulated for the controller and its servers."""

from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable

import pytest

from jobflow.controller.apply import events
from support.sandbox.running_controller import Cluster, cluster
from support.time.leaping_loop import LeapingLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], AbstractEventLoop]]:
    return {"leaping": LeapingLoop}


@pytest.fixture
def events_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send Events at once, so that a controller also crashes at them before its flow has ended."""
    monkeypatch.setattr(events, "FOLD_SECONDS", 0.0)


@pytest.fixture
async def world() -> AsyncIterator[Cluster]:
    async with cluster() as world:
        yield world
