"""Timeline and table of 1,000 steps: a change of one step replaces only what shows it."""

import pytest
from playwright.async_api import Page, expect

from jobflow.api.resources import JOBFLOWS
from support.page.flows import Json
from support.page.page_world import PageWorld
from support.page.timed_flows import Clock, record
from support.sandbox.running_controller import flow, write_status

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session"), pytest.mark.long]

STEPS = 1000
DONE = 500
CLOCK = Clock()


def long_flow(done: int) -> Json:
    """Return a chain of steps, of which so many have ended, and the next one runs."""
    names = [f"s{number}" for number in range(STEPS)]
    made = flow("f", dict(zip(names, ["", *names], strict=False)))
    conditions, records = {}, []
    for number, name in enumerate(names[: done + 1]):
        start = 2.0 * (STEPS - number)
        end = start - 2 if number < done else None
        job = f"f-{name}"
        records.append(record(CLOCK, job, start, start, end))
        phase = "Running" if end is None else "Completed"
        conditions[job] = {"phase": phase, "job": job, "attempts": 1}
    conditions |= {f"f-{name}": {"phase": "Waiting"} for name in names[done + 1 :]}
    return made | {
        "status": {
            "state": {"phase": "Running"},
            "startTime": CLOCK.ago(2 * STEPS),
            "conditions": conditions,
            "jobStatusList": records,
            "progress": f"{done}/{STEPS}",
        }
    }


async def replaced(tab: Page) -> int:
    count: int = await tab.evaluate("window.jobflow.counts.replaced")
    return count


@pytest.mark.parametrize(("view", "prefix"), [("timeline", "lane"), ("table", "row")])
async def test_a_step_that_ends_replaces_few_of_a_thousand_rows(
    world: PageWorld, view: str, prefix: str
) -> None:
    await world.put(long_flow(DONE))
    tab = await world.open(f"/flows/default/f?view={view}&sort=step")
    await expect(tab.locator(f"[id='{prefix}:s{DONE}']")).to_contain_text("Running")
    await expect(
        tab.locator(".left") if view == "timeline" else tab.locator("table")
    ).to_be_attached()
    before = await replaced(tab)
    await write_status(world.client, JOBFLOWS, "f", long_flow(DONE + 1)["status"])
    await expect(tab.locator(f"[id='{prefix}:s{DONE + 1}']")).to_contain_text("Running")
    assert await replaced(tab) - before <= 8  # two rows, header, axis, marks and summary
    assert await tab.evaluate("window.jobflow.counts.bytes") < 60_000
