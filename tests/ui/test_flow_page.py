"""The page of one flow, in a real browser."""

import json
import re

import msgspec
import pytest
from playwright.async_api import expect

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS
from support.page.flows import flow_with_status, status_of
from support.page.page_world import PageWorld
from support.sandbox.running_controller import DIAMOND, cron, flow, write_status

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PHASES = {"a": "Completed", "b": "Running", "c": "Completed", "d": "Waiting", "e": "Waiting"}


async def test_the_graph_shows_every_step_before_any_has_started(world: PageWorld) -> None:
    await world.put(flow("f", DIAMOND))
    tab = await world.open("/flows/default/f")
    await expect(tab.locator(".node")).to_have_count(5)
    await expect(tab.locator(".edge")).to_have_count(5)


async def test_a_step_that_changes_replaces_its_node_only(world: PageWorld) -> None:
    await world.put(flow_with_status("f", DIAMOND, PHASES))
    tab = await world.open("/flows/default/f")
    await tab.evaluate("document.querySelectorAll('.node').forEach(e => e.marked = true)")
    failed = {"phase": "Failed", "reason": "JobFailed", "message": "exit code 3"}
    await write_status(world.client, JOBFLOWS, "f", status_of("f", PHASES | {"b": failed}))
    await expect(tab.get_by_role("link", name="b, Failed, JobFailed: exit code 3")).to_be_visible()
    marked = "[...document.querySelectorAll('.node')].filter(e => !e.marked).map(e => e.id)"
    assert await tab.evaluate(marked) == ["node:b"]
    await expect(tab.get_by_label("What failed")).to_have_text("b failed: JobFailed · exit code 3")


async def test_a_selected_step_is_explained_and_in_the_address(world: PageWorld) -> None:
    await world.put(flow_with_status("f", DIAMOND, PHASES))
    tab = await world.open("/flows/default/f")
    await tab.locator("[id='node:d']").click()
    panel = tab.get_by_role("complementary", name="Step d")
    await expect(panel).to_contain_text("waiting for b (Running)")
    assert tab.url.endswith("?step=d")
    await tab.reload()
    await expect(panel).to_contain_text("waiting for b (Running)")
    await tab.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    assert tab.url.endswith("/flows/default/f")


async def test_a_step_is_found_by_its_name(world: PageWorld) -> None:
    await world.put(flow_with_status("f", {"first": "", "second": "first"}, {"first": "Running"}))
    tab = await world.open("/flows/default/f")
    await tab.keyboard.press("/")
    await tab.keyboard.type("sec")
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("complementary", name="Step second")).to_be_visible()


@pytest.mark.parametrize("view", ["graph", "table"])
async def test_enter_moves_to_the_first_of_several_steps(world: PageWorld, view: str) -> None:
    steps = {"fetch": "", "train-a": "", "train-b": ""}
    await world.put(flow_with_status("f", steps, {"fetch": "Running"}))
    tab = await world.open(f"/flows/default/f?view={view}")
    await tab.keyboard.press("/")
    await tab.keyboard.type("train")
    await tab.keyboard.press("Enter")
    await expect(tab.locator("[data-item]:focus")).to_have_attribute(
        "aria-label", re.compile("^train-a")
    )
    await expect(tab.locator("aside.step")).to_have_count(0)
    await tab.keyboard.press("/")
    await tab.get_by_label("Find a step").fill("fetch")
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("complementary", name="Step fetch")).to_be_visible()


async def test_a_key_moves_into_the_panel_and_escape_back_to_the_step(world: PageWorld) -> None:
    await world.put(flow_with_status("f", DIAMOND, PHASES))
    tab = await world.open("/flows/default/f?step=d")
    panel = tab.get_by_role("complementary", name="Step d")
    await tab.keyboard.press("p")
    await expect(panel).to_be_focused()
    await tab.keyboard.press("Tab")
    await expect(panel.get_by_role("link", name="Close")).to_be_focused()
    await tab.keyboard.press("Escape")
    await expect(tab.locator("[id='node:d']")).to_be_focused()


