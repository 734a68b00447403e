"""`spec.parallelism`: the most vcjobs of a flow that are alive at once, in the order of its steps.

It withholds creates that were decided, those of steps that have begun (their next items and
attempts) like any others, and nothing else. A vcjob's end has the flow planned again.
"""

from __future__ import annotations

import msgspec

from jobflow.api.flow_status import ENDED_STEP_PHASES, StepCondition, StepPhase
from jobflow.core.actions import Action, CreateJob, View
from jobflow.core.reasons import StepReason
from jobflow.core.scene import Decision, Scene
from jobflow.core.wording import counted


def limited(scene: Scene, decisions: list[Decision]) -> list[Decision]:
    """The decisions, with no more creates than there is room for; `spec.flows` first, then
    `finally`."""
    most = scene.flow.spec.parallelism
    if most is None or most < 1:
        return decisions
    room = most - _alive(scene.view)
    found = decisions
    for position, decision in enumerate(decisions):
        wanted = sum(isinstance(action, CreateJob) for action in decision.actions)
        if wanted > max(room, 0):
            found = found if found is not decisions else list(decisions)
            found[position] = _withheld(decision, max(room, 0), most)
        room -= wanted
    return found


def _alive(view: View) -> int:
    return sum(not job.ended and name not in view.deleted for name, job in view.jobs.items())


def _withheld(decision: Decision, room: int, most: int) -> Decision:
    """With no more creates than that. What else it does, and when it wakes, stays: other runs of
    the step are under way."""
    actions: list[Action] = []
    for action in decision.actions:
        if isinstance(action, CreateJob):
            if room == 0:
                continue
            room -= 1
        actions.append(action)
    if any(isinstance(action, CreateJob) for action in actions):
        return msgspec.structs.replace(decision, actions=tuple(actions))
    condition = decision.condition
    if not _under_way(condition):
        condition = msgspec.structs.replace(
            condition,
            phase=StepPhase.WAITING,
            reason=StepReason.PARALLELISM,
            message=f"waits for room: the flow has at most {counted(most, 'job')} at once",
            next_attempt_time=None,
        )
    return msgspec.structs.replace(decision, condition=condition, actions=tuple(actions))


def _under_way(condition: StepCondition) -> bool:
    """Whether the step, or with forEach and repeat any of its runs, has a vcjob that goes on."""
    runs = condition.runs or (condition,)
    return any(run.phase not in (StepPhase.WAITING, *ENDED_STEP_PHASES) for run in runs)
