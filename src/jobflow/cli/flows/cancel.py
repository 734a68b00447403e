"""`jobflow cancel`: the Commands that cancel a flow, and when they make no sense."""

from __future__ import annotations

from dataclasses import replace

from jobflow.api.command import Action
from jobflow.api.flow_status import CANCELLED
from jobflow.api.jobflow import JobFlow
from jobflow.cli.flows.send_command import Verb, finished_message
from jobflow.cli.flows.wait import Goal
from jobflow.core.planning.lifecycle import HALTS
from jobflow.core.text import format_command


def _cancel_refusal(flow: JobFlow) -> str:
    if why := _cancel_now_refusal(flow):
        return why
    if flow.status.state.reason not in HALTS:
        return ""
    now = format_command("jobflow cancel --now", flow.metadata)
    return f"{_halting(flow)} and its finally has run; {now} cancels finally too"


def _cancel_now_refusal(flow: JobFlow) -> str:
    if flow.final or flow.status.state.reason not in HALTS:
        return finished_message(flow)
    if flow.status.finally_cancelled:
        return f"{_halting(flow)}; its finally is being cancelled too"
    return "" if flow.spec.finally_ else f"{_halting(flow)}; it has no finally"


def _halting(flow: JobFlow) -> str:
    reason = flow.status.state.reason
    verb = "cancelled" if reason == CANCELLED else f"ended ({reason})"
    return f"is already being {verb} and finishes once its jobs have finished"


CANCEL = Verb(
    name="cancel",
    gerund="cancelling",
    action=Action.TERMINATE_JOB,
    refusal=_cancel_refusal,
    goal=Goal(
        handled=lambda before, now: now.status.state.reason == CANCELLED,
        reached=lambda flow: flow.final,
    ),
)
CANCEL_NOW = replace(
    CANCEL,
    action=Action.TERMINATE_NOW,
    refusal=_cancel_now_refusal,
    goal=replace(CANCEL.goal, handled=lambda before, now: now.status.finally_cancelled),
)
