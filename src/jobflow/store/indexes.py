"""Indexes: the flow of each job, the jobs that were created from each template, and the flows that
reuse each flow.

The flow of a job is the one whose status has the UID of the job, else its controller owner, else
the one that has created the vcjob: somebody may remove or change owner references.
"""

from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from heapq import nlargest
from typing import NamedTuple, TypeVar

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, ObjectMeta
from jobflow.api.volcano.job import Job
from jobflow.core.names import qualify_name
from jobflow.core.planning.observed.identity import find_creator, known_runs, pack_uid
from jobflow.kube.cache import Cache, Key, key_of

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
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
        """Apply a change. Return the names of the jobs whose UIDs only one of both statuses has."""
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


class Reusers:
    """The flows that have not ended and name another one in `spec.reuse`."""

    def __init__(self) -> None:
        self._names: dict[Key, dict[str, str]] = {}
        """By the flow that they name: their names, each with the UID that it must have, or ""."""
        self._named: dict[Key, Key] = {}
        """The flow that each of them names: a deletion may show more than was known."""

    def of(self, namespace: str, name: str, uid: str) -> list[str]:
        """Return the names of the flows that reuse a flow."""
        found = self._names.get((namespace, name), EMPTY)
        return [each for each, needed in found.items() if needed in ("", uid)]

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        if old is not None and (before := self._named.pop(key_of(old), None)) is not None:
            discard(self._names, before, old.metadata.name)
        after = reused_flow(new)
        if new is not None and after is not None:
            reuse = new.status.reuse or new.spec.reuse
            uid = (reuse.uid if reuse is not None else None) or ""
            self._names.setdefault(after, {})[new.metadata.name] = uid
            self._named[key_of(new)] = after


def reused_flow(flow: JobFlow | None) -> Key | None:
    """Return the key of the flow that a flow names in `spec.reuse`; None once it has ended."""
    if flow is None or flow.spec.reuse is None or flow.final:
        return None
    return flow.metadata.namespace, flow.spec.reuse.flow


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
    return Owner(owner.name, owner.uid) if owner and owner.kind == JOBFLOWS.kind else None


def discard(index: dict[K, dict[str, V]], key: K, name: str) -> None:
    """Remove a name from an index of two levels, and its first level if that is empty."""
    names = index[key]
    del names[name]
    if not names:
        del index[key]


LONG_AGO = datetime.min.replace(tzinfo=UTC)


class TemplateJobs:
    """The index. Call `job_changed` after the cache has the change."""

    def __init__(self, jobs: Cache[Job]) -> None:
        self._jobs = jobs
        self._names: dict[Key, dict[str, None]] = {}

    def newest(self, template: Key, most: int) -> list[str]:
        """Return the names of the newest existing jobs of a template, newest first. Looks at each
        of them, so do not call it for every event."""
        found = (self._jobs.get(template[0], name) for name in self._names.get(template, ()))
        times = ((job.metadata.creation_timestamp, job.metadata.name) for job in found if job)
        # a template may have a hundred thousand jobs, of which a status shows a few
        newest = nlargest(most, times, key=lambda each: (each[0] or LONG_AGO, each[1]))
        return [name for _, name in newest]

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        before, after = template_of(old), template_of(new)
        if before == after:
            return
        if old is not None and before is not None:
            discard(self._names, before, old.metadata.name)
        if new is not None and after is not None:
            self._names.setdefault(after, {})[new.metadata.name] = None


def template_of(job: Job | None) -> Key | None:
    """Return the template that a job was created from; None without one in its own namespace.
    Volcano's own controller sets only a label, whose value it does not shorten."""
    if job is None:
        return None
    meta = job.metadata
    named = (meta.annotations or {}).get(labels.CREATED_BY_TEMPLATE)
    named = named or (meta.labels or {}).get(labels.CREATED_BY_TEMPLATE, "")
    # a namespace has no dot
    namespace, _, name = named.partition(".")
    return (namespace, name) if name and namespace == meta.namespace else None
