"""Index of the flows that a pod's events matter to: those with a step that probes the pod, and that
of a pod which cannot start. Most flows have no probes, so events of pods cost them nothing."""

from collections.abc import Mapping

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepPhase
from jobflow.api.labels import STEP
from jobflow.api.volcano.job import Job
from jobflow.api.volcano.pod import Pod
from jobflow.core.names import format_job_name
from jobflow.core.pods.failure import find_obstacle, is_starting
from jobflow.kube.cache import Key, key_of
from jobflow.store import Store

ProbingSteps = Mapping[str, tuple[str, ...]]
"""By target: the keys in `status.conditions` of the steps that probe it."""

NO_PROBES: ProbingSteps = {}


class PodIndex:
    """The probes of flows, computed once for each flow because its steps never change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._probing: dict[str, ProbingSteps] = {}
        """By flow UID. A flow is added when one of its pods changes."""

    def flow_of(self, old: Pod | None, new: Pod | None) -> Key | None:
        """Return the flow that has to be reconciled because a pod changed; None for no flow."""
        pod = new or old
        assert pod is not None
        is_same = old is not None and new is not None and _probe_state(old) == _probe_state(new)
        # the status says it, if it lasts
        is_stuck = new is not None and find_obstacle(new) is not None
        is_stuck = is_stuck and (old is None or find_obstacle(old) is None)
        if is_same and not is_stuck:
            return None
        if (found := self._flow_of(pod)) is None:
            return None
        flow, job = found
        if is_stuck:
            return key_of(flow)
        probing = self._probing.get(flow.metadata.uid)
        if probing is None:
            probing = self._probing[flow.metadata.uid] = _probing(flow) or NO_PROBES
        # a job of Volcano's own controller has no annotation with its step
        named = (job.metadata.annotations or {}).get(STEP)
        step = named or job.metadata.name.removeprefix(f"{flow.metadata.name}-")
        waiting = any(_waits(flow, key) for key in probing.get(step, ()))
        return key_of(flow) if waiting else None

    def flow_of_starting(self, old: Pod | None, new: Pod | None) -> Key | None:
        """Return the flow of a pod that a kubelet has taken; None without one."""
        if new is None or not is_starting(new) or (old is not None and is_starting(old)):
            return None
        found = self._flow_of(new)
        return key_of(found[0]) if found is not None else None

    def _flow_of(self, pod: Pod) -> tuple[JobFlow, Job] | None:
        """Return the flow of a pod, unless it has ended, and the pod's job."""
        owner = pod.metadata.controller
        job = self._store.jobs.get(pod.metadata.namespace, owner.name) if owner else None
        if job is None or job.metadata.uid != pod.owner:  # an earlier job had its name
            return None
        of_job = self._store.owners.of(job)
        if of_job is None:
            return None
        flow = self._store.flows.get(job.metadata.namespace, of_job.name)
        if flow is None or flow.metadata.uid != of_job.uid or flow.final:
            return None
        return flow, job

    def forget(self, flow: JobFlow) -> None:
        self._probing.pop(flow.metadata.uid, None)


def _probing(flow: JobFlow) -> ProbingSteps:
    found: dict[str, list[str]] = {}
    for step in flow.steps:
        if step.depends_on is not None and step.depends_on.probe is not None:
            for target in step.targets:
                found.setdefault(target, []).append(format_job_name(flow.metadata.name, step.name))
    return {target: tuple(keys) for target, keys in found.items()}


def _waits(flow: JobFlow, key: str) -> bool:
    condition = (flow.status.conditions or {}).get(key)
    if condition is None:
        return True
    begun = condition.attempts > condition.past_attempts  # since the flow was last retried
    return condition.phase == StepPhase.WAITING and not begun


def _probe_state(pod: Pod) -> tuple[object, ...]:
    meta = pod.metadata
    return meta.uid, pod.phase, pod.status.pod_ip, meta.deletion_timestamp is not None
