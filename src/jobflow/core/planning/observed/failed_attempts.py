"""The attempts of runs that failed before the present one, as the status keeps them."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from jobflow.api.flow.status import (
    FailedAttempt,
    RunCondition,
    StepCondition,
    StepFailure,
    StepPhase,
)
from jobflow.core.reasons import StepReason

MOST_OF_RUN, MOST_OF_FLOW = 3, 50
_EARLY = datetime.min.replace(tzinfo=UTC)
_UNKNOWN = StepFailure()
_ENDED_BY_USERS = frozenset({StepReason.RETRYING, StepReason.SUSPENDED})
"""Reasons of attempts that users have ended, and that run again."""


def with_failed_attempt(end: RunCondition) -> list[FailedAttempt] | None:
    """Return the failed attempts of a run that is tried again after this end."""
    before = end.failed_attempts or []
    is_new = not before or before[-1].attempt != end.attempts
    has_runs = isinstance(end, StepCondition) and end.runs
    # a run that failed before it began had no attempt
    has_begun = end.attempts > end.past_attempts
    has_failed = end.phase == StepPhase.FAILED and end.reason not in _ENDED_BY_USERS
    if not (has_failed and is_new and has_begun) or has_runs:
        return end.failed_attempts
    pod = end.failure or _UNKNOWN
    failed = FailedAttempt(
        attempt=end.attempts,
        exit_code=pod.exit_code,
        signal=pod.signal,
        reason=pod.reason or end.reason,
        node=pod.node,
        message=pod.message,
        time=end.last_transition_time,
    )
    return [*before, failed][-MOST_OF_RUN:]


def keep_newest(conditions: Mapping[str, StepCondition]) -> dict[str, StepCondition]:
    """Return the conditions with the last MOST_OF_FLOW failed attempts."""
    runs = [run for each in conditions.values() for run in each.runs or (each,)]
    found = [failed for run in runs for failed in run.failed_attempts or ()]
    if len(found) <= MOST_OF_FLOW:
        return dict(conditions)
    found.sort(key=lambda failed: failed.time or _EARLY)
    dropped = {id(failed) for failed in found[:-MOST_OF_FLOW]}

    def newest(run: RunCondition) -> list[FailedAttempt] | None:
        return [each for each in run.failed_attempts or () if id(each) not in dropped] or None

    replace, kept = msgspec.structs.replace, {}
    for key, step in conditions.items():
        runs = [replace(run, failed_attempts=newest(run)) for run in step.runs or ()]
        kept[key] = replace(step, runs=runs or step.runs, failed_attempts=newest(step))
    return kept
