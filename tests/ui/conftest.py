"""A browser for all tests of the page, which share its event loop."""

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from support.page.browser import chromium, find_chromium
from support.page.page_world import PageWorld, page_world


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = find_chromium()
    assert path is not None  # tests with the marker `browser` are skipped without one
    async with chromium(path) as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def world(browser: Browser) -> AsyncIterator[PageWorld]:
    async with page_world(browser) as world:
        yield world
        assert world.problems == []
        assert world.outside == []
