"""The address of the forms of a page."""

from __future__ import annotations

from urllib.parse import urlencode

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

from jobflow.client.errors import CommandError, unreachable
from jobflow.core.admission.object_names import all_names
from jobflow.kube.client import NETWORK_ERRORS, Client
from jobflow.page.actions.offers import ACTIONS
from jobflow.page.actions.perform import perform
from jobflow.page.web.filters import flow_path
from jobflow.page.web.guard import HOME, BadForm, read_form
from jobflow.page.web.stream import Closing


def add_action_routes(app: FastAPI, client: Client, form_token: str, closing: Closing) -> None:
    """Serve the forms of a flow. An answer is JSON: `message`, and `link` to a new flow or
    `home`, the list to show instead of a deleted one; or `error`, a line for each fault."""

    async def act(request: Request, namespace: str, name: str, action: str) -> Response:
        try:
            fields = await read_form(request, form_token)
        except BadForm as error:
            return _refused(403, str(error))
        if action not in ACTIONS or not all_names([namespace, name]):
            return _refused(404, "there is no such action")
        try:
            with closing.event() as stop:
                done = await perform(client, namespace, name, action, fields, stop)
        except CommandError as error:
            return _refused(200, str(error))
        except NETWORK_ERRORS as error:
            return _refused(200, unreachable(error))
        link = flow_path(namespace, done.flow) if done.flow else ""
        home = f"{HOME}?{urlencode({'ns': namespace})}" if done.is_gone else ""
        return JSONResponse({"message": done.message, "link": link, "home": home})

    app.post(HOME + "/{namespace}/{name}/actions/{action}")(act)


def _refused(code: int, sentence: str) -> Response:
    """A refusal by the cluster is 200, because it is an answer to the user."""
    return JSONResponse({"error": sentence}, status_code=code)
