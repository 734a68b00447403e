"""What comes of a run that has begun: remembered, ended, running, or lost and made again.

It never looks at dependencies: a begun run carries on whatever became of the others. What the
status remembers as ended stays ended, whatever its vcjob does; without a vcjob too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from jobflow.api.flow_status import ENDED_STEP_PHASES, RunCondition, StepPhase
from jobflow.api.job import Job
from jobflow.core.planning.actions import Confirm
from jobflow.core.planning.context import RunDecision, Scene, TargetEnd
from jobflow.core.planning.observed import Run
from jobflow.core.planning.runs.abort import abort, aborted, intent
from jobflow.core.planning.runs.create import next_attempt, next_name, waiting
from jobflow.core.planning.runs.finish import ending, ends_as, held, running_as
from jobflow.core.planning.runs.retry import settled
from jobflow.core.planning.runs.timeout import is_over
from jobflow.core.planning.target_ends import told_of
from jobflow.core.reasons import StepReason
from jobflow.core.timestamps import later, not_before

FIRST_BACKOFF = timedelta(seconds=1)
LONGEST_BACKOFF = timedelta(minutes=5)

Told = Callable[[], TargetEnd | None]
"""How a step ended, as its dependants tell (`target_ends.told`); worked out only if it matters."""


def begun(run: Run, scene: Scene, told: Told) -> RunDecision | None:
    """What comes of a run; None where it has not begun."""
    if run.memory.phase in ENDED_STEP_PHASES:
        return RunDecision(run.memory)
    if not run.begun:
        return None
    job = run.job
    if job is None:
        return _without_job(run, scene, told)
    if job.ended:
        recorded = run.between and run.memory.reason != StepReason.JOB_LOST
        return again(run, scene) if recorded else settled(run, ending(run, job, scene), scene)
    if not run.gone:
        return _running(run, job, scene)
    return _without_job(run, scene, told)


def again(run: Run, scene: Scene) -> RunDecision:
    """Between two attempts, or retried with its flow: the next one, once it may be made."""
    memory = run.memory
    if (why := intent(run, scene)) and why != StepReason.SUSPENDED:
        return settled(run, _not_again(run, memory, why, scene, sure=True), scene)
    if scene.terminating or scene.suspended:
        return RunDecision(memory)
    if _too_early(memory, scene.now):
        return RunDecision(memory, wake_at=memory.next_attempt_time)
    last_is_there = run.job is not None and not run.gone
    name = next_name(run, scene) if last_is_there or not run.begun else run.job_name
    if name not in scene.view.absent:
        return RunDecision(memory, Confirm(name))
    return next_attempt(run, scene)


def _running(run: Run, job: Job, scene: Scene) -> RunDecision:
    running = running_as(run, job, scene)
    why = intent(run, scene)
    if not why and is_over(running.deadline, scene):
        why = StepReason.TIMEOUT
    if why:
        return abort(run, job, running, why, scene)
    return RunDecision(running, wake_at=running.deadline)


def backoff(attempts: int) -> timedelta:
    """How long to wait after that many attempts: 1 s, doubling, at most 5 min."""
    return min(FIRST_BACKOFF * (1 << min(attempts - 1, 30)), LONGEST_BACKOFF)


def _without_job(run: Run, scene: Scene, told: Told) -> RunDecision:
    """Begun, but its latest vcjob is gone and nobody has seen how it ended."""
    between, job = run.between, run.job
    shown = run.memory if between or job is None else running_as(run, job, scene)
    if (end := told()) is not None:
        return RunDecision(_as_told(run, shown, end, scene))
    if between:
        return again(run, scene)
    if why := intent(run, scene):
        return settled(run, _not_again(run, shown, why, scene, sure=run.gone), scene)
    if scene.terminating:
        return RunDecision(shown)
    name = run.job_name
    if name not in scene.view.absent:
        return RunDecision(shown, Confirm(name))
    return _lost(run, scene)


def _not_again(run: Run, shown: RunCondition, why: str, scene: Scene, *, sure: bool) -> RunDecision:
    """The run was to be aborted and its vcjob is gone, or it is between two: that was its end."""
    name = run.job_name
    if not sure and name not in scene.view.absent:
        return RunDecision(shown, Confirm(name))
    phase = ends_as(why)
    there = run.job is not None and not run.gone
    gone = f"the job {name} is {'over' if there else 'gone'}"
    return RunDecision(
        msgspec.structs.replace(
            shown,
            phase=phase,
            reason=why,
            message=aborted(why, gone, run, scene),
            job=name,
            attempts=run.attempts,
            next_attempt_time=None,
            deadline=None,
            abort_time=None,
            avoid_nodes=shown.avoid_nodes if phase == StepPhase.FAILED else None,
            requested_hours=held(run, scene),
        )
    )


def _too_early(memory: RunCondition, now: datetime) -> bool:
    return memory.next_attempt_time is not None and now < memory.next_attempt_time


def _lost(run: Run, scene: Scene) -> RunDecision:
    until = not_before(later(scene.now, backoff(run.attempts - run.memory.past_attempts)))
    message = f"the job {run.job_name} is gone and its end was not seen: it runs again"
    condition = msgspec.structs.replace(
        waiting(run, StepReason.JOB_LOST, message, until),
        requested_hours=held(run, scene),
    )
    return RunDecision(condition, wake_at=until, urgent=True)


def _as_told(run: Run, shown: RunCondition, end: TargetEnd, scene: Scene) -> RunCondition:
    """The end of a run whose vcjob is gone, as its step's dependants tell it."""
    return msgspec.structs.replace(
        shown,
        phase=end.phase,
        reason=end.reason,
        message=f"{told_of(run.job_name)}a job that started after it recorded its end",
        job=run.job_name,
        attempts=run.attempts,
        next_attempt_time=None,
        deadline=None,
        abort_time=None,
        avoid_nodes=None,
        requested_hours=held(run, scene),
    )
