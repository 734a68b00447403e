"""The ASGI app of the page: its addresses, and what answers them."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from jobflow.core.admission.object_names import all_names
from jobflow.page.action_forms import ACTIONS
from jobflow.page.actions import add_action_routes
from jobflow.page.flow_view import FlowQuery
from jobflow.page.logs.routes import add_log_routes
from jobflow.page.panels.flow_list import ALL_NAMESPACES, ListQuery, list_fragments
from jobflow.page.panels.flow_page import flow_fragments
from jobflow.page.watches.flows import list_namespaces, summaries
from jobflow.page.watches.live import Watches
from jobflow.page.watches.readings import read_job
from jobflow.page.watches.step import live_page
from jobflow.page.web.fragments import Fragment, phase_styles, render_page
from jobflow.page.web.guard import HOME, Guard
from jobflow.page.web.stream import Closing, Pages, updates

_STATIC = Path(__file__).parent / "static"
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class View:
    """A page for one request: the watch that it needs, and how it is drawn from it."""

    title: str
    template: str
    watch: AbstractAsyncContextManager[Any]
    """Provides what `draw` gets, whose `changed` is a Signal."""
    draw: Callable[[Any], Iterable[Fragment]]
    """Returns the fragments, of which the template shows each by its id."""


class NoSuchName(Exception):
    """A name that no object can have, and that must not get into a request to the cluster."""


async def answer_no_such_name(request: Request, error: Exception) -> Response:
    return PlainTextResponse("No namespace or flow can have this name.\n", status_code=404)


async def check_names(request: Request) -> None:
    """Raise NoSuchName if an object of the address of a request could not have its name."""
    found = {**request.query_params, **request.path_params}
    names = [found.get("ns", ""), found.get("namespace", "")]
    if "namespace" in request.path_params:
        names.append(found["name"])
    if not all_names([name for name in names if name not in ("", ALL_NAMESPACES)]):
        raise NoSuchName


class PageApp:
    """The page of one cluster. `guard` is the ASGI app to serve."""

    def __init__(self, watches: Watches, *, namespace: str = "") -> None:
        """`namespace`: whose flows the list shows at first, or ALL_NAMESPACES. Default: that of the
        kubeconfig."""
        self.watches = watches
        self.closing = Closing()
        """Ends the streams, which would otherwise last as long as the pages are open."""
        self._pages = Pages()
        self._namespace = namespace or watches.client.namespace
        # no page describes the addresses: they are for this page's own scripts alone
        app = FastAPI(openapi_url=None, dependencies=[Depends(check_names)])
        app.exception_handler(NoSuchName)(answer_no_such_name)
        app.get(HOME)(self.list_flows)
        app.get(f"{HOME}/stream")(self.stream_flows)
        app.get(HOME + "/{namespace}/{name}")(self.show_flow)
        app.get(HOME + "/{namespace}/{name}/stream")(self.stream_flow)
        self.guard = Guard(app)
        # these may last, so that they need `closing` to end with the server
        add_log_routes(app, watches, self.closing)
        add_action_routes(app, watches.client, self.guard.form_token, self.closing)
        app.get(HOME + "/{namespace}/{name}/job")(self.show_job)
        app.get("/static/phases.css")(phases_css)
        app.get("/static/{name}")(static_file)
        # browsers ask for it whatever a document says
        app.get("/favicon.ico")(partial(static_file, "icon.svg"))
        self.app = app

    async def list_flows(self, request: Request) -> Response:
        query = ListQuery.of(request.query_params, self._namespace)
        view = self._list(request)
        namespaces = await list_namespaces(self.watches.client, query.namespace)
        choices = [*namespaces, ALL_NAMESPACES]
        return await self._document(view, query=query, namespaces=choices)

    async def stream_flows(self, request: Request) -> Response:
        return self._stream(request, self._list(request))

    async def show_flow(self, request: Request, namespace: str, name: str) -> Response:
        view = self._flow(request, namespace, name)
        actions = ACTIONS.values()
        return await self._document(view, namespace=namespace, name=name, actions=actions)

    async def stream_flow(self, request: Request, namespace: str, name: str) -> Response:
        return self._stream(request, self._flow(request, namespace, name))

    async def show_job(self, request: Request, namespace: str) -> Response:
        name = request.query_params.get("job", "")
        return PlainTextResponse(await read_job(self.watches.client, namespace, name))

    def _list(self, request: Request) -> View:
        query = ListQuery.of(request.query_params, self._namespace)
        watch = summaries(self.watches, query.namespace)
        return View("Flows", "list.html", watch, lambda live: list_fragments(live, query))

    def _flow(self, request: Request, namespace: str, name: str) -> View:
        query = FlowQuery.of(request.query_params)
        watch = live_page(self.watches, namespace, name, query.step)
        return View(name, "flow.html", watch, lambda page: flow_fragments(page, query))

    async def _document(self, view: View, **values: Any) -> Response:
        async with view.watch as live:
            # drawn while the watch is held: the cluster has answered, or was waited for long enough
            fragments = list(view.draw(live))
        text = render_page(
            view.template,
            fragments,
            title=view.title,
            page=self._pages.add(fragments),
            form_token=self.guard.form_token,
            **values,
        )
        return HTMLResponse(text)

    def _stream(self, request: Request, view: View) -> Response:
        # the browser sends the header only when it connects again by itself
        last = request.headers.get("last-event-id") or request.query_params.get("last", "")
        shown = self._pages.find(request.query_params.get("page_id", ""), last)

        async def body() -> AsyncIterator[bytes]:
            async with view.watch as live:
                events = updates(lambda: view.draw(live), shown, [live.changed], self.closing)
                async with aclosing(events):
                    async for event in events:
                        yield event

        return StreamingResponse(body(), media_type="text/event-stream")


async def phases_css() -> Response:
    return Response(phase_styles(), media_type=_TYPES[".css"])


async def static_file(name: str) -> Response:
    # compared by name, so that no part of a path reaches the file system
    path = next((path for path in _STATIC.iterdir() if path.name == name), None)
    if path is None:
        return PlainTextResponse("There is no such file.\n", status_code=404)
    return Response(path.read_bytes(), media_type=_TYPES[path.suffix])
