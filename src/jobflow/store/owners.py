"""The flow of each job: the one whose status has the UID of the job, else its controller owner,
else the one that has created the vcjob.

So a job stays among the jobs of its flow if somebody removes or changes its owner references.
"""

from collections.abc import Mapping
from typing import NamedTuple

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.meta import ObjectMeta
from jobflow.api.resources import JOBFLOWS
from jobflow.api.volcano.job import Job
from jobflow.core.names import qualify_name
from jobflow.core.planning.observed.known_jobs import find_creator, known_runs, pack_uid

EMPTY: Mapping[str, str] = {}


class Owner(NamedTuple):
    """A flow in the namespace of its job."""

    name: str
    uid: str


class Owners:
    """The index. Call `flow_changed` for each change of a flow."""

    def __init__(self) -> None:
        self._flows: dict[str, Owner] = {}
        """By the UID of a job, as a status has it."""
        self._jobs: dict[str, Mapping[str, str]] = {}
        """By the UID of a flow: names of jobs by their UID in its status."""

    def of(self, job: Job | JobFlow) -> Owner | None:
        """Return the flow of a job or child flow; None if it belongs to no flow."""
        # the status decides: it remembers what the owner references may have lost
        if self._flows and (known := self._flows.get(pack_uid(job.metadata.uid))) is not None:
            return known
        return find_owner(job)

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> set[str]:
        """Apply a change of a flow. Return the names of the jobs that only one of its statuses
        knows by UID."""
        before = self._jobs.pop(old.metadata.uid, EMPTY) if old is not None else EMPTY
        after = {run.uid: name for name, run in known_runs(new)} if new is not None else EMPTY
        # a retry forgets the jobs of the runs that it repeats
        for uid in before.keys() - after.keys():
            self._flows.pop(uid, None)
        if new is not None and after:
            owner = Owner(new.metadata.name, new.metadata.uid)
            self._jobs[owner.uid] = after
            self._flows.update(dict.fromkeys(after.keys() - before.keys(), owner))
        names = {**before, **after}
        return {names[uid] for uid in before.keys() ^ after.keys()}


def find_owner(job: Job | JobFlow) -> Owner | None:
    """Return the flow that a job itself names as its own."""
    meta = job.metadata
    if (owner := controlling_flow(meta)) is not None or not (uid := find_creator(job)):
        return owner
    created_by = (meta.annotations or EMPTY).get(labels.CREATED_BY_FLOW, "")
    return Owner(created_by.removeprefix(qualify_name(meta.namespace, "")), uid)


def controlling_flow(job: ObjectMeta) -> Owner | None:
    """Return the flow that the owner references of a job name as its controller."""
    owner = job.controller
    if owner is None or owner.kind != JOBFLOWS.kind:
        return None
    return Owner(owner.name, owner.uid)
