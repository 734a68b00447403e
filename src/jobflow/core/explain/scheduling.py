"""Sentences on why the pods of a vcjob do not run yet: its queue, its gang, its pods. They state
what Volcano has written, never a position in the queue, which depends on jobs of others too."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeVar

from jobflow.api.resources import JOBS
from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.api.volcano.scheduling import PodGroup, PodGroupPhase, Queue, QueueState, ResourceList
from jobflow.core.planning.context import PlanContext
from jobflow.core.pods.failure import find_obstacle, has_waiting_pods
from jobflow.core.pods.resources import parse_quantity
from jobflow.core.text import MAX_NAMES, format_count, join_names, shorten

MAX_JOBS = 3
"""Jobs whose scheduling is described; the others are counted."""

_GIB = 2.0**30
_UNITS: Mapping[str, tuple[str, float]] = {
    "cpu": ("cores", 1.0),
    "memory": ("GiB of memory", _GIB),
    "ephemeral-storage": ("GiB of storage", _GIB),
}
_PRECISION = 1e-9
_WAITING = (PodGroupPhase.PENDING, PodGroupPhase.INQUEUE)
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_MAX_MESSAGE = 300
_FOR_THE_GANG = ("once minAvailable is satisfied", "pod group is not ready", "gang unschedulable")
"""Parts of messages about a pod that has no problem of its own (volcano pkg/scheduler/api
job_info.go, FitError and TaskSchedulingReason)."""
_AFTER_RELEASE = "once resource is released"
"""Part of the message about a pod that gets a place when other pods have ended."""
_ORIGIN = "Origin reason is"
"""Words before the first cause in a message about a gang, which may begin with a pod's name."""


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A vcjob with pods that do not run yet."""

    step: str
    name: str
    index: int | None


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The objects of a vcjob: empty if they do not exist, None if they were not read."""

    pod_groups: Sequence[PodGroup] | None = None
    """At most one."""
    queues: Sequence[Queue] | None = None
    """At most one."""
    pods: Sequence[Pod] | None = None
    warnings: Mapping[str, str] = field(default_factory=dict)
    """The last warning of the kubelet about a pod that starts, by its name: `FailedMount: …`."""


@dataclass(frozen=True, slots=True)
class SchedulingFacts:
    """Sentences on the scheduling of a flow's jobs."""

    by_step: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    """The facts that are not shown: objects that the user may not read, and further jobs."""


NO_FACTS = SchedulingFacts()

T = TypeVar("T", PodGroup, Pod)


def select_own(job: QueuedJob, objects: Iterable[T]) -> list[T]:
    """Return the PodGroups or pods that the job controls and that are not being deleted."""
    return [
        each
        for each in objects
        if (owner := each.metadata.controller) is not None
        and (owner.kind, owner.name) == (JOBS.kind, job.name)
        and each.metadata.deletion_timestamp is None
    ]


def find_queued_jobs(ctx: PlanContext, steps: Iterable[int]) -> Iterator[QueuedJob]:
    """Yield the jobs of these steps whose pods do not all run, by the status of the flow."""
    for step in steps:
        observed = ctx.observed[step]
        stored = observed.stored
        for run in stored.runs or (stored,):
            is_queued = has_waiting_pods(run.phase, run.task_status_count)
            if is_queued and ctx.work_named(observed.step, run.job).has_pods:
                yield QueuedJob(observed.step.name, run.job or observed.key, run.index)


