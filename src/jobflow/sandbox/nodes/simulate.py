"""The runner `simulate`: pods go through their phases by the clock, and nothing is run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta

from jobflow.api.pod import Pod, PodPhase
from jobflow.core.planning.actions import Check
from jobflow.sandbox.jobs.job import Vcjob
from jobflow.sandbox.jobs.pods import PodObject
from jobflow.sandbox.nodes.pod_status import Progress
from jobflow.sandbox.nodes.runner import Assignment, Report
from jobflow.sandbox.nodes.simulation_script import Mark, Script, read_script

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """This moment."""
    return datetime.now(UTC)


class SimulateRunner:
    """Runs pods as their vcjob's annotations say, `speed` times as fast.

    Infinite speed ends at once whatever ends at all, and skips Running. Raises ValueError for a
    speed that is not above 0.
    """

    graceful = False

    def __init__(self, speed: float = 1.0, *, clock: Clock = utc_now) -> None:
        if not speed > 0:
            raise ValueError(f"speed {speed} is not above 0")
        self._speed = speed
        self._clock = clock

    def faults(self, job: Vcjob) -> Sequence[str]:
        """What in the annotations cannot be read."""
        return _script(job)[1]

    async def run(self, assignment: Assignment, report: Report) -> None:
        """Report each phase when its time has come; of several that have, only the last."""
        script, _ = _script(assignment.job)
        began: datetime | None = assignment.pod.status.start_time
        due = list(self._due(script, assignment))
        while due:
            wait = (due[0][0] - self._clock()).total_seconds()
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            while len(due) > 1 and due[1][0] <= self._clock():
                due.pop(0)
            at, mark = due.pop(0)
            began = began or at
            await report(_progress(mark, began, at))

    async def end(self, pod: PodObject) -> None:
        """Nothing runs that could be ended."""

    def _due(self, script: Script, assignment: Assignment) -> Iterator[tuple[datetime, Mark]]:
        """The marks that the pod has not passed, each with its moment.

        A task whose phases are listed goes by the job's time, any other by its pod's own.
        """
        task = assignment.pod.task
        start = assignment.job_started if task in script.phases else assignment.started
        for mark in script.marks(task):
            if mark.phase is PodPhase.RUNNING and assignment.pod.phase is PodPhase.RUNNING:
                continue
            yield start + timedelta(seconds=mark.at / self._speed), mark


def _progress(mark: Mark, began: datetime, at: datetime) -> Progress:
    ended = mark.phase is not PodPhase.RUNNING
    return Progress(
        phase=mark.phase,
        started=min(began, at),
        finished=at if ended else None,
        exit_code=mark.exit_code,
        message=mark.message,
    )


def _script(job: Vcjob) -> tuple[Script, tuple[str, ...]]:
    meta = job.metadata
    tasks = (task.name or "" for task in job.spec.tasks or ())
    return read_script(meta.annotations or {}, meta.labels or {}, tasks)


async def assume(pod: Pod, check: Check) -> str:
    """What a probe sees of a simulated pod: it passes once the pod is Running, for nothing in it
    could listen."""
    return "" if pod.phase == PodPhase.RUNNING else f"does not answer while it is {pod.phase}"
