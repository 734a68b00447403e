"""State machine of a vcjob: the effect of one action on its pods and its status.

As in Volcano's pkg/controllers/job, two operations exist: *sync* creates the missing pods and
counts all pods; *kill* deletes pods, except those to keep, and counts only the deleted ones. The
next phase depends on the current one:

    Pending, Running         sync; a policy's action kills and leads to Aborting, Terminating,
                             Completing or Restarting
    Restarting               sync, then Pending again, or Failed after the last retry
    Aborting, Terminating,   kill until no pod is alive, then Aborted, Terminated, Completed
    Completing
    Aborted                  ResumeJob leads to Restarting
    Completed, Failed,       kill remaining pods once more, and drop the counts
    Terminated

Every kill of the whole job increments the job's version. A pod carries the version that created it,
and events of pods of an earlier version no longer affect the job.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from jobflow.api.duration import format_duration
from jobflow.api.volcano.job import JobCondition, JobPhase, JobSpec, JobState, JobStatus, TaskState
from jobflow.api.volcano.pod import ENDED_POD_PHASES, PodPhase
from jobflow.sandbox.jobs.objects import Vcjob, pod_name
from jobflow.sandbox.jobs.policies import SYNC, BusAction, JobRequest, PodFacts

INVALID = "InvalidJob"
"""Reason of a vcjob that cannot run."""
LIVE = frozenset({JobPhase.PENDING, JobPhase.RUNNING})
PARTIAL = frozenset({BusAction.RESTART_TASK, BusAction.RESTART_POD, BusAction.RESTART_PARTITION})
"""Actions that kill only some of the job's pods."""
KILLS_INTO = {
    **dict.fromkeys((BusAction.RESTART, *PARTIAL), JobPhase.RESTARTING),
    BusAction.ABORT: JobPhase.ABORTING,
    BusAction.TERMINATE: JobPhase.TERMINATING,
    BusAction.COMPLETE: JobPhase.COMPLETING,
}
"""Next phase of an action in Pending and Running."""
ENDS_IN: Mapping[str, JobPhase] = {
    JobPhase.ABORTING: JobPhase.ABORTED,
    JobPhase.TERMINATING: JobPhase.TERMINATED,
    JobPhase.COMPLETING: JobPhase.COMPLETED,
}


@dataclass(frozen=True, slots=True)
class JobChanges:
    """Changes of a vcjob: pods first, then the status, as in Volcano."""

    status: JobStatus
    create: tuple[tuple[int, int], ...] = ()
    """Index of the task in the spec, and of the pod in the task."""
    delete: tuple[PodFacts, ...] = ()


def step(
    job: Vcjob,
    pods: Mapping[str, PodFacts],
    request: JobRequest,
    now: datetime,
    *,
    is_admitted: bool = True,
) -> JobChanges:
    """Return the effect of one action on a vcjob. `request` holds the action and names the task,
    pod or partition of a partial restart. A vcjob that is being deleted does not change, and before
    the scheduler admits it (`is_admitted`), no pod is created."""
    # Its pods go with it: the garbage collector deletes them.
    if job.is_deleted:
        return JobChanges(job.status)
    # A vcjob without a status is new: Volcano gives it a phase before it creates a pod.
    if job.phase == "":
        available = job.spec.min_available or None
        state = JobState(phase=JobPhase.PENDING)
        status = msgspec.structs.replace(job.status, state=state, min_available=available)
        return JobChanges(_stamped(status, now))
    if request.action is BusAction.RESTART_PARTITION:
        if not any(_is_target(pod, request) for pod in pods.values()):
            request = SYNC  # Volcano does nothing, and so may miss the end of the job
    action = request.action or BusAction.SYNC
    if job.phase == JobPhase.RESTARTING:
        syncs = action is BusAction.SYNC
    else:
        syncs = job.phase in LIVE and action not in KILLS_INTO
    if not syncs:
        return _kill(job, pods, request, action, now)
    # Before its gang has room a job has no pods, so only its phase can change.
    if not is_admitted:
        status = _moved(job, action, job.status)
        return JobChanges(job.status if status == job.status else _stamped(status, now))
    return _sync(job, pods, action, now)


