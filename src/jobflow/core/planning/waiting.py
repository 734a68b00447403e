"""Conditions of steps and runs that wait, with the reason and the message why.

Callers decide why: `flow` for a quota and for room, `runs` for a vcjob, `steps` for targets.
"""

from datetime import datetime
from typing import Any, overload

import msgspec

from jobflow.api.flow.status import RunCondition, StepCondition, StepPhase
from jobflow.core.planning.observed.steps import NOTHING, ObservedRun, ObservedStep
from jobflow.core.text import shorten

_WAITING = StepPhase.WAITING.value


@overload
def wait(
    run: ObservedStep, reason: str, message: str, until: datetime | None = None
) -> StepCondition: ...
@overload
def wait(
    run: ObservedRun, reason: str, message: str, until: datetime | None = None
) -> RunCondition: ...
def wait(
    run: ObservedRun, reason: str, message: str, until: datetime | None = None
) -> RunCondition:
    """Return the condition of a run that waits for an attempt. It keeps what is not about a single
    attempt."""
    stored, attempts = run.stored, run.attempts
    still = stored.phase == _WAITING and stored.reason == reason
    message = shorten(message)
    if still and not attempts and stored.message == message and stored.next_attempt_time == until:
        return stored
    if stored is NOTHING and not attempts:
        return StepCondition(
            phase=_WAITING,
            reason=reason,
            message=message,
            next_attempt_time=until,
            last_transition_time=run.now,
        )
    condition = msgspec.structs.replace(
        stored,
        index=run.index,
        phase=_WAITING,
        reason=reason,
        message=message,
        job=run.job_name if run.started else stored.job,
        attempts=attempts,
        next_attempt_time=until,
        last_transition_time=stored.last_transition_time if still else run.now,
        create_time=None,
        running_duration="",
        task_status_count=None,
        deadline=None,
        abort_time=None,
        outputs=None,
    )
    return stored if stored == condition else condition


def wait_between_attempts(run: ObservedRun, end: RunCondition, **changes: object) -> RunCondition:
    """Return the condition of a run that waits for its next attempt after this end."""
    return msgspec.structs.replace(
        run.new_condition(phase=_WAITING, last_transition_time=run.now),
        failures=end.failures,
        disruptions=end.disruptions,
        avoid_nodes=end.avoid_nodes,
        failure=end.failure,
        job=end.job,
        attempts=end.attempts,
        requested_hours=end.requested_hours,
        **changes,
    )


def postpone(condition: StepCondition, **changes: Any) -> StepCondition:
    """Return the condition of a step that would start now, if it waits instead."""
    return msgspec.structs.replace(
        condition, phase=StepPhase.WAITING, last_transition_time=None, **changes
    )
