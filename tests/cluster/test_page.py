"""The page on a real API server: flows as they change, actions, and the rights of its user."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from jobflow.kube.client import Client
from jobflow.page.serve import served_page
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import state
from support.cluster.rights import allow
from support.cluster.served import Served
from support.page.browser import chromium, find_chromium
from support.sandbox.manifests import flow, jobflow, step, template
from support.sandbox.servers import Server
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.browser]


@asynccontextmanager
async def page_of(real: RealCluster, api: Server, user: str) -> AsyncIterator[Page]:
    """Open the list of the test's namespace in a browser, as a user that the admin impersonates."""
    path = find_chromium()
    assert path is not None
    kubeconfig = str(real.plane.kubeconfig("admin"))
    async with (
        await Client.from_kubeconfig(
            kubeconfig, namespace=api.namespace, impersonate=user
        ) as client,
        served_page(client) as served,
        chromium(path) as browser,
    ):
        tab = await browser.new_page()
        await tab.goto(served.new_link())
        await tab.wait_for_url("**/flows")
        yield tab
        await tab.close()


async def act(tab: Page, name: str, **fields: str) -> Locator:
    """Confirm an action, and return its dialog."""
    await tab.locator("main .actions").get_by_role("button", name=name, exact=True).click()
    dialog = tab.get_by_role("dialog", name=name)
    for label, value in fields.items():
        await dialog.get_by_label(label).fill(value)
    await dialog.get_by_role("button", name=name, exact=True).click()
    return dialog


async def asked(api: Server) -> None:
    """Create a flow that waits for approval before its only job."""
    flow = jobflow("release", {"ok": [], "deploy": ["ok"]})
    flow["spec"]["flows"][0] = {"name": "ok", "approval": {"message": "Deploy?"}}
    await api.create(api.templates, template("deploy", duration="50ms"))
    await api.create(api.flows, flow)
    await until(api, "release", "Pending", "WaitingForApproval")


async def until(api: Server, name: str, phase: str, reason: str = "") -> dict[str, Any]:
    """Return the status of a flow once it is in this phase for this reason."""

    def holds(flow: Any) -> bool:
        return (state(flow).get("phase"), state(flow).get("reason", "")) == (phase, reason)

    status: dict[str, Any] = (await api.until(f"{api.flows}/{name}", holds))["status"]
    return status


async def test_a_flow_is_found_approved_and_followed(
    real: RealCluster, api: Server, served: Served
) -> None:
    await asked(api)
    async with page_of(real, api, "alice") as tab:
        await expect(tab.locator("#rows")).to_contain_text("release")
        await expect(tab.locator("#rows")).to_contain_text("WaitingForApproval")
        await tab.get_by_role("link", name="release").click()
        await tab.wait_for_load_state()  # its scripts have run
        await tab.get_by_role("link", name="ok").first.click()
        await expect(tab.get_by_role("region", name="Approval")).to_contain_text("Deploy?")
        await act(tab, "Approve", Comment="looks good")
        async with volcano(await real.client("volcano")):
            status = await until(api, "release", "Succeed")
        await expect(tab.locator("#header")).to_contain_text("Succeed")
        await expect(tab.locator("[id='node:deploy']")).to_contain_text("Completed")
        await expect(tab.get_by_role("region", name="Approval")).to_contain_text("alice")
        await tab.goto(tab.url.partition("?")[0] + "?step=deploy")
        await expect(tab.locator("#step")).to_contain_text("release-deploy-main-0")
        await expect(tab.locator("#step")).to_contain_text("You may not get pods/log in namespace")
    assert status["conditions"]["release-ok"]["message"] == "approved by alice: looks good"


