"""The timeline of a flow, in a real browser."""

import re

import pytest
from playwright.async_api import Page, expect

from jobflow.api.resources import JOBFLOWS
from support.page.flows import ago, flow_with_status, status_of
from support.page.page_world import PageWorld
from support.page.timed_flows import Clock, child_flow, record, timed_flow
from support.sandbox.running_controller import flow, write_status

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PATH = "/flows/default/training?view=timeline"


async def names(tab: Page) -> list[str]:
    """Return the lanes from top to bottom."""
    return await tab.locator(".lane .row-name").all_inner_texts()


BOX = "selector => document.querySelector(selector).getBoundingClientRect().toJSON()"


async def box(tab: Page, selector: str) -> dict[str, float]:
    """Return where an element is, in one step: an update may replace it at any time."""
    await expect(tab.locator(selector)).to_be_attached()
    return dict(await tab.evaluate(BOX, selector))


async def test_each_step_is_a_lane_with_its_bars_in_order(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(PATH)
    assert await names(tab) == ["fetch", "lint", "prepare", "sweep", "inner", "report"]
    kinds = "e => [...e.querySelectorAll('.bars rect')].map(r => r.getAttribute('class'))"
    assert await tab.locator("[id='lane:fetch']").evaluate(kinds) == [
        "path is-path",
        "waiting is-waiting",
        "queued is-pending",
        "queued is-pending",
        "running is-failed",
        "running is-completed",
    ]


async def test_bars_are_beside_their_name_and_below_their_time(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(PATH)
    name, bars = (
        await box(tab, "[id='lane:prepare'] .place"),
        await box(tab, "[id='lane:prepare'] .bars"),
    )
    assert name["y"] <= bars["y"] and bars["y"] + bars["height"] <= name["y"] + name["height"] + 8
    axis, marks = await box(tab, ".times"), await box(tab, ".lanes .marks")
    assert (bars["x"], bars["width"]) == pytest.approx((axis["x"], axis["width"]), abs=1)
    assert (bars["x"], bars["width"]) == pytest.approx((marks["x"], marks["width"]), abs=1)
    texts = await tab.locator(".times text").all_text_contents()
    assert texts[0] == "0s" and texts[1] == "5m"


async def test_exact_times_are_shown_for_the_lane_that_has_the_focus(world: PageWorld) -> None:
    made = timed_flow()
    await world.put(made)
    tab = await world.open(PATH)
    await tab.get_by_role("link", name="fetch, Completed").first.focus()
    times = tab.locator("#exact-times")
    start = made["status"]["jobStatusList"][0]["startTimestamp"][11:19]
    await expect(times).to_contain_text(f"queued {start} to")
    await expect(times).to_contain_text("(50s, Failed)")
    await expect(tab.get_by_role("img", name=f"queued {start}")).to_be_visible()
    await tab.keyboard.press("Escape")
    await expect(times).to_be_hidden()
    await tab.locator("[id='lane:lint']").hover()
    await expect(times).to_contain_text("(30s, Failed)")


async def test_the_critical_path_is_marked_and_told(world: PageWorld) -> None:
    await world.put(timed_flow(), child_flow())
    tab = await world.open(PATH)
    marked = tab.locator(".lane.critical .row-name")
    assert await marked.all_inner_texts() == ["fetch", "prepare", "inner"]
    await expect(tab.get_by_role("link", name="prepare, Completed, critical path")).to_be_visible()
    spent = tab.get_by_role("region", name="Where the time went")
    await expect(spent.locator("p.path")).to_contain_text("fetch 2m50s → prepare 1m39s → inner")
    await expect(spent).to_contain_text("running 8m")


async def test_bars_that_last_end_at_the_present_time_and_grow(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(PATH)
    await expect(tab.locator("p.left")).to_be_visible()  # the axis has room for the estimate
    await tab.evaluate("document.querySelectorAll('.lane').forEach(e => e.marked = true)")
    bar = tab.locator("[id='lane:inner'] rect[data-since]").last
    before = await bar.evaluate("e => parseFloat(e.getAttribute('width'))")
    width = (
        "parseFloat(document.querySelector('[id=\"lane:inner\"] .running').getAttribute('width'))"
    )
    await tab.wait_for_function(f"before => {width} > before", arg=before)
    end, now = await box(tab, "[id='lane:inner'] .running"), await box(tab, ".lanes line.now")
    assert end["x"] + end["width"] == pytest.approx(now["x"], abs=4)
    assert await tab.evaluate("[...document.querySelectorAll('.lane')].every(e => e.marked)")


async def test_a_step_that_changes_replaces_its_lane_only(world: PageWorld) -> None:
    clock = Clock()
    await world.put(timed_flow(clock=clock))
    tab = await world.open(PATH)
    await expect(tab.locator("p.left")).to_be_visible()  # the axis has room for the estimate
    await tab.evaluate("document.querySelectorAll('.lane').forEach(e => e.marked = true)")
    status = timed_flow(clock=clock)["status"]
    report = {"phase": "Skipped", "reason": "Cancelled"}
    status["conditions"]["training-report"] = report
    await write_status(world.client, JOBFLOWS, "training", status)
    await expect(tab.get_by_role("link", name="report, Skipped")).to_be_visible()
    fresh = "[...document.querySelectorAll('.lane')].filter(e => !e.marked).map(e => e.id)"
    assert await tab.evaluate(fresh) == ["lane:report"]


async def test_a_retry_keeps_the_bars_of_earlier_attempts(world: PageWorld) -> None:
    clock = Clock()
    again = {"phase": "Running", "job": "f-b-r1", "attempts": 2, "pastAttempts": 1}
    done = {"phase": "Completed", "job": "f-a", "lastTransitionTime": clock.ago(300)}
    made = flow_with_status("f", {"a": "", "b": "a"}, {"a": done, "b": again})
    made["status"] |= {
        "startTime": clock.ago(100),
        "jobStatusList": [
            record(clock, "f-a", 400, 390, 300),
            record(clock, "f-b", 300, 290, 200, "Failed"),
            record(clock, "f-b-r1", 99, 90),
        ],
    }
    await world.put(made)
    tab = await world.open("/flows/default/f?view=timeline")
    await expect(tab.locator("[id='lane:a'] rect.running")).to_have_class(re.compile("completed"))
    await expect(tab.locator("[id='lane:b'] rect.running.is-failed")).to_have_count(1)
    await expect(tab.locator("[id='lane:b'] rect.running.is-running")).to_have_count(1)
    await expect(tab.locator("#axis .from")).to_contain_text(f"retried {clock.ago(100)[11:19]} UTC")
    await expect(tab.locator("#header")).to_contain_text("running for 1m")
    await tab.get_by_role("link", name="Show the time since then").click()
    await expect(tab.locator("[id='lane:b'] rect.running")).to_have_count(1)
    await expect(tab.locator("[id='lane:b'] rect.running")).to_have_class("running is-running")
    await expect(tab.locator("#axis .from")).to_have_text(
        f"from {clock.ago(100)[11:19]} UTC, the last retry. Show the whole time"
    )
    await tab.get_by_role("link", name="Show the whole time").click()
    await expect(tab.locator("[id='lane:b'] rect.running")).to_have_count(2)


async def test_a_job_that_took_no_second_is_seen(world: PageWorld) -> None:
    clock = Clock()
    done = {"phase": "Completed", "job": "f-a", "attempts": 1}
    made = flow_with_status("f", {"a": "", "b": "a"}, {"a": done, "b": {**done, "job": "f-b"}})
    made["status"]["state"]["phase"] = "Succeed"
    made["status"] |= {
        "startTime": clock.ago(200),
        "completionTime": clock.ago(20),
        "jobStatusList": [record(clock, "f-a", 200, 200, 20), record(clock, "f-b", 20, 20, 20)],
    }
    await world.put(made)
    tab = await world.open("/flows/default/f?view=timeline")
    end, bar = await box(tab, "#lanes .marks"), await box(tab, "[id='lane:b'] rect.running")
    assert bar["width"] >= 1
    assert bar["x"] + bar["width"] <= end["x"] + end["width"] + 1


async def test_the_times_of_the_axis_are_within_the_card_on_a_telephone(world: PageWorld) -> None:
    clock = Clock()
    done = {"phase": "Completed", "job": "f-a", "attempts": 1}
    made = flow_with_status("f", {"a": ""}, {"a": done}, "Succeed")
    made["status"] |= {
        "startTime": clock.ago(177),
        "completionTime": clock.ago(20),
        "jobStatusList": [record(clock, "f-a", 177, 177, 20)],
    }
    await world.put(made)
    tab = await world.open("/flows/default/f?view=timeline")
    await tab.set_viewport_size({"width": 390, "height": 844})
    card, last = await box(tab, "#lanes .marks"), await box(tab, "#axis .times text:last-child")
    assert last["x"] + last["width"] <= card["x"] + card["width"] + 1


async def test_queued_has_one_colour(world: PageWorld) -> None:
    await world.put(timed_flow())
    tab = await world.open(PATH)
    pending = "getComputedStyle(document.querySelector('.lane rect.is-pending')).color"
    colour = await tab.evaluate(pending)
    for queued in (".lane rect.queued", ".bar-legend rect.queued", ".parts .queued"):
        await expect(tab.locator(queued).first).to_have_css("fill", colour)
        await expect(tab.locator(queued).first).to_have_css("fill-opacity", "1")


async def test_the_end_of_a_daemon_is_no_failure(world: PageWorld) -> None:
    clock = Clock()
    ended = {"phase": "Completed", "reason": "DaemonEnded", "job": "f-a", "attempts": 1}
    made = flow_with_status("f", {"a": ""}, {"a": ended}, "Succeed")
    made["spec"]["flows"][0]["daemon"] = True
    made["status"]["jobStatusList"] = [record(clock, "f-a", 190, 180, 20, "Aborted")]
    await world.put(made)
    tab = await world.open("/flows/default/f?view=timeline")
    bar = tab.locator("[id='lane:a'] rect.running")
    await expect(bar).to_have_class(re.compile("is-completed"))


async def test_items_and_children_unfold_and_the_address_has_it(world: PageWorld) -> None:
    await world.put(timed_flow(), child_flow())
    tab = await world.open(PATH)
    fold = tab.get_by_role("link", name="Rows in sweep")
    await expect(fold).to_have_attribute("aria-expanded", "false")
    await fold.click()
    await expect(tab.locator("[id='lane:sweep/4']")).to_contain_text("Pending")
    await tab.get_by_role("link", name="Rows in inner").click()
    await expect(tab.locator("[id='lane:inner/fit']")).to_contain_text("Running")
    assert "open=inner%2Csweep" in tab.url
    await tab.reload()
    await expect(tab.locator("[id='lane:inner/fit']")).to_be_visible()
    below = [*"01234", "inner", "load", "fit", "report"]
    assert (await names(tab))[4:] == below
    await fold.click()
    await expect(tab.locator("[id='lane:sweep/4']")).to_have_count(0)


async def test_a_step_of_a_child_flow_leads_to_its_page(world: PageWorld) -> None:
    await world.put(timed_flow(), child_flow())
    tab = await world.open(f"{PATH}&open=inner")
    await tab.get_by_role("link", name="inner/fit, Running").click()
    await tab.wait_for_url("**/training-inner?step=fit&view=timeline")
    await expect(tab.get_by_role("complementary", name="Step fit")).to_be_visible()


async def test_the_time_left_is_learned_from_earlier_flows(world: PageWorld) -> None:
    old = flow("old", {"a": ""})
    old["status"] = status_of("old", {"a": {"phase": "Completed", "job": "old-a"}}, "Succeed")
    old["status"]["jobStatusList"] = [record(Clock(), "old-a", 5000, 5000, 4000)]
    new = flow_with_status("new", {"a": ""}, {"a": {"phase": "Running", "job": "new-a"}})
    new["status"]["jobStatusList"] = [record(Clock(), "new-a", 100, 100)]
    for each in (old, new):
        each["spec"]["flows"][0]["template"] = "train"
    await world.put(old, new)
    tab = await world.open("/flows/default/new?view=timeline")
    await expect(tab.locator(".left")).to_contain_text("Time left 14m")
    await expect(tab.locator("#header")).to_contain_text("about 14m")
    await expect(tab.locator(".left")).to_contain_text("by 1 or more completed jobs")
    await expect(tab.locator("rect.expected").first).to_be_visible()


async def test_an_estimate_that_has_passed_is_not_shown(world: PageWorld) -> None:
    old = flow("old", {"a": ""})
    old["status"] = status_of("old", {"a": {"phase": "Completed", "job": "old-a"}}, "Succeed")
    old["status"]["jobStatusList"] = [record(Clock(), "old-a", 9000, 9000, 8990)]
    new = flow_with_status("new", {"a": ""}, {"a": {"phase": "Running", "job": "new-a"}})
    new["status"]["jobStatusList"] = [record(Clock(), "new-a", 100, 100)]
    for each in (old, new):
        each["spec"]["flows"][0]["template"] = "train"
    await world.put(old, new)
    tab = await world.open("/flows/default/new?view=timeline")
    await expect(tab.locator("#time-spent")).to_contain_text("so far")
    await expect(tab.locator("#header")).to_contain_text("running for")
    for place in ("#header [data-left]", "#time-spent [data-left]"):
        await expect(tab.locator(place)).to_have_count(1)
        await expect(tab.locator(place)).to_be_hidden()


async def test_a_flow_that_has_not_started_says_so(world: PageWorld) -> None:
    await world.put(flow("f", {"a": ""}))
    tab = await world.open("/flows/default/f?view=timeline")
    await expect(tab.locator(".axis")).to_contain_text("no step has started")
    assert await names(tab) == ["a"]


async def test_an_ended_flow_fills_the_axis(world: PageWorld) -> None:
    made = flow_with_status("f", {"a": ""}, {"a": {"phase": "Completed", "job": "f-a"}}, "Succeed")
    made["status"]["jobStatusList"] = [record(Clock(), "f-a", 200, 200, 20)]
    made["status"] |= {"startTime": ago(200), "completionTime": ago(20)}
    await world.put(made)
    tab = await world.open("/flows/default/f?view=timeline")
    bar = tab.locator("[id='lane:a'] .running")
    assert await bar.get_attribute("width") == pytest.approx("100.0%")
    await expect(tab.locator(".lanes line.now")).to_have_count(0)
