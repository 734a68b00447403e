"""Simulating runner: pods change their phases by the clock, and nothing is executed."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.core.planning.actions import Check
from jobflow.sandbox.jobs.job import Vcjob
from jobflow.sandbox.nodes.pod_status import PodProgress
from jobflow.sandbox.nodes.runner import Assignment, Report
from jobflow.sandbox.nodes.simulation_script import (
    PhaseChange,
    SimulationScript,
    annotations_of,
    read_script,
)

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


class SimulateRunner:
    """Runs pods as their vcjob's annotations say, `speed` times as fast. Infinite speed ends pods
    immediately and skips Running. Raises ValueError if the speed is not above 0."""

    graceful = False

    def __init__(self, speed: float = 1.0, *, clock: Clock = utc_now) -> None:
        if not speed > 0:
            raise ValueError(f"speed {speed} is not above 0")
        self._speed = speed
        self._clock = clock

    def faults(self, job: Vcjob) -> Sequence[str]:
        return _script(job)[1]

    async def run(self, assignment: Assignment, report: Report) -> None:
        """Report each phase when it is due; of several that are due, only the last."""
        script, _ = _script(assignment.job)
        began: datetime | None = assignment.pod.status.start_time
        due = list(self._due(script, assignment))
        while due:
            wait = (due[0][0] - self._clock()).total_seconds()
            # Compared again afterwards, because this clock is not that of the event loop.
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            # A controller that was down missed these phases, as it would in a cluster.
            while len(due) > 1 and due[1][0] <= self._clock():
                due.pop(0)
            at, mark = due.pop(0)
            began = began or at
            finished = None if mark.phase is PodPhase.RUNNING else at
            await report(progress_of(mark, min(began, at), finished))

    async def end(self, pod: Pod) -> None:
        """Do nothing, because nothing runs."""

    def log(self, pod_uid: str, container: str, run: int) -> None:
        """Return None, because nothing writes a log."""

    def _due(
        self, script: SimulationScript, assignment: Assignment
    ) -> Iterator[tuple[datetime, PhaseChange]]:
        """Yield the remaining phase changes of the pod, each with its time. A task with listed
        phases counts from the job's start, any other from its pod's own."""
        task = assignment.pod.task
        start = assignment.job_started if task in script.phases else assignment.started
        for mark in script.marks(task):
            if mark.phase is PodPhase.RUNNING and assignment.pod.phase == PodPhase.RUNNING:
                continue
            yield start + timedelta(seconds=mark.at / self._speed), mark


def progress_of(change: PhaseChange, began: datetime, finished: datetime | None) -> PodProgress:
    """Return the progress of a pod after a change of its phase."""
    return PodProgress(
        change.phase,
        began,
        finished,
        change.exit_code,
        change.message,
        change.reason,
        disrupted=change.disrupted,
    )


def _script(job: Vcjob) -> tuple[SimulationScript, tuple[str, ...]]:
    meta = job.metadata
    tasks = job.spec.tasks or []
    annotations = annotations_of(meta.annotations, tasks[0].template if tasks else None)
    return read_script(annotations, meta.labels or {}, (task.name or "" for task in tasks))


async def assume(pod: Pod, check: Check) -> str:
    """Return the probe result of a simulated pod: it passes while the pod is Running."""
    return "" if pod.phase == PodPhase.RUNNING else f"does not answer while it is {pod.phase}"
