"""The table of a flow's steps, and the selection that all views share, in a real browser."""

import pytest
from playwright.async_api import Page, expect

from jobflow.client.step_rows import step_rows
from jobflow.core.text import format_duration
from support.page.page_world import PageWorld
from support.page.timed_flows import Clock, child_flow, timed_flow

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PATH = "/flows/default/training"
TABLE = f"{PATH}?view=table"


async def names(tab: Page) -> list[str]:
    """Return the rows from top to bottom."""
    return await tab.locator(".steps .row-name").all_inner_texts()


async def test_failed_steps_are_first_then_those_that_run(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(TABLE)
    assert await names(tab) == ["lint", "sweep", "inner", "report", "fetch", "prepare"]
    row = tab.get_by_role("row", name="lint")
    await expect(row).to_contain_text("Failed")
    await expect(row).to_contain_text("JobFailed · the job failed: container main")
    await expect(row).to_contain_text("node-7")


async def test_a_narrow_table_has_room_for_the_reasons(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(f"{PATH}?view=table")
    await expect(tab.get_by_role("columnheader", name="Start")).to_be_visible()
    await tab.set_viewport_size({"width": 800, "height": 800})
    await expect(tab.get_by_role("columnheader", name="Start")).to_be_hidden()
    await expect(tab.get_by_role("columnheader", name="Reason")).to_be_in_viewport(ratio=1)
    frame = "e => e.scrollWidth <= e.clientWidth"
    assert await tab.locator(".table-frame").evaluate(frame)


async def test_a_column_sorts_by_the_address(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(TABLE)
    await tab.get_by_role("link", name="Duration").click()
    await expect(tab.locator("th[aria-sort=ascending]")).to_contain_text("Duration")
    assert await names(tab) == ["report", "lint", "fetch", "prepare", "sweep", "inner"]
    assert tab.url.endswith("?view=table&sort=duration")
    await tab.get_by_role("link", name="Duration").click()
    await expect(tab.locator("th[aria-sort=descending]")).to_contain_text("Duration")
    await tab.reload()
    assert await names(tab) == ["sweep", "inner", "prepare", "fetch", "lint", "report"]
    await tab.goto(f"{world.home}{TABLE}&sort=nonsense")
    assert (await names(tab))[0] == "lint"


@pytest.mark.parametrize(("measured", "shown"), [("", "1m30s"), ("4.25s", "4.2s")])
async def test_a_duration_is_that_of_jobflow_get(
    world: PageWorld, measured: str, shown: str
) -> None:
    """The duration of the last attempt, from its job's creation to its job's end."""
    clock = Clock()
    made = timed_flow(clock=clock)
    condition = made["status"]["conditions"]["training-fetch"]
    condition |= {"lastTransitionTime": clock.ago(425), "runningDuration": measured}
    await world.put(made)
    [row] = [each for each in step_rows(await world.flow("training")) if each.step == "fetch"]
    assert format_duration(row.duration(clock.now), tenths=True) == shown
    tab = await world.open(f"{TABLE}&step=fetch")
    await expect(tab.locator("[id='row:fetch'] .number time")).to_have_text(shown)
    await expect(tab.locator("#step-why")).to_contain_text(f"after {shown}")
    await expect(tab.locator("#step-attempts li").first).to_contain_text(shown)
    await tab.keyboard.press("2")
    await expect(tab.locator("[id='lane:fetch'] .took")).to_contain_text(shown)


async def test_items_are_sorted_below_their_step(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(f"{TABLE}&open=sweep&sort=-step")
    assert await names(tab) == [*("sweep", *"43210"), "report", "prepare", "lint", "inner", "fetch"]


async def test_the_field_filters_table_and_timeline(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(TABLE)
    await tab.keyboard.press("/")
    await tab.keyboard.type("RE")
    await expect(tab.locator(".steps .row-name")).to_have_text(["report", "prepare"])
    assert tab.url.endswith("?view=table&q=RE")
    await expect(tab.get_by_label("Find a step")).to_be_focused()
    await tab.get_by_role("link", name="Timeline").click()
    await expect(tab.locator(".lane .row-name")).to_have_text(["prepare", "report"])
    await expect(tab.get_by_label("Find a step")).to_have_value("RE")


async def test_one_step_is_selected_in_all_views(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(TABLE)
    await tab.get_by_role("link", name="prepare, Completed").click()
    panel = tab.get_by_role("complementary", name="Step prepare")
    await expect(panel).to_be_visible()
    for key, selected in (
        ("1", "[id='node:prepare'][aria-current]"),
        ("2", "[id='lane:prepare'] [aria-current]"),
        ("3", "[id='row:prepare'] [aria-current]"),
    ):
        await tab.keyboard.press(key)
        await expect(tab.locator(selected)).to_be_visible()
        await expect(tab.locator("[data-item][aria-current]")).to_have_count(1)
        await expect(panel).to_be_visible()


async def test_an_item_is_selected_within_its_open_step(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(f"{TABLE}&step=sweep/3")
    await expect(tab.locator("[id='row:sweep/3'] [aria-current]")).to_be_visible()
    await tab.keyboard.press("1")
    await expect(tab.locator("[id='node:sweep'][aria-current]")).to_be_visible()


async def test_keys_move_in_the_order_of_what_is_shown(world: PageWorld) -> None:
    await world.put(timed_flow(), child_flow())
    tab = await world.open(TABLE)
    focused = "document.activeElement.getAttribute('aria-label').split(',')[0]"
    seen = []
    for key in "jjjk":
        await tab.keyboard.press(key)
        seen.append(await tab.evaluate(focused))
    assert seen == ["lint", "sweep", "inner", "sweep"]
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("complementary", name="Step sweep")).to_be_visible()
    await tab.keyboard.press("2")
    await expect(tab.locator(".lane").first).to_be_visible()
    await tab.keyboard.press("j")
    assert await tab.evaluate(focused) == "inner"
    await tab.keyboard.press("1")
    await expect(tab.locator(".node").first).to_be_visible()
    await tab.evaluate("document.activeElement.blur()")
    await tab.goto(f"{world.home}{PATH}?step=fetch")
    await tab.keyboard.press("j")
    assert await tab.evaluate(focused) in ("lint", "prepare")


async def test_the_focus_stays_on_a_name_when_its_fold_appears(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(TABLE)
    await tab.get_by_role("link", name="inner, Running").focus()
    await world.put(child_flow())
    await expect(tab.get_by_role("link", name="Rows in inner")).to_be_visible()
    await expect(tab.get_by_role("link", name="inner, Running")).to_be_focused()