def _next_phase(job: Vcjob, action: BusAction, counted: JobStatus) -> JobPhase | None:
    """Return the phase that follows from the action and the new counts, or None to stay."""
    spec = job.spec
    replicas = sum(task.replicas or 0 for task in spec.tasks or ())
    succeeded, ended = counted.succeeded or 0, (counted.succeeded or 0) + (counted.failed or 0)
    if job.phase in LIVE and action in KILLS_INTO:
        return KILLS_INTO[action]
    if action is BusAction.RESUME and job.phase in (JobPhase.ABORTING, JobPhase.ABORTED):
        return JobPhase.RESTARTING
    match job.phase:
        case JobPhase.PENDING:
            # Pods that have ended already count, or a short job would never leave Pending.
            seen = (counted.running or 0) + ended
            return JobPhase.RUNNING if seen >= (spec.min_available or 0) else None
        case JobPhase.RESTARTING:
            # The restart was counted when the job entered Restarting.
            if (counted.retry_count or 0) >= (spec.max_retry or 0):
                return JobPhase.FAILED
            left = replicas - (counted.terminating or 0)
            return JobPhase.PENDING if left >= (counted.min_available or 0) else None
        case JobPhase.RUNNING if replicas:
            # Enough successes end the job although other pods still run.
            if spec.min_success is not None and succeeded >= spec.min_success:
                return JobPhase.COMPLETED
            if ended == replicas:
                enough = spec.min_available or 0 if spec.min_success is None else spec.min_success
                is_met = succeeded >= enough and not _task_missed(spec, counted)
                return JobPhase.COMPLETED if is_met else JobPhase.FAILED
            # Pods that are pending again, as after an eviction, no longer leave a whole gang.
            is_short = (counted.pending or 0) > replicas - (spec.min_available or 0)
            return JobPhase.PENDING if is_short else None
    alive = counted.terminating or counted.pending or counted.running
    return None if alive else ENDS_IN.get(job.phase)


def invalid_status(status: JobStatus, faults: Iterable[str], now: datetime) -> JobStatus:
    state = JobState(phase=JobPhase.FAILED, reason=INVALID, message="; ".join(faults))
    return _stamped(msgspec.structs.replace(status, state=state), now)


def _task_missed(spec: JobSpec, status: JobStatus) -> bool:
    """Return whether a task has fewer successes than its own `minAvailable`. It counts only if the
    job requires as many pods as its tasks together, and only for tasks with pods."""
    tasks = spec.tasks or ()
    wanted = sum(
        (task.replicas or 0) if task.min_available is None else task.min_available for task in tasks
    )
    # As in Volcano, a smaller gang leaves it open which of its tasks succeed.
    if (spec.min_available or 0) < wanted:
        return False
    counts = status.task_status_count or {}
    return any(
        (counts[task.name].phase or {}).get(PodPhase.SUCCEEDED, 0) < task.min_available
        for task in tasks
        if task.min_available is not None and task.name in counts
    )


def _stamped(status: JobStatus, now: datetime) -> JobStatus:
    """Return the status with its phase's time and one condition for the phase, at `now`."""
    at = now.replace(microsecond=0)
    # A phase that is entered again has one condition, with its last time.
    kept = [entry for entry in status.conditions or () if entry.status != status.state.phase]
    return msgspec.structs.replace(
        status,
        state=msgspec.structs.replace(status.state, last_transition_time=at),
        conditions=[*kept, JobCondition(status=status.state.phase, last_transition_time=at)],
    )


def _moved(job: Vcjob, action: BusAction, status: JobStatus) -> JobStatus:
    phase = _next_phase(job, action, status)
    if phase is None:
        return status
    retries = int(phase is JobPhase.RESTARTING)
    return msgspec.structs.replace(
        status,
        state=msgspec.structs.replace(status.state, phase=phase, reason="", message=""),
        retry_count=((status.retry_count or 0) + retries) or None,
    )


def _counted(
    status: JobStatus,
    pods: Iterable[PodFacts] = (),
    pending: Iterable[str] = (),
    terminating: int = 0,
) -> JobStatus:
    tasks: dict[str, Counter[str]] = {}
    for task in pending:
        tasks.setdefault(task, Counter())[PodPhase.PENDING] += 1
    for pod in pods:
        tasks.setdefault(pod.task, Counter())[pod.phase] += 1
    total: Counter[str] = sum(tasks.values(), Counter())
    counts: dict[str, Any] = {phase.lower(): total[phase] or None for phase in PodPhase}
    return msgspec.structs.replace(
        status,
        **counts,
        terminating=terminating or None,
        task_status_count={task: TaskState(phase=dict(by)) for task, by in tasks.items()} or None,
    )


