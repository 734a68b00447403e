"""Actions of the page, done by the real controller."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import COMMANDS, JOBFLOWS, JOBS
from jobflow.sandbox.apiserver.requests.failures import failure
from support.page.flows import flow_with_status, status_of
from support.page.page_world import PageWorld, page_world
from support.sandbox.running_controller import flow, template, write_status

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(loop_scope="session")
async def world(browser: Browser) -> AsyncIterator[PageWorld]:
    """Jobs named f-a run until a test ends them; others end as their names say."""
    ends = {"f-a": "Running", "f-bad": "Failed", "f-x-0-fit-bad": "Failed"}
    async with page_world(browser) as world, world.controller():
        async with world.ends(ends):
            for name in ("a", "b", "bad"):
                await world.apply(template(name))
            yield world
    assert world.problems == []


def approved(name: str, **spec: Any) -> dict[str, Any]:
    """Return a flow whose step b waits for approval."""
    made = flow(name, {"b": ""}, **spec)
    made["spec"]["flows"][0]["approval"] = {"message": "Release it?"}
    return made


def button(tab: Page, name: str) -> Locator:
    return tab.locator("main .actions").get_by_role("button", name=name, exact=True)


async def ask(tab: Page, name: str) -> Locator:
    await button(tab, name).click()
    return tab.get_by_role("dialog", name=name)


async def confirm(dialog: Locator, name: str) -> None:
    await dialog.get_by_role("button", name=name, exact=True).click()


async def abort(world: PageWorld) -> None:
    """Abort the job f-a, as Volcano does once the flow is being cancelled."""
    await world.until("f", lambda flow: flow.status.state.reason == "Cancelled")
    await write_status(world.client, JOBS, "f-a", {"state": {"phase": "Aborted"}})


def is_running(flow: JobFlow) -> bool:
    return flow.status.state.phase == "Running"


async def opened(world: PageWorld, made: dict[str, Any], query: str = "") -> Page:
    await world.apply(made)
    await world.until("f", lambda flow: bool(flow.status.state.phase))
    return await world.open(f"/flows/default/f{query}")


async def test_a_flow_is_suspended_and_resumed(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"a": ""}))
    dialog = await ask(tab, "Suspend")
    await expect(dialog.locator("code")).to_have_text("jobflow suspend f")
    await confirm(dialog, "Suspend")
    await expect(tab.locator("#done")).to_have_text("JobFlow f is being suspended.")
    await expect(tab.locator("#header")).to_contain_text("suspended")
    await confirm(await ask(tab, "Resume"), "Resume")
    await expect(button(tab, "Suspend")).to_be_visible()


async def test_a_flow_is_cancelled(world: PageWorld) -> None:
    made = flow("f", {"a": "", "b": "a"})
    made["spec"]["finally"] = [{"name": "bad"}]
    tab = await opened(world, made)
    dialog = await ask(tab, "Cancel")
    await expect(dialog).to_contain_text("Before its end, finally runs.")
    await dialog.get_by_label("Cancel the finally steps too").check()
    await expect(dialog.locator("code")).to_have_text("jobflow cancel f --now")
    await dialog.get_by_label("Cancel the finally steps too").uncheck()
    await confirm(dialog, "Cancel")
    cancelled = await world.until("f", lambda flow: flow.status.state.reason == "Cancelled")
    assert cancelled.status.conditions is not None
    await expect(tab.locator("#header")).to_contain_text("Cancelled")


async def test_a_dialog_does_not_mention_finally_of_a_flow_without_it(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"a": ""}))
    dialog = await ask(tab, "Cancel")
    await expect(dialog.get_by_text("are aborted")).to_be_visible()
    for each in await dialog.locator(".of-finally").all():
        await expect(each).to_be_hidden()
    await confirm(dialog, "Cancel")
    await expect(tab.locator("#done")).to_have_text("JobFlow f is being cancelled.")


async def test_a_failed_flow_is_retried(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"bad": ""}))
    await expect(tab.locator("#header")).to_contain_text("Failed")
    await confirm(await ask(tab, "Retry"), "Retry")
    again = await world.until(
        "f", lambda flow: (flow.status.conditions or {})["f-bad"].past_attempts == 1
    )
    assert again.metadata.name == "f"


async def test_a_retry_says_what_its_jobs_are_made_of(world: PageWorld) -> None:
    made = flow("f", {"bad": "", "own": ""})
    made["spec"]["flows"][1] |= {"container": {"image": "busybox"}}
    failed = dict.fromkeys(("bad", "own"), "Failed")
    world.put_directly(made | {"status": status_of("f", failed, "Failed")})
    tab = await world.open("/flows/default/f")
    note = (await ask(tab, "Retry")).locator(".note")
    await expect(note).to_contain_text("the current versions of their templates")
    await expect(note.locator("code")).to_have_text(
        ["jobflow submit FILE --templates", "jobflow submit FILE --reuse f"]
    )
    await expect(note).to_contain_text(
        "Step own has its own container or jobSpec and runs the same"
    )


async def test_the_dialog_of_a_retry_lists_what_runs_again(world: PageWorld) -> None:
    """Also of a retry with the failures that the flow tolerates, of which b was made."""
    made = flow("f", {"bad": "", "a": "", "b": "a"})
    made["spec"]["flows"][1]["continueOnFailure"] = True
    ends = {"bad": "Failed", "a": "Failed", "b": "Completed"}
    world.put_directly(made | {"status": status_of("f", ends, "Failed")})
    tab = await world.open("/flows/default/f")
    rows = (await ask(tab, "Retry")).locator(".again tr:has(td)")
    await expect(rows).to_have_text(["badFailed"])
    await tab.keyboard.press("Escape")
    rows = (await ask(tab, "Retry tolerated")).locator(".again tr:has(td)")
    await expect(rows).to_have_text(["badFailed", "aFailed", "bCompleted0s"])


async def test_a_flow_is_resubmitted_with_other_params(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"b": ""}, params=[{"name": "n", "value": 1}]))
    dialog = await ask(tab, "Resubmit")
    await dialog.get_by_label("Name of the new flow").fill("g")
    await dialog.get_by_label("Params").fill("m=2")
    await confirm(dialog, "Resubmit")
    await expect(dialog.get_by_role("alert")).to_contain_text("JobFlow f has no such param")
    await expect(dialog.locator(".note tr:has(td)")).to_have_text(["n1"])
    await dialog.get_by_label("Params").fill("n=it's 2")
    await expect(dialog.locator(".fault")).to_be_hidden()
    await expect(dialog.locator("code")).to_have_text(
        """jobflow resubmit f --name g --param 'n=it'"'"'s 2'"""
    )
    await confirm(dialog, "Resubmit")
    await expect(tab.get_by_role("heading", name="g default")).to_be_visible()
    await expect(tab.locator("#done")).to_contain_text("JobFlow g created.")
    [param] = (await world.flow("g")).spec.params or ()
    assert param.value == "it's 2"


def five_steps() -> dict[str, Any]:
    """Return a flow of five steps, of which the third fails and has a param in its arguments."""
    steps: list[dict[str, Any]] = []
    for name in ("load", "prepare", "bad", "evaluate", "publish"):
        container = {"image": "busybox", "command": ["true"], "args": [name]}
        targets = {"dependsOn": {"targets": [steps[-1]["name"]]}} if steps else {}
        steps.append({"name": name, "container": container, **targets})
    steps[2]["container"]["args"] = ["$(params.rate)"]
    return flow("f", {}, flows=steps, params=[{"name": "rate", "value": "0.01"}])


async def test_a_flow_goes_on_after_its_third_step_was_mended(world: PageWorld) -> None:
    tab = await opened(world, five_steps())
    await world.ended("f")
    dialog = await ask(tab, "Resubmit")
    await expect(dialog.get_by_label("Reuse results that have not changed")).to_be_checked()
    rows = dialog.locator(".preview tr")
    reused, bad = ["loadreused", "preparereused"], "badruns: it failed in f"
    why = {"evaluate": "its target bad runs again", "publish": "its target evaluate runs again"}
    runs = [f"{name}runs: {each}" for name, each in why.items()]
    await expect(rows).to_have_text([*reused, f"{bad}, and would run the same again", *runs])
    await dialog.get_by_label("Params").fill("rat=0.1")
    await expect(dialog.locator(".preview")).to_contain_text("JobFlow f has no such param")
    await dialog.get_by_label("Params").fill("rate=0.1")
    await expect(rows).to_have_text([*reused, f"{bad}; args[0] differs: 0.01 → 0.1", *runs])
    await expect(dialog.locator("code")).to_have_text("jobflow resubmit f --param rate=0.1 --reuse")
    await dialog.get_by_label("Name of the new flow").fill("g")
    await confirm(dialog, "Resubmit")
    await expect(tab.get_by_role("heading", name="g default")).to_be_visible()
    head = tab.locator("#header .facts")
    await expect(head).to_contain_text("reuses f")
    await head.get_by_role("link", name="f", exact=True).click()
    await expect(tab.get_by_role("heading", name="f default")).to_be_visible()
    await head.get_by_role("link", name="g", exact=True).click()
    await expect(tab.get_by_role("heading", name="g default")).to_be_visible()
    await world.ended("g")
    assert (await world.flow("g")).status.state.phase == "Succeed"
    await tab.goto(f"{world.home}/flows/default/g?view=table&step=load")
    await expect(tab.locator("[id='row:load'] .detail")).to_have_text("reused")
    link = tab.locator("#step-head").get_by_role("link", name="f", exact=True)
    await expect(link).to_have_attribute("href", "/flows/default/f?step=load")
    jobs = {each["metadata"]["name"] for each in await world.raw(JOBS)}
    assert {job for job in jobs if job.startswith("g-")} == {"g-bad", "g-evaluate", "g-publish"}


async def test_a_flow_that_has_ended_is_deleted(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"b": ""}))
    await world.ended("f")
    await confirm(await ask(tab, "Delete"), "Delete")
    await expect(tab.get_by_role("heading", name="Flows")).to_be_visible()
    assert tab.url.endswith("/flows?ns=default")
    await expect(tab.locator("#done")).to_have_text("JobFlow f deleted.")
    await expect(tab.locator("#rows [data-item]")).to_have_count(0)
    assert await world.flow_names() == []


async def test_the_claims_that_are_deleted_with_the_flow_are_named(world: PageWorld) -> None:
    made = flow_with_status("f", {"b": ""}, {"b": "Completed"}, "Succeed")
    reuse = {"flow": "first", "uid": "1"}
    made["status"] |= {"reuse": reuse, "reusedClaims": {"data": "first-data"}}
    world.put_directly(made)
    tab = await world.open("/flows/default/f")
    dialog = await ask(tab, "Delete")
    await expect(dialog.locator(".note")).to_have_text(
        "The volume claim first-data, which has moved to f from the flow first, is deleted with it."
    )


async def test_a_running_flow_is_cancelled_and_deleted(world: PageWorld) -> None:
    made = flow("f", {"a": "", "c": "a"})
    made["spec"]["finally"] = [{"name": "b"}]
    tab = await opened(world, made)
    await expect(button(tab, "Delete")).to_have_count(0)
    dialog = await ask(tab, "Cancel and delete")
    await expect(dialog.locator("code")).to_have_text("jobflow delete --cancel f")
    await expect(dialog).to_contain_text("Before its end, finally runs.")
    await confirm(dialog, "Cancel and delete")
    await abort(world)
    await expect(tab.get_by_role("heading", name="Flows")).to_be_visible()
    await expect(tab.locator("#done")).to_have_text("JobFlow f deleted.")
    assert await world.flow_names() == []


async def test_a_dialog_that_was_closed_waits_for_the_end_of_the_flow_too(world: PageWorld) -> None:
    made = flow("f", {"a": ""})
    made["spec"]["finally"] = [{"name": "held"}]
    tab = await opened(world, made)
    dialog = await ask(tab, "Cancel and delete")
    await confirm(dialog, "Cancel and delete")
    await expect(dialog.get_by_role("status")).to_contain_text("You can close this dialog")
    await tab.keyboard.press("Escape")
    await expect(tab.locator("#header")).to_contain_text("Cancelled")
    await expect(button(tab, "Cancel and delete")).to_be_visible()
    await abort(world)
    await world.until("f", lambda flow: "f-held" in (flow.status.conditions or {}))
    assert world.count("DELETE", JOBFLOWS) == 0
    await world.apply(template("held"))
    await expect(tab.locator("#done")).to_have_text("JobFlow f deleted.")


async def test_a_page_that_ends_leaves_a_flow_that_is_being_cancelled(world: PageWorld) -> None:
    made = flow("f", {"a": ""})
    made["spec"]["finally"] = [{"name": "held"}]
    tab = await opened(world, made)
    dialog = await ask(tab, "Cancel and delete")
    await confirm(dialog, "Cancel and delete")
    await expect(tab.locator("#header")).to_contain_text("Cancelled")
    world.served.page.closing.close()
    await expect(dialog.get_by_role("alert")).to_have_text(
        "nothing was deleted; the flow is being cancelled"
    )
    assert world.count("DELETE", JOBFLOWS) == 0


async def test_a_missing_right_to_cancel_deletes_nothing(world: PageWorld) -> None:
    message = 'commands.bus.volcano.sh is forbidden: User "ann" cannot create'
    world.fails("POST", "/commands", failure(403, "Forbidden", message), times=None)
    tab = await opened(world, flow("f", {"a": ""}))
    dialog = await ask(tab, "Cancel and delete")
    await confirm(dialog, "Cancel and delete")
    await expect(dialog.get_by_role("alert")).to_contain_text("needs the right to create commands")
    assert world.count("DELETE", JOBFLOWS) == 0


async def test_a_step_is_approved_with_outputs(world: PageWorld) -> None:
    tab = await opened(world, approved("f"), "?step=b")
    await expect(tab.get_by_role("region", name="Approval")).to_contain_text("Release it?")
    dialog = await ask(tab, "Approve")
    await dialog.get_by_label("Comment").fill("looks good")
    await dialog.get_by_label("Outputs").fill("percent=10")
    await expect(dialog.locator("code")).to_have_text(
        "jobflow approve f b -m 'looks good' --output percent=10"
    )
    await confirm(dialog, "Approve")
    ended = await world.ended("f")
    assert (ended.status.conditions or {})["f-b"].outputs == {"percent": 10}
    await expect(tab.get_by_role("region", name="Approval")).to_contain_text("Approved")
    await expect(button(tab, "Approve")).to_have_attribute("aria-disabled", "true")


async def test_a_step_is_rejected(world: PageWorld) -> None:
    tab = await opened(world, approved("f"), "?step=b")
    await confirm(await ask(tab, "Reject"), "Reject")
    ended = await world.ended("f")
    assert (ended.status.conditions or {})["f-b"].reason == "Rejected"


async def test_what_the_command_would_refuse_is_disabled_with_its_reason(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"a": ""}))
    retry = button(tab, "Retry")
    await expect(retry).to_have_attribute("aria-disabled", "true")
    await expect(retry).to_have_accessible_description(
        "JobFlow f is Running; only a Failed flow can be retried"
    )
    await retry.click(force=True)
    await expect(tab.locator("#done")).to_contain_text("only a Failed flow can be retried")
    assert world.count("POST", COMMANDS) == 0


async def test_a_reason_names_the_button_beside_it(world: PageWorld) -> None:
    world.put_directly(flow_with_status("f", {"b": ""}, {"b": "Completed"}, "Succeed"))
    retry = button(await world.open("/flows/default/f"), "Retry")
    await expect(retry).to_have_accessible_description(
        "JobFlow f has succeeded; Resubmit runs its spec once more"
    )


async def test_a_refusal_that_the_page_did_not_foresee_is_shown(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"a": ""}))
    dialog = await ask(tab, "Suspend")
    await world.order("SuspendFlow", name="other")
    await world.until("f", lambda flow: flow.status.suspended_at is not None)
    await confirm(dialog, "Suspend")
    await expect(dialog.get_by_role("alert")).to_contain_text("JobFlow f is already suspended")


async def test_a_missing_right_is_named(world: PageWorld) -> None:
    message = 'commands.bus.volcano.sh is forbidden: User "ann" cannot create'
    world.fails("POST", "/commands", failure(403, "Forbidden", message), times=None)
    tab = await opened(world, flow("f", {"a": ""}))
    dialog = await ask(tab, "Cancel")
    await confirm(dialog, "Cancel")
    alert = dialog.get_by_role("alert")
    await expect(alert).to_contain_text("needs the right to create commands.bus.volcano.sh")
    await expect(alert).to_contain_text(message)


async def test_actions_need_only_the_keyboard(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"a": ""}))
    await button(tab, "Suspend").focus()
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("dialog", name="Suspend")).to_be_visible()
    await tab.keyboard.press("Escape")
    await expect(button(tab, "Suspend")).to_be_focused()
    await tab.keyboard.press("Enter")
    while await tab.evaluate("document.activeElement.textContent.trim()") != "Suspend":
        await tab.keyboard.press("Tab")
    await tab.keyboard.press("Enter")
    await world.until("f", lambda flow: flow.status.suspended_at is not None)
    await expect(button(tab, "Resume")).to_be_focused()


async def test_the_focus_goes_back_to_a_button_that_was_replaced(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"a": ""}))
    dialog = await ask(tab, "Suspend")
    await tab.evaluate(
        "(() => { const old = document.querySelector('main .actions [data-action=suspend]');"
        " old.replaceWith(old.cloneNode(true)); })()"
    )
    await tab.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(button(tab, "Suspend")).to_be_focused()


@pytest.mark.parametrize("token", [None, "", "wrong"])
async def test_a_form_without_the_token_of_the_page_changes_nothing(
    world: PageWorld, token: str | None
) -> None:
    world.put_directly(flow_with_status("g", {"a": ""}, {"a": "Completed"}, "Succeed"))
    form = {} if token is None else {"form-token": token}
    answer = await world.context.request.post(
        f"{world.home}/flows/default/g/actions/delete", form=form, headers={"origin": world.home}
    )
    assert answer.status == 403
    assert (await answer.json())["error"] == "the form is not of this page: reload it"
    assert world.count("DELETE", JOBFLOWS) == 0


async def test_an_unknown_action_does_nothing(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"a": ""}))
    token = await tab.locator("[name=form-token]").first.input_value()
    for action in ("destroy", "Delete", "delete/x"):
        answer = await world.context.request.post(
            f"{world.home}/flows/default/f/actions/{action}",
            form={"form-token": token},
            headers={"origin": world.home},
        )
        assert answer.status == 404


def approved_items(name: str) -> dict[str, Any]:
    """Return a flow whose step b waits for an approval of each of its items."""
    made = approved(name)
    made["spec"]["flows"][0]["forEach"] = {"items": ["eu", "us", "asia"]}
    made["spec"]["flows"][0]["approval"] = {"message": "Release $(item)?"}
    made["spec"]["flows"][0]["continueOnFailure"] = True
    return made


async def test_items_are_listed_and_answered_one_by_one(world: PageWorld) -> None:
    tab = await opened(world, approved_items("f"), "?step=b")
    asked = tab.get_by_role("region", name="Waiting for an answer")
    await expect(asked.locator("li")).to_have_text(
        [
            "b/0 waits for approval: Release eu?",
            "b/1 waits for approval: Release us?",
            "b/2 waits for approval: Release asia?",
        ]
    )
    panel = tab.get_by_role("region", name="Approval")
    await expect(panel).to_contain_text("b/0, b/1, b/2 wait for approval.")
    await panel.get_by_role("link", name="b/1").click()
    await expect(panel).to_contain_text("Release us?")
    dialog = await ask(tab, "Reject")
    await dialog.get_by_label("Comment").fill("too early")
    await expect(dialog.locator("code")).to_have_text("jobflow reject f b/1 -m 'too early'")
    await confirm(dialog, "Reject")
    await expect(panel).to_contain_text("Rejected")
    await expect(asked.locator("li")).to_have_count(2)
    for item in ("b/0", "b/2"):
        await asked.get_by_role("link", name=item).click()
        await expect(panel.locator(".question")).to_be_visible()
        await confirm(await ask(tab, "Approve"), "Approve")
        await expect(panel).to_contain_text("Approved")
    runs = ((await world.ended("f")).status.conditions or {})["f-b"].runs or ()
    assert [run.phase for run in runs] == ["Completed", "Failed", "Completed"]
    await tab.goto(f"{world.home}/flows/default/f?step=b")
    await expect(panel).to_contain_text("2 of 3 items approved, 1 rejected.")
    await expect(panel.get_by_role("button")).to_have_count(0)


async def test_an_approval_says_what_it_asks_and_what_follows(world: PageWorld) -> None:
    made = approved("f")
    made["spec"]["flows"].append({"name": "a", "dependsOn": {"targets": ["b"]}})
    tab = await opened(world, made, "?step=b")
    dialog = await ask(tab, "Approve")
    await expect(dialog.locator(".question")).to_have_text("Release it?")
    await expect(dialog.locator(".effect")).to_have_text(
        "The step will be Completed. Then a will start, as soon as the other dependencies are met."
    )
    await confirm(dialog, "Back")
    await expect((await ask(tab, "Reject")).locator(".effect")).to_have_text(
        "The step will be Failed. A retry of the flow asks again."
    )


async def test_an_approval_in_a_stopped_flow_says_that_nothing_follows(world: PageWorld) -> None:
    made = approved("f")
    made["spec"]["flows"] += [{"name": "bad"}, {"name": "a", "dependsOn": {"targets": ["b"]}}]
    tab = await opened(world, made, "?step=b")
    await expect(tab.locator("#problems")).to_contain_text("bad")
    await expect((await ask(tab, "Approve")).locator(".effect")).to_have_text(
        "The step will be Completed. No step will start except those that handle the failure, "
        "because bad failed."
    )


async def test_a_step_is_given_up_or_skipped_by_hand(world: PageWorld) -> None:
    tab = await opened(world, flow("f", {"a": "", "b": "a", "c": "b"}), "?step=b")
    dialog = await ask(tab, "Give up")
    await dialog.get_by_label("Comment").fill("it hangs")
    await expect(dialog.locator("code")).to_have_text("jobflow cancel f --step b -m 'it hangs'")
    await dialog.get_by_role("button", name="Back").click()
    dialog = await ask(tab, "Skip")
    await dialog.get_by_label("Outputs").fill("n=3")
    await expect(dialog.locator("code")).to_have_text("jobflow skip f b --output n=3")
    await confirm(dialog, "Skip")
    await world.until("f", lambda each: (each.status.conditions or {})["f-b"].outputs == {"n": 3})
    await expect(tab.get_by_role("group", name="By hand")).to_contain_text("Run again")


async def test_the_dialogs_of_a_step_say_what_they_touch(world: PageWorld) -> None:
    made = flow("f", {"b": "", "a": "b", "parts": "a"})
    made["spec"]["flows"][2] |= {"template": "b", "forEach": {"count": 3, "parallelism": 1}}
    tab = await opened(world, made, "?step=b")
    await world.until("f", lambda each: (each.status.conditions or {})["f-a"].phase == "Running")
    dialog = await ask(tab, "Run again")
    await expect(dialog.locator(".preview tr")).to_have_text(
        ["StepPhaseCompleted jobs ran", "bCompleted0s", "aRunning"]
    )
    await tab.goto(f"{world.home}/flows/default/f?step=parts")
    dialog = await ask(tab, "Skip")
    await expect(dialog.locator(".preview tr:has(td)")).to_have_text(["partsWaiting"])
    await dialog.get_by_label("Outputs").fill("n=3")
    await expect(dialog.locator(".preview")).to_contain_text("outputs are for one of them")
    await dialog.get_by_role("button", name="Back").click()
    dialog = await ask(tab, "Scale")
    now = "At present, 1 of its items may run at once."
    await expect(dialog.locator(".preview")).to_have_text(now)
    await confirm(dialog, "Scale")
    fault = "Items at once: write a whole number of 1 or more"
    await expect(dialog.locator(".fault")).to_have_text(fault)


async def test_a_step_of_a_child_flow_is_skipped_by_its_path(world: PageWorld) -> None:
    inner = {"flows": [{"name": "bad", "template": "bad"}]}
    middle = {"flows": [{"name": "fit", "flow": inner}]}
    steps = [{"name": "x", "forEach": {"count": 1}, "flow": middle}]
    await world.apply(flow("f", {}, flows=steps))
    await world.ended("f")
    tab = await world.open("/flows/default/f-x-0-fit?step=bad")
    dialog = await ask(tab, "Skip")
    await expect(dialog.locator("code")).to_have_text("jobflow skip f x/0/fit/bad")
    await expect(dialog.locator(".preview tr:has(td)")).to_have_text(["x/0/fit/badFailed"])
    await confirm(dialog, "Skip")
    await expect(tab.locator("#step-why")).to_contain_text("SkippedByUser")
