"""`jobflow cancel`: asks for a flow's end."""

from __future__ import annotations

from dataclasses import replace

from jobflow.api.command import Action
from jobflow.api.flow_status import CANCELLED
from jobflow.api.jobflow import JobFlow
from jobflow.cli.flows.send_command import Verb, over_already
from jobflow.cli.flows.wait import Until
from jobflow.core.planning.lifecycle import HALTS
from jobflow.core.text import format_command


def _is_cancelled(before: JobFlow, now: JobFlow) -> bool:
    return now.status.state.reason == CANCELLED


def _is_cancelled_now(before: JobFlow, now: JobFlow) -> bool:
    return now.status.finally_cancelled


def _not_to_cancel(flow: JobFlow) -> str:
    if why := _not_to_cancel_now(flow):
        return why
    if flow.status.state.reason not in HALTS:
        return ""
    now = format_command("jobflow cancel --now", flow.metadata)
    return f"{_ending(flow)} and its finally has run; {now} ends finally too"


def _not_to_cancel_now(flow: JobFlow) -> str:
    if over := over_already(flow):
        return over
    if flow.status.state.reason not in HALTS:
        return ""
    if flow.status.finally_cancelled:
        return f"{_ending(flow)}, and its finally is being cancelled too"
    return "" if flow.spec.finally_ else f"{_ending(flow)}, and it has no finally"


def _ending(flow: JobFlow) -> str:
    reason = flow.status.state.reason
    being = "cancelled" if reason == CANCELLED else f"ended ({reason})"
    return f"is already being {being} and is over once its jobs have ended"


CANCEL = Verb(
    name="cancel",
    doing="cancelling",
    action=Action.TERMINATE_JOB,
    refused=_not_to_cancel,
    until=Until("cancel", taken_up=_is_cancelled, done=lambda flow: flow.final),
)
CANCEL_NOW = replace(
    CANCEL,
    action=Action.TERMINATE_NOW,
    refused=_not_to_cancel_now,
    until=replace(CANCEL.until, taken_up=_is_cancelled_now),
)
