"""Who may ask for the page: every request that the page itself would not send is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from http.cookies import SimpleCookie
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from jobflow.page.web.guard import FORM_TOKEN, BadForm, Guard, read_form

BASE = "http://127.0.0.1:8217"
FORM = {"content-type": "application/x-www-form-urlencoded"}


class Page:
    """A page with one route that reads and one that writes, behind the guard."""

    def __init__(self) -> None:
        self.written: list[dict[str, str]] = []
        routes = [Route("/flows", self._read), Route("/act", self._write, methods=["POST"])]
        self.guard = Guard(Starlette(routes=routes))
        transport = httpx.ASGITransport(self.guard)
        self.client = httpx.AsyncClient(transport=transport, base_url=BASE)
        self.other = httpx.AsyncClient(transport=transport, base_url=BASE)
        """A browser that has not opened the link."""

    async def _read(self, request: Request) -> Response:
        return PlainTextResponse("flows")

    async def _write(self, request: Request) -> Response:
        try:
            self.written.append(await read_form(request, self.guard.form_token))
        except BadForm as error:
            return PlainTextResponse(str(error), status_code=403)
        return PlainTextResponse("done")

    async def post(self, fields: Mapping[str, str], **headers: str) -> httpx.Response:
        sent = {"origin": BASE} | {name.replace("_", "-"): text for name, text in headers.items()}
        return await self.client.post("/act", data=dict(fields), headers=sent)


@pytest.fixture
async def page() -> AsyncIterator[Page]:
    page = Page()
    async with page.client, page.other:
        yield page


@pytest.fixture
async def entered(page: Page) -> Page:
    answer = await page.client.get(page.guard.new_link())
    assert answer.status_code == 200
    return page


async def test_the_link_sets_a_cookie_that_no_script_and_no_other_site_gets(page: Page) -> None:
    answer = await page.client.get(page.guard.new_link())
    [cookie] = SimpleCookie(answer.headers["set-cookie"]).values()
    assert cookie["httponly"] and cookie["samesite"] == "strict"
    assert "url=/flows" in answer.text and "token" not in answer.text
    assert (await page.client.get("/flows")).text == "flows"


async def test_a_request_without_the_cookie_is_refused(page: Page) -> None:
    answer = await page.other.get("/flows")
    assert answer.status_code == 403
    assert "Open the link that `jobflow ui` printed" in answer.text


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=wrong", "/flows?token={}", "/?x={}"])
async def test_only_the_token_in_its_place_opens_the_page(page: Page, path: str) -> None:
    token = page.guard.new_link().partition("=")[2]
    answer = await page.other.get(path.format(token))
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


async def test_the_link_of_the_browsers_process_works_once(page: Page) -> None:
    link = page.guard.new_link(once=True)
    assert (await page.client.get(link)).status_code == 200
    assert (await page.other.get(link)).status_code == 403


async def test_a_wrong_cookie_is_refused(entered: Page) -> None:
    [name] = entered.client.cookies
    answer = await entered.other.get("/flows", headers={"cookie": f"{name}=guess"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil:8217", "10.0.0.1:8217", ""]
)
async def test_a_request_under_another_name_is_refused(entered: Page, host: str) -> None:
    """A site whose name resolves to 127.0.0.1 is not this page."""
    answer = await entered.client.get("/flows", headers={"host": host})
    assert answer.status_code == 403


@pytest.mark.parametrize("host", ["localhost:8217", "127.0.0.1:9000", "[::1]:8217"])
async def test_a_forwarded_port_of_this_machine_is_accepted(entered: Page, host: str) -> None:
    [(name, value)] = entered.client.cookies.items()
    headers = {"host": host, "cookie": f"{name}={value}"}
    assert (await entered.other.get("/flows", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_a_request_from_another_site_is_refused(
    entered: Page, headers: dict[str, str]
) -> None:
    assert (await entered.client.get("/flows", headers=headers)).status_code == 403


async def test_a_form_of_the_page_is_accepted(entered: Page) -> None:
    answer = await entered.post({FORM_TOKEN: entered.guard.form_token, "step": "a b"})
    assert (answer.text, entered.written) == ("done", [{"step": "a b"}])


@pytest.mark.parametrize(
    ("fields", "headers"),
    [
        ({}, {}),
        ({FORM_TOKEN: "guess"}, {}),
        ({FORM_TOKEN: "{}"}, {"origin": "http://evil.example"}),
        ({FORM_TOKEN: "{}"}, {"origin": ""}),
        ({FORM_TOKEN: "{}"}, {"sec_fetch_site": "same-site"}),
        ({FORM_TOKEN: "{}"}, {"content_type": "text/plain"}),
        ({FORM_TOKEN: "{}", "large": "x" * 70_000}, {}),
    ],
)
async def test_any_other_form_changes_nothing(
    entered: Page, fields: dict[str, str], headers: dict[str, str]
) -> None:
    filled = {name: text.format(entered.guard.form_token) for name, text in fields.items()}
    answer = await entered.post(filled, **headers)
    assert (answer.status_code, entered.written) == (403, [])


async def test_a_write_without_an_origin_is_refused(entered: Page) -> None:
    answer = await entered.client.post("/act", headers=FORM, content=b"")
    assert (answer.status_code, answer.text) == (403, "The request is from another site.\n")


@pytest.mark.parametrize("path", ["/flows", "/nothing", "/?token=wrong"])
async def test_every_answer_forbids_scripts_frames_and_copies(entered: Page, path: str) -> None:
    headers: Any = (await entered.client.get(path)).headers
    policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert {policy[f"{kind}-src"] for kind in ("script", "style", "img", "connect")} == {"'self'"}
    assert policy["form-action"] == "'self'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
