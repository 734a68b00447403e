"""Which flow has to look again because something happened to a pod: one whose step probes it.

Most flows probe nothing, and then no event of a pod costs them anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobflow.api.flow_status import StepPhase
from jobflow.api.job import Job
from jobflow.api.jobflow import JobFlow
from jobflow.api.labels import STEP
from jobflow.api.pod import Pod
from jobflow.core.names import format_job_name
from jobflow.kube.cache import Key, key_of
from jobflow.store import Store, owner_uid

Probing = Mapping[str, tuple[str, ...]]
"""By target: the keys, in `status.conditions`, of the steps that probe it."""

NOBODY: Probing = {}


class Interest:
    """What the flows of a store probe, worked out once a flow: its steps never change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._probing: dict[str, Probing] = {}
        """By flow UID; the flows of which a pod has been seen."""

    def __len__(self) -> int:
        return len(self._probing)

    def flow_of(self, old: Pod | None, new: Pod | None) -> Key | None:
        """The flow that has to look again because of this change of a pod; None: no flow has."""
        pod = new or old
        assert pod is not None
        if old is not None and new is not None and _stands(old) == _stands(new):
            return None
        owner = pod.metadata.controller
        job = self._store.jobs.get(pod.metadata.namespace, owner.name) if owner else None
        if job is None or job.metadata.uid != pod.owner or not (uid := owner_uid(job)):
            return None
        reference = job.metadata.controller
        assert reference is not None
        flow = self._store.flow(job.metadata.namespace, reference.name)
        if flow is None or flow.metadata.uid != uid or flow.final:
            return None
        waiting = any(_waits(flow, key) for key in self._of(flow).get(_step_of(job), ()))
        return key_of(flow) if waiting else None

    def forget(self, flow: JobFlow) -> None:
        """It is gone."""
        self._probing.pop(flow.metadata.uid, None)

    def _of(self, flow: JobFlow) -> Probing:
        uid = flow.metadata.uid
        if (known := self._probing.get(uid)) is None:
            known = self._probing[uid] = _probing(flow) or NOBODY
        return known


def _probing(flow: JobFlow) -> Probing:
    found: dict[str, list[str]] = {}
    for step in flow.steps:
        if step.depends_on is not None and step.depends_on.probe is not None:
            for target in step.targets:
                found.setdefault(target, []).append(format_job_name(flow.metadata.name, step.name))
    return {target: tuple(keys) for target, keys in found.items()}


def _step_of(job: Job) -> str:
    """Volcano's own controller names vcjobs as we do and says nothing else of the step."""
    reference = job.metadata.controller
    flow = reference.name if reference is not None else ""
    named = (job.metadata.annotations or {}).get(STEP)
    return named or job.metadata.name.removeprefix(f"{flow}-")


def _waits(flow: JobFlow, key: str) -> bool:
    """Whether a step has not begun, or not since the flow was last retried."""
    condition = (flow.status.conditions or {}).get(key)
    if condition is None:
        return True
    begun = condition.attempts > condition.past_attempts
    return condition.phase == StepPhase.WAITING and not begun


def _stands(pod: Pod) -> tuple[object, ...]:
    """What a probe cares for of a pod."""
    meta = pod.metadata
    return meta.uid, pod.phase, pod.status.pod_ip, meta.deletion_timestamp is not None
