"""What the panel of a step shows beside cause and logs, in a real browser."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from jobflow.api.resources import EVENTS, JOBFLOWS, JOBS
from jobflow.sandbox.apiserver.requests.failures import failure
from support.page.flows import ago, flow_with_status, status_of
from support.page.page_world import PageWorld
from support.sandbox.logged_pods import LoggedPods
from support.sandbox.running_controller import flow, write_status

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HOSTILE = '<img src=x onerror="document.hacked=1">'


async def opened(world: PageWorld, step: str = "a", flow: str = "f") -> Page:
    return await world.open(f"/flows/default/{flow}?step={step}")


async def test_the_steps_that_a_step_waits_for_lead_to_their_panels(world: PageWorld) -> None:
    before = {f"s{number}": "" for number in range(10)}
    made = flow("f", {**before, "last": ""})
    made["spec"]["flows"][-1]["dependsOn"] = {"targets": [*before]}
    await world.put(made)
    tab = await world.open("/flows/default/f?step=last")
    head = tab.locator("#step-head")
    await expect(head).to_contain_text("after s0, s1, s2, s3, s4, s5, s6, s7 and 2 more steps")
    await head.get_by_role("link", name="s3").click()
    await expect(tab.get_by_role("complementary", name="Step s3")).to_be_visible()


async def test_attempts_have_their_end_reason_and_node(world: PageWorld) -> None:
    failure = {"pod": "f-a-r1-main-0", "exitCode": 3, "reason": "Error", "node": "gpu-7"}
    failed = {"phase": "Failed", "attempts": 3, "job": "f-a-r1", "failure": failure}
    before = {"attempt": 2, "exitCode": 137, "reason": "OOMKilled", "node": "n"}
    # the record of the first one was dropped
    first = {"attempt": 1, "signal": 9, "reason": "Error", "time": ago(400)}
    failed["failedAttempts"] = [first, before | {"message": "Killed"}]
    made = flow_with_status("f", {"a": ""}, {"a": failed}, "Failed")
    made["status"]["jobStatusList"] = [
        {"name": "f-a", "state": "Failed", "startTimestamp": ago(300), "endTimestamp": ago(200)},
        {"name": "f-a-r1", "state": "Failed", "startTimestamp": ago(90), "endTimestamp": ago(60)},
    ]
    await world.put(made)
    tab = await opened(world)
    rows = tab.locator("#step-attempts li")
    await expect(rows).to_have_count(3)
    await expect(rows.first).to_contain_text("Failed")
    await expect(rows.first).to_contain_text("30s")
    await expect(rows.first).to_contain_text("Error, exit code 3 on gpu-7")
    await expect(rows.nth(1)).to_contain_text("1m40s")
    await expect(rows.nth(1)).to_contain_text("OOMKilled, exit code 137, Killed on n")
    await expect(rows.last).to_contain_text(re.compile(r"6m\d+s agoError, signal 9"))


async def test_values_and_decisions_are_shown_as_text(world: PageWorld) -> None:
    a = {"phase": "Running", "outputs": {"model": HOSTILE, "n": 1}, "failures": 1}
    made = flow_with_status("f", {"a": ""}, {"a": a | {"decisions": {"when": True}}})
    made["spec"]["params"] = [{"name": "epochs", "value": 20}]
    made["spec"]["flows"][0] |= {
        "retry": {"limit": 2},
        "when": "params.epochs > 1",
        "vars": {"batch": "params.epochs * 2"},
    }
    await world.put(made)
    tab = await opened(world)
    pairs = tab.locator("#step-values .pairs div")
    assert await pairs.all_inner_texts() == [
        "when\ntrue: params.epochs > 1",
        "retry\n1 attempt failed, limit 2",
        f"model\n{HOSTILE}",
        "n\n1",
        "epochs\n20",
        "batch\nparams.epochs * 2",
    ]
    assert await tab.evaluate("document.hacked") is None


async def test_pods_have_phase_reason_exit_code_and_node(world: PageWorld) -> None:
    pods = LoggedPods()
    await world.put(flow_with_status("f", {"a": ""}, {"a": "Running"}))
    await pods.create(world, "f-a-main-0", "a")
    await pods.create(world, "f-a-main-1", "a")
    tab = await opened(world)
    rows = tab.locator("#step-pods li")
    await expect(rows).to_have_count(2)
    await pods.end(world, "f-a-main-1", main=137)
    await expect(rows.first).to_contain_text("f-a-main-1")
    await expect(rows.first).to_contain_text("exit code 137 on n")


def wide_flow(total: int, failed: int) -> dict[str, Any]:
    runs = [
        {
            "index": index,
            "phase": "Failed" if index < failed else "Completed",
            "job": f"f-s-{index}",
        }
        for index in range(total)
    ]
    made = flow_with_status("f", {"s": ""}, {"s": {"phase": "Running", "runs": runs}})
    made["spec"]["flows"][0]["forEach"] = {"count": total}
    return made


async def test_a_thousand_items_are_pages_and_a_change_is_one_row(world: PageWorld) -> None:
    made = wide_flow(1000, failed=3)
    await world.put(made)
    tab = await opened(world, "s")
    rows = tab.locator("#item-rows li")
    await expect(rows).to_have_count(50)
    await expect(tab.locator(".items-pages")).to_contain_text("1 to 50 of 1,000")
    await tab.evaluate("document.querySelectorAll('#item-rows li').forEach(e => e.marked = true)")
    runs = made["status"]["conditions"]["f-s"]["runs"]
    runs[7]["phase"] = "Running"
    status = status_of("f", {"s": {"phase": "Running", "runs": runs}})
    await write_status(world.client, JOBFLOWS, "f", status)
    await expect(rows.nth(7)).to_contain_text("Running")
    changed = (
        "[...document.querySelectorAll('#item-rows li')].filter(e => !e.marked).map(e => e.id)"
    )
    assert await tab.evaluate(changed) == ["item:7"]
    await tab.get_by_role("link", name="Next").click()
    await expect(rows.first).to_contain_text("50")
    await tab.get_by_role("link", name="Failed 3").click()
    await expect(rows).to_have_count(3)
    await tab.reload()
    await expect(rows).to_have_count(3)
    await rows.nth(2).get_by_role("link").click()
    await expect(tab.locator("#step-head")).to_contain_text("s / 2")


async def test_events_and_the_job_are_shown(world: PageWorld) -> None:
    job = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": "f-a", "namespace": "default", "annotations": {"note": HOSTILE}},
        "spec": {"tasks": [{"name": "main", "replicas": 1, "template": {"spec": {}}}]},
    }
    await world.apply(job)
    event = {
        "metadata": {"name": "f-a.1", "namespace": "default"},
        "involvedObject": {"kind": "Job", "name": "f-a", "namespace": "default"},
        **{"type": "Warning", "reason": "FailedCreate", "message": HOSTILE},
        "lastTimestamp": ago(5),
    }
    await world.client.create(EVENTS, "default", json.dumps(event).encode())
    await world.put(flow_with_status("f", {"a": ""}, {"a": {"phase": "Pending", "job": "f-a"}}))
    tab = await opened(world)
    await tab.get_by_text("Events").click()
    await expect(tab.locator("#step-events li")).to_contain_text("FailedCreate")
    await expect(tab.locator("#step-events li")).to_contain_text(HOSTILE)
    await tab.get_by_text("Job as made").click()
    await expect(tab.locator("#step-job pre")).to_contain_text("kind: Job")
    await expect(tab.locator("#step-job pre")).to_contain_text(HOSTILE)
    assert await tab.evaluate("document.hacked") is None


async def test_a_deleted_job_and_missing_rights_are_said_in_place(world: PageWorld) -> None:
    for kind in ("events", "jobs/f-a", "pods"):
        message = f'User "ann" may not read {kind}'
        world.fails("GET", f"/{kind}", failure(403, "Forbidden", message), times=None)
    await world.put(flow_with_status("f", {"a": ""}, {"a": {"phase": "Pending", "job": "f-a"}}))
    tab = await opened(world)
    await expect(tab.locator("#step-pods")).to_contain_text("You may not list and watch pods")
    await expect(tab.locator("#step-events")).to_contain_text(
        'You may not list events in namespace "default"'
    )
    await tab.get_by_text("Job as made").click()
    await expect(tab.locator("#step-job pre")).to_contain_text(
        'You may not get jobs.batch.volcano.sh in namespace "default"'
    )


async def test_a_child_flow_is_shown_with_its_steps(world: PageWorld) -> None:
    inner = {"phase": "Running", "flow": "f-a"}
    made = flow_with_status("f", {"a": ""}, {"a": inner})
    made["spec"]["flows"][0]["flow"] = {"flows": [{"name": "x"}, {"name": "y"}]}
    labels = {"flow.volcano.sh/root": "f", "flow.volcano.sh/parent": "f"}
    child = flow_with_status("f-a", {"x": "", "y": ""}, {"x": "Failed"}, labels=labels)
    await world.put(made, child)
    tab = await opened(world)
    rows = tab.locator("#step-child li")
    await expect(rows.first).to_contain_text("Failed")
    await expect(rows.last).to_contain_text("Waiting")
    await rows.first.get_by_role("link", name="x").click()
    await tab.wait_for_url("**/flows/default/f-a?step=x")


async def test_commands_are_copied(world: PageWorld) -> None:
    await world.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await world.put(flow_with_status("f", {"a": ""}, {"a": {"phase": "Running", "job": "f-a"}}))
    tab = await opened(world)
    await tab.get_by_text("Commands").click()
    command = "kubectl describe vcjob -n default f-a"
    await tab.evaluate("setTimeout = () => 0")  # else a slow machine misses the word
    await tab.get_by_role("button", name=f"Copy: {command}").click()
    await expect(tab.get_by_role("button", name=f"Copy: {command}")).to_have_text("Copied")
    assert await tab.evaluate("navigator.clipboard.readText()") == command
