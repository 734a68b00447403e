"""Ten thousand flows, and a flow of a thousand steps. What is fluid is counted, not timed: how many
elements are replaced, in how many events of how many bytes."""

import asyncio
from typing import Any

import pytest
from playwright.async_api import Page, expect

from support.page.flows import Json, ago, flow_with_status, status_of
from support.page.page_world import PageWorld

pytestmark = [
    pytest.mark.browser,
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="session"),
]

FLOWS, STEPS, CHANGES = 10_000, 1_000, 2_000
SHORTEST_PAUSE = 0.2
"""Seconds, less than those between two updates."""


def numbered(number: int, phase: str = "Running") -> Json:
    """Return one of many flows; a larger number is an older flow."""
    made = flow_with_status(f"flow-{number:05}", {"a": ""}, {"a": "Running"}, phase)
    made["metadata"]["creationTimestamp"] = ago(60 + number)
    return made


async def test_ten_thousand_flows_are_a_page_of_rows_and_few_updates(world: PageWorld) -> None:
    flows = [numbered(number) for number in range(FLOWS)]
    world.put_directly(*flows)
    tab = await world.open()
    await expect(tab.get_by_role("link", name="All 10,000")).to_be_visible()
    await expect(tab.locator("#rows tr")).to_have_count(100)
    before, begun = await world.counts(tab), asyncio.get_running_loop().time()
    for number in range(CHANGES):
        flows[number * 5]["status"]["state"] = {"phase": "Failed"}
        world.put_directly(flows[number * 5])
        await asyncio.sleep(0)
    await expect(tab.get_by_role("link", name="Failed 2,000")).to_be_visible()
    seconds = asyncio.get_running_loop().time() - begun
    after = await world.counts(tab)
    events = after["events"] - before["events"]
    assert events <= seconds / SHORTEST_PAUSE + 2
    assert after["replaced"] - before["replaced"] <= 20 + events  # rows, and the counts
    assert after["bytes"] - before["bytes"] < 100_000
    reads = [each for each in world.server.requests if "/jobflows" in each.path]
    assert len([each for each in reads if each.query.get("watch")]) == 1
    assert len(reads) == 1 + FLOWS // 500


async def test_filters_of_ten_thousand_flows_change_rows_only(world: PageWorld) -> None:
    world.put_directly(*(numbered(number) for number in range(FLOWS)))
    tab = await world.open()
    await tab.get_by_label("Name", exact=True).fill("flow-0777")
    await expect(tab.locator("#rows tr")).to_have_count(10)
    await tab.get_by_label("Name", exact=True).fill("")
    await expect(tab.get_by_text("1 to 100 of 10,000")).to_be_visible()
    await tab.get_by_role("link", name="Next").click()
    await expect(tab.get_by_text("101 to 200 of 10,000")).to_be_visible()
    await expect(tab.locator("#rows [data-item]").first).to_have_text("flow-00100")


def wide(phases: dict[str, Any]) -> Json:
    """Return a flow of layers of fifty steps, each after two of the layer before."""
    steps = {
        f"s{i:03}": f"s{i - 50:03} s{(i + 7) % 50 + (i // 50 - 1) * 50:03}" if i >= 50 else ""
        for i in range(STEPS)
    }
    return flow_with_status("wide", steps, dict.fromkeys(steps, "Waiting") | phases)


async def node(tab: Page, step: str, phase: str) -> None:
    await expect(tab.locator(f"[id='node:{step}']")).to_contain_text(phase)


async def test_a_step_of_a_thousand_is_one_replaced_node(world: PageWorld) -> None:
    made = wide({"s000": "Running"})
    await world.put(made)
    tab = await world.open("/flows/default/wide")
    await expect(tab.locator(".node")).to_have_count(STEPS)
    before = await world.counts(tab)
    phases = {each["name"]: "Waiting" for each in made["spec"]["flows"]} | {"s000": "Failed"}
    await world.write("wide", status_of("wide", phases))
    await node(tab, "s000", "Failed")
    after = await world.counts(tab)
    assert after["events"] - before["events"] == 1
    assert after["replaced"] - before["replaced"] <= 6, "with header and actions"
    assert after["bytes"] - before["bytes"] < 6_000


async def test_a_selection_among_a_thousand_replaces_two_nodes_at_most(world: PageWorld) -> None:
    await world.put(wide({"s000": "Failed"}))
    tab = await world.open("/flows/default/wide?step=s000")
    before = await world.counts(tab)
    await tab.locator("[id='node:s001']").click()
    await expect(tab.locator("#step h2")).to_have_text("s001")
    after = await world.counts(tab)
    assert after["replaced"] - before["replaced"] == 3  # both nodes and the panel


async def test_a_thousand_items_are_one_node(world: PageWorld) -> None:
    runs = [{"index": i, "phase": "Completed" if i < 400 else "Running"} for i in range(800)]
    made = flow_with_status("f", {"sweep": ""}, {"sweep": {"phase": "Running", "runs": runs}})
    made["spec"]["flows"][0]["forEach"] = {"count": 1000}
    await world.put(made)
    tab = await world.open("/flows/default/f")
    await expect(tab.locator(".node")).to_have_count(1)
    await node(tab, "sweep", "400/1,000 items")
