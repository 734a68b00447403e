"""What is behind a step that does not run: the steps that hold it up, down to where it begins.

Read from a flow's status and spec alone, by the same tables that decided (`readiness`). It explains
what was decided and decides nothing. Everything is linear in steps and targets, loops end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobflow.api.flow_status import StepPhase
from jobflow.api.jobflow import Condition
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed import has_run
from jobflow.core.reasons import StepReason
from jobflow.core.spec.readiness import (
    TARGET_STATES,
    StepEnd,
    TargetState,
    get_condition_for,
    get_end,
)

_FOR_OTHERS = frozenset({"", StepReason.WAITING_FOR_PROBE})
"""Reasons of a waiting step that is held up by its targets, and by nothing of its own."""


@dataclass(frozen=True, slots=True)
class RootCause:
    """Where a waiting or a skip begins."""

    step: int
    way: Sequence[int]
    """From the step that was asked about to this one, both included."""


def find_root_causes(ctx: PlanContext, start: int) -> list[RootCause]:
    """Where the waiting or skipping of the step at `start` begins, by how much it tells: what
    somebody has to do something about, what failed, what runs. The step itself where nothing else
    holds it up; nothing where it only waits for itself."""
    came_from = {start: start}
    queue = deque((start,))
    found = []
    while queue:
        step = queue.popleft()
        held_by = find_blocking_targets(ctx, step)
        if not held_by:
            found.append(step)
        for target in held_by:
            if target not in came_from:
                came_from[target] = step
                queue.append(target)
    found.sort(key=lambda step: _rank(ctx, step))  # stable: the nearer one is the first
    return [RootCause(step, _way(came_from, start, step)) for step in found]


def find_blocking_targets(ctx: PlanContext, step: int) -> list[int]:
    """The targets by which the step stands as it does; none where that is its own doing."""
    memory = ctx.observed[step].stored
    phase = memory.phase or StepPhase.WAITING
    if phase == StepPhase.WAITING and memory.reason in _FOR_OTHERS:
        return _held_by(ctx, step, TargetState.NOT_YET)
    if phase == StepPhase.SKIPPED and memory.reason == StepEnd.UPSTREAM_FAILED:
        return _held_by(ctx, step, TargetState.UPSTREAM_FAILED)
    if phase == StepPhase.SKIPPED and memory.reason == StepEnd.NOT_TAKEN:
        if not _held_by(ctx, step, TargetState.NOT_TAKEN):
            return _held_by(ctx, step, TargetState.PASSED_OVER)
    return []


def find_untaken_targets(ctx: PlanContext, step: int) -> list[int]:
    """The targets that ended the other way than the skipped step wanted."""
    return _held_by(ctx, step, TargetState.NOT_TAKEN)


def find_failed_steps(ctx: PlanContext) -> list[int]:
    """The steps that failed, in order."""
    return [
        step
        for step, observed in enumerate(ctx.observed)
        if observed.stored.phase == StepPhase.FAILED
    ]


def _held_by(ctx: PlanContext, step: int, reach: TargetState) -> list[int]:
    return [target for target, how in _reaches(ctx, step) if how is reach]


def _reaches(ctx: PlanContext, step: int) -> Iterator[tuple[int, TargetState]]:
    observed = ctx.observed[step]
    probed = observed.step.depends_on is not None and observed.step.depends_on.probe is not None
    passed = observed.stored.passed_targets or ()
    for target in ctx.graph.targets[step]:
        other = ctx.observed[target]
        want = get_condition_for(observed.step, other.step)
        end = get_end(other.step, other.stored)
        reach = TARGET_STATES[want][end]
        if other.step.name in passed or (probed and end in (StepEnd.COMPLETED, StepEnd.FAILED)):
            reach = TargetState.MET  # it holds nothing up any more: its probe passed, or never will
        elif want is Condition.RUNNING and has_run(other, other.stored, ctx.records):
            reach = TargetState.MET
        yield target, reach


def _rank(ctx: PlanContext, step: int) -> int:
    memory = ctx.observed[step].stored
    phase = memory.phase or StepPhase.WAITING
    if phase == StepPhase.WAITING:
        return 3 if memory.reason == StepReason.STARTING else 0
    return 1 if phase in (StepPhase.FAILED, StepPhase.SKIPPED) else 2


def _way(came_from: dict[int, int], start: int, last: int) -> Sequence[int]:
    way = [last]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]