async def test_a_flow_is_cancelled_retried_and_deleted(
    real: RealCluster, api: Server, served: Served
) -> None:
    await api.create(api.templates, template("long", duration="1h"))
    await api.create(api.flows, jobflow("f", {"long": []}))
    async with volcano(await real.client("volcano")), page_of(real, api, "alice") as tab:
        await until(api, "f", "Running")
        await tab.goto(f"{tab.url}/{api.namespace}/f")
        await act(tab, "Cancel")
        await until(api, "f", "Failed", "Cancelled")
        await expect(tab.locator("#header")).to_contain_text("Cancelled")
        await act(tab, "Retry")
        status = await until(api, "f", "Running")
        assert status["conditions"]["f-long"]["pastAttempts"] == 1
        await act(tab, "Cancel and delete")
        await expect(tab.locator("#done")).to_have_text("JobFlow f deleted.")
    assert (await api.get(f"{api.flows}/f")).code == 404


async def test_a_user_without_rights_reads_which_ones_are_missing(
    real: RealCluster, api: Server
) -> None:
    async with page_of(real, api, "mallory") as tab:
        notice = tab.locator("#notice")
        await expect(notice).to_contain_text(
            f'You may not list and watch jobflows.flow.volcano.sh in namespace "{api.namespace}"'
        )
        await expect(notice).to_contain_text('User "mallory" cannot list resource "jobflows"')


async def test_an_action_without_its_right_is_refused_in_words(
    real: RealCluster, api: Server, served: Served
) -> None:
    allow(real, api.namespace, "vera", ["get", "list", "watch"], commands=False)
    allow(real, api.namespace, "bob", ["get", "list", "watch", "update"])
    await asked(api)
    for user, name, refusal in (
        ("vera", "Cancel", 'needs the right to create commands.bus.volcano.sh in namespace "'),
        ("vera", "Cancel and delete", "needs the right to create commands.bus.volcano.sh"),
        ("bob", "Approve", 'user "bob" may not approve jobflows.flow.volcano.sh "release"'),
    ):
        async with page_of(real, api, user) as tab:
            await tab.goto(f"{tab.url}/{api.namespace}/release?step=ok")
            dialog = await act(tab, name)
            await expect(dialog.get_by_role("alert")).to_contain_text(refusal)
    await until(api, "release", "Pending", "WaitingForApproval")


async def test_an_approval_inside_a_child_flow_is_answered_where_it_is_asked(
    real: RealCluster, api: Server, served: Served
) -> None:
    readable = ["get", "list", "watch"]
    allow(real, api.namespace, "bob", [*readable, "update"])
    allow(real, api.namespace, "carol", [*readable, "approve"])
    inner = [step("ok", approval={"message": "Deploy?"}), step("deploy", "ok", template="deploy")]
    await api.create(api.templates, template("deploy", duration="50ms"))
    await api.create(api.flows, flow("release", step("prod", flow={"flows": inner})))
    await until(api, "release-prod", "Pending", "WaitingForApproval")
    async with page_of(real, api, "bob") as tab:
        await open_question(tab, api)
        dialog = await act(tab, "Approve")
        named = f'jobflows.flow.volcano.sh "release-prod" in namespace "{api.namespace}"'
        refusal = f'user "bob" may not approve {named}'
        await expect(dialog.get_by_role("alert")).to_contain_text(refusal)
    await until(api, "release-prod", "Pending", "WaitingForApproval")
    async with volcano(await real.client("volcano")), page_of(real, api, "carol") as tab:
        await open_question(tab, api)
        await act(tab, "Approve", Comment="looks good")
        status = await until(api, "release-prod", "Succeed")
        await until(api, "release", "Succeed")
        await expect(tab.get_by_role("region", name="Approval")).to_contain_text("carol")
    assert status["conditions"]["release-prod-ok"]["message"] == "approved by carol: looks good"


async def open_question(tab: Page, api: Server) -> None:
    """Go from the step of the outermost flow to the approval in its child flow."""
    await tab.goto(f"{tab.url}/{api.namespace}/release?step=prod")
    await tab.locator("#step").get_by_role("link", name="release-prod").first.click()
    await tab.wait_for_url("**/release-prod*")
    await tab.wait_for_load_state()  # its scripts have run
    await tab.get_by_role("link", name="ok").first.click()
    await expect(tab.get_by_role("region", name="Approval")).to_contain_text("Deploy?")
