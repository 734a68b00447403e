"""The pod that made a vcjob fail: its container, exit code, reason and node.

A pod that the cluster disrupted for its own purposes failed when the disruption began, because its
containers and often other pods end as a result. Kubernetes marks such a pod with the condition
DisruptionTarget; older clusters and Volcano leave other marks. A pod that Volcano evicts is
deleted, so often only a lifecycle policy of its vcjob shows it.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from jobflow.api.flow.status import FailedAttempt, StepFailure
from jobflow.api.volcano.job import Job, JobPhase, TaskState
from jobflow.api.volcano.pod import ContainerWaiting, Pod, PodCondition, PodPhase, Terminated

EVICTED, PREEMPTED, NODE_LOST = "Evicted", "Preempted", "NodeLost"

_OF_CONDITIONS: Mapping[str, str] = {
    "EvictionByEvictionAPI": EVICTED,
    "PreemptionByScheduler": PREEMPTED,
    "DeletionByTaintManager": NODE_LOST,
    "DeletionByPodGC": NODE_LOST,
}
"""Reasons of the condition DisruptionTarget (k8s.io/kubernetes, pkg/apis/core)."""
_OF_PODS: Mapping[str, str] = {
    "Evicted": EVICTED,
    "Preempting": PREEMPTED,
    "Preempted": PREEMPTED,
    "NodeLost": NODE_LOST,
    "NodeShutdown": NODE_LOST,
    "Shutdown": NODE_LOST,
    "Terminated": NODE_LOST,
}
"""`status.reason` of a pod that a kubelet (Terminated: at a shutdown) or a controller ended."""
_DISRUPTION_TARGET = "DisruptionTarget"
_POD_EVICTED = "PodEvicted"
_ACTION_OF: Mapping[str, str] = {JobPhase.TERMINATED: "TerminateJob", JobPhase.ABORTED: "AbortJob"}
"""The action of a policy that ends a vcjob in a phase."""


class Disruption(NamedTuple):
    """Why and since when a pod is disrupted."""

    reason: str
    """Evicted, Preempted or NodeLost, or the reason of the condition if it is another one."""
    message: str
    since: datetime | None


def find_disruption(pod: Pod) -> Disruption | None:
    status = pod.status
    # it had done its work before it was disrupted
    if status.phase == PodPhase.SUCCEEDED:
        return None
    by_pod = _OF_PODS.get(status.reason, "") if status.phase == PodPhase.FAILED else ""
    condition = next(filter(is_disruption, status.conditions or ()), None)
    if condition is None:
        return Disruption(by_pod, status.message, None) if by_pod else None
    reason = PREEMPTED if condition.type != _DISRUPTION_TARGET else ""
    reason = reason or _OF_CONDITIONS.get(condition.reason, "") or by_pod
    return Disruption(
        reason or condition.reason or EVICTED,
        status.message or condition.message,
        condition.last_transition_time,
    )


def is_disruption(condition: PodCondition) -> bool:
    if condition.type == _DISRUPTION_TARGET:
        return condition.status == "True"
    # Volcano's scheduler sets it before it deletes the pod
    return condition.type == "Ready" and condition.status == "False" and condition.reason == "Evict"


def find_eviction_by_policy(job: Job) -> StepFailure | None:
    """Return the failure of a vcjob that a policy for PodEvicted has ended, as far as its phase
    shows it. Only for a vcjob without a failed pod that nobody aborted."""
    action = _ACTION_OF.get(job.phase)
    for part in (job.spec, *(job.spec.tasks or ())) if action is not None else ():
        for policy in part.policies or ():
            # "*" is not enough: it covers other events too
            events = (policy.event, *(policy.events or ()))
            if policy.action == action and _POD_EVICTED in events:
                return StepFailure(reason=EVICTED, disruption=True)
    return None


_UNKNOWN = StepFailure()
_LATE = datetime.max.replace(tzinfo=UTC)
STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of a waiting container that starts normally."""
KUBELET_REASONS = frozenset({"ContainerCannotRun", "StartError", "ContainerStatusUnknown"})
"""Reasons with which the kubelet writes the termination message, to say what is wrong."""
MAX_FAILURE_MESSAGE, MAX_FAILURE_REASON = 256, 64
"""Bytes of the texts of a failure as JSON, because the status stores them for every step."""
_SIGNALS = range(128 + 1, 128 + 65)
"""Exit codes with which a shell or a runtime reports a signal."""