async def test_the_legend_counts_phases_and_leads_to_their_steps(world: PageWorld) -> None:
    await world.put(flow_with_status("f", DIAMOND, PHASES))
    tab = await world.open("/flows/default/f")
    completed = tab.get_by_role("button", name="Completed 2")
    await completed.click()
    await expect(tab.locator("[id='node:a']")).to_be_focused()
    await completed.focus()
    await write_status(world.client, JOBFLOWS, "f", status_of("f", PHASES | {"b": "Completed"}))
    await expect(tab.get_by_role("button", name="Completed 3")).to_be_focused()


async def test_the_graph_has_the_size_that_fits_or_is_chosen(world: PageWorld) -> None:
    chain = {f"s{i}": f"s{i - 1}" if i else "" for i in range(12)}
    await world.put(flow_with_status("f", chain, {"s9": "Failed"}))
    tab = await world.open("/flows/default/f")
    await expect(tab.locator("[id='node:s9']")).to_be_in_viewport(ratio=1)
    widths = "[...document.querySelectorAll('#graph svg')].map(e => e.width.baseVal.value)[0]"
    first = await tab.evaluate(widths)
    await tab.keyboard.press("+")
    assert await tab.evaluate(widths) > first
    await tab.keyboard.press("0")
    assert await tab.evaluate(widths) < first
    await expect(tab.locator("[id='node:s0']")).to_be_in_viewport(ratio=1)
    await expect(tab.locator("[id='node:s11']")).to_be_in_viewport(ratio=1)


async def test_a_selected_step_stays_visible_beside_its_panel(world: PageWorld) -> None:
    await world.put(
        flow("f", {f"s{number}": f"s{number - 1}" for number in range(1, 8)} | {"s0": ""})
    )
    tab = await world.open("/flows/default/f")
    await tab.locator("[id='node:s7']").click()
    await expect(tab.locator("#step")).to_be_visible()
    await expect(tab.locator("[id='node:s7']")).to_be_in_viewport(ratio=1)


async def test_a_chain_of_seven_steps_is_visible_at_once(world: PageWorld) -> None:
    steps = {f"step-{i}": f"step-{i - 1}" if i else "" for i in range(7)}
    await world.put(flow_with_status("f", steps, {}))
    tab = await world.open("/flows/default/f")
    await tab.set_viewport_size({"width": 1280, "height": 800})
    await tab.reload()
    await expect(tab.locator("[id='node:step-0']")).to_be_in_viewport(ratio=1)
    await expect(tab.locator("[id='node:step-6']")).to_be_in_viewport(ratio=1)


async def test_texts_do_not_leave_their_node(world: PageWorld) -> None:
    name = "m" * 60
    await world.put(flow_with_status("f", {name: ""}, {name: "Completed"}))
    tab = await world.open("/flows/default/f")
    texts = tab.locator(f"[id='node:{name}'] .texts")
    await expect(texts).to_have_css("overflow", "hidden")
    widths = "e => [e, e.parentElement.querySelector('.box')].map(x => x.width.baseVal.value)"
    inner, outer = await texts.evaluate(widths)
    assert 40 + inner <= outer


async def test_a_step_with_failed_items_counts_those_that_failed(world: PageWorld) -> None:
    runs = [{"index": i, "phase": "Completed" if i < 4 else "Failed"} for i in range(5)]
    made = flow_with_status("f", {"sweep": ""}, {"sweep": {"phase": "Failed", "runs": runs}})
    made["spec"]["flows"][0]["forEach"] = {"count": 5}
    await world.put(made)
    tab = await world.open("/flows/default/f")
    await expect(tab.locator(".step-detail")).to_have_text("Failed · 1 of 5 failed")


async def test_items_are_one_node_with_their_counts(world: PageWorld) -> None:
    runs = [{"index": i, "phase": "Completed" if i < 2 else "Running"} for i in range(3)]
    sweep = {"phase": "Running", "runs": runs}
    made = flow_with_status("f", {"sweep": ""}, {"sweep": sweep})
    made["spec"]["flows"][0]["forEach"] = {"count": 5}
    await world.put(made)
    tab = await world.open("/flows/default/f")
    await expect(tab.locator(".node")).to_contain_text("Running · 2/5 items")
    widths = "[...document.querySelectorAll('.bar')].map(e => Math.round(e.width.baseVal.value))"
    assert await tab.evaluate(widths) == [60, 30]  # two and one of five parts