def describe_scheduling(job: QueuedJob, found: Scheduling, *, look: str = "") -> Iterator[str]:
    """Yield sentences on why the pods of a job do not run yet, the most general cause first.
    `look`: a command that shows more about the job."""
    pods = found.pods or ()
    pending = [pod for pod in pods if pod.phase == PodPhase.PENDING]
    unplaced = [pod for pod in pending if not pod.spec.node_name]
    group = next(iter(found.pod_groups or ()), None)
    if group is not None:
        # a job with a pod on a node has left the queue
        if group.status.phase in _WAITING and len(unplaced) == len(pods):
            yield from _describe_queue(job, group, found)
        if found.pods is None and group.status.phase != PodGroupPhase.PENDING:
            # the message about the gang, for a user who may not read the pods; that of a job that
            # is not admitted only says that it has no pods yet
            known = (each for each in group.status.conditions or () if each.status == "True")
            last = max(known, key=lambda each: each.last_transition_time or _LONG_AGO, default=None)
            if last is not None and last.type == "Unschedulable" and last.message:
                why = _find_origin(last.message) or _cut(last.message)
                yield f"The scheduler cannot place the pods of job {job.name}: {why}."
        elif found.pods is not None and not pods and group.status.phase == PodGroupPhase.INQUEUE:
            yield (
                f"Volcano has admitted job {job.name} to queue {queue_of(group)}, but it has no "
                f"pods yet; if this lasts, {look} says why they are not created."
            )
    elif found.pod_groups is not None and not pods:
        yield (
            f"Volcano has no PodGroup for job {job.name} yet; if this lasts, check that Volcano's "
            "controllers run."
        )
    yield from _describe_unplaced(job, unplaced, len(pods), group)
    troubles: dict[str, list[str]] = {}
    placed = _with_node(pods)
    # a pod with a node lacks an image, a volume or a configuration, or will run soon
    for pod in placed:
        name, stuck = pod.metadata.name, find_obstacle(pod)
        parts = (stuck.reason, stuck.message) if stuck is not None else ()
        trouble = ": ".join(filter(None, parts)) or found.warnings.get(name, "")
        troubles.setdefault(_cut(trouble), []).append(name)
    starting = troubles.pop("", [])
    shown = [*troubles.items()][:MAX_NAMES]
    for trouble, names in shown:
        noun = "pod" if len(names) == 1 else "pods"
        yield f"In job {job.name}, {noun} {join_names(names)} cannot start: {trouble}."
    if more := len(placed) - len(starting) - sum(len(names) for _, names in shown):
        cause = "cannot start for other reasons"
        yield f"In job {job.name}, {_share(more, len(pods), cause)}."
    if starting:
        cause = "have a node and will start"
        yield f"In job {job.name}, {_share(len(starting), len(pods), cause)}."


def find_starting(pods: Iterable[Pod]) -> list[str]:
    """Return the names of the pods that have a node and do not say why they have not started."""
    return [pod.metadata.name for pod in _with_node(pods) if find_obstacle(pod) is None]


