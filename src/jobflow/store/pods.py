"""The copy of pods by the UID of their job, limited to pods that plans may still need.

A pod is kept if the end of its job is not recorded in a flow's status, or if its job is not known
yet. Other pods are read live (docs/decisions/watched-pods.md).
"""

from collections.abc import Iterator, Mapping

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition
from jobflow.api.volcano.job import ENDED_PHASES, Job
from jobflow.api.volcano.pod import Pod
from jobflow.core.names import recorded_names
from jobflow.kube.cache import Cache, OnChange
from jobflow.store.indexes import Owners, discard
from jobflow.store.slim import slim_pod

EMPTY: Mapping[str, Pod] = {}


class Pods:
    """The pods. Call `flow_changed` and `job_changed` after the caches have the change."""

    def __init__(
        self, flows: Cache[JobFlow], jobs: Cache[Job], owners: Owners, on_change: OnChange[Pod]
    ) -> None:
        self.cache = Cache[Pod](self._changed, slim=slim_pod, wanted=self._wanted)
        self._flows = flows
        self._jobs = jobs
        self._owners = owners
        self._on_change = on_change
        self._of: dict[str, dict[str, Pod]] = {}
        self._gone: dict[str, dict[str, Pod]] = {}
        """By job UID: pods that were deleted after their end, until that of the job is recorded."""
        self._closing: dict[str, dict[str, Job]] = {}
        """By flow UID and job UID: the ended jobs whose pods are kept."""
        self._recorded: tuple[JobFlow | None, frozenset[str]] = (None, frozenset())

    def of(self, job_uid: str) -> Mapping[str, Pod]:
        """Return the pods of a job by name: a view that changes with the store."""
        return self._of.get(job_uid, EMPTY)

    def gone_of(self, job_uid: str) -> Mapping[str, Pod]:
        """Return the first pods of tasks that were deleted after their end: the termination message
        of one of them may be the outputs of the job."""
        return self._gone.get(job_uid, EMPTY)

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        """Drop the pods of jobs whose end the new status records."""
        flow = new or old
        assert flow is not None
        if new is None:
            self._closing.pop(flow.metadata.uid, None)
        for job in list(self._closing.get(flow.metadata.uid, {}).values()):
            if not self._is_needed(job):
                self._drop_pods(job, flow.metadata.uid)

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """Decide about the pods of a job that has ended or was not known before."""
        if new is None:
            if old is not None:
                self._gone.pop(old.metadata.uid, None)
            return
        uid = new.metadata.uid
        # nothing was kept, or nothing can have changed for its pods
        if not (uid in self._of or uid in self._gone) or not (old is None or new.ended):
            return
        if self._is_needed(new):
            self._remember_ended(new)
        else:
            owner = self._owners.of(new)
            self._drop_pods(new, owner.uid if owner is not None else "")

    def _wanted(self, pod: Pod) -> bool:
        # a pod that no vcjob owns
        if not (uid := pod.owner):
            return False
        job = self._job_of(pod)
        return job is None or job.metadata.uid != uid or self._is_needed(job)

    def _is_needed(self, job: Job) -> bool:
        """Return whether a plan may still record something about the job's pods."""
        owner = self._owners.of(job)
        if owner is None:
            return False
        flow = self._flows.get(job.metadata.namespace, owner.name)
        if flow is None or flow.metadata.uid != owner.uid:
            return True  # watches are independent: the flow may come later
        # pods of a job that runs are always needed, and those of an ended flow never
        if flow.final or not job.ended:
            return not flow.final
        # many jobs of one flow are asked for in a row
        if self._recorded[0] is not flow:
            self._recorded = flow, recorded_ends(flow)
        return job.metadata.name not in self._recorded[1]

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None:
            discard(self._of, old.owner, old.metadata.name)
        # only the first pod of a task can have outputs, which a plan may not have read yet
        if new is None and old is not None and old.ended and old.index == 0:
            job = self._job_of(old)
            if job is not None and job.metadata.uid == old.owner and self._is_needed(job):
                self._gone.setdefault(old.owner, {})[old.metadata.name] = old
        if new is not None:
            self._of.setdefault(new.owner, {})[new.metadata.name] = new
            if new.metadata.name in self._gone.get(new.owner, EMPTY):
                discard(self._gone, new.owner, new.metadata.name)
            job = self._job_of(new)
            if job is not None and job.ended and job.metadata.uid == new.owner:
                self._remember_ended(job)
        self._on_change(old, new)

    def _remember_ended(self, job: Job) -> None:
        owner = self._owners.of(job)
        if job.ended and owner is not None:
            self._closing.setdefault(owner.uid, {})[job.metadata.uid] = job

    def _drop_pods(self, job: Job, flow_uid: str) -> None:
        uid = job.metadata.uid
        # pods of a recorded end are not read again
        self._gone.pop(uid, None)
        for pod in self._of.pop(uid, {}).values():
            self.cache.let_go(pod)
        if uid in self._closing.get(flow_uid, {}):
            discard(self._closing, flow_uid, uid)

    def _job_of(self, pod: Pod) -> Job | None:
        owner = pod.metadata.controller
        return self._jobs.get(pod.metadata.namespace, owner.name) if owner is not None else None


def recorded_ends(flow: JobFlow) -> frozenset[str]:
    """Return the names of the jobs whose end a flow's status records."""
    records = flow.status.job_status_list or ()
    names = [record.name for record in records if record.state in ENDED_PHASES]
    names += [job for job, entry in entries(flow) if entry.phase in ENDED_PHASES]
    return frozenset(names)


def entries(flow: JobFlow) -> Iterator[tuple[str, RunCondition]]:
    """Yield the condition of each step without runs and of each run, with each job that it
    records."""
    for key, condition in (flow.status.conditions or {}).items():
        for run in (condition,) if condition.runs is None else condition.runs:
            for name in recorded_names(key, run):
                yield name, run


def is_recorded(flow: JobFlow, last: Job) -> bool:
    """Return whether a flow's status has the end of a deleted job, or the job if it has none."""
    name = last.metadata.name
    if last.ended:
        return name in recorded_ends(flow)
    records = flow.status.job_status_list or ()
    return any(record.name == name for record in records) or any(
        job == name and (entry.job or entry.attempts) for job, entry in entries(flow)
    )
