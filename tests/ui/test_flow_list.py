"""The list of flows, in a real browser."""

import re

import pytest
from playwright.async_api import Page, expect

from jobflow.api.resources import JOBFLOWS
from support.page.flows import flow_with_status, status_of
from support.page.page_world import PageWorld
from support.sandbox.running_controller import write_status

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def names(tab: Page) -> list[str]:
    return await tab.locator("#rows [data-item]").all_inner_texts()


async def test_a_flow_that_is_created_appears_in_the_open_list(world: PageWorld) -> None:
    tab = await world.open()
    await expect(tab.get_by_text("No flows in namespace default yet")).to_be_visible()
    await world.put(flow_with_status("train", {"a": ""}, {"a": "Running"}))
    row = tab.locator("#rows tr").filter(has_text="train")
    await expect(row).to_contain_text("Running")
    await expect(row).to_contain_text("0/1")
    await expect(tab.get_by_role("link", name="Running 1")).to_be_visible()


async def test_a_change_replaces_its_row_and_no_other(world: PageWorld) -> None:
    await world.put(*(flow_with_status(name, {"a": ""}, {"a": "Running"}) for name in "abc"))
    tab = await world.open()
    await tab.evaluate("document.querySelectorAll('#rows tr').forEach(e => e.marked = true)")
    status = status_of("b", {"a": "Failed"}, "Failed", reason="StepFailed")
    await write_status(world.client, JOBFLOWS, "b", status)
    await expect(tab.get_by_role("row", name="b Failed StepFailed")).to_be_visible()
    marked = "[...document.querySelectorAll('#rows tr')].map(e => [e.id, !!e.marked])"
    kept = dict(await tab.evaluate(marked))
    assert kept == {"row:default/a": True, "row:default/b": False, "row:default/c": True}


async def test_filters_are_in_the_address_and_survive_a_reload(world: PageWorld) -> None:
    await world.put(
        flow_with_status("train", {"a": ""}, {"a": "Running"}, labels={"team": "vision"}),
        flow_with_status("trial", {"a": ""}, {"a": "Failed"}, "Failed", labels={"team": "vision"}),
        flow_with_status("tree", {"a": ""}, {"a": "Failed"}, "Failed", labels={"team": "other"}),
        flow_with_status("search", {"a": ""}, {"a": "Failed"}, "Failed"),
    )
    tab = await world.open()
    await tab.keyboard.press("/")
    await tab.keyboard.type("tr")
    await tab.get_by_label("Labels").fill("team=vision")
    await tab.get_by_role("link", name="Failed").click()
    await expect(tab.locator("#rows tr")).to_have_count(1)
    assert tab.url.endswith("/flows?q=tr&l=team%3Dvision&ns=default&phase=Failed")
    await tab.reload()
    assert await names(tab) == ["trial"]
    await expect(tab.get_by_label("Name", exact=True)).to_have_value("tr")
    await tab.get_by_role("link", name="All").click()
    await expect(tab.locator("#rows tr")).to_have_count(2)
    await tab.go_back()
    await expect(tab.locator("#rows tr")).to_have_count(1)


async def test_a_filter_that_cannot_be_read_is_named(world: PageWorld) -> None:
    tab = await world.open("/flows?l=a+b&age=soon")
    await expect(tab.locator("#notice")).to_contain_text('"a b" is not a label selector')
    await expect(tab.locator("#notice")).to_contain_text('"soon" is not an age')


async def test_keys_move_and_open(world: PageWorld) -> None:
    await world.put(*(flow_with_status(name, {"a": ""}, {"a": "Running"}) for name in "abc"))
    tab = await world.open()
    order = await names(tab)
    for key in "jjjk":
        await tab.keyboard.press(key)
    await tab.keyboard.press("Enter")
    await tab.wait_for_url(f"**/flows/default/{order[1]}")
    await tab.keyboard.press("u")
    await tab.wait_for_url("**/flows")
    await tab.keyboard.press("?")
    await expect(tab.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


async def test_enter_in_the_filter_opens_the_only_match_and_escape_clears_it(
    world: PageWorld,
) -> None:
    made = (flow_with_status(name, {"a": ""}, {"a": "Running"}) for name in ("a1", "a2", "b"))
    await world.put(*made)
    tab = await world.open()
    field = tab.get_by_label("Name", exact=True)
    await tab.keyboard.press("/")
    await tab.keyboard.type("a")
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("link", name=(await names(tab))[0], exact=True)).to_be_focused()
    await expect(tab.locator("#rows tr")).to_have_count(2)
    await tab.keyboard.press("/")
    await tab.keyboard.press("Escape")
    await expect(field).to_have_value("")
    await expect(field).to_be_focused()
    await expect(tab.locator("#rows tr")).to_have_count(3)
    await tab.keyboard.press("Escape")
    await expect(field).not_to_be_focused()
    await tab.keyboard.press("/")
    await tab.keyboard.type("b")
    await tab.keyboard.press("Enter")
    await tab.wait_for_url("**/flows/default/b")


async def test_focus_stays_on_a_row_that_is_replaced(world: PageWorld) -> None:
    await world.put(*(flow_with_status(name, {"a": ""}, {"a": "Running"}) for name in "ab"))
    tab = await world.open()
    await tab.get_by_role("link", name="b", exact=True).focus()
    await write_status(world.client, JOBFLOWS, "b", status_of("b", {"a": "Completed"}, "Succeed"))
    await expect(tab.locator("#rows").get_by_text("Succeed")).to_be_visible()
    await expect(tab.get_by_role("link", name="b", exact=True)).to_be_focused()


async def test_flows_of_all_namespaces_show_theirs(world: PageWorld) -> None:
    there = flow_with_status("far", {"a": ""}, {"a": "Running"})
    there["metadata"]["namespace"] = "lab"
    await world.put(there, flow_with_status("near", {"a": ""}, {"a": "Running"}))
    tab = await world.open("/flows?ns=*")
    await expect(tab.locator("#rows tr").filter(has_text="far")).to_contain_text("lab")
    assert sorted(await names(tab)) == ["far", "near"]


async def test_failed_steps_are_named_in_the_reason(world: PageWorld) -> None:
    message = "step train failed: exit code 3"
    state = {"reason": "StepFailed", "message": message}
    await world.put(flow_with_status("f", {"train": ""}, {"train": "Failed"}, "Failed", **state))
    tab = await world.open()
    await expect(tab.locator("#rows .reason")).to_have_text("StepFailed: train")
    await expect(tab.locator("#rows .progress")).to_have_class(re.compile("is-failed"))


async def test_a_browser_that_asks_for_the_usual_icon_gets_it(world: PageWorld) -> None:
    answer = await world.context.request.get(f"{world.home}/favicon.ico")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/svg+xml")
