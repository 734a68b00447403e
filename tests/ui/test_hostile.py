"""Texts of the cluster that would be scripts or links if the page took them for HTML."""

import pytest
from playwright.async_api import expect

from support.page.flows import flow_with_status
from support.page.page_world import PageWorld

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HOSTILE = (
    "<script>document.hacked=1</script>",
    '"><img src=x onerror="document.hacked=1">',
    "javascript:document.hacked=1",
    "</svg></template><img src=//evil.example/x onerror=document.hacked=1>",
    "`<b onclick=document.hacked=1>x</b>`",
)


@pytest.mark.parametrize("text", HOSTILE)
async def test_texts_are_shown_and_never_run(world: PageWorld, text: str) -> None:
    a = {"phase": "Failed", "reason": text, "message": text, "outputs": {text: text}}
    made = flow_with_status("f", {text: "", "b": text}, {text: a}, "Failed", reason=text)
    made["status"]["state"]["message"] = text
    made["metadata"]["annotations"] = {"note": text}
    await world.put(made)
    tab = await world.open("/flows")
    await expect(tab.locator("#rows .reason")).to_have_text(text)
    tab = await world.open("/flows/default/f")
    await expect(tab.locator(".node")).to_have_count(2)
    await tab.locator(".node").first.click()
    await expect(tab.locator("#step h2")).to_have_text(text)
    assert await tab.evaluate("document.hacked") is None
    assert await tab.locator("main img, main script, [onclick], [onerror]").count() == 0
    links = "[...document.querySelectorAll('a')].map(e => e.getAttribute('href'))"
    assert all(link.startswith(("/flows", "?", "#")) for link in await tab.evaluate(links))


@pytest.mark.parametrize(
    "address",
    [
        "/flows?ns=..%2F..%2F..%2F..%2Fapi%2Fv1",
        "/flows/stream?ns=x%3Flimit%3D1",
        "/flows/..%2F..%2Fapi/secrets",
        "/flows/default/a%2Cb",
        "/flows/default/A%20B/stream",
        "/flows/default/a%2Cb/logs",
        "/flows/..%2F..%2Fapi/secrets/logs.txt",
        "/static/..%2Fapp.py",
    ],
)
async def test_no_address_is_a_part_of_a_request_to_the_cluster(
    world: PageWorld, address: str
) -> None:
    before = len(world.server.requests)
    answer = await world.context.request.get(world.home + address)
    assert answer.status == 404
    assert [each.path for each in world.server.requests][before:] == []
