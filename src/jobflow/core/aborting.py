"""How vcjobs that are not to go on are brought to their end, whether Volcano listens or not.

The theory (DESIGN §2, "Aborting is level-triggered"). First the intent is written: the reason and
`abortTime` of the step's condition. Once it is stored, Volcano is asked to abort the vcjob, again
every AGAIN while that shows no effect, and after PATIENCE the vcjob is deleted. When it has ended,
or is gone, the recorded intent gives the reason. Whether to abort at all was decided before.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import msgspec

from jobflow.api.flow_status import CANCELLED, ENDED_STEP_PHASES, RunCondition
from jobflow.api.job import Job, JobPhase
from jobflow.api.jobflow import JobFlow
from jobflow.core.actions import AbortJob, Action, DeleteJob
from jobflow.core.evidence import Run, attempt_of
from jobflow.core.scene import RunDecision, Scene, not_before
from jobflow.core.wording import short

AGAIN = timedelta(seconds=10)
"""Until a vcjob that is not Aborting is asked again."""
PATIENCE = timedelta(seconds=60)
"""Until a vcjob that has not ended is deleted."""

_WHY = {CANCELLED: "the flow was cancelled"}


def was_cancelled(flow: JobFlow) -> bool:
    """Whether the stored status says so, as what is irreversible needs it."""
    return flow.status.state.reason == CANCELLED


def intent(run: Run, scene: Scene) -> str:
    """Why a run is not to go on, nor its vcjob; the recorded reason first; empty: it is."""
    memory = run.memory
    if memory.abort_time is not None:
        return memory.reason
    return CANCELLED if scene.cancelled else ""


def aborted(why: str, what: str) -> str:
    """The message of a step that was aborted."""
    return short(f"{_WHY.get(why, why)}; {what}")


def abort(run: Run, job: Job, running: RunCondition, why: str, scene: Scene) -> RunDecision:
    """What to do about a vcjob that is there and has not ended. `running`: its run's condition."""
    memory = run.memory
    since = memory.abort_time
    condition = msgspec.structs.replace(
        running,
        reason=why,
        message=f"is being aborted: {_WHY.get(why, why)}",
        abort_time=since or not_before(scene.now),
    )
    condition = memory if condition == memory else condition
    if since is None:
        return RunDecision(condition, urgent=True)
    if job.metadata.deletion_timestamp is not None:
        return RunDecision(condition)
    deadline = since + PATIENCE
    if scene.now >= deadline:
        return RunDecision(condition, _delete(job))
    if job.phase == JobPhase.ABORTING:
        return RunDecision(condition, wake_at=deadline)
    asked = scene.view.aborts.get(job.metadata.uid)
    if asked is not None and scene.now < asked + AGAIN:
        return RunDecision(condition, wake_at=min(asked + AGAIN, deadline))
    action: Action = AbortJob(job.metadata.name, job.metadata.uid)
    return RunDecision(condition, action, wake_at=min(scene.now + AGAIN, deadline))


def left_over(scene: Scene) -> Iterator[DeleteJob]:
    """Vcjobs of a cancelled flow that do not matter to any step, and that it would wait for: of
    an earlier attempt, or of a run that has ended. How they end changes nothing."""
    for evidence in scene.evidence:
        for run in evidence.each:
            over = run.memory.phase in ENDED_STEP_PHASES
            for job in run.jobs:
                if (over or job is not run.job) and _is_there(job, scene):
                    yield _delete(job)


def unheard_of(scene: Scene) -> Iterator[DeleteJob]:
    """Vcjobs of a cancelled flow that is over which its status has never known: a create that was
    under way when the flow was cancelled. One that it knows may have been resumed by somebody."""
    for evidence in scene.evidence:
        for run in evidence.each:
            for job in run.jobs:
                if attempt_of(job) > run.memory.attempts and _is_there(job, scene):
                    yield _delete(job)


def _is_there(job: Job, scene: Scene) -> bool:
    meta = job.metadata
    going = meta.deletion_timestamp is not None or meta.name in scene.view.deleted
    return not job.ended and not going


def _delete(job: Job) -> DeleteJob:
    return DeleteJob(job.metadata.name, job.metadata.uid)
