"""The actions of a user on a flow: buttons, why some are refused at present, and the forms of their
dialogs, which do what the commands of the same names do."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.api.volcano.command import Command
from jobflow.client.errors import FAILED, INTERRUPTED, UNUSABLE, CommandError, unreachable
from jobflow.client.flows.find_flow import find_outermost, read_flow, state_of, to_flow
from jobflow.client.flows.follow import following
from jobflow.client.manifests.flag_values import parse_params
from jobflow.client.signals import run_unless
from jobflow.client.verbs import by_hand
from jobflow.client.verbs import command as verbs
from jobflow.client.verbs.answer import APPROVE, REJECT, create_answer, outputs_annotation
from jobflow.client.verbs.copy import check_copy, create_checked
from jobflow.client.verbs.reuse import choice_of, preview_reuse
from jobflow.core.admission.object_names import all_names
from jobflow.core.spec.readiness import has_tolerated_failures
from jobflow.core.text import format_command, format_duration
from jobflow.core.timelines.runs_again import (
    RunsAgain,
    describe_own_jobs,
    find_own_jobs,
    list_runs_again,
    sum_lost,
)
from jobflow.core.timelines.spans import runs_of
from jobflow.core.work import ends_in_status
from jobflow.kube.client import NETWORK_ERRORS, Client
from jobflow.page.action_forms import ACTIONS, BY_HAND_VERBS
from jobflow.page.web.fragments import flow_path, value_text
from jobflow.page.web.guard import HOME, BadForm, read_form
from jobflow.page.web.stream import Closing

MAX_AGAIN = 50
"""Steps that the dialog of a retry lists; the others are counted."""
MAX_VALUE = 200
"""Characters of the value of a param that the dialog of a resubmit shows."""
PREVIEWS: Mapping[str, str] = {
    f"{name}-preview": name for name, each in ACTIONS.items() if each.previews is not None
}
"""The actions whose effect is asked with the same form, which changes nothing."""
VERBS: Mapping[str, tuple[verbs.Verb, str, verbs.Verb]] = {
    "suspend": (verbs.SUSPEND, "abort", verbs.SUSPEND_AND_ABORT),
    "cancel": (verbs.CANCEL, "now", verbs.CANCEL_NOW),
    "resume": (verbs.RESUME, "", verbs.RESUME),
    "retry": (verbs.RETRY, "", verbs.RETRY),
    "retry-tolerated": (verbs.RETRY_TOLERATED, "", verbs.RETRY_TOLERATED),
}
"""The Command of an action, a field, and the Command if that field is set."""
_RETRIES = {"retry": False, "retry-tolerated": True}
"""The actions that retry a flow, and whether tolerated failures run again too."""


def list_offers(
    flow: JobFlow, children: Mapping[str, JobFlow], now: datetime, *, is_deleted: bool
) -> dict[str, Any]:
    """Return the buttons for a flow as it is now, of two that exclude each other the one that fits.
    `children`: the flows below it, by name; `is_deleted`: nothing can be done to it any more."""
    is_suspended = not _refuse_verb("resume", flow)
    names = (
        "resume" if is_suspended else "suspend",
        "cancel",
        "retry",
        *(("retry-tolerated",) if flow.final and has_tolerated_failures(flow) else ()),
        "resubmit",
        "cancel-and-delete" if verbs.refuse_delete(flow) else "delete",
    )
    # its last state stays on the page, and would offer what cannot be done
    gone = f"JobFlow {flow.metadata.name} was deleted" if is_deleted else ""
    buttons = []
    for name in names:
        refusal = gone or _refusal(name, flow)
        again: Sequence[RunsAgain] = ()
        if name in _RETRIES and not refusal:
            again = list_runs_again(flow, children, now, tolerated=_RETRIES[name])
        button = {
            "name": name,
            "label": ACTIONS[name].label,
            "refusal": refusal,  # the button is disabled, but says why
            "note": _describe_retry(flow, again) if again else "",
            "again": again[:MAX_AGAIN],
            "more": max(0, len(again) - MAX_AGAIN),
            "lost": sum_lost(again),
            "params": (),
            "preset": "reuse" if name == "resubmit" and _keeps_results(flow, children) else "",
        }
        if name == "resubmit" and not refusal:
            params = flow.spec.params or ()
            button["params"] = [(each.name, value_text(each.value, MAX_VALUE)) for each in params]
        elif name in ("delete", "cancel-and-delete"):
            button["note"] = verbs.note_on_delete(flow)
        buttons.append(button)
    return {"buttons": buttons, "has_finally": bool(flow.spec.finally_)}


def _describe_retry(flow: JobFlow, again: Sequence[RunsAgain]) -> str:
    """Return of which versions the jobs of a retry are made, in sentences."""
    places = {each.place for each in again}
    jobs = [step for step in flow.all_steps if step.name in places and not ends_in_status(step)]
    place = "" if flow.metadata.namespace in ("", "default") else f" -n {flow.metadata.namespace}"
    own = find_own_jobs(flow, again)
    sentences = []
    if any(step.name not in own for step in jobs):
        sentences.append(
            "Jobs are made from the current versions of their templates: "
            f"`jobflow submit FILE --templates{place}` changes them before the retry."
        )
    return " ".join((*sentences, describe_own_jobs(flow, own))).strip()


def _keeps_results(flow: JobFlow, children: Mapping[str, JobFlow]) -> bool:
    """Return whether a flow failed, and has results that a new one may reuse."""
    conditions = (found.status.conditions or {} for found in (flow, *children.values()))
    runs = (run for found in conditions for each in found.values() for run in runs_of(each))
    is_failed = flow.status.state.phase == FlowPhase.FAILED
    return is_failed and any(run.fingerprint and run.phase == StepPhase.COMPLETED for run in runs)


def _refusal(name: str, flow: JobFlow) -> str:
    """Return the first sentence of a refusal, with the phase in place of all that the page says of
    the state of the flow, and with the buttons in place of their commands."""
    why = ""
    if name in VERBS:
        why = _refuse_verb(name, flow)
    elif name == "resubmit" and flow.is_child:
        see = format_command("jobflow get", flow.metadata)
        why = f"JobFlow {flow.metadata.name} is a child flow, which its parent creates; see {see}"
    why = why.replace(state_of(flow), flow.status.state.phase or FlowPhase.PENDING)
    # the sentence is one for terminals
    for each in ("resume", "retry", "retry-tolerated", "resubmit"):
        line = ACTIONS[each].line or each
        why = why.replace(format_command(f"jobflow {line}", flow.metadata), ACTIONS[each].label)
    return why.partition(". ")[0]


def _refuse_verb(name: str, flow: JobFlow) -> str:
    plain, _, full = VERBS[name]
    return verbs.refuse(flow, plain) and verbs.refuse(flow, full)


async def perform(
    client: Client,
    namespace: str,
    name: str,
    action: str,
    fields: Mapping[str, str],
    stop: asyncio.Event,
) -> dict[str, Any]:
    """Do an action of ACTIONS to a flow, and return the answer to its form. Raises CommandError
    with its refusal, and NETWORK_ERRORS. An action that lasts is given up at `stop`."""
    # read anew: the page may be older, and the flow of this name another one
    raw = await read_flow(client, name, namespace)
    if action in PREVIEWS:
        return await _preview(client, raw, PREVIEWS[action], fields)
    flow, subject, goes_to, warned = to_flow(raw), name, "", ""
    if action == "resubmit":
        new = fields.get("name", "").strip() or None
        reuse = choice_of(flow) if fields.get("reuse") else None
        report = check_copy(raw, parse_params(_lines(fields.get("param", ""))), new, reuse)
        warned = "".join(f" {each.sentence}." for each in report.flag_warnings)
        subject = (await create_checked(client, report)).metadata.name
        goes_to = flow_path(namespace, subject)
    elif action in ("delete", "cancel-and-delete"):
        await _delete(client, flow, stop, cancels=action != "delete")
        goes_to = f"{HOME}?{urlencode({'ns': namespace})}"
    elif action in ("approve", "reject"):
        verb, subject = (APPROVE if action == "approve" else REJECT), fields.get("step", "")
        # first: a wrong value is wrong whatever the state of the step
        annotations = outputs_annotation(_lines(fields.get("output", "")))
        comment = fields.get("comment", "")
        await create_answer(client, flow, verb, subject, comment=comment, annotations=annotations)
    elif action in BY_HAND_VERBS:
        subject = fields.get("step", "")
        outermost, asked, _ = await _check_steps(client, flow, action, fields)
        await by_hand.send_steps(client, outermost, BY_HAND_VERBS[action], asked)
    else:
        plain, field, full = VERBS[action]
        await verbs.send_verb(client, flow, full if fields.get(field) else plain)
    done = ACTIONS[action].done.format(name=subject)
    return {"message": f"{done}{warned}", "goesTo": goes_to}


async def _preview(
    client: Client, raw: bytes, action: str, fields: Mapping[str, str]
) -> dict[str, Any]:
    """Return the effect of an action as the rows of a table, and a note below it."""
    if action in BY_HAND_VERBS:
        fields = {**fields, "parallelism": fields.get("parallelism") or "1"}  # the effect of any
        _, _, effect = await _check_steps(client, to_flow(raw), action, fields)
        return effect
    reuse = choice_of(to_flow(raw))
    report = check_copy(raw, parse_params(_lines(fields.get("param", ""))), None, reuse)
    if report.faults:
        raise CommandError(FAILED, "\n".join(each.sentence for each in report.faults))
    found = await preview_reuse(client, report, reuse)
    runs = [(row.place, f"runs: {row.why}") for row in found.runs()]
    more = f"{len(runs) - MAX_AGAIN} more run. " if len(runs) > MAX_AGAIN else ""
    rows = [*((step, "reused") for step in found.reused()), *runs[:MAX_AGAIN]]
    warned = "".join(f"{each.sentence}. " for each in report.flag_warnings)
    return {"head": [], "rows": rows, "note": warned + more + " ".join(found.about_claims())}


async def _check_steps(
    client: Client, flow: JobFlow, action: str, fields: Mapping[str, str]
) -> tuple[JobFlow, Command, dict[str, Any]]:
    """Return the outermost flow, the Command to it, and its effect. Raises CommandError."""
    verb, path = BY_HAND_VERBS[action], fields.get("step", "")
    flow, _ = await find_outermost(client, flow)
    outputs = outputs_annotation(_lines(fields.get("output", "")))
    if verb is by_hand.SCALE_FLOW:
        number = fields.get("parallelism", "").strip()
        if not number.isdecimal() or not number.strip("0"):
            raise CommandError(UNUSABLE, "Items at once: write a whole number of 1 or more")
        path = f"{path}={number}"
    asked = by_hand.read_command(verb, [path], fields.get("comment", ""), outputs)
    if verb is by_hand.SCALE_FLOW:
        most = await by_hand.check_scale(client, flow, asked)
        now = "any number" if most is None else most
        note = f"At present, {now} of its items may run at once."
        return flow, asked, {"rows": [], "note": note}
    touched = await by_hand.check_steps(client, flow, verb, asked)
    rows = [
        (each.title, each.phase, format_duration(each.lost) if each.lost is not None else "")
        for each in touched[:MAX_AGAIN]
    ]
    more = len(touched) - MAX_AGAIN
    note = f"{more} more run again." if more > 0 else ""
    head = ["Step", "Phase", *(["Completed jobs ran"] if any(row[2] for row in rows) else [])]
    return flow, asked, {"head": head, "rows": rows, "note": note}


async def _delete(client: Client, flow: JobFlow, stop: asyncio.Event, *, cancels: bool) -> None:
    why = verbs.refuse_delete(flow)
    if why and not cancels:
        raise CommandError(UNUSABLE, why)
    if why:
        # the webhook refuses to delete a flow that has not ended
        await verbs.cancel_first(client, flow)
        async with following(client, [flow]) as follower:
            if not await run_unless(stop, follower.until(lambda each: each.all_final)):
                unfinished = "nothing was deleted; the flow is being cancelled"
                raise CommandError(INTERRUPTED, unfinished)
            if follower.deleted:
                return  # somebody else was faster
    await verbs.delete_flow(client, flow)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def add_action_routes(app: FastAPI, client: Client, form_token: str, closing: Closing) -> None:
    """Serve the forms of a flow. An answer is JSON: `message`, and `goesTo`, the address of a new
    flow, or of the list instead of a deleted one; or `error`, a line for each fault. That of a
    preview is `head`, `rows` and `note`, or `error`."""

    async def act(request: Request, namespace: str, name: str, action: str) -> Response:
        try:
            fields = await read_form(request, form_token)
        except BadForm as error:
            return _refused(403, str(error))
        # the name becomes a part of a request to the cluster
        if action not in (*ACTIONS, *PREVIEWS) or not all_names([namespace, name]):
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
