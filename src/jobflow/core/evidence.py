"""What is known of each step before anything is decided: the status's memory and the vcjobs.

A vcjob belongs to the step that its annotation or label names; one that Volcano's own controller
made carries neither, and is known by its name. Nothing here decides what comes of a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.flow_status import JobRecord, StepCondition, StepPhase
from jobflow.api.job import ENDED_PHASES, Job, JobPhase
from jobflow.api.jobflow import JobFlow, Step
from jobflow.core.actions import View
from jobflow.core.names import job_name, label_value
from jobflow.core.reasons import StepReason

NOTHING = StepCondition()
"""The memory of a step that no status has said anything about."""

FAILURES: Mapping[str, str] = {
    JobPhase.FAILED: StepReason.JOB_FAILED,
    JobPhase.TERMINATED: StepReason.JOB_TERMINATED,
    JobPhase.ABORTED: StepReason.JOB_ABORTED,
}
"""Reason of a Failed step by the phase in which its vcjob ended."""

_OWN_PHASES = frozenset({StepPhase.WAITING, StepPhase.SKIPPED})
_EMPTY: Mapping[str, str] = {}


@dataclass(slots=True)
class Evidence:
    """What is known of one step."""

    step: Step
    key: str
    """`<flow>-<step>`: its key in `conditions` and the name of its first vcjob."""
    memory: StepCondition
    """What the flow's status says of it, in our own terms also where Volcano wrote it."""
    now: datetime
    """The second that has begun."""
    jobs: list[Job] = field(default_factory=list)
    """Its vcjobs in the View, those that are gone included, by attempt."""
    job: Job | None = None
    """The vcjob of its latest attempt; None where that is not in the View."""
    gone: bool = False
    """Whether `job` is gone from the cluster."""

    @property
    def attempts(self) -> int:
        """How many vcjobs were made for it, as far as anyone has seen."""
        seen = attempt_of(self.job) if self.job is not None else 0
        return max(self.memory.attempts, seen)

    @property
    def job_name(self) -> str:
        """The vcjob of its latest attempt; meaningful once it has begun."""
        return self.job.metadata.name if self.job is not None else self.memory.job or self.key


def gather(
    flow: JobFlow,
    steps: Sequence[Step],
    view: View,
    records: Mapping[str, JobRecord],
    now: datetime,
) -> list[Evidence]:
    """What is known of each of `steps`, in their order. `records`: the status's, by name."""
    conditions = flow.status.conditions or {}
    name = flow.metadata.name
    found = []
    for step in steps:
        key = job_name(name, step.name)
        memory = conditions.get(key, NOTHING)
        if not _ours(memory):
            memory = _volcanos(memory, records.get(key), key)
        elif memory.attempts and not memory.job:  # dropped for the status's size
            memory = msgspec.structs.replace(memory, job=key)
        found.append(Evidence(step, key, memory, now))
    _assign(found, view)
    return found


def attempt_of(job: Job) -> int:
    """Which run of its step a vcjob is, from 1; 1 where no label says so."""
    text = (job.metadata.labels or _EMPTY).get(labels.ATTEMPT, "1")
    return int(text) if text.isascii() and text.isdigit() else 1


def has_run(evidence: Evidence, now: StepCondition, records: Mapping[str, JobRecord]) -> bool:
    """Whether a vcjob of the step has ever been Running; remembered by the histories."""
    if now.phase in (JobPhase.RUNNING, JobPhase.COMPLETING, JobPhase.COMPLETED):
        return True
    for job in evidence.jobs:
        if any(entry.status == JobPhase.RUNNING for entry in job.status.conditions or ()):
            return True
    flow = evidence.key.removesuffix(f"-{evidence.step.name}")
    runs = {job_name(flow, evidence.step.name, run) for run in range(evidence.attempts)}
    return any(_ran(records[name]) for name in runs | {evidence.memory.job} if name in records)


def _ran(record: JobRecord) -> bool:
    return record.state == JobPhase.RUNNING or any(
        entry.state == JobPhase.RUNNING for entry in record.running_histories or ()
    )


def _ours(memory: StepCondition) -> bool:
    """Whether JobFlow wrote it: Volcano's controller writes no attempts and no reasons."""
    return bool(memory.attempts or memory.reason) or memory.phase in _OWN_PHASES


def _volcanos(memory: StepCondition, record: JobRecord | None, key: str) -> StepCondition:
    """A condition that Volcano's controller wrote, or none at all, in our terms.

    Volcano drops the condition of a vcjob that is gone; then `jobStatusList` still says how it
    ended. Of what it began it made one vcjob, named `key`.
    """
    if not memory.phase and record is None:
        return NOTHING if memory == NOTHING else _begun(memory, key, JobPhase.PENDING)
    said = [memory.phase, record.state if record is not None else ""]
    ended = next((phase for phase in said if phase in ENDED_PHASES), None)
    phase = ended or memory.phase or said[1] or JobPhase.PENDING
    begun = _begun(memory, key, phase)
    if record is not None and begun.create_time is None:
        begun = msgspec.structs.replace(begun, create_time=record.start_timestamp)
    return begun


def _begun(memory: StepCondition, key: str, phase: str) -> StepCondition:
    changes: dict[str, Any] = {"phase": phase, "job": key, "attempts": 1}
    if phase in FAILURES:
        changes |= {"phase": StepPhase.FAILED, "reason": FAILURES[phase]}
    return msgspec.structs.replace(memory, **changes)


def _assign(found: Sequence[Evidence], view: View) -> None:
    """Hand every vcjob of the View to its step, and choose each step's latest."""
    if not view.jobs:
        return
    by_step = {evidence.step.name: evidence for evidence in found}
    by_label: dict[str, Evidence] = {}
    by_key = {evidence.key: evidence for evidence in found}
    for job in view.jobs.values():
        meta = job.metadata
        name = (meta.annotations or _EMPTY).get(labels.STEP)
        if name is not None:
            evidence = by_step.get(name)
        elif (label := (meta.labels or _EMPTY).get(labels.STEP)) is not None:
            by_label = by_label or {label_value(step): e for step, e in by_step.items()}
            evidence = by_label.get(label)
        else:
            evidence = by_key.get(meta.name)
        if evidence is not None:
            evidence.jobs.append(job)
    for evidence in found:
        if evidence.jobs:
            _choose(evidence, view)


def _choose(evidence: Evidence, view: View) -> None:
    """The latest attempt, unless the status remembers a later one that is no longer there."""
    jobs = evidence.jobs
    if len(jobs) > 1:
        jobs.sort(key=lambda job: (attempt_of(job), job.metadata.name))
    latest = jobs[-1]
    if attempt_of(latest) < evidence.memory.attempts:
        return
    evidence.job = latest
    evidence.gone = latest.metadata.name in view.deleted
