"""The page without rights, without JobFlow, without a cluster, and without a connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Page, expect

from jobflow.kube.client import Client
from jobflow.page.serve import served_page
from jobflow.sandbox.apiserver.requests.failures import failure
from support.network.anonymous import anonymous
from support.network.cut_connection import Hop
from support.page.flows import flow_with_status, status_of
from support.page.page_world import PageWorld

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_missing_right_is_named(world: PageWorld) -> None:
    message = 'jobflows is forbidden: User "ann" cannot list resource "jobflows"'
    world.fails("GET", "/jobflows", failure(403, "Forbidden", message), times=None)
    tab = await world.open()
    await expect(tab.locator("#notice")).to_contain_text(
        "You may not list and watch jobflows.flow.volcano.sh"
    )
    await expect(tab.locator("#notice")).to_contain_text(message)


async def test_an_expired_login_is_named(world: PageWorld) -> None:
    world.fails("GET", "/jobflows", failure(401, "Unauthorized", "Unauthorized"), times=None)
    tab = await world.open()
    await expect(tab.locator("#notice")).to_contain_text("does not accept your login (401)")


async def test_a_flow_that_cannot_be_read_hides_no_other(world: PageWorld) -> None:
    odd = flow_with_status("odd", {"a": ""}, {"a": "Running"})
    odd["status"]["state"]["phase"] = 7
    world.put_directly(odd, flow_with_status("even", {"a": ""}, {"a": "Running"}))
    tab = await world.open()
    await expect(tab.locator("#rows tr")).to_have_count(1)
    await expect(tab.locator("#notice")).to_have_text("1 JobFlow cannot be read and is not shown.")


async def test_an_error_of_the_cluster_is_named(world: PageWorld) -> None:
    world.fails("GET", "/jobflows", failure(500, "InternalError", "etcd is sick"), times=None)
    tab = await world.open()
    await expect(tab.locator("#notice")).to_contain_text("answers with an error (500")
    await expect(tab.locator("#notice")).to_contain_text("etcd is sick")


async def test_a_cluster_without_jobflow_is_told_how_to_get_it(world: PageWorld) -> None:
    world.fails("GET", "/jobflows", failure(404, "NotFound", "not found"), times=None)
    tab = await world.open()
    await expect(tab.locator("#notice")).to_contain_text("install them with jobflow crds --apply")


async def test_a_cluster_that_does_not_answer_is_named_and_found_again(world: PageWorld) -> None:
    await world.put(flow_with_status("f", {"a": ""}, {"a": "Running"}))
    fault = world.fails("GET", "/jobflows", None, times=None)
    tab = await world.open()
    await expect(tab.locator("#notice")).to_contain_text("The cluster does not answer")
    fault.times = 0
    await expect(tab.locator("#rows")).to_contain_text("f")
    await expect(tab.locator("#notice")).to_be_empty()


@asynccontextmanager
async def through(world: PageWorld) -> AsyncIterator[tuple[Hop, Page]]:
    """Open the list through a hop, with a clock that the test moves."""
    async with Hop(world.served) as hop:
        tab = await world.context.new_page()
        await tab.clock.install()
        async with tab.expect_response(lambda answer: "/stream?" in answer.url):
            await tab.goto(f"http://127.0.0.1:{hop.port}/flows")
        yield hop, tab
        await tab.close()


async def test_a_cut_connection_comes_back_with_what_has_changed(world: PageWorld) -> None:
    await world.put(flow_with_status("f", {"a": ""}, {"a": "Running"}))
    async with through(world) as (hop, tab):
        hop.go_dark()
        await world.write("f", status_of("f", {"a": "Failed"}, "Failed"))
        hop.light_up()
        await expect(tab.locator("#rows")).to_contain_text("Failed")
        await expect(tab.locator("#connection")).to_be_empty()


async def test_a_connection_that_is_lost_without_an_end_is_noticed(world: PageWorld) -> None:
    await world.put(flow_with_status("f", {"a": ""}, {"a": "Running"}))
    async with through(world) as (hop, tab):
        hop.go_dark()
        await tab.clock.fast_forward("01:00")
        await expect(tab.locator("#connection")).to_have_text("Connection lost. Reconnecting…")


async def test_a_page_whose_command_was_started_again_says_so(world: PageWorld) -> None:
    """The new command has another token, so the old page cannot go on."""
    async with Client(anonymous(world.server.url)) as client:
        async with served_page(client) as served:
            tab = await world.context.new_page()
            await tab.goto(served.new_link())
            await tab.wait_for_url("**/flows")
            await expect(tab.locator("#rows")).to_contain_text("No flows")
        async with served_page(client, port=served.port):
            await expect(tab.locator("#connection")).to_have_text(
                "This page has ended. Open the link that jobflow ui printed."
            )
        await tab.close()


async def test_a_page_whose_server_ended_says_so(world: PageWorld) -> None:
    async with Client(anonymous(world.server.url)) as client:
        async with served_page(client) as served:
            tab = await world.context.new_page()
            await tab.goto(served.new_link())
            await tab.wait_for_url("**/flows")
            await expect(tab.locator("#rows")).to_contain_text("No flows")
        await expect(tab.locator("#connection")).to_have_text("Connection lost. Reconnecting…")
    await tab.close()


async def test_actions_are_disabled_while_the_connection_is_lost(world: PageWorld) -> None:
    await world.put(flow_with_status("f", {"a": ""}, {"a": "Running"}))
    async with Hop(world.served) as hop:
        tab = await world.context.new_page()
        await tab.clock.install()
        async with tab.expect_response(lambda answer: "/stream?" in answer.url):
            await tab.goto(f"http://127.0.0.1:{hop.port}/flows/default/f")
        button = tab.get_by_role("button", name="Suspend", exact=True)
        hop.go_dark()
        await tab.clock.fast_forward("01:00")
        await expect(button).to_have_attribute("aria-disabled", "true")
        await button.click(force=True)
        await expect(tab.locator("#done")).to_contain_text("Connection lost")
        hop.light_up()
        await expect(button).not_to_have_attribute("aria-disabled", "true")
        await tab.close()
