"""Flows in virtual time with vcjobs of the sandbox, and the result of `jobflow plan`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow, templates_of
from jobflow.api.flow.status import JobRecord, JobRunningHistory, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import JobPhase
from jobflow.core.names import format_job_name
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.virtual_time.flow import RunningJob, VirtualFlow
from jobflow.core.planning.virtual_time.loop import VirtualTime
from jobflow.core.pods.resources import sum_requests
from jobflow.core.reasons import StepReason
from jobflow.core.spec.expressions import reads_of
from jobflow.core.text import join_names
from jobflow.core.timelines.spans import runs_of
from jobflow.core.timelines.timeline import Timeline, timeline
from jobflow.sandbox.nodes.simulate import annotations_of
from jobflow.sandbox.virtual_time.capacity import Room
from jobflow.sandbox.virtual_time.job import VirtualJob
from jobflow.store.groups import Groups

Annotate = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""Returns the annotations of a vcjob, from its step and the annotations of its manifest."""


class SandboxJobs:
    """Vcjobs that run as the sandbox runs them. `room_of` returns the room of a queue."""

    def __init__(self, room_of: Callable[[str], Room], annotate: Annotate) -> None:
        self.all: list[VirtualJob] = []
        self._room_of = room_of
        self._annotate = annotate
        self._changed: dict[VirtualJob, None] = {}
        self.without_room: dict[VirtualJob, None] = {}

    def create(self, flow: VirtualFlow, action: CreateJob, now: datetime) -> RunningJob:
        manifest = action.manifest
        own = manifest["metadata"].get("annotations")
        tasks = manifest["spec"].get("tasks") or [{}]
        of_job = annotations_of(own, tasks[0].get("template"))
        annotations = self._annotate(action.step, of_job)
        annotated = {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}
        uid, queue = f"job-{len(self.all)}", manifest["spec"].get("queue") or "default"
        job = VirtualJob(flow, action.step, annotated, uid, now, self._room_of(queue))
        self.all.append(job)
        self.without_room[job] = None
        self._wake(job)
        return job

    def abort(self, flow: VirtualFlow, job: RunningJob) -> None:
        assert isinstance(job, VirtualJob)
        job.abort()
        self._wake(job)

    def act(self, time: VirtualTime) -> bool:
        # If no vcjob has changed, the first one with room starts, in the order of creation.
        waiting = [] if self._changed else list(self.without_room)
        for job in waiting:
            if job.start is None and job.end is None:
                # One that does not fit does not hold back later ones.
                if job.admit(time.now):
                    self._wake(job)
            else:
                for at, change in job.start_pods(time.now):
                    time.at(at, partial(self._move, job, change, time))
                if not job.waits_for_room:
                    del self.without_room[job]
            if self._changed:
                break
        if not self._changed:
            return False
        job = next(iter(self._changed))
        del self._changed[job]
        before = job.status
        job.run(time.now)
        if job.next_due is not None:
            time.at(job.next_due, partial(self._wake, job))
        if job.waits_for_room:
            self.without_room[job] = None
        if job.status is not before:
            job.flow.update_job(job)
        return True

    def _move(self, job: VirtualJob, change: Callable[[datetime], None], time: VirtualTime) -> None:
        change(time.now)
        self._wake(job)

    def _wake(self, job: VirtualJob) -> None:
        self._changed[job] = None


class VirtualCluster(VirtualTime):
    """Runs flows with vcjobs of the sandbox from their creation to their end. By default, room is
    unlimited, vcjobs run as long as their manifests say, and steps are approved at once."""

    def __init__(
        self,
        start: datetime,
        *,
        room_of: Callable[[str], Room] = lambda queue: Room({}),
        annotate: Annotate = lambda step, annotations: annotations,
        approve_after: Callable[[str], timedelta | None] = lambda step: timedelta(),
    ) -> None:
        sandbox = SandboxJobs(room_of, annotate)
        self.jobs, self._without_room = sandbox.all, sandbox.without_room
        super().__init__(start, sandbox, Groups(self._parent_of), approve_after)

    def _parent_of(self, flow: JobFlow) -> JobFlow | None:
        owner = flow.metadata.controller
        flows = () if owner is None else (each.flow for each in self.all_flows)
        return next((each for each in flows if owner and each.metadata.uid == owner.uid), None)

    def too_large(self) -> list[tuple[VirtualJob, list[str]]]:
        """Return the vcjobs that can never start, and the resources that they ask too much of."""
        waiting = (job for job in self.jobs if job in self._without_room)
        pairs = ((job, job.room.excess(job.gang)) for job in waiting)
        return [(job, names) for job, names in pairs if names]


_GIB = 2**30
_BY_EXPRESSION = (StepReason.EXPRESSION_ERROR, StepReason.NOT_TAKEN, StepReason.UNTIL_NOT_REACHED)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    flow: str
    step: str
    phase: str
    reason: str
    message: str
    remedy: str
    """How to give it the outputs that it reads; "" if that is not the cause."""


