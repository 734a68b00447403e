"""The way back in time on the page of a flow, in a real browser."""

import re

import pytest
from playwright.async_api import Page, expect

from jobflow.api.resources import JOBFLOWS
from support.page.flows import flow_with_status
from support.page.page_world import PageWorld
from support.page.timed_flows import Clock, child_flow, record, timed_flow
from support.sandbox.running_controller import flow, write_status

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PATH = "/flows/default/training"


async def phases(tab: Page) -> list[str]:
    """Return the phases of the graph's nodes, in their order."""
    return [
        text.partition(" ·")[0] for text in await tab.locator(".step-detail").all_text_contents()
    ]


async def test_the_address_has_the_time_and_the_graph_shows_it(world: PageWorld) -> None:
    clock = Clock()
    await world.put(timed_flow(clock=clock))
    at = clock.ago(420)
    tab = await world.open(f"{PATH}?at={at}")
    await expect(tab.get_by_role("status").filter(has_text="As of")).to_contain_text(
        f"As of {at[11:19]} UTC 3m after the start · 2 of 6 steps had finished"
    )
    assert await phases(tab) == [
        *("Completed", "Failed", "Pending", "Waiting", "Waiting", "Waiting")
    ]
    await expect(tab.locator(".scrubber.past")).to_be_visible()
    await expect(tab.locator("#header")).to_contain_text("3/6")  # the present


async def test_live_returns_to_the_present(world: PageWorld) -> None:
    clock = Clock()
    await world.put(timed_flow(clock=clock))
    tab = await world.open(f"{PATH}?at={clock.ago(420)}&step=prepare")
    await tab.get_by_role("link", name="live ▶").click()
    await expect(tab.locator("[id='node:prepare'] .step-detail")).to_have_text("Completed")
    assert tab.url.endswith(f"{PATH}?step=prepare")
    await expect(tab.locator(".scrubber.past")).to_have_count(0)
    await expect(tab.get_by_role("slider")).to_have_attribute("aria-valuetext", re.compile("live"))


async def test_the_slider_of_a_running_flow_ends_at_the_present(world: PageWorld) -> None:
    clock = Clock()
    made = flow_with_status("f", {"a": ""}, {"a": {"phase": "Running", "job": "f-a"}})
    made["status"]["jobStatusList"] = [record(clock, "f-a", 100, 90)]
    await world.put(made)
    tab = await world.open("/flows/default/f")
    slider = tab.get_by_role("slider", name="Time")
    await expect(slider).to_have_attribute("aria-valuetext", re.compile("live"))
    assert await slider.evaluate("e => e.value === e.max && +e.max < +e.dataset.axis")
    past, share = await tab.evaluate(
        """() => {
          const [track, mark] = [".slider input", ".moments .started"].map((each) =>
            document.querySelector(each).getBoundingClientRect());
          const most = document.querySelector(".slider input").max;
          return [100 / most, (mark.x - track.x - 8) / (track.width - 16)];
        }"""
    )
    assert share == pytest.approx(past, abs=0.01)  # the flow started 100 s before its job


async def test_the_slider_goes_back_by_keyboard_and_keeps_the_focus(world: PageWorld) -> None:
    clock = Clock()
    await world.put(timed_flow(clock=clock))
    tab = await world.open(PATH)
    slider = tab.get_by_role("slider", name="Time")
    await slider.focus()
    await tab.keyboard.press("Home")
    await expect(tab.locator("#as-of")).to_contain_text(f"As of {clock.ago(600)[11:19]} UTC")
    await tab.keyboard.press("ArrowRight")
    await expect(tab.locator("#as-of")).to_contain_text(f"As of {clock.ago(599)[11:19]} UTC")
    await expect(slider).to_be_focused()
    assert f"at={clock.ago(599).replace(':', '%3A')}" in tab.url
    await expect(slider).to_have_attribute("aria-valuetext", f"{clock.ago(599)[11:19]} UTC")
    await tab.keyboard.press("End")
    await expect(tab.locator("#as-of").get_by_text("live", exact=True)).to_be_visible()
    assert tab.url.endswith(PATH)


async def test_keys_go_from_moment_to_moment(world: PageWorld) -> None:
    clock = Clock()
    await world.put(timed_flow(clock=clock))
    tab = await world.open(f"{PATH}?at={clock.ago(545)}")
    await expect(tab.locator("#as-of")).to_contain_text("As of")
    for key, seconds, words in (
        ("]", 540, "fetch failed"),
        ("]", 520, "fetch started"),
        ("[", 540, "fetch failed"),
        ("[", 560, "lint failed"),
    ):
        await tab.keyboard.press(key)
        await expect(tab.locator("#as-of")).to_contain_text(
            f"As of {clock.ago(seconds)[11:19]} UTC"
        )
        await expect(tab.locator("#as-of")).to_contain_text(words)
    await tab.keyboard.press(".")
    await expect(tab.locator("#as-of").get_by_text("live", exact=True)).to_be_visible()


async def test_a_key_that_is_pressed_again_at_once_goes_on(world: PageWorld) -> None:
    clock = Clock()
    await world.put(timed_flow(clock=clock))
    tab = await world.open(f"{PATH}?at={clock.ago(545)}")
    await tab.evaluate(
        "for (const key of '[[]]]') document.body.dispatchEvent("
        "new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }))"
    )
    await expect(tab.locator("#as-of")).to_contain_text(f"As of {clock.ago(520)[11:19]} UTC")


