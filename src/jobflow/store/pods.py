"""The copy of pods, by the UID of their vcjob: only those that something is yet to be made of.

A cluster has many more pods than flows care for. Kept is a pod of a vcjob that a flow's status has
not yet recorded as ended, and one whose vcjob is not known (a watch may be ahead of the other).
What else is to be known of a pod is read live (docs/decisions/watched-pods.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from jobflow.api.flow_status import RunCondition
from jobflow.api.job import ENDED_PHASES, Job
from jobflow.api.jobflow import JobFlow
from jobflow.api.pod import Pod
from jobflow.api.resources import JOBFLOWS
from jobflow.kube.cache import Cache
from jobflow.store.slim import slim_pod

EMPTY: Mapping[str, Pod] = {}

OnChange = Callable[[Pod | None, Pod | None], None]


class Pods:
    """Told of changes of flows and vcjobs after they are in their caches."""

    def __init__(self, flows: Cache[JobFlow], jobs: Cache[Job], on_change: OnChange) -> None:
        self.cache = Cache[Pod](self._changed, slim=slim_pod, wanted=self._wanted)
        self._flows = flows
        self._jobs = jobs
        self._on_change = on_change
        self._of: dict[str, dict[str, Pod]] = {}
        self._closing: dict[str, dict[str, Job]] = {}
        """By flow UID, then by their own: vcjobs that have ended, of which pods are kept."""
        self._recorded: tuple[JobFlow | None, frozenset[str]] = (None, frozenset())

    def of(self, job_uid: str) -> Mapping[str, Pod]:
        """The pods of a vcjob by name. Not to be kept: it changes with the store."""
        return self._of.get(job_uid, EMPTY)

    # ------------------------------------------------------------------ what decides of keeping

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        """Its status may tell of more ends by now."""
        flow = new or old
        assert flow is not None
        if new is None:
            self._closing.pop(flow.metadata.uid, None)
        for job in list(self._closing.get(flow.metadata.uid, {}).values()):
            if not self._open(job):
                self._let_go(job)

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """It may have ended, or be known at last."""
        if new is None:
            return
        if new.metadata.uid not in self._of or not (old is None or new.ended):
            return
        if self._open(new):
            self._close(new)
        else:
            self._let_go(new)

    def _wanted(self, pod: Pod) -> bool:
        if not (uid := pod.owner):
            return False
        job = self._job_of(pod)
        return job is None or job.metadata.uid != uid or self._open(job)

    def _open(self, job: Job) -> bool:
        """Whether something of its pods may be recorded yet."""
        reference = job.metadata.controller
        if reference is None or reference.kind != JOBFLOWS.kind:
            return False
        flow = self._flows.get(job.metadata.namespace, reference.name)
        if flow is None or flow.metadata.uid != reference.uid:
            return True
        return not flow.final and not (job.ended and job.metadata.name in self._ends(flow))

    def _ends(self, flow: JobFlow) -> frozenset[str]:
        """The vcjobs whose end a flow's status tells. Asked for one flow many times in a row."""
        if self._recorded[0] is not flow:
            self._recorded = flow, recorded_ends(flow)
        return self._recorded[1]

    # ------------------------------------------------------------------ the copy

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            self._forget(old)
        if new is not None:
            self._of.setdefault(new.owner, {})[new.metadata.name] = new
            job = self._job_of(new)
            if job is not None and job.ended and job.metadata.uid == new.owner:
                self._close(job)
        self._on_change(old, new)

    def _forget(self, pod: Pod) -> None:
        pods = self._of[pod.owner]
        del pods[pod.metadata.name]
        if not pods:
            del self._of[pod.owner]

    def _close(self, job: Job) -> None:
        reference = job.metadata.controller
        if job.ended and reference is not None:
            self._closing.setdefault(reference.uid, {})[job.metadata.uid] = job

    def _let_go(self, job: Job) -> None:
        """Nobody is told: nothing has happened to these pods."""
        uid, reference = job.metadata.uid, job.metadata.controller
        for pod in self._of.pop(uid, {}).values():
            self.cache.let_go(pod)
        jobs = self._closing.get(reference.uid) if reference is not None else None
        if reference is not None and jobs is not None:
            jobs.pop(uid, None)
            if not jobs:
                del self._closing[reference.uid]

    def _job_of(self, pod: Pod) -> Job | None:
        owner = pod.metadata.controller
        return self._jobs.get(pod.metadata.namespace, owner.name) if owner is not None else None


def recorded_ends(flow: JobFlow) -> frozenset[str]:
    """The vcjobs, by name, of which a flow's status tells how they ended."""
    records = flow.status.job_status_list or ()
    told = [record.name for record in records if record.state in ENDED_PHASES]
    told += [job for job, entry in entries(flow) if entry.phase in ENDED_PHASES]
    return frozenset(told)


def entries(flow: JobFlow) -> Iterator[tuple[str, RunCondition]]:
    """What a flow's status tells of each step and each run of one, with its last vcjob's name. That
    of a first vcjob is the entry's key, and may have been dropped for the status's size."""
    for key, condition in (flow.status.conditions or {}).items():
        if condition.runs is None:
            yield condition.job or key, condition
        for run in condition.runs or ():
            yield run.job or f"{key}-{run.index}", run