def _with_node(pods: Iterable[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.phase == PodPhase.PENDING and pod.spec.node_name]


def queue_of(group: PodGroup) -> str:
    return group.spec.queue or "default"


def _describe_queue(job: QueuedJob, group: PodGroup, found: Scheduling) -> Iterator[str]:
    waits = f"Job {job.name} waits in queue {queue_of(group)}"
    if found.queues is not None and not found.queues:
        yield f"{waits}, which does not exist: its jobs start once an administrator creates it."
        return
    queue = next(iter(found.queues or ()), None)
    if queue is not None and queue.status.state in (QueueState.CLOSED, QueueState.CLOSING):
        yield (
            f"{waits}, which is {queue.status.state}: it starts no jobs until an administrator "
            "opens it."
        )
    shortages: list[str] = []
    if queue is not None:
        # by its capability or, for a job that is not admitted, by its deserved share
        asked, used = group.spec.min_resources or {}, queue.status.allocated or {}
        shortages = [*_compare(_CAPABILITY, asked, queue.spec.capability or {}, used)]
        if not shortages and group.status.phase == PodGroupPhase.PENDING:
            shortages = [*_compare(_DESERVED, asked, queue.spec.deserved or {}, used)]
    if shortages:
        yield f"{waits}: {'; '.join(shortages)}."
    elif group.status.phase == PodGroupPhase.PENDING:
        count = queue.status.pending if queue is not None else 0
        more = f"; {format_count(count, 'job')} of the queue are not admitted" if count > 1 else ""
        yield f"{waits}: Volcano has not admitted it yet{more}."


_CAPABILITY = "{used} of {limit} {unit} are in use, this job asks for {asked}{never}"
_DESERVED = (
    "{used} {unit} are in use of the {limit} that the queue deserves, this job asks for {asked}"
)


def _compare(
    clause: str, asked: ResourceList, limits: ResourceList, used: ResourceList
) -> Iterator[str]:
    """Yield a clause for each resource of which the queue has too little."""
    for resource, quantity in asked.items():
        want, most = parse_quantity(quantity), parse_quantity(limits.get(resource))
        now = parse_quantity(used.get(resource)) or 0.0
        # sums of fractions are not exact
        if not want or most is None or now + want <= most * (1 + _PRECISION):
            continue
        # resources of devices have the domain of their vendor
        is_gpu = resource.endswith("/gpu")
        unit, scale = ("GPUs", 1.0) if is_gpu else _UNITS.get(resource, (resource, 1.0))
        in_use, limit, needed = (
            f"{amount / scale:.2f}".rstrip("0").rstrip(".") for amount in (now, most, want)
        )
        never = "; it can only start once the queue's capability is raised" if want > most else ""
        yield clause.format(used=in_use, limit=limit, unit=unit, asked=needed, never=never)


def _describe_unplaced(
    job: QueuedJob, unplaced: Sequence[Pod], total: int, group: PodGroup | None
) -> Iterator[str]:
    # thousands of pods without a node wait for a few causes
    causes = Counter(_find_cause(pod) for pod in unplaced)
    gang = causes.pop(_GANG, 0)
    shown = causes.most_common(MAX_NAMES)
    for cause, number in shown:
        yield f"In job {job.name}, {_share(number, total, cause)}."
    if (others := causes.total() - sum(number for _, number in shown)) > 0:
        cause = "cannot be scheduled for other reasons"
        yield f"In job {job.name}, {_share(others, total, cause)}."
    if gang:
        least = group.spec.min_member if group is not None else 0
        start = f": {least} must start together" if least > 1 else ""
        yield f"In job {job.name}, {_share(gang, total, _GANG)}{start}."
    if gang and gang == len(unplaced):
        messages = (condition.message for pod in unplaced if (condition := pod.unscheduled))
        origins = Counter(filter(None, map(_find_origin, messages)))
        for origin, _ in origins.most_common(1):
            yield f"The scheduler says: {origin}."


_GANG = "wait for the gang"
_SINGULARS = {"wait": "waits", "have": "has"}


def _share(number: int, total: int, clause: str) -> str:
    """Return `1 of 4 pods waits for the gang` for the clause `wait for the gang`."""
    if number == 1:
        verb, space, rest = clause.partition(" ")
        clause = _SINGULARS.get(verb, verb) + space + rest
    return f"{number} of {format_count(total, 'pod')} {clause}"


def _find_cause(pod: Pod) -> str:
    condition = pod.unscheduled
    if condition is None:
        return "wait for the scheduler"
    if condition.reason == "SchedulingGated":
        return "wait for schedulingGates to be removed"
    message = condition.message
    if _AFTER_RELEASE in message:
        return "wait for other pods to end"
    if not message or any(part in message for part in _FOR_THE_GANG):
        return _GANG
    return f"cannot be scheduled: {_cut(message)}"


def _find_origin(message: str) -> str:
    """Return the first cause that the scheduler's message about a gang names, or ""."""
    # the scheduler appends the first cause to those of the gang
    rest = message.rpartition(_ORIGIN)[2].lstrip(": ") if _ORIGIN in message else ""
    pod, _, cause = rest.partition(": ")
    return _cut(cause if cause and " " not in pod else rest)


def _cut(message: str) -> str:
    return shorten(" ".join(message.split()).rstrip("."), _MAX_MESSAGE)
