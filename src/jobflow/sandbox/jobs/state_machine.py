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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from jobflow.api.duration import format_duration
from jobflow.api.volcano.job import (
    JobCondition,
    JobPhase,
    JobSpec,
    JobState,
    JobStatus,
    Task,
    TaskState,
)
from jobflow.api.volcano.pod import ENDED_POD_PHASES, PodPhase
from jobflow.sandbox.jobs.policies import SYNC, BusAction, JobRequest, PodFacts

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
"""Next phase after the last pod has ended."""


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """A vcjob and its pods at one moment."""

    name: str
    created: datetime
    spec: JobSpec
    status: JobStatus
    pods: Mapping[str, PodFacts] = field(default_factory=dict)
    admitted: bool = True
    """Whether the scheduler admitted the job; before that, no pod is created."""
    deleting: bool = False

    @property
    def phase(self) -> str:
        return self.status.state.phase


@dataclass(frozen=True, slots=True)
class JobChanges:
    """Changes of a vcjob: pods first, then the status, as in Volcano."""

    status: JobStatus
    create: tuple[tuple[int, int], ...] = ()
    """Index of the task in the spec, and of the pod in the task."""
    delete: tuple[PodFacts, ...] = ()


def pod_name(job: str, task: str, index: int) -> str:
    return f"{job}-{task}-{index}"


def step(view: JobSnapshot, request: JobRequest, now: datetime) -> JobChanges:
    """Return the effect of one action on a vcjob. `request` holds the action and names the task,
    pod or partition of a partial restart. A vcjob that is being deleted does not change."""
    if view.deleting:
        return JobChanges(view.status)
    phase = view.phase
    if phase == "":
        return JobChanges(_initial(view, now))
    if request.action is BusAction.RESTART_PARTITION:
        if not any(_is_target(pod, request) for pod in view.pods.values()):
            request = SYNC  # Volcano does nothing, and so may miss the end of the job
    if phase in (JobPhase.PENDING, JobPhase.RUNNING):
        return _step_live(view, request, now)
    if phase == JobPhase.RESTARTING:
        return _step_restarting(view, request, now)
    if request.action is BusAction.RESUME and phase in (JobPhase.ABORTING, JobPhase.ABORTED):
        return _kill(view, now, lambda status: JobPhase.RESTARTING)
    return _kill(view, now, partial(_to_end, phase))


def _to_end(phase: str, status: JobStatus) -> JobPhase | None:
    alive = status.terminating or status.pending or status.running
    return None if alive else ENDS_IN.get(phase)


def failed(status: JobStatus, reason: str, message: str, now: datetime) -> JobStatus:
    """Return the status of a vcjob that cannot run: Failed, with the reason."""
    state = JobState(phase=JobPhase.FAILED, reason=reason, message=message)
    return _stamped(msgspec.structs.replace(status, state=state), now)


Move = Callable[[JobStatus], JobPhase | None]
"""Returns the next phase for a status with new counts; None keeps the phase."""


def _step_live(view: JobSnapshot, request: JobRequest, now: datetime) -> JobChanges:
    to = KILLS_INTO.get(request.action or BusAction.SYNC)
    if to is None:
        move = _from_pending if view.phase == JobPhase.PENDING else _from_running
        return _sync(view, now, partial(move, view.spec))
    if request.action in PARTIAL:
        return _kill_some(view, request, now, lambda status: to)
    return _kill(view, now, lambda status: to, keep_ended=to != JobPhase.RESTARTING)


def _step_restarting(view: JobSnapshot, request: JobRequest, now: datetime) -> JobChanges:
    move = partial(_from_restarting, view.spec)
    if request.action is BusAction.SYNC:
        return _sync(view, now, move)
    if request.action in PARTIAL:
        return _kill_some(view, request, now, move)
    return _kill(view, now, move, keep_ended=False)


def _from_pending(spec: JobSpec, status: JobStatus) -> JobPhase | None:
    seen = (status.running or 0) + (status.succeeded or 0) + (status.failed or 0)
    return JobPhase.RUNNING if seen >= (spec.min_available or 0) else None


def _from_restarting(spec: JobSpec, status: JobStatus) -> JobPhase | None:
    if (status.retry_count or 0) >= (spec.max_retry or 0):
        return JobPhase.FAILED
    left = _replicas(spec) - (status.terminating or 0)
    return JobPhase.PENDING if left >= (status.min_available or 0) else None


def _from_running(spec: JobSpec, status: JobStatus) -> JobPhase | None:
    replicas = _replicas(spec)
    succeeded = status.succeeded or 0
    if replicas == 0:
        return None
    if spec.min_success is not None and succeeded >= spec.min_success:
        return JobPhase.COMPLETED
    if succeeded + (status.failed or 0) == replicas:
        enough = spec.min_available or 0 if spec.min_success is None else spec.min_success
        met = succeeded >= enough and not _task_missed(spec, status)
        return JobPhase.COMPLETED if met else JobPhase.FAILED
    if (status.pending or 0) > replicas - (spec.min_available or 0):
        return JobPhase.PENDING
    return None


def _task_missed(spec: JobSpec, status: JobStatus) -> bool:
    """Return whether a task has fewer successes than its own `minAvailable`. It counts only if the
    job requires as many pods as its tasks together, and only for tasks with pods."""
    tasks = spec.tasks or ()
    wanted = sum(
        (task.replicas or 0) if task.min_available is None else task.min_available for task in tasks
    )
    if (spec.min_available or 0) < wanted:
        return False
    counts = status.task_status_count or {}
    return any(
        (counts[task.name].phase or {}).get(PodPhase.SUCCEEDED, 0) < task.min_available
        for task in tasks
        if task.min_available is not None and task.name in counts
    )