def find_obstacle(pod: Pod) -> ContainerWaiting | None:
    """Return why a pod that has a node cannot start, such as ErrImagePull; None if it may."""
    if pod.phase != PodPhase.PENDING or not pod.spec.node_name:
        return None
    waiting = (status.state.waiting for status in pod.containers)
    return next((each for each in waiting if each and each.reason not in STARTING), None)


def has_waiting_pods(phase: str, counts: Mapping[str, TaskState] | None) -> bool:
    """Whether pods of a vcjob in this phase do not all run yet."""
    tasks = (counts or {}).values() if phase == JobPhase.RUNNING else ()
    is_short = any((task.phase or {}).get(PodPhase.PENDING) for task in tasks)
    return is_short or phase in (JobPhase.PENDING, JobPhase.RESTARTING)


def is_starting(pod: Pod) -> bool:
    """Whether the kubelet has taken a pod that does not run yet."""
    is_taken = pod.spec.node_name and pod.status.start_time is not None
    return pod.phase == PodPhase.PENDING and bool(is_taken)


class PodFailure(NamedTuple):
    """The pod that failed first, as it is recorded and as a message names it."""

    failure: StepFailure
    sure: bool
    """Whether the pod itself failed; if not, it only had problems when its job ended."""
    message: str
    """`pod f-b-worker-1 (task worker): exit code 3 (Error) on node n1: ValueError: no rows`."""


class _Suspect(NamedTuple):
    """A possible cause. The least one, by the first four fields, is blamed."""

    rank: int
    """0: the pod failed; 1: a container failed in a pod that still runs; 2: the container failed
    before its restart; 3: the container did not start."""
    when: datetime
    pod: str
    place: int = -1
    """Position of the container in its pod; -1 for the pod as a whole."""
    container: str = ""
    ended: Terminated | None = None
    reason: str = ""
    message: str = ""
    disrupted: bool = False


