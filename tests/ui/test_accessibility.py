"""axe-core's rules, the width of a telephone, and both colour schemes."""

from typing import Literal

import pytest
from playwright.async_api import Browser, expect

from jobflow.core.drawing.phase_looks import look_of
from support.page.axe import violations
from support.page.flows import flow_with_status
from support.page.page_world import page_world
from support.page.timed_flows import child_flow, timed_flow
from support.sandbox.running_controller import DIAMOND

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PATHS = (
    "/flows",
    "/flows?ns=*&phase=Failed",
    "/flows/default/f",
    "/flows/default/f?step=c",
    "/flows/default/f?view=timeline",
    "/flows/default/training?view=timeline&open=sweep,inner&step=sweep/3",
    "/flows/default/training?view=table&open=sweep,inner&step=fetch",
    "/flows/default/training?view=timeline&at=2001-01-01T00:00:00Z",
    "/flows/default/training?at=2001-01-01T00:00:00Z",
)
PHASES = {"a": "Completed", "b": "Running", "c": "Failed", "d": "Waiting", "e": "Skipped"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_rule_is_violated(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    async with page_world(browser, color_scheme=scheme) as world:
        await world.put(
            flow_with_status("f", DIAMOND, PHASES, reason="StepFailed", message="c failed"),
            flow_with_status("g", {"a": ""}, {"a": "Pending"}, "Pending"),
            flow_with_status("h", {"a": ""}, {"a": "Completed"}, "Succeed"),
            timed_flow(),
            child_flow(),
        )
        for path in PATHS:
            tab = await world.open(path)
            assert await violations(tab) == [], path
            await tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_phases_have_the_colours_of_the_table(
    browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    async with page_world(browser, color_scheme=scheme) as world:
        await world.put(flow_with_status("f", DIAMOND, PHASES))
        tab = await world.open("/flows/default/f")
        for step, phase in PHASES.items():
            colour = getattr(look_of(phase).text, scheme)
            rgb = ", ".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
            await expect(tab.locator(f"[id='node:{step}']")).to_have_css("color", f"rgb({rgb})")
        assert world.problems == []


async def test_the_page_is_as_wide_as_a_telephone(browser: Browser) -> None:
    async with page_world(browser, viewport={"width": 390, "height": 844}) as world:
        await world.put(flow_with_status("f", DIAMOND, PHASES, reason="StepFailed"))
        await world.put(timed_flow(), child_flow())
        for path in PATHS:
            tab = await world.open(path)
            assert await tab.evaluate("document.documentElement.scrollWidth") == 390, path
            await tab.close()


async def test_a_print_has_everything_but_the_controls(browser: Browser) -> None:
    async with page_world(browser) as world:
        chain = {f"s{i}": f"s{i - 1}" if i else "" for i in range(9)}
        await world.put(flow_with_status("f", chain, {"s1": "Failed"}))
        tab = await world.open("/flows/default/f?step=s1")
        await tab.emulate_media(media="print")
        for control in ("header.top", ".tab-bar", ".zoom"):
            assert not await tab.locator(control).is_visible(), control
        cut = "[...document.querySelectorAll('main *')].filter(e => e.scrollWidth > innerWidth)"
        assert await tab.evaluate(f"{cut}.length") == 0
        assert await tab.locator(".node").count() == 9
