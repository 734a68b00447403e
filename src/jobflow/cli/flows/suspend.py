"""`jobflow suspend` and `jobflow resume`: their Commands, and when they make no sense."""

from __future__ import annotations

from dataclasses import replace

from jobflow.api.command import Action
from jobflow.api.flow_status import ENDED_STEP_PHASES, FlowPhase, StepPhase
from jobflow.api.jobflow import JobFlow
from jobflow.cli.errors import FAILED, SUCCESS, print_error
from jobflow.cli.flows.send_command import Verb, finished_message
from jobflow.cli.flows.wait import Goal, state_of
from jobflow.core.text import format_command

_IDLE_PHASES = frozenset({*ENDED_STEP_PHASES, StepPhase.WAITING, ""})


def _is_suspended(flow: JobFlow) -> bool:
    return not flow.final and flow.status.suspended_at is not None


def _is_idle(flow: JobFlow) -> bool:
    conditions = (flow.status.conditions or {}).values()
    return all(condition.phase in _IDLE_PHASES for condition in conditions)


def _exit_code(flow: JobFlow) -> int:
    if flow.final or _is_suspended(flow):
        return SUCCESS
    print_error(f"JobFlow {flow.metadata.name} was resumed in the meantime")
    return FAILED


def _suspend_refusal(flow: JobFlow) -> str:
    if not _is_suspended(flow):
        return finished_message(flow)
    abort = format_command("jobflow suspend --abort", flow.metadata)
    running = "" if _is_idle(flow) else f", {abort} aborts its jobs"
    resume = format_command("jobflow resume", flow.metadata)
    return f"is already suspended; {resume} resumes it{running}"


def _abort_refusal(flow: JobFlow) -> str:
    can_abort = _is_suspended(flow) and not _is_idle(flow)
    return "" if can_abort else _suspend_refusal(flow)


def _resume_refusal(flow: JobFlow) -> str:
    phase = flow.status.state.phase
    if phase == FlowPhase.FAILED:
        retry = format_command("jobflow retry", flow.metadata)
        return f"{finished_message(flow)}; {retry} runs it again"
    created_suspended = flow.spec.suspend and not phase
    if flow.final or _is_suspended(flow) or created_suspended:
        return finished_message(flow)
    return f"is not suspended: {state_of(flow)}"


SUSPEND = Verb(
    name="suspend",
    gerund="suspending",
    action=Action.SUSPEND_FLOW,
    refusal=_suspend_refusal,
    goal=Goal(
        handled=lambda before, now: now.status.suspended_at is not None,
        reached=lambda flow: not _is_suspended(flow) or _is_idle(flow),
    ),
    exit_code=_exit_code,
)
SUSPEND_AND_ABORT = replace(SUSPEND, action=Action.ABORT_JOB, refusal=_abort_refusal)
RESUME = Verb(
    name="resume",
    gerund="resuming",
    action=Action.RESUME_JOB,
    refusal=_resume_refusal,
    goal=Goal(
        handled=lambda before, now: bool(now.status.state.phase) and not _is_suspended(now),
        reached=lambda flow: True,
    ),
)
