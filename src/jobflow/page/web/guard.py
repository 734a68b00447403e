"""Who may ask for the page, which acts with the user's rights: only the browser that opened its
link, and only from this page. docs/security.md says against what each check protects."""

import re
import secrets
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

START = "/"
"""The path of the link, which has the token."""
HOME = "/flows"
"""The path that the link leads to."""
FORM_TOKEN = "form-token"
"""The name of the field that every form has."""
MAX_FORM = 64 * 1024
"""Bytes of a form."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")
"""Any port, so that a forwarded port of a remote machine works."""
_NOT_OPENED = "Open the link that `jobflow ui` printed: this browser has not opened it yet.\n"
_ENTRANCE = (
    "<!doctype html><html lang=en><title>JobFlow</title>"
    f'<meta http-equiv=refresh content="0; url={HOME}">'
    "<link rel=icon href=/static/icon.svg>"
)
"""Leads away from the address with the token. A redirect would not do: a browser that came from
another program's link sends no SameSite=Strict cookie along with it."""


class Guard:
    """Refuses requests, and adds headers to every answer. Wraps an ASGI app."""

    def __init__(self, app: ASGIApp) -> None:
        self.form_token = secrets.token_urlsafe(32)
        self._app = app
        self._links: dict[str, bool] = {}
        """Tokens, and whether each works only once."""
        self._cookie_name = f"jobflow-{secrets.token_hex(4)}"
        """The name is of this process alone: a browser sends cookies to all ports of a host."""
        self._cookie = secrets.token_urlsafe(32)

    def new_link(self, *, once: bool = False) -> str:
        """Return the path and query of a link that opens the page."""
        token = secrets.token_urlsafe(32)
        self._links[token] = once
        return f"{START}?token={token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        answer = self._refuse(request) or self._enter(request)
        if answer is None and not self._has_cookie(request):
            answer = PlainTextResponse(_NOT_OPENED, status_code=403)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _refuse(self, request: Request) -> Response | None:
        headers = request.headers
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        # a site whose name was made to lead to this address (DNS rebinding) has its own Host
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]):
            return PlainTextResponse("The page has another name.\n", status_code=403)
        is_entrance = request.url.path == START and request.method == "GET"
        is_write = request.method not in ("GET", "HEAD")
        # browsers send the Origin of each form
        if (origins or is_write) and origins != [f"http://{hosts[0]}"]:
            return PlainTextResponse("The request is from another site.\n", status_code=403)
        # As far as the browser says it. A page on another port of this host is the same site for
        # cookies, but not the same origin.
        site = headers.get("sec-fetch-site", "none")
        if not is_entrance and site not in ("none", "same-origin"):
            return PlainTextResponse("The request is from another site.\n", status_code=403)
        return None

    def _enter(self, request: Request) -> Response | None:
        if request.url.path != START or request.method != "GET":
            return None
        [token] = parse_qs(request.url.query).get("token", [""])[:1]
        # compared in constant time, so that an answer tells nothing about a token
        known = next((each for each in self._links if _is_equal(each, token)), None)
        if known is None:
            if self._has_cookie(request):
                return HTMLResponse(_ENTRANCE)
            return PlainTextResponse(_NOT_OPENED, status_code=403)
        # the arguments of a browser's process are seen by others on the machine
        if self._links[known]:
            del self._links[known]
        answer = HTMLResponse(_ENTRANCE)
        # strict: no other site makes a request with it
        answer.set_cookie(self._cookie_name, self._cookie, httponly=True, samesite="strict")
        return answer

    def _has_cookie(self, request: Request) -> bool:
        return _is_equal(request.cookies.get(self._cookie_name, ""), self._cookie)


def _is_equal(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode(), other.encode())


class BadForm(ValueError):
    """A form that this page did not make; the text is a sentence about it."""


async def read_form(request: Request, form_token: str) -> dict[str, str]:
    """Return the fields of a form. Every route that changes something reads its form by this
    function, because it checks that the page itself made the form. Raises BadForm."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip()
    if kind != "application/x-www-form-urlencoded":
        raise BadForm("a form has to be application/x-www-form-urlencoded")
    body = bytearray()
    async for chunk in request.stream():
        # counted while it comes, as a length may be missing or wrong
        body += chunk
        if len(body) > MAX_FORM:
            raise BadForm(f"a form may have {MAX_FORM} bytes")
    parsed = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    fields = {name: values[0] for name, values in parsed.items()}
    if not _is_equal(fields.pop(FORM_TOKEN, ""), form_token):
        raise BadForm("the form is not of this page: reload it")
    return fields
