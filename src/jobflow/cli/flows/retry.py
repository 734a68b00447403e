"""`jobflow retry`: asks for a flow that has Failed to be taken up again from what failed."""

from __future__ import annotations

from jobflow.api.command import Action
from jobflow.api.flow_status import FlowPhase
from jobflow.api.jobflow import JobFlow
from jobflow.cli.exit_codes import FAULTY, FINE
from jobflow.cli.flows.send_command import Verb
from jobflow.cli.flows.wait import Until, state_of
from jobflow.core.reasons import FlowReason
from jobflow.core.text import format_command


def _not_to_retry(flow: JobFlow) -> str:
    phase = flow.status.state.phase
    if flow.status.state.reason == FlowReason.INVALID:
        return "was refused as invalid, and would be again: delete it, correct it and apply it anew"
    if phase == FlowPhase.FAILED:
        return ""
    if phase == FlowPhase.SUCCEED:
        return (
            "has succeeded, so there is nothing to retry; to run it once more, delete it and apply "
            "it again"
        )
    if flow.status.suspended_at is not None:
        resume = format_command("jobflow resume", flow.metadata)
        return f"is not over but suspended: {resume} lets it go on"
    return (
        f"has not Failed, it is {state_of(flow)}. Only a flow that has Failed is retried; "
        f"{format_command('jobflow why', flow.metadata)} says what it waits for, and "
        f"{format_command('jobflow cancel', flow.metadata)} ends it"
    )


def _is_taken_up(before: JobFlow, now: JobFlow) -> bool:
    """Whether it goes on, or has ended once more."""
    return not now.final or now.status.completion_time != before.status.completion_time


RETRY = Verb(
    name="retry",
    doing="retrying",
    action=Action.RESTART_JOB,
    refused=_not_to_retry,
    until=Until(
        "retry",
        taken_up=_is_taken_up,
        done=lambda flow: flow.final,
        too_late=lambda flow: False,
    ),
    code=lambda flow: FINE if flow.status.state.phase == FlowPhase.SUCCEED else FAULTY,
)
