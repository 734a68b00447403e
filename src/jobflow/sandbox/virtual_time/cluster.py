"""The vcjobs of flows in virtual time: Volcano's rules, as in the sandbox, and room in queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from jobflow.api import labels
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.virtual_time.flow import RunningJob, VirtualFlow
from jobflow.core.planning.virtual_time.loop import VirtualTime
from jobflow.sandbox.nodes.simulation_script import annotations_of
from jobflow.sandbox.virtual_time.capacity import Room
from jobflow.sandbox.virtual_time.job import Due, VirtualJob
from jobflow.store.groups import Groups

Annotate = Callable[[str, Mapping[str, str]], Mapping[str, str]]
"""Returns the annotations of a vcjob, from its step and the annotations of its manifest."""


@dataclass(frozen=True, slots=True)
class StepJob:
    """A vcjob and the step that it belongs to."""

    flow: VirtualFlow
    step: str
    """Its name; of a child flow `train/fit`, or `train/0/fit` with an item."""
    index: int | None
    """Index of the item or repeat."""
    job: VirtualJob


class SandboxJobs:
    """Vcjobs that run as the sandbox runs them. `room_of` returns the room of a queue. `annotate`
    may set how long vcjobs run."""

    def __init__(self, room_of: Callable[[str], Room], annotate: Annotate) -> None:
        self.all: list[StepJob] = []
        """All vcjobs by their creation."""
        self._room_of = room_of
        self._annotate = annotate
        self._changed: dict[VirtualJob, VirtualFlow] = {}
        """Vcjobs that have something to do now."""
        self._without_room: dict[VirtualJob, VirtualFlow] = {}

    def too_large(self) -> list[tuple[StepJob, list[str]]]:
        """Return the vcjobs that can never start, and the resources that they ask too much of."""
        waiting = (each for each in self.all if each.job in self._without_room)
        pairs = ((each, each.job.room.excess(each.job.gang)) for each in waiting)
        return [(each, names) for each, names in pairs if names]

    def create(self, flow: VirtualFlow, action: CreateJob, now: datetime) -> RunningJob:
        manifest = action.manifest
        own = manifest["metadata"].get("annotations")
        tasks = manifest["spec"].get("tasks") or [{}]
        of_job = annotations_of(own, tasks[0].get("template"))
        annotations = self._annotate(action.step, of_job)
        metadata = {**manifest["metadata"], "annotations": annotations}
        queue = manifest["spec"].get("queue") or "default"
        job = VirtualJob.create(
            {**manifest, "metadata": metadata}, f"job-{len(self.all)}", now, self._room_of(queue)
        )
        index = annotations.get(labels.INDEX)
        step, number = flow.place + action.step, None if index is None else int(index)
        self.all.append(StepJob(flow, step, number, job))
        self._without_room[job] = flow
        self._wake(job, flow)
        return job

    def abort(self, flow: VirtualFlow, job: RunningJob) -> None:
        assert isinstance(job, VirtualJob)
        job.abort()
        self._wake(job, flow)

    def act(self, time: VirtualTime) -> bool:
        if not self._changed and not self._give_room(time):
            return False
        job = next(iter(self._changed))
        flow = self._changed.pop(job)
        before = job.status
        job.run(time.now)
        if job.next_due is not None:
            time.at(job.next_due, partial(self._wake, job, flow))
        if job.waits_for_room:
            self._without_room[job] = flow
        if job.status is not before:
            flow.update_job(job)
        return True

    def _give_room(self, time: VirtualTime) -> bool:
        """Start what has room, in the order of creation; return whether anything did."""
        for job, flow in list(self._without_room.items()):
            if job.start is None and job.end is None:
                if job.admit(time.now):
                    self._wake(job, flow)
                    return True
                continue
            for due in job.start_pods(time.now):
                time.at(due.at, partial(self._move, job, flow, due, time))
            if not job.waits_for_room:
                del self._without_room[job]
            if self._changed:
                return True
        return False

    def _move(self, job: VirtualJob, flow: VirtualFlow, due: Due, time: VirtualTime) -> None:
        job.change_pod(due, time.now)
        self._wake(job, flow)

    def _wake(self, job: VirtualJob, flow: VirtualFlow) -> None:
        self._changed[job] = flow


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
        self._sandbox = SandboxJobs(room_of, annotate)
        super().__init__(start, self._sandbox, Groups(), approve_after)

    @property
    def jobs(self) -> list[StepJob]:
        """All vcjobs by their creation."""
        return self._sandbox.all

    def too_large(self) -> list[tuple[StepJob, list[str]]]:
        """Return the vcjobs that can never start, and the resources that they ask too much of."""
        return self._sandbox.too_large()
