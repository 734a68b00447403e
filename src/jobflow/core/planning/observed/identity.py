"""Which jobs are a flow's, and the step, run and attempt that each of them is.

A job is taken at first sight, once: by its name, its controller owner (without a controller, the
flow that has created the vcjob, by an annotation) and its attempt. From then on, until its attempt
has ended, the status has its UID, and somebody's edit of its labels, annotations or owner
references changes nothing. A job of the same name with another UID is a namesake: it is neither
taken nor deleted (docs/decisions/lost-jobs.md).
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition, StepPhase
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import ENDED_PHASES, Job, JobPhase
from jobflow.core.names import (
    format_latest_name,
    format_run_name,
    is_attempt_name,
    split_attempt_name,
)
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.planning.observed import steps
from jobflow.core.planning.observed.children import was_retried_with
from jobflow.core.planning.observed.view import Holder, View
from jobflow.core.spec.compiled import CompiledFlow
from jobflow.core.text import join_names
from jobflow.core.work import work_of_object

_LABELS = (labels.CREATED_BY_FLOW, labels.STEP, labels.INDEX, labels.ATTEMPT)
_ANNOTATIONS = (labels.CREATED_BY_FLOW, labels.STEP, labels.INDEX)
_EMPTY: Mapping[str, str] = {}
PACKED_UIDS = 16_384
"""The number of UIDs whose short form is cached."""


@lru_cache(PACKED_UIDS)
def pack_uid(uid: str) -> str:
    """Return a UID as a status has it: its 16 bytes as base64url."""
    try:
        return urlsafe_b64encode(UUID(uid).bytes).rstrip(b"=").decode()
    except ValueError:  # every API server makes UUIDs; tests and other tools may not
        return uid


def known_runs(flow: JobFlow) -> Iterator[tuple[str, RunCondition]]:
    """Yield the conditions of attempts whose UID the status has, with the name of the job."""
    for key, condition in (flow.status.conditions or {}).items():
        for run in condition.runs or (condition,):
            if run.uid:
                first = format_run_name(key, run.index)
                # a name that was dropped for the status's size follows from the attempt
                yield run.job or run.flow or format_latest_name(first, run.attempts), run


def find_creator(job: Job | JobFlow) -> str:
    """Return the UID of the flow that has created a vcjob, by its annotation, if somebody has
    removed its owner references; else ""."""
    meta = job.metadata
    if work_of_object(job).has_steps or meta.controller is not None:
        return ""  # only the controller can add the owner reference of a child flow
    return (meta.annotations or _EMPTY).get(labels.FLOW_UID, "")


class KnownJobs:
    """The jobs that a status knows."""

    def __init__(self, flow: JobFlow, jobs: Mapping[str, Job]) -> None:
        """`jobs`: those that may be the flow's, by name."""
        self._flow = flow.metadata
        self._jobs = jobs
        self._runs: Mapping[str, RunCondition] = dict(known_runs(flow))
        self._records = {record.name: record for record in flow.status.job_status_list or ()}

    def owns(self, job: Job | JobFlow) -> bool:
        """Whether a job that exists is the flow's."""
        meta = job.metadata
        known = self._runs.get(meta.name)
        if known is not None and known.uid == pack_uid(meta.uid):
            return True
        is_ours = meta.is_owned_by(self._flow) or find_creator(job) == self._flow.uid
        return is_ours and not self.is_namesake(meta)

    def is_namesake(self, job: ObjectMeta, deleted: Collection[str] = ()) -> bool:
        """Whether a job only has the name of a job of the flow. `deleted`: names of jobs that do
        not exist any more."""
        known = self._runs.get(job.name)
        if known is not None:
            if known.uid == pack_uid(job.uid):
                return False
            # a version that does not know the UID leaves it there when it starts another attempt
            others = (other.metadata for name, other in self._jobs.items() if name != job.name)
            is_of_earlier_attempt = known.attempts > 1 and (
                known.create_time in (None, job.creation_timestamp)
                or any(pack_uid(other.uid) == known.uid for other in others)
            )
            return not is_of_earlier_attempt
        record = self._records.get(job.name)
        if record is None or record.end_timestamp is None:
            return False  # an older version, or Volcano's controller, wrote no UID: it is taken
        # after the end of an attempt its job is known by its creation; a lost one never comes back
        if record.start_timestamp is not None and record.start_timestamp != job.creation_timestamp:
            return True
        return record.state not in ENDED_PHASES and job.name not in deleted


def without_namesakes(flow: JobFlow, view: View) -> View:
    """Return the View with namesakes among the jobs of others (`holders`)."""
    known = KnownJobs(flow, view.jobs)
    namesakes = {
        name: Holder(job, owner_alive=True)
        for name, job in view.jobs.items()
        if known.is_namesake(job.metadata, view.deleted)
    }
    if not namesakes:
        return view
    jobs = {name: job for name, job in view.jobs.items() if name not in namesakes}
    return replace(view, jobs=jobs, holders={**view.holders, **namesakes})


def find_edits(old: ObjectMeta, new: ObjectMeta) -> Event | None:
    """Return the Event about a change of what says whose job it is; None without one."""
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


class _Place(NamedTuple):
    """The run and the attempt of a job."""

    position: int
    run: int | None
    """The index of its item or repeat, if its step has any."""
    attempt: int


