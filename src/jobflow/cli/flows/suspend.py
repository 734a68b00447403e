"""`jobflow suspend` and `jobflow resume`: ask for a flow to be stopped for a while, and carried
on."""

from __future__ import annotations

from dataclasses import replace

from jobflow.api.command import Action
from jobflow.api.flow_status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.jobflow import JobFlow
from jobflow.cli.exit_codes import FAULTY, FINE, complain
from jobflow.cli.flows.send_command import Verb, over_already
from jobflow.cli.flows.wait import Until, state_of
from jobflow.core.text import format_command

_AT_REST = frozenset({*ENDED_STEP_PHASES, StepPhase.WAITING, ""})
"""Phases of a step of which no job is there."""


def _is_suspended(before: JobFlow, now: JobFlow) -> bool:
    return now.status.suspended_at is not None


def _is_at_rest(flow: JobFlow) -> bool:
    """Whether nothing of the flow runs."""
    return all(each.phase in _AT_REST for each in (flow.status.conditions or {}).values())


def _settled(flow: JobFlow) -> bool:
    """Whether nothing runs any more, or it has been resumed meanwhile."""
    return flow.final or flow.status.suspended_at is None or _is_at_rest(flow)


def _code(flow: JobFlow) -> int:
    if flow.final or flow.status.suspended_at is not None:
        return FINE
    complain("suspend", f"JobFlow {flow.metadata.name} was resumed meanwhile")
    return FAULTY


def _not_to_suspend(flow: JobFlow) -> str:
    if flow.final or flow.status.suspended_at is None:
        return over_already(flow)
    abort = format_command("jobflow suspend --abort", flow.metadata)
    running = "" if _is_at_rest(flow) else f"; {abort} aborts what runs"
    resume = format_command("jobflow resume", flow.metadata)
    return f"is suspended already: {resume} lets it go on{running}"


def _not_to_abort(flow: JobFlow) -> str:
    suspended = not flow.final and flow.status.suspended_at is not None
    return _not_to_suspend(flow) if not suspended or _is_at_rest(flow) else ""


def _not_to_resume(flow: JobFlow) -> str:
    if over := over_already(flow):
        retry = format_command("jobflow retry", flow.metadata)
        return over if flow.status.state.phase == "Succeed" else f"{over}; {retry} takes it up anew"
    taken_up = bool(flow.status.state.phase)
    if flow.status.suspended_at is not None or (flow.spec.suspend and not taken_up):
        return ""
    return f"is not suspended: {state_of(flow)}"


SUSPEND = Verb(
    name="suspend",
    doing="suspending",
    action=Action.SUSPEND_FLOW,
    refused=_not_to_suspend,
    until=Until("suspend", taken_up=_is_suspended, done=_settled),
    code=_code,
)
SUSPEND_AND_ABORT = replace(SUSPEND, action=Action.ABORT_JOB, refused=_not_to_abort)
RESUME = Verb(
    name="resume",
    doing="resuming",
    action=Action.RESUME_JOB,
    refused=_not_to_resume,
    until=Until(
        "resume",
        taken_up=lambda before, now: (
            bool(now.status.state.phase) and now.status.suspended_at is None
        ),
        done=lambda flow: True,
    ),
)
