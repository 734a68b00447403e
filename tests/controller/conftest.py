"""Time leaps for the controller and the little world around it: nobody waits for a real second."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable

import pytest

from support.time.leaping_loop import LeapingLoop


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], AbstractEventLoop]]:
    return {"leaping": LeapingLoop}
