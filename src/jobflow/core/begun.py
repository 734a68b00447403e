"""What comes of a step that has begun: remembered, ended, running, or lost and made again.

It never looks at dependencies: a begun step carries on whatever became of the others. What the
status remembers as ended stays ended, whatever its vcjob does; without a vcjob too.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from jobflow.api.flow_status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.api.job import JobPhase
from jobflow.api.jobflow import Condition, Strategy
from jobflow.core.aborting import abort, aborted, intent
from jobflow.core.actions import Confirm
from jobflow.core.ending import ending, held, running_as
from jobflow.core.evidence import FAILURES, Evidence
from jobflow.core.readiness import probe_of, strategy, wanted
from jobflow.core.reasons import StepReason
from jobflow.core.scene import Decision, Scene, not_before
from jobflow.core.starting import next_attempt, waiting

FIRST_BACKOFF = timedelta(seconds=1)
LONGEST_BACKOFF = timedelta(minutes=5)

ENDS_BY_CONDITION = {Condition.COMPLETED: JobPhase.COMPLETED, Condition.FAILED: JobPhase.FAILED}
"""How a target must have ended if a dependant that wanted this has started."""


def begun(position: int, scene: Scene) -> Decision | None:
    """What comes of the step at `position`; None where it has not begun."""
    evidence = scene.evidence[position]
    if evidence.memory.phase in ENDED_STEP_PHASES:
        return Decision(evidence.memory)
    job = evidence.job
    if job is None:
        return _without_job(position, scene) if evidence.attempts else None
    if job.ended:
        return ending(evidence, job, scene)
    if not evidence.gone:
        why = intent(evidence, scene)
        running = running_as(evidence, job)
        return abort(evidence, job, running, why, scene) if why else Decision(running)
    return _without_job(position, scene)


def backoff(attempts: int) -> timedelta:
    """How long to wait after that many attempts: 1 s, doubling, at most 5 min."""
    return min(FIRST_BACKOFF * (1 << min(attempts - 1, 30)), LONGEST_BACKOFF)


def _without_job(position: int, scene: Scene) -> Decision:
    """Begun, but its latest vcjob is gone and nobody has seen how it ended."""
    evidence = scene.evidence[position]
    memory = evidence.memory
    between = memory.phase == StepPhase.WAITING and memory.attempts == evidence.attempts
    shown = memory if between or evidence.job is None else running_as(evidence, evidence.job)
    if (end := _inferred(position, scene)) is not None:
        return Decision(_known_by_dependant(evidence, shown, end, scene))
    if why := intent(evidence, scene):
        return _not_again(evidence, shown, why, scene, sure=between or evidence.gone)
    if scene.terminating:
        return Decision(shown)
    if between and _too_early(memory, scene.now):
        return Decision(shown, wake_at=memory.next_attempt_time)
    name = evidence.job_name
    if name not in scene.view.absent:
        return Decision(shown, Confirm(name))
    return next_attempt(evidence, scene) if between else _lost(evidence, scene)


def _not_again(
    evidence: Evidence, shown: StepCondition, why: str, scene: Scene, *, sure: bool
) -> Decision:
    """The step was to be aborted and its vcjob is gone: that was its end."""
    name = evidence.job_name
    if not sure and name not in scene.view.absent:
        return Decision(shown, Confirm(name))
    gone = f"the job {name} is gone"
    return Decision(
        msgspec.structs.replace(
            shown,
            phase=StepPhase.FAILED,
            reason=why,
            message=aborted(why, gone),
            job=name,
            attempts=evidence.attempts,
            next_attempt_time=None,
            abort_time=None,
            requested_hours=held(evidence, scene),
        )
    )


def _too_early(memory: StepCondition, now: datetime) -> bool:
    return memory.next_attempt_time is not None and now < memory.next_attempt_time


def _lost(evidence: Evidence, scene: Scene) -> Decision:
    until = not_before(scene.now + backoff(evidence.attempts))
    message = f"the job {evidence.job_name} is gone and its end was not seen: it runs again"
    condition = msgspec.structs.replace(
        waiting(evidence, StepReason.JOB_LOST, message, until),
        requested_hours=held(evidence, scene),
    )
    return Decision(condition, wake_at=until, urgent=True)


def _inferred(position: int, scene: Scene) -> JobPhase | None:
    """How the step must have ended, judging by a vcjob that a dependant would not have otherwise.

    A create and the status that holds its reason are sent together; a crash between the two can
    leave only the create. So this counts where the status does not know yet that the dependant
    has begun (docs/decisions/lost-jobs.md).
    """
    for dependant in scene.graph.dependants[position]:
        other = scene.evidence[dependant]
        if probe_of(other.step) is not None:
            continue  # it does not tell that its target has ended
        alone = len(scene.graph.targets[dependant]) == 1
        if other.jobs and not other.memory.attempts:
            if alone or strategy(other.step) is Strategy.ALL:
                end = ENDS_BY_CONDITION.get(wanted(other.step))
                if end is not None:
                    return end
    return None


def _known_by_dependant(
    evidence: Evidence, shown: StepCondition, end: JobPhase, scene: Scene
) -> StepCondition:
    reason = FAILURES.get(end, "")
    return msgspec.structs.replace(
        shown,
        phase=StepPhase.FAILED if reason else StepPhase.COMPLETED,
        reason=reason or StepReason.JOB_LOST,
        message=f"the job {evidence.job_name} is gone; what started after it tells its end",
        job=evidence.job_name,
        attempts=evidence.attempts,
        next_attempt_time=None,
        requested_hours=held(evidence, scene),
    )