def _replicas(spec: JobSpec) -> int:
    return sum(task.replicas or 0 for task in spec.tasks or ())


def _initial(view: JobSnapshot, now: datetime) -> JobStatus:
    state = JobState(phase=JobPhase.PENDING)
    available = view.spec.min_available or None
    return _stamped(msgspec.structs.replace(view.status, state=state, min_available=available), now)


def _stamped(status: JobStatus, now: datetime) -> JobStatus:
    """Return the status with its phase's time and one condition for the phase, at `now`."""
    at = now.replace(microsecond=0)
    kept = [entry for entry in status.conditions or () if entry.status != status.state.phase]
    return msgspec.structs.replace(
        status,
        state=msgspec.structs.replace(status.state, last_transition_time=at),
        conditions=[*kept, JobCondition(status=status.state.phase, last_transition_time=at)],
    )


def _moved(status: JobStatus, move: Move) -> JobStatus:
    phase = move(status)
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
    """Return the status with new counts; `pending` holds the tasks of pods about to be created."""
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


def _sync(view: JobSnapshot, now: datetime, move: Move) -> JobChanges:
    """Create missing pods, delete surplus pods, count all pods and move on. Any change of the
    status, including its counts, renews the phase's time."""
    if not view.admitted:
        status = _moved(view.status, move)
        return JobChanges(view.status if status == view.status else _stamped(status, now))
    wanted = {
        pod_name(view.name, task.name or "", index): (i, index)
        for i, task in enumerate(view.spec.tasks or ())
        for index in range(task.replicas or 0)
    }
    tasks = view.spec.tasks or []
    open_tasks = {i for i, task in enumerate(tasks) if _may_start(view, task)}
    missing = [place for name, place in wanted.items() if name not in view.pods]
    create = tuple(place for place in missing if place[0] in open_tasks)
    present = [pod for name, pod in view.pods.items() if name in wanted]
    surplus = tuple(pod for name, pod in view.pods.items() if name not in wanted)
    leaving = sum(pod.deleting for pod in present) + len(surplus)
    staying = [pod for pod in present if not pod.deleting]
    available = view.spec.min_available or None
    status = msgspec.structs.replace(view.status, running_duration=None, min_available=available)
    status = _counted(status, staying, (tasks[i].name or "" for i, _ in create), leaving)
    status = _moved(status, move)
    if status != view.status:
        status = _stamped(status, now)
    return JobChanges(status, create, tuple(pod for pod in surplus if not pod.deleting))


def _may_start(view: JobSnapshot, task: Task) -> bool:
    """Return whether the tasks that this task depends on have started. As in Volcano, `any`
    requires more than one name."""
    names = (task.depends_on.name or []) if task.depends_on else []
    if len(names) > 1 and task.depends_on and task.depends_on.iteration == "any":
        return any(_started(view, name) for name in names)
    return all(_started(view, name) for name in names)


def _started(view: JobSnapshot, name: str) -> bool:
    task = next((task for task in view.spec.tasks or () if task.name == name), None)
    if task is None or task.min_available is None:
        return True
    up = sum(
        pod.phase is PodPhase.SUCCEEDED or (pod.phase is PodPhase.RUNNING and pod.ready)
        for pod in view.pods.values()
        if pod.task == name
    )
    return up >= task.min_available


def _kill(view: JobSnapshot, now: datetime, move: Move, *, keep_ended: bool = True) -> JobChanges:
    """Delete all pods, or all that have not ended. The last retry keeps its ended pods."""
    last = (view.status.retry_count or 0) >= (view.spec.max_retry or 0) - 1
    keep = ENDED_POD_PHASES if keep_ended or last else frozenset()
    doomed = tuple(pod for pod in view.pods.values() if not pod.deleting and pod.phase not in keep)
    leaving = len(doomed) + sum(pod.deleting for pod in view.pods.values())
    status = _killed(view, now, move, leaving)
    if status != view.status:
        status = msgspec.structs.replace(status, version=(status.version or 0) + 1)
    return JobChanges(status, delete=doomed)


def _kill_some(view: JobSnapshot, request: JobRequest, now: datetime, move: Move) -> JobChanges:
    """Delete the pods of one task, pod or partition, without a new version, as in Volcano."""
    doomed = [pod for pod in view.pods.values() if _is_target(pod, request)]
    status = _killed(view, now, move, len(doomed))
    return JobChanges(status, delete=tuple(pod for pod in doomed if not pod.deleting))


def _is_target(pod: PodFacts, request: JobRequest) -> bool:
    if pod.task != request.task:
        return False
    if request.action is BusAction.RESTART_POD:
        return pod.name == request.pod
    if request.action is BusAction.RESTART_PARTITION:
        return bool(request.partition) and pod.partition == request.partition
    return True


def _killed(view: JobSnapshot, now: datetime, move: Move, leaving: int) -> JobStatus:
    """Return the status after a kill: counts of leaving pods, and the running duration."""
    counted = _counted(view.status, terminating=leaving)
    status = _moved(counted, move)
    until = status.state.last_transition_time or now
    if status.state.phase != view.phase:
        status, until = _stamped(status, now), now
    ran = view.status.running_duration
    if status != view.status or ran is None:
        ran = format_duration(until - view.created)
    return msgspec.structs.replace(status, running_duration=ran)