@dataclass(frozen=True)
class PlannedFlows:
    cluster: VirtualCluster
    start: datetime
    by_default: Sequence[str]
    approved_at_once: Sequence[str] = ()

    @property
    def makespan(self) -> timedelta:
        return self.cluster.now - self.start

    @cached_property
    def jobs(self) -> list[VirtualJob]:
        """The vcjobs in the order of their start; those that never started last."""
        never = datetime.max.replace(tzinfo=self.start.tzinfo)
        return sorted(self.cluster.jobs, key=lambda job: job.start or never)

    @cached_property
    def critical_path(self) -> tuple[str, ...]:
        flow = max(self.cluster.flows, key=lambda flow: flow.status.completion_time or self.start)
        return self.timeline_of(flow).critical_path

    def timeline_of(self, flow: JobFlow) -> Timeline:
        uid = flow.metadata.uid
        jobs = (job for job in self.cluster.jobs if job.flow.flow.metadata.uid == uid)
        # The status of a large flow has no room for all records of vcjobs, so they are made again.
        status = msgspec.structs.replace(flow.status, job_status_list=list(map(_record, jobs)))
        found = timeline(msgspec.structs.replace(flow, status=status), now=self.cluster.now)
        assert found is not None, "the flow has ended"
        return found

    @cached_property
    def steps(self) -> list[PlannedStep]:
        """How all steps have ended, in the order of the flows."""
        found = []
        for each in self.cluster.all_flows:
            flow = each.present
            steps = {step.name: step for step in flow.all_steps}
            known = flow.status.conditions or {}
            conditions = {
                name: known.get(format_job_name(flow.metadata.name, name), StepCondition())
                for name in steps
            }
            for name, condition in conditions.items():
                read: list[str] = []
                if condition.reason in _BY_EXPRESSION:
                    read = [used.step for used in reads_of(steps[name], steps) if used.has_outputs]
                without = [
                    steps[target]
                    for target in dict.fromkeys(read)
                    if not any(run.outputs for run in runs_of(conditions[target]))
                ]
                place, phase = each.place + name, condition.phase or StepPhase.WAITING
                reason, message = condition.reason, condition.message
                remedy = _remedy(without) if without else ""
                planned = PlannedStep(flow.metadata.name, place, phase, reason, message, remedy)
                found.append(planned)
        return found

    @cached_property
    def hours(self) -> Mapping[str, float]:
        total = {"cpu": 0.0, "memoryGiB": 0.0, "gpu": 0.0}
        for job in self.jobs:
            if job.start is not None and job.end is not None:
                ran = (job.end - job.start) / timedelta(hours=1)
                asked = sum_requests(job.outline)
                total["cpu"] += asked.cpu * ran
                total["memoryGiB"] += asked.memory / _GIB * ran
                total["gpu"] += asked.gpu * ran
        return total

    def seconds(self, moment: datetime | None) -> float | None:
        """Return the seconds from the start, whole ones as an integer."""
        return None if moment is None else _rounded((moment - self.start).total_seconds(), 3)


def _record(job: VirtualJob) -> JobRecord:
    ran = JobRunningHistory(
        state=JobPhase.RUNNING, start_timestamp=job.start, end_timestamp=job.end
    )
    return JobRecord(
        name=job.metadata.name,
        state=job.status.state.phase,
        start_timestamp=job.metadata.creation_timestamp,
        end_timestamp=job.end,
        running_histories=None if job.start is None else [ran],
    )


def _remedy(without_outputs: Sequence[Step]) -> str:
    steps = join_names([step.name for step in without_outputs])
    templates = [*dict.fromkeys(name for step in without_outputs for name in templates_of(step))]
    kind = "JobTemplate" if len(templates) == 1 else "JobTemplates"
    owner = f"the {kind} {join_names(templates)}" if templates else "their pod templates"
    return (
        f"No outputs of {steps} are known: set the annotation {labels.SANDBOX_PREFIX}output of "
        f"{owner}, or take outputs of finished flows by --learn"
    )


def to_json(planned: PlannedFlows) -> dict[str, Any]:
    """Return the plan as JSON: times in seconds from the creation of the flows."""
    return {
        "makespanSeconds": _rounded(planned.makespan.total_seconds(), 3),
        "criticalPath": list(planned.critical_path),
        "hours": {name: _rounded(amount, 4) for name, amount in planned.hours.items()},
        "jobs": [
            {
                "step": job.step,
                "job": job.metadata.name,
                "index": job.index,
                "start": planned.seconds(job.start),
                "end": planned.seconds(job.end),
                "phase": job.status.state.phase,
            }
            for job in planned.jobs
        ],
        "steps": [msgspec.to_builtins(each) for each in planned.steps],
    }


def _rounded(number: float, digits: int) -> float:
    found = round(number, digits)
    return int(found) if found == int(found) else found