def assign(
    found: Sequence[steps.ObservedStep], layout: CompiledFlow, view: View, flow: JobFlow
) -> None:
    """Assign every job of the View to its step and run, and choose the latest of each run."""
    plain: dict[int, list[Job]] = {}
    looped: dict[int, dict[int, list[Job]]] = {}
    named: dict[str, _Place] | None = None
    loops, by_key = layout.loops, layout.by_key
    for name, job in view.jobs.items():
        position = by_key.get(name)
        if position is not None and not loops[position]:  # most jobs
            first = job if steps.attempt_of(job) == 1 else _with_attempt(job, 1)
            plain.setdefault(position, []).append(first)
            continue
        place = _place_of(job, layout)
        # most are found by name; a name of a later attempt may be shortened
        if place is None or place.attempt > 1:
            if named is None:
                named = {
                    last: _Place(position, run.index, run.stored.attempts)
                    for position, observed in enumerate(found)
                    for run in observed.each
                    if (last := run.stored.job)
                    and run.stored.attempts
                    and is_attempt_name(last, run.key)  # no run can have another
                }
            place = named.get(name, place)
        if place is not None and place.run is None:
            plain.setdefault(place.position, []).append(_with_attempt(job, place.attempt))
        elif place is not None and place.run is not None:
            runs = looped.setdefault(place.position, {})
            runs.setdefault(place.run, []).append(_with_attempt(job, place.attempt))
    for position, jobs in plain.items():
        if layout.has_objects[position]:
            found[position].jobs = jobs
            _choose(found[position], view, flow)
    for position, of_runs in looped.items():
        if layout.has_objects[position]:
            _assign_to_runs(found[position], of_runs, view, flow)


def _place_of(job: Job, layout: CompiledFlow) -> _Place | None:
    """Return the place that labels and name agree on, else the one that the name says."""
    # nobody can edit the name; labels only say which reading of it is meant, and a vcjob of
    # Volcano's own controller has none
    meta = job.metadata
    step = (meta.annotations or _EMPTY).get(labels.STEP)
    if step is not None:
        position = layout.graph.index.get(step)
    else:
        position = layout.by_label.get((meta.labels or _EMPTY).get(labels.STEP, ""))
    if position is not None:
        index = steps.index_of(job) if layout.loops[position] else None
        key = layout.keys[position]
        first = format_run_name(key, index)
        if layout.loops[position] == (index is not None) and is_attempt_name(meta.name, first):
            return _Place(position, index, _attempt(job, is_first=meta.name == first))
    for first in dict.fromkeys((meta.name, split_attempt_name(meta.name)[0])):
        attempt = _attempt(job, is_first=meta.name == first)
        position = layout.by_key.get(first)
        if position is not None and not layout.loops[position]:
            return _Place(position, None, attempt)
        key, _, text = first.rpartition("-")
        position, index = layout.by_key.get(key), steps.parse_number(text)
        if position is not None and layout.loops[position] and str(index) == text:
            return _Place(position, index, attempt)
    return None


def _attempt(job: Job, *, is_first: bool) -> int:
    """Return the number of the attempt in the label if the name allows it."""
    if is_first:
        return 1
    # a name is never used twice, so the number of the attempt is at most that of the name
    most = split_attempt_name(job.metadata.name)[1] + 1
    number = steps.attempt_of(job)
    return number if 1 < number <= most else most


def _with_attempt(job: Job, number: int) -> Job:
    """Return the job with the label of this attempt, which somebody may have edited."""
    if steps.attempt_of(job) == number:
        return job
    edited = {**(job.metadata.labels or _EMPTY), labels.ATTEMPT: str(number)}
    return msgspec.structs.replace(
        job, metadata=msgspec.structs.replace(job.metadata, labels=edited)
    )


def _assign_to_runs(
    observed: steps.ObservedStep, jobs: Mapping[int, list[Job]], view: View, flow: JobFlow
) -> None:
    runs = {run.index: run for run in observed.runs}
    continued = 0
    for index, those in jobs.items():
        run = runs.get(index)
        if run is None:
            run = runs[index] = steps.fresh(observed, flow.metadata.name, index)
        run.jobs = those
        past = run.stored.past_attempts
        _choose(run, view, flow)
        continued += past - run.stored.past_attempts
    observed.runs = sorted(runs.values(), key=lambda run: run.index or 0)
    if continued:
        past = observed.stored.past_attempts - continued
        observed.stored = msgspec.structs.replace(observed.stored, past_attempts=past)
    observed.jobs = [job for run in observed.runs for job in run.jobs]
    if observed.step.repeat is not None and observed.runs:
        runs_from_last = reversed(observed.runs)
        begun = (each for each in runs_from_last if each.job or not each.stored.is_left_over)
        last = next(begun, observed.runs[-1])
        observed.job, observed.attempt, observed.gone = last.job, last.attempt, last.gone


def _choose(run: steps.ObservedRun, view: View, flow: JobFlow) -> None:
    """Choose the latest attempt, unless the status has a later one, or the flow was retried."""
    stored = run.stored
    if len(run.jobs) > 1:
        run.jobs = sorted(run.jobs, key=lambda job: (steps.attempt_of(job), job.metadata.name))
    latest = run.jobs[-1]
    attempt = steps.attempt_of(latest)
    is_left_over = stored.phase == StepPhase.WAITING and stored.job == latest.metadata.name
    if is_left_over and attempt == stored.past_attempts == stored.attempts:
        if was_retried_with(latest, flow):  # the same child flow is an attempt since the retry
            again = {"past_attempts": attempt - 1, "phase": JobPhase.PENDING}
            stored = run.stored = msgspec.structs.replace(stored, **again)
    if attempt < stored.attempts or attempt <= stored.past_attempts:
        return
    run.job, run.attempt = latest, attempt
    run.gone = latest.metadata.name in view.deleted
