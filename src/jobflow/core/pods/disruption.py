"""Disruptions: the cluster ended a pod for its own purposes, not because the pod failed.

Kubernetes marks such a pod with the condition DisruptionTarget. Older clusters and Volcano leave
other marks. A pod that Volcano evicts is deleted, so often only a lifecycle policy of its vcjob
shows it. A vcjob that Volcano restarted after an eviction, and that later failed, has failed by
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from jobflow.api.flow.status import StepFailure
from jobflow.api.volcano.job import Job, JobPhase
from jobflow.api.volcano.pod import Pod, PodCondition, PodPhase

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
"""`status.reason` of a pod that a kubelet or the node controller ended. Terminated: at the shutdown
of the node."""
_DISRUPTION_TARGET = "DisruptionTarget"
_POD_EVICTED = "PodEvicted"
_ACTION_OF: Mapping[str, str] = {
    JobPhase.TERMINATED: "TerminateJob",
    JobPhase.ABORTED: "AbortJob",
}
"""The action of a policy that ends a vcjob in a phase."""


class Disruption(NamedTuple):
    """Why and since when a pod is disrupted."""

    reason: str
    """Evicted, Preempted or NodeLost, or the reason of the condition if it is another one."""
    message: str
    since: datetime | None


def find_disruption(pod: Pod) -> Disruption | None:
    """Return the disruption of a pod, or None."""
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
    """Whether a condition marks a pod as disrupted: by Kubernetes, or by Volcano's scheduler, which
    sets Ready to false with the reason Evict before it deletes the pod."""
    if condition.type == _DISRUPTION_TARGET:
        return condition.status == "True"
    return condition.type == "Ready" and condition.status == "False" and condition.reason == "Evict"


def find_eviction_by_policy(job: Job) -> StepFailure | None:
    """Return the failure of a vcjob that a policy for PodEvicted has ended, as far as its phase
    shows it: call it only if no pod has failed and nobody aborted the vcjob."""
    action = _ACTION_OF.get(job.phase)
    for part in (job.spec, *(job.spec.tasks or ())) if action is not None else ():
        for policy in part.policies or ():
            # "*" is not enough: it covers other events too
            events = (policy.event, *(policy.events or ()))
            if policy.action == action and _POD_EVICTED in events:
                return StepFailure(reason=EVICTED, disruption=True)
    return None
