"""axe-core's rules for the panel of a step and for dialogs, and the width of a telephone."""

from typing import Any, Literal

import pytest
from playwright.async_api import Browser

from support.page.axe import violations
from support.page.flows import ago, flow_with_status
from support.page.page_world import PageWorld, page_world
from support.sandbox.logged_pods import LoggedPods

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

TEXT = "one line\n" + "a long line without any end " * 20 + "\n"
PATHS = ("step=a", "step=sweep", "step=sweep/1", "step=release", "step=inner")


def full_flow() -> dict[str, Any]:
    """Return a flow whose steps have everything that a panel shows."""
    failure = {"pod": "f-a-main-0", "exitCode": 3, "node": "n1", "reason": "Error"}
    outputs = {"model": "s3://bucket/" + "long/" * 40}
    a = {"phase": "Failed", "attempts": 1, "job": "f-a", "failure": failure, "outputs": outputs}
    runs = [{"index": i, "phase": "Failed" if i else "Running", "job": f"f-s-{i}"} for i in (0, 1)]
    release = {"phase": "Waiting", "reason": "WaitingForApproval", "message": "Release it?"}
    phases = {
        "a": a,
        "sweep": {"phase": "Running", "runs": runs},
        "release": release,
        "inner": {"phase": "Running", "flow": "f-inner"},
    }
    made = flow_with_status("f", dict.fromkeys(phases, ""), phases)
    step, sweep, approval, inner = made["spec"]["flows"]
    step["vars"] = {"batch": "params.n * 2"}
    sweep["forEach"] = {"items": ["eu", "us"]}
    approval["approval"] = {"message": "Release it?", "timeout": "1h", "default": "Reject"}
    inner["flow"] = {"flows": [{"name": "x"}]}
    made["spec"]["params"] = [{"name": "n", "value": 1}]
    record = {"name": "f-a", "state": "Failed", "startTimestamp": ago(60), "endTimestamp": ago(9)}
    made["status"]["jobStatusList"] = [record]
    return made


async def fill(world: PageWorld, pods: LoggedPods) -> None:
    labels = {"flow.volcano.sh/root": "f", "flow.volcano.sh/parent": "f"}
    await world.put(
        full_flow(), flow_with_status("f-inner", {"x": ""}, {"x": "Running"}, labels=labels)
    )
    for number in range(2):
        await pods.create(world, f"f-a-main-{number}", "a", text=TEXT)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_rule_is_violated(browser: Browser, scheme: Literal["light", "dark"]) -> None:
    pods = LoggedPods()
    async with page_world(browser, logs=pods, color_scheme=scheme) as world:
        await fill(world, pods)
        for path in PATHS:
            tab = await world.open(f"/flows/default/f?{path}&times=1")
            if path == "step=a":
                await tab.locator(".lines time").first.wait_for()
            for summary in await tab.locator(".step summary").all():
                await summary.click()
            assert await violations(tab) == [], path
            await tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_rule_is_violated_by_a_dialog(
    browser: Browser, scheme: Literal["light", "dark"]
) -> None:
    pods = LoggedPods()
    async with page_world(browser, logs=pods, color_scheme=scheme) as world:
        await fill(world, pods)
        tab = await world.open("/flows/default/f?step=release")
        for name in ("Suspend", "Cancel", "Resubmit", "Approve", "Reject"):
            button = tab.locator("main .actions").get_by_role("button", name=name, exact=True)
            await button.click()
            await tab.get_by_role("dialog", name=name).wait_for()
            assert await violations(tab) == [], name
            await tab.keyboard.press("Escape")


async def test_the_panel_fits_on_a_telephone(browser: Browser) -> None:
    pods = LoggedPods()
    viewport = {"width": 390, "height": 844}
    async with page_world(browser, logs=pods, viewport=viewport) as world:
        await fill(world, pods)
        for path in PATHS:
            tab = await world.open(f"/flows/default/f?{path}")
            if path == "step=a":
                await tab.locator(".lines > div").first.wait_for()
            assert await tab.evaluate("document.documentElement.scrollWidth") == 390, path
            await tab.close()