def find_first_failure(pods: Iterable[Pod], *, is_log: bool = False) -> PodFailure | None:
    """Return the pod that failed first, because the others often fail as a result, or None.
    `is_log`: whether termination messages are logs, and never outputs."""
    # a name that was used again counts once
    by_name = {pod.metadata.name: pod for pod in pods}
    suspects = (each for pod in by_name.values() for each in _list_suspects(pod, is_log))
    found = min(suspects, key=lambda each: each[:4], default=None)
    if found is None:
        return None
    pod, ended = by_name[found.pod], found.ended
    text = ended.message if ended and not is_log else found.message
    if (message := _clip(text, MAX_FAILURE_MESSAGE)) != _in_one_line(text):
        # the last line of a longer text has the error, in logs and tracebacks
        message = _clip(_last_line(text, is_log) or text, MAX_FAILURE_MESSAGE)
    since = ended.started_at if ended is not None else pod.status.start_time
    seconds = 0
    # a pod that was never seen running has no times
    if since is not None and found.when != _LATE:
        seconds = max((found.when - since) // timedelta(seconds=1), 0)
    failure = StepFailure(
        task=pod.task,
        pod=found.pod,
        container=found.container,
        exit_code=ended.exit_code if ended is not None else None,
        signal=(ended.signal or 0) if ended is not None else 0,
        reason=_clip(found.reason, MAX_FAILURE_REASON),
        node=pod.spec.node_name,
        message=message,
        seconds=seconds,
        disruption=found.disrupted,
    )
    where = [f"task {failure.task}"] if failure.task else []
    if failure.container and len(pod.containers) > 1:
        where.append(f"container {failure.container}")
    who = f"pod {failure.pod}" + (f" ({', '.join(where)})" if where else "")
    how = describe_end(failure, ended.signal if ended is not None else None)
    node = f" on node {failure.node}" if failure.node else ""
    more = f": {_in_one_line(found.message)}" if found.message else ""
    return PodFailure(failure, found.rank == 0, f"{who}: {how}{node}{more}")


FACTS: Mapping[str, tuple[str, ...]] = {
    "exitCode": ("exit_code",),
    "signal": ("signal", "exit_code"),
    "reason": ("reason",),
    "node": ("node",),
    "task": ("task",),
    "pod": ("pod",),
    "message": ("message", "exit_code", "signal", "reason"),
    "seconds": ("seconds",),
    "disruption": ("disruption",),
    "step": ("step",),
}
"""The facts of a failure that expressions see -> the stored fields that they follow from."""
FACTS_OF_CHILD = frozenset({"step"})
"""Facts that only the failure of a step that may run a flow has."""


def read_facts(failure: StepFailure | None, *, of_child: bool = False) -> dict[str, Any]:
    """Return the facts of a failure as expressions see them. `of_child`: whether the step may run a
    flow, so that `step` exists too."""
    # every key exists, also if no pod is known, so that an expression needs no test
    found = failure or _UNKNOWN
    code = -1 if found.exit_code is None else found.exit_code
    end = "" if failure is None else describe_end(found, found.signal or None)
    return {
        **({"step": found.step} if of_child else {}),
        "exitCode": code,
        "signal": found.signal or (code - 128 if code in _SIGNALS else 0),
        "reason": str(found.reason),
        "node": found.node,
        "task": found.task,
        "pod": found.pod,
        "message": found.message or end,
        "seconds": found.seconds,
        "disruption": found.disruption,
    }


def _clip(text: str, size: int) -> str:
    """Return a text in one line, cut with an ellipsis if it has more than `size` bytes as JSON."""
    text = _in_one_line(text)
    # the quotes do not count
    while (excess := len(msgspec.json.encode(text)) - 2 - size) > 0:
        # a character has at most 6 bytes as JSON, so this never cuts too much
        text = text.removesuffix("…")[: -max(excess // 6, 1)] + "…"
    return text


def _in_one_line(text: str) -> str:
    return " ".join(text.encode("utf-8", "replace").decode().split())


def decode_message(text: bytes | str) -> Any:
    """Return the value of a termination message that is JSON, or None."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _last_line(text: str, is_log: bool) -> str:
    """Return the last line of a termination message, or "" if it is empty or has outputs."""
    # outputs say nothing about a failure
    has_outputs = not is_log and isinstance(decode_message(text), dict | list)
    lines = [] if has_outputs else [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _list_suspects(pod: Pod, is_log: bool) -> list[_Suspect]:
    status, name = pod.status, pod.metadata.name
    if pod.phase == PodPhase.SUCCEEDED:
        return []
    failed = pod.phase == PodPhase.FAILED
    suspects: list[_Suspect] = []
    for place, container in enumerate(pod.containers):
        ended, waiting = container.state.terminated, container.state.waiting
        before = container.last_state.terminated
        found = _Suspect(3, _LATE, name, place, container.name)
        if ended is not None and has_failed(ended):
            found = found._replace(rank=0 if failed else 1, ended=ended)
        elif before is not None and has_failed(before) and ended is None:
            found = found._replace(rank=2, ended=before)
        elif waiting is not None and waiting.reason not in STARTING:
            found = found._replace(reason=waiting.reason, message=waiting.message)
        else:
            continue
        if (end := found.ended) is not None:
            is_of_kubelet = end.reason in KUBELET_REASONS
            message = end.message if is_of_kubelet else _last_line(end.message, is_log)
            when = end.finished_at or _LATE
            found = found._replace(when=when, reason=end.reason, message=message)
        suspects.append(found)
    # a pod fails when its first container does
    when = min((suspect.when for suspect in suspects), default=_LATE)
    if (disruption := find_disruption(pod)) is not None:
        when = min(when, disruption.since or _LATE)
        reason, message = disruption.reason, disruption.message
        return [_Suspect(0, when, name, reason=reason, message=message, disrupted=True)]
    if failed and (status.reason or not any(suspect.rank == 0 for suspect in suspects)):
        # such as past its deadline, which also ended its containers
        return [_Suspect(0, when, name, reason=status.reason, message=status.message)]
    return suspects


def has_failed(ended: Terminated) -> bool:
    return ended.exit_code != 0 or ended.signal is not None


def describe_attempt(failed: FailedAttempt) -> str:
    """Return `exit code 1 (Error) on node n1: ValueError: no rows`, or the reason alone."""
    facts = StepFailure(exit_code=failed.exit_code, reason=failed.reason)
    end = describe_end(facts, failed.signal or None)
    node = f" on node {failed.node}" if failed.node else ""
    return f"{end}{node}" + (f": {failed.message}" if failed.message else "")


def describe_end(failure: StepFailure, signal: int | None = None) -> str:
    """Return `exit code 3 (Error)`, `signal 9`, or the reason of a container without an end."""
    code = "" if failure.exit_code is None else f"exit code {failure.exit_code}"
    how = code if signal is None else f"signal {signal}"
    both = f"{how} ({failure.reason})" if how and failure.reason else ""
    return both or how or failure.reason or "failed"