async def test_keys_work_while_the_slider_has_the_focus(world: PageWorld) -> None:
    clock = Clock()
    await world.put(timed_flow(clock=clock))
    tab = await world.open(f"{PATH}?at={clock.ago(420)}")
    await tab.get_by_role("slider", name="Time").click()
    await tab.keyboard.press("3")
    await expect(tab.get_by_role("table")).to_be_visible()
    await tab.keyboard.press(".")
    await expect(tab.locator("#as-of").get_by_text("live", exact=True)).to_be_visible()


async def test_marks_say_what_happened(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(PATH)
    words = await tab.locator(".moments title").all_text_contents()
    assert "fetch failed" in words and "sweep and inner started" in words
    assert await tab.locator(".moments .failed").count() == 3


async def test_timeline_and_table_are_of_that_time(world: PageWorld) -> None:
    clock = Clock()
    await world.put(timed_flow(clock=clock), child_flow(clock=clock))
    tab = await world.open(f"{PATH}?view=timeline&open=inner&at={clock.ago(300)}")
    await expect(tab.locator("[id='lane:sweep']")).to_contain_text("30s Running")
    await expect(tab.locator("[id='lane:inner/load']")).to_contain_text("Running")
    await expect(tab.locator("[id='lane:inner/fit']")).to_contain_text("Waiting")
    share = await tab.locator(".lanes line.cursor").get_attribute("x1")
    later = await tab.locator(".lanes rect.later").get_attribute("x")
    assert share == later
    await tab.keyboard.press("3")
    await expect(tab.locator("[id='row:prepare']")).to_contain_text("Completed")
    await expect(tab.locator("[id='row:report']")).not_to_contain_text("waits for")


async def test_the_past_stays_while_the_flow_goes_on(world: PageWorld) -> None:
    clock = Clock()
    await world.put(timed_flow(clock=clock))
    tab = await world.open(f"{PATH}?at={clock.ago(420)}")
    await expect(tab.locator("#as-of")).to_contain_text("As of")
    before = await phases(tab)
    status = timed_flow(clock=clock)["status"]
    status["conditions"]["training-report"] = {
        "phase": "Skipped",
        "lastTransitionTime": clock.ago(0),
    }
    status["progress"] = "4/6"
    await write_status(world.client, JOBFLOWS, "training", status)
    await expect(tab.locator("#header")).to_contain_text("4/6")
    assert await phases(tab) == before


async def test_what_is_not_remembered_is_said(world: PageWorld) -> None:
    clock = Clock()
    made = timed_flow(clock=clock)
    made["status"]["suspendedSeconds"] = 90
    await world.put(made)
    tab = await world.open(f"{PATH}?at={clock.ago(420)}")
    await expect(tab.locator(".forgotten")).to_contain_text(
        "Reasons and messages of this time are not kept. The flow was suspended for 1m30s in all"
    )


async def test_times_outside_of_the_flow_are_its_start_and_the_present(world: PageWorld) -> None:
    clock = Clock()
    made = flow_with_status(
        "f",
        {"a": ""},
        {"a": {"phase": "Completed", "job": "f-a", "lastTransitionTime": clock.ago(20)}},
        "Succeed",
    )
    made["status"] |= {
        "startTime": clock.ago(200),
        "completionTime": clock.ago(20),
        "jobStatusList": [record(clock, "f-a", 190, 180, 20)],
    }
    await world.put(made, flow("new", {"a": ""}))
    tab = await world.open("/flows/default/f?at=2001-01-01T00:00:00Z")
    await expect(tab.locator("#as-of")).to_contain_text(f"As of {clock.ago(200)[11:19]} UTC")
    assert await phases(tab) == ["Waiting"]
    for at in (clock.ago(20), "2999-01-01T00:00:00Z", "yesterday"):
        await tab.goto(f"{world.home}/flows/default/f?at={at}")
        assert await phases(tab) == ["Completed"], at
    await tab.goto(f"{world.home}/flows/default/new?at={clock.ago(5)}")
    await expect(tab.get_by_role("slider")).to_have_count(0)


async def test_a_retried_flow_is_seen_from_its_first_start(world: PageWorld) -> None:
    clock = Clock()
    done = {"phase": "Completed", "job": "f-a", "lastTransitionTime": clock.ago(300)}
    again = {
        "phase": "Running",
        "job": "f-b-r1",
        "attempts": 2,
        "pastAttempts": 1,
        "lastTransitionTime": clock.ago(90),
    }
    made = flow_with_status("f", {"a": "", "b": "a"}, {"a": done, "b": again})
    made["status"] |= {
        "startTime": clock.ago(100),
        "jobStatusList": [
            record(clock, "f-a", 400, 390, 300),
            record(clock, "f-b", 299, 290, 200, "Failed"),
            record(clock, "f-b-r1", 99, 90),
        ],
    }
    await world.put(made)
    tab = await world.open("/flows/default/f")
    await tab.get_by_role("slider", name="Time").focus()
    await tab.keyboard.press("Home")
    shown = tab.locator("#as-of")
    await expect(shown).to_contain_text(f"As of {clock.ago(400)[11:19]} UTC 0s after the start")
    for words, expected in (
        ("a ended", ["Completed", "Waiting"]),
        ("b started", ["Completed", "Pending"]),
        ("b failed", ["Completed", "Failed"]),
        ("the flow was retried", ["Completed", "Waiting"]),
    ):
        await tab.keyboard.press("]")
        await expect(shown).to_contain_text(words)
        assert await phases(tab) == expected, words
    await expect(tab.locator(".forgotten")).to_contain_text("The flow was retried.")
    await expect(tab.locator(".moments .retried title")).to_have_text("the flow was retried")