def _sync(job: Vcjob, pods: Mapping[str, PodFacts], action: BusAction, now: datetime) -> JobChanges:
    """Create missing pods, delete surplus pods, count all pods and move on."""
    wanted: set[str] = set()
    create: list[tuple[int, int]] = []
    tasks = job.spec.tasks or []
    for number, task in enumerate(tasks):
        names = [pod_name(job.metadata.name, task.name or "", i) for i in range(task.replicas or 0)]
        wanted.update(names)
        targets = (task.depends_on.name or []) if task.depends_on else []
        # As in Volcano, `any` requires more than one name.
        is_any = len(targets) > 1 and task.depends_on and task.depends_on.iteration == "any"
        if (any if is_any else all)(_has_started(job, pods, name) for name in targets):
            create += [(number, i) for i, name in enumerate(names) if name not in pods]
    surplus = [pod for name, pod in pods.items() if name not in wanted]
    present = [pod for name, pod in pods.items() if name in wanted]
    # A pod that is being deleted is counted as terminating, whatever its phase is.
    staying = [pod for pod in present if not pod.deleting]
    leaving = len(pods) - len(staying)
    available = job.spec.min_available or None
    status = msgspec.structs.replace(job.status, running_duration=None, min_available=available)
    status = _counted(status, staying, [tasks[number].name or "" for number, _ in create], leaving)
    status = _moved(job, action, status)
    if status != job.status:
        status = _stamped(status, now)
    return JobChanges(status, tuple(create), tuple(pod for pod in surplus if not pod.deleting))


def _has_started(job: Vcjob, pods: Mapping[str, PodFacts], name: str) -> bool:
    task = next((task for task in job.spec.tasks or () if task.name == name), None)
    if task is None or task.min_available is None:
        return True
    up = sum(
        pod.phase is PodPhase.SUCCEEDED or (pod.phase is PodPhase.RUNNING and pod.ready)
        for pod in pods.values()
        if pod.task == name
    )
    return up >= task.min_available


def _kill(
    job: Vcjob, pods: Mapping[str, PodFacts], request: JobRequest, action: BusAction, now: datetime
) -> JobChanges:
    """Delete all pods, or all that have not ended, or those of one task, pod or partition; count
    the pods that leave, and note how long the job ran."""
    is_live = job.phase in LIVE
    is_partial = action in PARTIAL and (is_live or job.phase == JobPhase.RESTARTING)
    if is_partial:
        targets = [pod for pod in pods.values() if _is_target(pod, request)]
    else:
        into = KILLS_INTO.get(action) if is_live else job.phase
        # The pods of the last retry stay, because their logs say why the job failed.
        is_last = is_live and (job.status.retry_count or 0) >= (job.spec.max_retry or 0) - 1
        keep = ENDED_POD_PHASES if into != JobPhase.RESTARTING or is_last else frozenset()
        targets = [pod for pod in pods.values() if pod.deleting or pod.phase not in keep]
    status = _moved(job, action, _counted(job.status, terminating=len(targets)))
    until = status.state.last_transition_time or now
    # The running time ends with the phase, and is not counted on while pods terminate.
    if status.state.phase != job.phase:
        status, until = _stamped(status, now), now
    ran = job.status.running_duration
    if status != job.status or ran is None:
        ran = format_duration(until - (job.metadata.creation_timestamp or now))
    status = msgspec.structs.replace(status, running_duration=ran)
    if status != job.status and not is_partial:  # a partial restart keeps the version, as Volcano
        status = msgspec.structs.replace(status, version=(status.version or 0) + 1)
    return JobChanges(status, delete=tuple(pod for pod in targets if not pod.deleting))


def _is_target(pod: PodFacts, request: JobRequest) -> bool:
    cause = request.pod
    if cause is None or pod.task != cause.task:
        return False
    if request.action is BusAction.RESTART_POD:
        return pod.name == cause.name
    if request.action is BusAction.RESTART_PARTITION:
        return bool(cause.partition) and pod.partition == cause.partition
    return True
