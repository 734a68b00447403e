"""Lifecycle policies: the event that a pod's change causes, and the action that follows (Volcano's
pkg/controllers/job: job_controller_handler.go, and applyPolicies in job_controller_util.go)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from jobflow.api.duration import parse_duration
from jobflow.api.volcano.job import JobSpec, LifecyclePolicy
from jobflow.api.volcano.pod import ENDED_POD_PHASES, PodPhase


class BusEvent(StrEnum):
    """Volcano's events (bus.volcano.sh/v1alpha1 Event)."""

    ANY = "*"
    POD_PENDING = "PodPending"
    POD_RUNNING = "PodRunning"
    POD_FAILED = "PodFailed"
    POD_EVICTED = "PodEvicted"
    TASK_COMPLETED = "TaskCompleted"
    TASK_FAILED = "TaskFailed"
    OUT_OF_SYNC = "OutOfSync"
    COMMAND_ISSUED = "CommandIssued"


class BusAction(StrEnum):
    """Volcano's actions (bus.volcano.sh/v1alpha1 Action)."""

    SYNC = "SyncJob"
    ABORT = "AbortJob"
    RESTART = "RestartJob"
    RESTART_TASK = "RestartTask"
    RESTART_POD = "RestartPod"
    RESTART_PARTITION = "RestartPartition"
    TERMINATE = "TerminateJob"
    COMPLETE = "CompleteJob"
    RESUME = "ResumeJob"


DEFAULT_MAX_RETRY = 3
INTERNAL_EVENTS = frozenset({BusEvent.OUT_OF_SYNC, BusEvent.COMMAND_ISSUED, BusEvent.POD_RUNNING})
"""Events that match no policy, not even `*`."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    name: str
    task: str
    phase: PodPhase = PodPhase.PENDING
    uid: str = ""
    version: int = 0
    """`status.version` of the vcjob when the pod was created."""
    partition: str = ""
    exit_code: int = 0
    """Exit code of the first container, after it has terminated."""
    ready: bool = True
    restarts: int = 0
    deleting: bool = False
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobRequest:
    event: BusEvent = BusEvent.OUT_OF_SYNC
    action: BusAction | None = None
    """Action of a Command, which overrides the policies."""
    pod: PodFacts | None = None
    """The pod that caused it; a partial restart concerns the pod, its task or its partition."""


SYNC = JobRequest(action=BusAction.SYNC)


def pod_request(
    old: PodFacts | None, new: PodFacts, spec: JobSpec, pods: Mapping[str, PodFacts]
) -> JobRequest:
    """Return the request that a new or changed pod causes; `pods` are all pods of the vcjob. A pod
    that is seen for the first time counts as changed into its phase. Volcano counts it as Pending,
    and so misses a failure during its own downtime."""
    # A change within a phase, such as a new condition, is no event.
    changed = old is None or old.phase != new.phase
    task = next((task for task in spec.tasks or () if task.name == new.task), None)
    mates = [pod for pod in pods.values() if pod.task == new.task]
    event = BusEvent.OUT_OF_SYNC
    if new.deleting:
        pass  # its deletion is the event, not its last status
    elif new.phase is PodPhase.FAILED and changed:
        event = BusEvent.POD_FAILED
    elif new.phase is PodPhase.SUCCEEDED and changed and task is not None and task.replicas:
        if sum(pod.phase is PodPhase.SUCCEEDED for pod in mates) >= task.replicas:
            event = BusEvent.TASK_COMPLETED
    elif new.phase is PodPhase.RUNNING and changed:
        event = BusEvent.POD_RUNNING
    elif new.phase is PodPhase.PENDING and changed:
        event = BusEvent.POD_PENDING
    elif new.phase not in ENDED_POD_PHASES and task is not None and task.replicas:
        # The containers of the task's pods may restart `maxRetry` times in total.
        restarts = sum(pod.restarts for pod in mates if pod.phase not in ENDED_POD_PHASES)
        # -1: the containers of the task may restart without limit.
        if task.max_retry != -1 and restarts >= (task.max_retry or DEFAULT_MAX_RETRY):
            event = BusEvent.TASK_FAILED
    return JobRequest(event, pod=new)


def evicted_request(pod: PodFacts) -> JobRequest:
    """Return the request that a pod causes if anyone but the job controller deleted it."""
    return JobRequest(BusEvent.POD_EVICTED, pod=replace(pod, since=None))


def decide(spec: JobSpec, version: int, request: JobRequest) -> tuple[BusAction, timedelta]:
    """Return the action for a request, and its delay: by the task's policies, then the job's, else
    a sync. A request of a pod of an earlier version is only synced."""
    if request.action is not None:
        return request.action, timedelta()
    pod = request.pod
    # A pod of before the last restart must not restart the job again.
    if pod is not None and pod.version >= version and request.event not in INTERNAL_EVENTS:
        task = next((task for task in spec.tasks or () if pod.task and task.name == pod.task), None)
        # The policies of a task precede those of its job.
        own = task.policies or () if task is not None else ()
        for policy in (*own, *(spec.policies or ())):
            if {request.event, BusEvent.ANY} & {*(policy.events or ()), policy.event}:
                # Every pod begins as Pending, so without a timeout this would act at once.
                is_met = request.event is not BusEvent.POD_PENDING or policy.timeout is not None
            else:
                code = pod.exit_code if request.event is BusEvent.POD_FAILED else 0
                is_met = policy.exit_code == code
            if policy.action and is_met:
                return BusAction(policy.action), _timeout(policy)
    return BusAction.SYNC, timedelta()


def _timeout(policy: LifecyclePolicy) -> timedelta:
    return timedelta(seconds=parse_duration(policy.timeout) if policy.timeout else 0.0)


def policy_faults(spec: JobSpec) -> list[str]:
    faults = []
    places = [("spec", spec.policies)]
    places += [(f"spec.tasks[{i}]", task.policies) for i, task in enumerate(spec.tasks or ())]
    for place, policies in places:
        for index, policy in enumerate(policies or ()):
            path = f"{place}.policies[{index}]"
            if policy.action is None or policy.action not in set(BusAction) - {BusAction.SYNC}:
                faults.append(f"{path}.action: {policy.action!r} is not an action")
            try:
                _timeout(policy)
            except ValueError as error:
                faults.append(f"{path}.timeout: {policy.timeout!r} {error}")
    return faults
