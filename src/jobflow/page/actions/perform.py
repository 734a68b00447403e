"""The forms of a page: each does what the command of the same name does."""

import asyncio
from collections.abc import Mapping
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.client.errors import INTERRUPTED, UNUSABLE, CommandError, unreachable
from jobflow.client.flows.find_flow import raise_unless_missing, to_flow
from jobflow.client.flows.follow import following
from jobflow.client.signals import run_unless
from jobflow.client.verbs.answer import APPROVE, REJECT, Answer, create_answer
from jobflow.client.verbs.command import cancel_first, delete_flow, refuse_delete, send_verb
from jobflow.client.verbs.copy import create_copy
from jobflow.core.admission.object_names import all_names
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.page.actions.offers import ACTIONS, VERBS
from jobflow.page.web.fragments import flow_path
from jobflow.page.web.guard import HOME, BadForm, read_form
from jobflow.page.web.stream import Closing


async def perform(
    client: Client,
    namespace: str,
    name: str,
    action: str,
    fields: Mapping[str, str],
    stop: asyncio.Event,
) -> dict[str, str]:
    """Do an action of ACTIONS to a flow, and return the answer to its form. Raises CommandError
    with its refusal, and NETWORK_ERRORS. An action that lasts is given up at `stop`."""
    # read anew: the page may be older, and the flow of this name another one
    raw = await _read(client, namespace, name)
    flow, subject, link, home = to_flow(raw), name, "", ""
    if action == "resubmit":
        new = fields.get("name", "").strip() or None
        subject = await create_copy(client, raw, _lines(fields.get("param", "")), new)
        link = flow_path(namespace, subject)
    elif action in ("delete", "cancel-and-delete"):
        await _delete(client, flow, stop, cancels=action != "delete")
        home = f"{HOME}?{urlencode({'ns': namespace})}"
    elif action in ("approve", "reject"):
        verb, subject = (APPROVE if action == "approve" else REJECT), fields.get("step", "")
        outputs = _lines(fields.get("output", ""))
        await create_answer(client, flow, Answer(verb, subject, fields.get("comment", ""), outputs))
    else:
        plain, field, full = VERBS[action]
        await send_verb(client, flow, full if fields.get(field) else plain)
    return {"message": ACTIONS[action].done.format(name=subject), "link": link, "home": home}


async def _delete(client: Client, flow: JobFlow, stop: asyncio.Event, *, cancels: bool) -> None:
    why = refuse_delete(flow)
    if why and not cancels:
        raise CommandError(UNUSABLE, why)
    if why:
        # the webhook refuses to delete a flow that has not ended
        await cancel_first(client, flow)
        async with following(client, [flow]) as follower:
            if not await run_unless(stop, follower.until(lambda each: each.all_final)):
                unfinished = "nothing was deleted; the flow is being cancelled"
                raise CommandError(INTERRUPTED, unfinished)
            if follower.deleted:
                return  # somebody else was faster
    await delete_flow(client, flow)


async def _read(client: Client, namespace: str, name: str) -> bytes:
    try:
        return await client.request("GET", JOBFLOWS.path(namespace, name))
    except ApiError as error:
        raise_unless_missing(error)
    missing = f'JobFlow "{name}" does not exist in namespace "{namespace}"'
    raise CommandError(UNUSABLE, missing)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def add_action_routes(app: FastAPI, client: Client, form_token: str, closing: Closing) -> None:
    """Serve the forms of a flow. An answer is JSON: `message`, and `link` to a new flow or
    `home`, the list to show instead of a deleted one; or `error`, a line for each fault."""

    async def act(request: Request, namespace: str, name: str, action: str) -> Response:
        try:
            fields = await read_form(request, form_token)
        except BadForm as error:
            return _refused(403, str(error))
        # the name becomes a part of a request to the cluster
        if action not in ACTIONS or not all_names([namespace, name]):
            return _refused(404, "there is no such action")
        try:
            # an action that waits for the end of a flow must not keep the server from ending
            with closing.event() as stop:
                answer = await perform(client, namespace, name, action, fields, stop)
        except CommandError as error:
            return _refused(200, str(error))  # an answer to the user, not an error of HTTP
        except NETWORK_ERRORS as error:
            return _refused(200, unreachable(error))
        return JSONResponse(answer)

    app.post(HOME + "/{namespace}/{name}/actions/{action}")(act)


def _refused(code: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=code)
