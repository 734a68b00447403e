"""Root causes: the steps at which a wait or a skip begins, found along the dependencies by the
tables that made the decision (`spec/readiness.py`), in a time linear in steps and targets."""

from collections import deque
from collections.abc import Iterator

from jobflow.api.flow.status import StepPhase
from jobflow.api.flow.step import Condition
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed.steps import has_run
from jobflow.core.reasons import StepReason
from jobflow.core.spec import readiness
from jobflow.core.spec.graph import walk_back
from jobflow.core.spec.readiness import StepEnd, TargetState

TARGET_WAITS = frozenset({"", StepReason.WAITING_FOR_PROBE})
"""Reasons of a Waiting step that waits only for its targets."""


def find_root_causes(ctx: PlanContext, start: int) -> list[list[int]]:
    """Return the paths from a step to its root causes: first those that need a user's action, then
    failures and running steps. A step that none blocks is its own cause; a cycle has none."""
    # breadth first, so that the nearest causes are found first
    came_from = {start: start}
    queue = deque((start,))
    found = []
    while queue:
        step = queue.popleft()
        blocking = find_blocking_targets(ctx, step)
        if not blocking:
            found.append(step)
        for target in blocking:
            if target not in came_from:
                came_from[target] = step
                queue.append(target)

    def rank(step: int) -> int:
        condition = ctx.observed[step].stored
        if (condition.phase or StepPhase.WAITING) == StepPhase.WAITING:
            return 3 if condition.reason == StepReason.STARTING else 0
        return 1 if condition.phase in (StepPhase.FAILED, StepPhase.SKIPPED) else 2

    found.sort(key=rank)  # stable: nearer steps stay first
    return [walk_back(came_from, start, step) for step in found]


def find_blocking_targets(ctx: PlanContext, step: int) -> list[int]:
    """Return the targets for which a step waits or was skipped."""
    condition = ctx.observed[step].stored
    phase = condition.phase or StepPhase.WAITING
    if phase == StepPhase.WAITING and condition.reason in TARGET_WAITS:
        return _find_targets(ctx, step, TargetState.NOT_YET)
    if phase == StepPhase.SKIPPED and condition.reason == StepEnd.UPSTREAM_FAILED:
        return _find_targets(ctx, step, TargetState.UPSTREAM_FAILED)
    if phase == StepPhase.SKIPPED and condition.reason == StepEnd.NOT_TAKEN:
        if not find_untaken_targets(ctx, step):
            return _find_targets(ctx, step, TargetState.PASSED_OVER)
    return []


def find_untaken_targets(ctx: PlanContext, step: int) -> list[int]:
    """Return the targets that ended in another way than the skipped step requires."""
    return _find_targets(ctx, step, TargetState.NOT_TAKEN)


def find_failed_steps(ctx: PlanContext) -> list[int]:
    observed = enumerate(ctx.observed)
    return [step for step, each in observed if each.stored.phase == StepPhase.FAILED]


def _find_targets(ctx: PlanContext, step: int, wanted: TargetState) -> list[int]:
    observed = ctx.observed[step]
    has_probe = readiness.get_probe(observed.step) is not None
    passed = observed.stored.passed_targets or ()
    found = []
    for target in ctx.layout.graph.targets[step]:
        other = ctx.observed[target]
        condition = readiness.get_condition_for(observed.step, ctx.layout.steps[target])
        end = ctx.end_of(other.step, other.stored)
        state = readiness.TARGET_STATES[condition][end]
        if other.step.name in passed or (has_probe and end in (StepEnd.COMPLETED, StepEnd.FAILED)):
            state = TargetState.MET  # its probe passed, or can no longer pass: it blocks nothing
        elif condition is Condition.RUNNING and has_run(other, other.stored, ctx.records):
            state = TargetState.MET
        if state is wanted:
            found.append(target)
    return found


def describe_nothing_ran(ctx: PlanContext) -> Iterator[str]:
    """Say what lets steps run behind skipped ones, if all steps before `finally` were skipped and
    some of them because of others."""
    conditions = [each.stored for each in ctx.observed[: ctx.layout.last_from]]
    if all(each.phase == StepPhase.SKIPPED for each in conditions) and any(
        each.reason == StepReason.NOT_TAKEN and find_blocking_targets(ctx, step)
        for step, each in enumerate(conditions)
    ):
        yield (
            "To run a step behind skipped ones, set its dependsOn.condition to NotFailed, or to "
            "Always to run it also after a failure."
        )
