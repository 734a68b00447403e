"""`jobflow retry`: the Command that runs a Failed flow again, and when it makes no sense."""

from __future__ import annotations

from jobflow.api.command import Action
from jobflow.api.flow_status import FlowPhase
from jobflow.api.jobflow import JobFlow
from jobflow.cli.errors import FAILED, SUCCESS
from jobflow.cli.flows.send_command import Verb
from jobflow.cli.flows.wait import Goal, state_of
from jobflow.core.reasons import FlowReason
from jobflow.core.text import format_command


def _refusal(flow: JobFlow) -> str:
    phase = flow.status.state.phase
    if flow.status.state.reason == FlowReason.INVALID:
        return "is invalid, and a retry would fail again: delete it, correct it and apply it again"
    if phase == FlowPhase.FAILED:
        return ""
    if phase == FlowPhase.SUCCEED:
        return "has succeeded; to run it once more, delete it and apply it again"
    if flow.status.suspended_at is not None:
        return f"is suspended; {format_command('jobflow resume', flow.metadata)} resumes it"
    return (
        f"is {state_of(flow)}; only a Failed flow can be retried. "
        f"{format_command('jobflow why', flow.metadata)} explains what it waits for, "
        f"{format_command('jobflow cancel', flow.metadata)} cancels it"
    )


RETRY = Verb(
    name="retry",
    gerund="retrying",
    action=Action.RESTART_JOB,
    refusal=_refusal,
    goal=Goal(
        # a watch may skip versions, so the flow may already have finished again
        handled=lambda before, now: (
            not now.final or now.status.completion_time != before.status.completion_time
        ),
        reached=lambda flow: flow.final,
        is_lost=lambda flow: False,
    ),
    exit_code=lambda flow: SUCCESS if flow.status.state.phase == FlowPhase.SUCCEED else FAILED,
)
