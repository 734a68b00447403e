"""axe-core, which looks for violations of accessibility rules in a page."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.async_api import Page


@cache
def _source() -> str:
    found = find_spec("axe_playwright_python")
    assert found is not None and found.origin is not None
    return Path(found.origin).with_name("axe.min.js").read_text(encoding="utf-8")


async def violations(tab: Page) -> list[str]:
    """Return the rules that the page violates, each with its first place."""
    await tab.evaluate(_source())
    found = await tab.evaluate("axe.run().then(done => done.violations)")
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]
