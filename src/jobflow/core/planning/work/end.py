"""Conditions of a run while the object of its attempt exists, until when it may run, and how it has
ended.

A kind of work says what it knows of the end (`AttemptEnd`). An aborted run ends for the stored
reason, with an exception: after a suspension, or if it is not needed any more, only an Aborted
vcjob does, because one that ends Failed or Terminated has failed by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from jobflow.api import labels
from jobflow.api.duration import parse_duration
from jobflow.api.flow.by_hand import ByHand
from jobflow.api.flow.status import RequestedHours, RunCondition, StepFailure, StepPhase
from jobflow.api.volcano.command import Action
from jobflow.api.volcano.job import Job, JobPhase, TaskState
from jobflow.api.volcano.pod import PodPhase
from jobflow.core.planning.actions import PodWarning
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import RunDecision
from jobflow.core.planning.observed.identity import pack_uid
from jobflow.core.planning.observed.job_history import before_its_end
from jobflow.core.planning.observed.steps import ObservedRun
from jobflow.core.planning.work.abort import aborted
from jobflow.core.pods.failure import describe_end, find_obstacle, has_waiting_pods, is_starting
from jobflow.core.pods.outputs import OutputsTooLarge
from jobflow.core.reasons import BY_HAND, StepReason, ordered
from jobflow.core.text import MAX_MESSAGE, format_count, format_go_duration, shorten
from jobflow.core.timestamps import add, ceil_to_second
from jobflow.core.work import work_of_object

SECOND = timedelta(seconds=1)
OBSTACLE_SHOWN = timedelta(seconds=5)
"""Time after which a step says that a pod cannot start: many a first try fails."""
CANNOT_START = "cannot start pod "
"""Begin of the message of a step whose job has a pod that cannot start."""
MOST_ASKED = 3
"""Most pods of a vcjob, which do not say why they do not start, that Events are asked about."""
MOST_AVOIDED = 10
"""Most nodes that an attempt avoids."""

_FAILS_BY_ITSELF = (StepReason.SUSPENDED, StepReason.NOT_NEEDED)
"""Reasons of an abort after which a vcjob that is not Aborted has failed by itself."""

Outputs = dict[str, object]
T = TypeVar("T")


class AttemptEnd(NamedTuple):
    """The facts about an attempt whose object has ended."""

    reason: str = ""
    """Why it failed; "" if it did not."""
    detail: str = ""
    """Details of the failure, for the message."""
    failure: StepFailure | None = None
    within: StepFailure | None = None
    """The failure, if it is that of a step of the work itself."""
    outputs: Outputs | OutputsTooLarge | None = None
    missing: str = ""
    """Why outputs that another step needs are not known, else ""."""
    counts: dict[str, TaskState] | None = None
    """Its pods by task and phase."""
    failed_on: frozenset[str] = frozenset()
    """The nodes on which its pods failed."""
    hours: RequestedHours | None = None
    """The requested hours of the run, with those of this attempt."""
    flow_error: bool = False
    """Whether it failed by an error of a flow itself."""


def ended(run: ObservedRun, job: Job, end: AttemptEnd, ctx: PlanContext) -> RunCondition:
    """Return the condition of a run whose attempt has ended."""
    reason, message, outputs = end.reason, "", end.outputs
    if reason:
        head = f"the {work_of_object(job).noun} {job.metadata.name} ended {job.phase}"
        message = name_cause(head, end.detail, end.within)
    if reason and is_aborted(run, job):
        reason = run.stored.reason
        message = aborted(reason, message, run, ctx)
    phase, failure = ends_as(reason), end.failure
    if phase == StepPhase.SKIPPED:
        outputs = failure = None
    if isinstance(outputs, OutputsTooLarge):
        excess = f"the outputs of {run.step.name} {outputs}"
        outputs = None
        if not reason:
            phase, reason = StepPhase.FAILED, StepReason.OUTPUTS_TOO_LARGE
        message = f"{message}; {excess}" if message else excess
    if end.missing and phase == StepPhase.COMPLETED and not reason:
        reason = StepReason.OUTPUTS_MISSING
        message = f"its outputs could not be read: {end.missing}"
    if phase == StepPhase.COMPLETED and end.counts and not (reason or message):
        message = describe_failed_pods(end.counts)
    lasted = ""  # in place of Volcano's runningDuration, which may come with a later event
    begin, since = job.metadata.creation_timestamp, job.status.state.last_transition_time
    if begin is not None and since is not None:
        lasted = format_go_duration(since - begin)
    condition = run.new_condition(
        phase=phase,
        reason=reason,
        message=shorten(message),
        create_time=begin,
        running_duration=job.status.running_duration or lasted,
        task_status_count=end.counts,
        job=job.metadata.name,
        attempts=run.attempts,
        last_transition_time=since,
        failure=failure,
        flow_error=end.flow_error,
        outputs=outputs,
        # the hours of a lost job were added when it was not found
        requested_hours=run.stored.requested_hours if run.between_attempts else end.hours,
    )
    avoided, retry = None, run.step.retry
    if phase == StepPhase.FAILED and retry is not None and retry.avoid_nodes:
        before = [node for node in run.stored.avoid_nodes or () if node not in end.failed_on]
        avoided = [*before, *sorted(end.failed_on - {""})][-MOST_AVOIDED:] or None
    made = (job.metadata.annotations or {}).get(labels.FINGERPRINT, "")
    return msgspec.structs.replace(
        condition, avoid_nodes=avoided, fingerprint=made if phase == StepPhase.COMPLETED else ""
    )


def own_end(
    run: ObservedRun,
    phase: StepPhase,
    reason: str,
    message: str,
    attempts: int | None = None,
    **fields: Any,
) -> RunCondition:
    """Return the end of a run whose attempts have no objects. `attempts`: the number of them, if
    another one begins now."""
    return run.new_condition(
        phase=phase,
        reason=reason,
        message=shorten(message),
        attempts=run.attempts if attempts is None else attempts,
        requested_hours=run.stored.requested_hours,
        **fields,
    )


def ended_by_hand(run: ObservedRun, order: ByHand, ctx: PlanContext) -> dict[str, Any]:
    """Return the fields of the end of a run that a user has given up or skipped."""
    reason: str = BY_HAND[order.action]
    message = f"it was {ordered(order)}"
    fields: dict[str, Any] = {
        "phase": StepPhase.FAILED,
        "reason": reason,
        "message": shorten(message),
    }
    if order.action == Action.SKIP_STEP:
        outputs = take_outputs(f"{run.key} by hand", lambda: order.outputs, ctx)
        if isinstance(outputs, OutputsTooLarge):
            message = shorten(f"{message}; the outputs of {run.step.name} {outputs}")
            return fields | {"reason": StepReason.OUTPUTS_TOO_LARGE, "message": message}
        fields |= {"phase": StepPhase.SKIPPED, "outputs": outputs, "failure": None}
    return fields | {"next_attempt_time": None}


def ends_as(reason: str) -> StepPhase:
    """Return the phase of a run that ends for this reason; "" is success."""
    if reason == StepReason.NOT_NEEDED:
        return StepPhase.SKIPPED
    well = not reason or reason == StepReason.DAEMON_ENDED
    return StepPhase.COMPLETED if well else StepPhase.FAILED


def is_aborted(run: ObservedRun, job: Job) -> bool:
    """Return whether the end of an attempt that has failed is the abort that is recorded."""
    if run.stored.abort_time is None:
        return False
    # a child flow that is cancelled is Failed
    by_itself = _FAILS_BY_ITSELF if work_of_object(job).has_pods else (StepReason.SUSPENDED,)
    return run.stored.reason not in by_itself or job.phase == JobPhase.ABORTED


def take_outputs(
    key: str, read: Callable[[], Outputs | None], ctx: PlanContext
) -> Outputs | OutputsTooLarge | None:
    """Return the outputs that `read` returns, or why they are too large."""
    noted = ctx.progress.outputs
    if key not in noted:  # rounds of decisions would take their room again
        try:
            outputs = read()
            if outputs is not None:
                ctx.outputs_room.take(outputs)
            noted[key] = outputs
        except OutputsTooLarge as excess:
            noted[key] = excess
    return noted[key]


def not_judged(run: ObservedRun, job: Job, ctx: PlanContext) -> RunDecision:
    """Return the run as before the end of its object, which is not decided yet."""
    stored = run.stored
    known = stored.attempts and stored.job == job.metadata.name
    if not known or stored.phase == StepPhase.WAITING:
        stored = running_as(run, before_its_end(job), ctx)
    return RunDecision(stored, unjudged=frozenset({job.metadata.uid}))


def running_as(run: ObservedRun, job: Job, ctx: PlanContext) -> RunCondition:
    """Return the condition of a run for the phase of its object."""
    stored, tasks = run.stored, job.spec.tasks
    # Volcano moves the time of a phase while it lasts
    kept = stored.phase == job.phase and not stored.reason
    message = find_job_obstacle(run, job, ctx).message
    if tasks and not any(task.replicas for task in tasks):
        message = "has no pod and never ends, because no task of the job has replicas"
    failure, retry = None, run.step.retry
    if retry is not None and (retry.patch or run.step.vars):
        failure = stored.failure  # a further attempt may name it, if this one is lost or suspended
    condition = run.new_condition(
        phase=job.phase,
        message=message,
        create_time=job.metadata.creation_timestamp,
        running_duration=job.status.running_duration or "",
        task_status_count=last_counts(run, job),
        job=job.metadata.name,
        uid=pack_uid(job.metadata.uid),
        attempts=run.attempts,
        deadline=attempt_deadline(run, job, ctx),
        queue_deadline=queue_deadline(run, job, ctx) if run.step.queue_timeout else None,
        timeout=run.timeout if run.step.timeout else stored.timeout,
        last_transition_time=(
            stored.last_transition_time if kept else job.status.state.last_transition_time
        ),
        failure=failure,
        requested_hours=stored.requested_hours,
    )
    return stored if condition == stored else condition


class Obstacle(NamedTuple):
    """What keeps a pod of a vcjob from starting."""

    message: str = ""
    shown_at: datetime | None = None
    """When there may be something to say."""
    asked: tuple[PodWarning, ...] = ()
    """The pods whose warnings may say it."""


def find_job_obstacle(run: ObservedRun, job: Job, ctx: PlanContext) -> Obstacle:
    counts, pods = job.status.task_status_count, ctx.view.pods.get(job.metadata.uid)
    if not pods or not has_waiting_pods(job.phase, counts):
        return Obstacle()
    times: list[datetime] = []
    asked: list[PodWarning] = []
    for name, pod in sorted(pods.items()):
        waiting = find_obstacle(pod)
        if waiting is None and not is_starting(pod):
            continue
        since = pod.status.start_time or job.metadata.creation_timestamp or ctx.second
        if (shown_at := add(since, OBSTACLE_SHOWN)) > ctx.now:
            times.append(shown_at)
            continue
        head, why = f"{CANNOT_START}{name}: ", ""
        if waiting is not None:
            why = ": ".join(filter(None, (waiting.reason, waiting.message)))
        elif len(asked) < MOST_ASKED:
            asked.append(want := PodWarning(run.step.name, name, pod.metadata.uid))
            why = ctx.view.answers.get(want.key, "")
        if why:
            # Kubernetes changes the reason with each try: ErrImagePull, ImagePullBackOff
            if not (message := run.stored.message).startswith(head):
                message = shorten(f"{head}{' '.join(why.split())}")
            return Obstacle(message, None, tuple(asked))
    return Obstacle("", min(times, default=None), tuple(asked))


def last_counts(run: ObservedRun, job: Job) -> dict[str, TaskState] | None:
    """Return the last known counts of tasks, which Volcano drops in between."""
    stored = run.stored
    known = stored.task_status_count if stored.job == job.metadata.name else None
    return job.status.task_status_count or known


def describe_failed_pods(counts: Mapping[str, TaskState] | None) -> str:
    """Return `1 of 4 pods failed`; "" if no pod has."""
    phases = Counter[str]()
    for state in (counts or {}).values():
        phases.update(state.phase or {})
    failed = phases[PodPhase.FAILED]
    return f"{failed} of {format_count(phases.total(), 'pod')} failed" if failed else ""


def name_cause(head: str, detail: str, failure: StepFailure | None) -> str:
    """Return `head: detail`. If that is too long for a message, and the failure is that of a pod in
    a child flow, name the failure in place of the flows and the job between, so that the error is
    not cut off: `head: step train/fit failed: pod f-b-main-0 (task main): exit code 3 (Error) on
    node n1: ValueError: no rows`."""
    message = f"{head}: {detail}" if detail else head
    if len(message) <= MAX_MESSAGE or failure is None or not (failure.step and failure.pod):
        return message
    task = f" (task {failure.task})" if failure.task else ""
    node = f" on node {failure.node}" if failure.node else ""
    more = f": {failure.message}" if failure.message else ""
    how = describe_end(failure, failure.signal or None)
    return f"{head}: step {failure.step} failed: pod {failure.pod}{task}: {how}{node}{more}"


def attempt_deadline(run: ObservedRun, job: Job, ctx: PlanContext) -> datetime | None:
    """Return the deadline of this vcjob by the step's `timeout`; None without one, or before it was
    Running. Time in a queue does not count, restarts by Volcano do."""
    text = run.step.timeout
    if not text:
        return None
    stored = run.stored
    if stored.deadline is not None and stored.job == job.metadata.name:
        return stored.deadline  # Volcano moves the time of a phase that is entered again
    seconds, since = duration(run.timeout or text, None), _running_since(job, ctx)
    if seconds is None or since is None:
        return None
    # the clock of Volcano's controllers may be wrong
    since = min(max(since, job.metadata.creation_timestamp or since), ctx.second)
    # the time is cut to a whole second, and an attempt never has less time than its timeout
    return ceil_to_second(add(since, seconds + SECOND))


def queue_deadline(run: ObservedRun, job: Job, ctx: PlanContext) -> datetime | None:
    """Return the deadline of this vcjob by the step's `queueTimeout`; None without one, or once it
    has been Running."""
    limit, until = duration(run.step.queue_timeout, None), run.stored.queue_deadline
    if limit is None or _running_since(job, ctx) is not None:
        return None
    if until is None or run.stored.job != job.metadata.name:
        # the time is cut to a whole second, by a clock that may be wrong
        created = min(job.metadata.creation_timestamp or ctx.second, ctx.second)
        until = ceil_to_second(add(created, limit + SECOND))
    return without_suspension(until, ctx)


def without_suspension(until: datetime, ctx: PlanContext) -> datetime:
    """Return a stored deadline, later by the time of a suspension that ends in this plan."""
    before = ctx.flow.status.suspended_seconds or 0
    return add(until, max(0, (ctx.facts.lifecycle.suspended_seconds or 0) - before))


def _running_since(job: Job, ctx: PlanContext) -> datetime | None:
    """Return when a vcjob was first Running, or None if it has not been."""
    status, record = job.status, ctx.records.get(job.metadata.name)
    signs = [(c.status, c.last_transition_time) for c in status.conditions or ()]
    signs.append((status.state.phase, status.state.last_transition_time))
    histories = (record.running_histories if record is not None else None) or ()
    signs += [(entry.state, entry.start_timestamp) for entry in histories]
    running = [at for phase, at in signs if phase == JobPhase.RUNNING and at is not None]
    return min(running, default=None)


def duration(text: str | None, default: T) -> timedelta | T:
    """Return a duration of the spec; `default` if it is not set or cannot be read."""
    try:
        return default if text is None else timedelta(seconds=parse_duration(text))
    except ValueError:
        return default
