"""The panel of the selected step, in a real browser."""

import json
import re

import pytest
from playwright.async_api import Browser, ViewportSize, expect

from jobflow.api.resources import PODS
from jobflow.sandbox.apiserver.requests.failures import failure
from support.page.flows import ago, flow_with_status
from support.page.page_world import PageWorld, page_world
from support.sandbox.logged_pods import LoggedPods
from support.sandbox.running_controller import DIAMOND

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FAILED = {
    "phase": "Failed",
    "reason": "JobFailed",
    "message": "pod f-a-main-0 failed with exit code 3",
    "attempts": 2,
    "job": "f-a-r1",
    "failure": {"pod": "f-a-main-0", "exitCode": 3, "node": "n7", "reason": "Error"},
}


async def test_the_cause_of_a_failure_is_in_view_without_scrolling(world: PageWorld) -> None:
    await world.put(flow_with_status("f", DIAMOND, {"a": FAILED}, "Failed"))
    tab = await world.open("/flows/default/f")
    await tab.locator("[id='node:a']").click()
    why = tab.locator("#step-why")
    await expect(why).to_contain_text("exit code 3")
    await expect(why).to_be_in_viewport(ratio=1)
    await expect(tab.get_by_role("log")).to_be_in_viewport()


@pytest.mark.parametrize(
    ("width", "height", "approvals"), [(1280, 800, 0), (1280, 800, 5), (390, 844, 3)]
)
async def test_a_failure_is_told_once_and_its_log_ends_in_the_window(
    browser: Browser, width: int, height: int, approvals: int
) -> None:
    pods, window = LoggedPods(), ViewportSize(width=width, height=height)
    async with page_world(browser, logs=pods, viewport=window) as world:
        ask = {"phase": "Waiting", "reason": "WaitingForApproval", "message": "Release it?"}
        phases = {"a": FAILED, **{f"ask{number}": ask for number in range(approvals)}}
        made = flow_with_status("f", dict.fromkeys(phases, ""), phases, reason="StepFailed")
        for step in made["spec"]["flows"][1:]:
            step["approval"] = {}
        await world.put(made)
        text = "".join(f"line {number}\n" for number in range(200))
        await pods.create(world, "f-a-main-0", "a", text=text)
        await pods.end(world, "f-a-main-0")
        tab = await world.open("/flows/default/f")
        await tab.locator("[id='node:a']").click()
        await expect(tab.get_by_text("line 199")).to_be_in_viewport(ratio=1)
        await expect(tab.locator("#step-why")).to_contain_text("exit code 3")
        await expect(tab.locator("#step-why")).not_to_contain_text("See its log")
        for other in ("#header", "#problems", "#step-head"):
            await expect(tab.locator(other)).not_to_contain_text("exit code 3")


@pytest.mark.parametrize(("width", "view"), [(390, "graph"), (1280, "table")])
async def test_the_panel_of_a_step_that_is_selected_comes_into_view(
    world: PageWorld, width: int, view: str
) -> None:
    steps = {f"s{number:02}": "" for number in range(60)}
    await world.put(flow_with_status("f", steps, {"s59": FAILED}))
    tab = await world.open(f"/flows/default/f?view={view}&sort=step")
    await tab.set_viewport_size({"width": width, "height": 800})
    await tab.get_by_role("link", name="s58").first.click()
    await expect(tab.locator("#step-head")).to_be_in_viewport()


async def test_one_clock_tells_when_a_step_failed_and_a_sentence_how_long_it_took(
    world: PageWorld,
) -> None:
    failed = FAILED | {"createTime": ago(140), "lastTransitionTime": ago(100)}
    await world.put(flow_with_status("f", {"a": ""}, {"a": failed}, "Failed"))
    tab = await world.open("/flows/default/f?step=a")
    await expect(tab.locator("#step-head")).to_contain_text(re.compile(r"1m[45]\ds ago"))
    await expect(tab.locator("#step-why")).to_have_text(
        re.compile(r"Step a failed \(.* UTC, JobFailed\) after 40s: pod f-a-main-0 failed")
    )


async def test_what_may_not_be_read_is_said_in_its_place(world: PageWorld) -> None:
    """As `jobflow why` says it."""
    message = 'podgroups is forbidden: User "ann" cannot list resource "podgroups"'
    world.fails("GET", "/podgroups", failure(403, "Forbidden", message), times=None)
    pending = {"phase": "Pending", "attempts": 1, "job": "f-a"}
    await world.put(flow_with_status("f", {"a": ""}, {"a": pending}))
    tab = await world.open("/flows/default/f?step=a")
    await expect(tab.locator("#step-why")).to_contain_text(
        "PodGroups are left out: reading them needs the right to list podgroups.scheduling"
    )


async def test_an_item_is_selected_by_the_address(world: PageWorld) -> None:
    runs = [
        {"index": i, "phase": "Failed" if i else "Completed", "job": f"f-s-{i}"} for i in (0, 1)
    ]
    made = flow_with_status("f", {"s": ""}, {"s": {"phase": "Failed", "runs": runs}}, "Failed")
    made["spec"]["flows"][0]["forEach"] = {"items": ["eu", "us"]}
    await world.put(made)
    tab = await world.open("/flows/default/f?step=s/1")
    await expect(tab.locator("#step-why")).to_contain_text('Its item: "us"')
    await expect(tab.locator("[id='node:s']")).to_have_attribute("aria-current", "true")
    tab = await world.open("/flows/default/f?step=s/7")
    await expect(tab.locator("#step-why")).to_contain_text('Step "s" has no item "7"')


async def test_logs_stay_while_the_rest_of_the_panel_changes(world: PageWorld) -> None:
    await world.put(flow_with_status("f", {"a": ""}, {"a": "Running"}))
    tab = await world.open("/flows/default/f?step=a")
    await tab.evaluate("document.querySelector('#step-logs').marked = true")
    labels = {"volcano.sh/createdByJobFlow": "default.f", "flow.volcano.sh/step": "a"}
    pod = {
        "metadata": {"name": "f-a-main-0", "labels": labels},
        "spec": {"containers": [{"name": "c"}]},
    }
    await world.client.create(PODS, "default", json.dumps(pod).encode())
    await expect(tab.locator(".logs-empty")).to_contain_text("f-a-main-0")
    assert await tab.evaluate("document.querySelector('#step-logs').marked")