async def test_approvals_that_wait_lead_to_their_step_or_item(world: PageWorld) -> None:
    ask = {"phase": "Waiting", "reason": "WaitingForApproval", "attempts": 1}
    items = [ask | {"index": i, "message": f"Release {i}?"} for i in range(2)]
    phases = {"ask": ask | {"message": "Release it?"}, "each": ask | {"runs": items}}
    said = {"reason": "WaitingForApproval", "message": "step ask: Release it?"}
    made = flow_with_status("f", {"ask": "", "each": ""}, phases, **said)
    for step in made["spec"]["flows"]:
        step["approval"] = {}
    made["spec"]["flows"][1]["forEach"] = {"count": 2}
    await world.put(made)
    tab = await world.open("/flows/default/f")
    await expect(tab.get_by_label("Waiting for an answer").get_by_role("listitem")).to_have_text(
        [
            "ask waits for approval: Release it?",
            "each/0 waits for approval: Release 0?",
            "each/1 waits for approval: Release 1?",
        ]
    )
    await expect(tab.locator("#header")).not_to_contain_text("Release")
    await tab.get_by_role("link", name="each/1").click()
    await expect(tab.get_by_role("region", name="Approval")).to_contain_text("Release 1?")
    await expect(tab.get_by_role("button", name="Approve")).to_be_enabled()
    await tab.goto(f"{world.home}/flows/default/f?step=each")
    await tab.get_by_role("region", name="Approval").get_by_role("link", name="each/0").click()
    await expect(tab.get_by_role("region", name="Approval")).to_contain_text("Release 0?")


async def test_a_child_flow_opens(world: PageWorld) -> None:
    inner = {"phase": "Running", "flow": "f-inner"}
    made = flow_with_status("f", {"inner": ""}, {"inner": inner})
    made["spec"]["flows"][0]["flow"] = {"flows": [{"name": "x"}]}
    await world.put(made, flow_with_status("f-inner", {"x": ""}, {"x": "Running"}))
    tab = await world.open("/flows/default/f?step=inner")
    await tab.get_by_role("link", name="Open the flow f-inner").click()
    await expect(tab.get_by_role("heading", name="f-inner")).to_be_visible()


async def test_a_cycle_is_said_in_place_of_the_graph(world: PageWorld) -> None:
    await world.put(flow("f", {"a": "b", "b": "a"}))
    tab = await world.open("/flows/default/f")
    await expect(tab.locator("#graph-tab")).to_contain_text(
        "depend on each other in a cycle: a, b and a."
    )


async def test_a_flow_that_is_created_later_appears(world: PageWorld) -> None:
    tab = await world.open("/flows/default/f")
    await expect(tab.locator("#header")).to_contain_text("does not exist in namespace default")
    await world.put(flow("f", DIAMOND))
    await expect(tab.locator(".node")).to_have_count(5)


async def test_a_deleted_flow_keeps_its_last_state(world: PageWorld) -> None:
    await world.put(flow_with_status("f", DIAMOND, PHASES, "Succeed"))
    tab = await world.open("/flows/default/f")
    await world.client.request("DELETE", JOBFLOWS.path("default", "f"))
    await expect(tab.locator("#notice")).to_contain_text("JobFlow f was deleted")
    await expect(tab.locator(".node")).to_have_count(5)


async def test_a_flow_that_its_schedule_waits_for_says_so_and_what_to_do(world: PageWorld) -> None:
    made = cron(concurrencyPolicy="Wait", requirePreviousSuccess=True)
    stored = await world.client.create(CRONJOBFLOWS, "default", json.dumps(made).encode())
    meta = msgspec.json.decode(stored, type=CronJobFlow).metadata
    await write_status(world.client, CRONJOBFLOWS, "c", {"waitsFor": "f"})
    failed = flow_with_status("f", {"a": ""}, {"a": "Failed"}, "Failed")
    failed["metadata"]["ownerReferences"] = [CRONJOBFLOWS.owner_reference(meta)]
    await world.put(failed)
    tab = await world.open("/flows/default/f")
    await expect(tab.locator("#header")).to_contain_text(
        "no flow starts until flow f has succeeded"
    )
    await expect(tab.locator("#header")).to_contain_text("jobflow skip cjf/c")
