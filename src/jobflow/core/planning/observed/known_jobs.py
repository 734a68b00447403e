"""The jobs that are a flow's, among those that name it: the status knows them by their UIDs.

A job is taken at first sight, once: by its name, its controller owner (without a controller, the
flow that has created the vcjob, by an annotation) and its attempt (`identity`). From then on, until
its attempt has ended, the status has its UID, and somebody's edit of its labels, annotations or
owner references changes nothing. A job of the same name with another UID is a namesake: it is
neither taken nor deleted (docs/decisions/lost-jobs.md).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from uuid import UUID

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import ENDED_PHASES, Job
from jobflow.core.names import format_latest_name
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.planning.observed.view import Holder, View
from jobflow.core.text import join_names
from jobflow.core.work import work_of_object

_LABELS = (labels.CREATED_BY_FLOW, labels.STEP, labels.INDEX, labels.ATTEMPT)
_ANNOTATIONS = (labels.CREATED_BY_FLOW, labels.STEP, labels.INDEX)
_EMPTY: Mapping[str, str] = {}
PACKED_UIDS = 16_384
"""The number of UIDs whose short form is cached."""


@lru_cache(PACKED_UIDS)
def pack_uid(uid: str) -> str:
    """Return a UID as a status has it: its 16 bytes as base64url. Every API server makes UUIDs; any
    other text stays as it is."""
    try:
        return urlsafe_b64encode(UUID(uid).bytes).rstrip(b"=").decode()
    except ValueError:
        return uid


def known_runs(flow: JobFlow) -> Iterator[tuple[str, RunCondition]]:
    """Yield the conditions of attempts of which the status has the UID, with the name of the job.
    A name that was dropped for the status's size follows from the attempt."""
    for key, condition in (flow.status.conditions or {}).items():
        for run in condition.runs or (condition,):
            if run.uid:
                first = key if run.index is None else f"{key}-{run.index}"
                yield run.job or run.flow or format_latest_name(first, run.attempts), run


def find_creator(job: Job | JobFlow) -> str:
    """Return the UID of the flow that has created a vcjob, by its annotation, if somebody has
    removed its owner references; else "". A child flow needs its owner reference, which only the
    controller can add."""
    meta = job.metadata
    if work_of_object(job).has_steps or meta.controller is not None:
        return ""
    return (meta.annotations or _EMPTY).get(labels.FLOW_UID, "")


class KnownJobs:
    """The jobs that a status knows."""

    def __init__(self, flow: JobFlow, jobs: Mapping[str, Job]) -> None:
        """`jobs`: those that may be the flow's, by name."""
        self._flow = flow.metadata
        self._jobs = jobs
        self._runs: Mapping[str, RunCondition] = dict(known_runs(flow))
        self._records = {record.name: record for record in flow.status.job_status_list or ()}

    def list_doubtful(self) -> Iterator[Job]:
        """Yield the jobs that may be namesakes. All others have the UID that the status has, or are
        as the record of an attempt that has ended says; this is a fast path."""
        runs, records = self._runs, self._records
        for name, job in self._jobs.items():
            if (known := runs.get(name)) is not None:
                if known.uid != pack_uid(job.metadata.uid):
                    yield job
            elif (record := records.get(name)) is not None and record.end_timestamp is not None:
                is_other = record.start_timestamp != job.metadata.creation_timestamp
                if is_other or record.state not in ENDED_PHASES:
                    yield job

    def owns(self, job: Job | JobFlow) -> bool:
        """Whether a job that exists is the flow's."""
        meta = job.metadata
        known = self._runs.get(meta.name)
        if known is not None and known.uid == pack_uid(meta.uid):
            return True
        is_ours = meta.is_owned_by(self._flow) or find_creator(job) == self._flow.uid
        return is_ours and not self.is_namesake(meta)

    def is_namesake(self, job: ObjectMeta, *, exists: bool = True) -> bool:
        """Whether a job only has the name of a job of the flow.

        After the end of an attempt, its job is known by its creation, and one that was lost does
        not exist again. Without a UID, because an older version or Volcano's controller wrote the
        status, the job of an attempt that has not ended is taken at first sight.
        """
        known, record = self._runs.get(job.name), self._records.get(job.name)
        if known is not None:
            is_other = known.uid != pack_uid(job.uid)
            return is_other and not self._names_earlier_attempt(known, job)
        if record is None or record.end_timestamp is None:
            return False
        is_other = record.start_timestamp not in (None, job.creation_timestamp)
        return is_other or (exists and record.state not in ENDED_PHASES)

    def _names_earlier_attempt(self, known: RunCondition, job: ObjectMeta) -> bool:
        """Whether the UID in the status is that of an earlier attempt than the name beside it: a
        version that does not know the field leaves it there when it starts another attempt."""
        if known.attempts < 2:
            return False
        others = (other.metadata for name, other in self._jobs.items() if name != job.name)
        return known.create_time in (None, job.creation_timestamp) or any(
            pack_uid(other.uid) == known.uid for other in others
        )


def without_namesakes(flow: JobFlow, view: View) -> View:
    """Return the View with namesakes among the jobs of others that have a name which the flow
    needs."""
    known = KnownJobs(flow, view.jobs)
    namesakes = {
        job.metadata.name: Holder(job, owner_alive=True)
        for job in known.list_doubtful()
        if known.is_namesake(job.metadata, exists=job.metadata.name not in view.deleted)
    }
    if not namesakes:
        return view
    jobs = {name: job for name, job in view.jobs.items() if name not in namesakes}
    return replace(view, jobs=jobs, holders={**view.holders, **namesakes})


def find_edits(old: ObjectMeta, new: ObjectMeta) -> Event | None:
    """Return the Event about what somebody has changed on a job of a flow; None if nothing that
    says whose job it is."""
    before, after = old.annotations or _EMPTY, new.annotations or _EMPTY
    edits = [f"the annotation {key}" for key in _ANNOTATIONS if before.get(key) != after.get(key)]
    before, after = old.labels or _EMPTY, new.labels or _EMPTY
    edits += [f"the label {key}" for key in _LABELS if before.get(key) != after.get(key)]
    owners = [owner.uid if (owner := meta.controller) is not None else "" for meta in (old, new)]
    if owners[0] != owners[1]:
        edits.append("the owner references")
    if not edits:
        return None
    message = f"somebody changed {join_names(edits)} of {new.name}, which stays a job of the flow"
    if new.controller is None:
        message += "; it is not deleted with the flow any more"
    return Event(EventType.WARNING, "JobEdited", message)
