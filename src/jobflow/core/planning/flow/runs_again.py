"""The steps that run again if an ended flow is retried: one rule for planner, dry run and page.

By itself, everything runs again that did not end well, and so does `finally`. Whatever depends on
something that runs again, directly or through others, runs again too, under any condition; with
`items: Matching` only the same items. By itself stays what has completed, what was not taken, and a
failure that continueOnFailure tolerates, unless the flow ended the run (a cancel, its timeout,
Abort) or tolerated failures are to run again. A rejected approval asks again. A daemon that was
ended with its flow is started again if a step that runs again needs it, and makes nothing else run
again.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from jobflow.api.flow.dependencies import Condition
from jobflow.api.flow.status import TIMEOUT, RunCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import Job
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.lifecycle import deadline
from jobflow.core.planning.observed.children import goes_on
from jobflow.core.planning.observed.steps import ObservedStep
from jobflow.core.reasons import WITH_THE_FLOW, StepReason
from jobflow.core.spec.items import get_items
from jobflow.core.spec.readiness import StepEnd, get_end
from jobflow.core.work import is_asked

_NONE: frozenset[int] = frozenset()
_PASSED_OVER = frozenset({StepReason.NOT_TAKEN, StepReason.NOT_TARGETED})


class Again(NamedTuple):
    """The extent to which a step runs again."""

    kept: frozenset[int]
    """Indices of the items or repeats that stay."""
    unaffected: frozenset[int] | None
    """Indices of the runs before which nothing runs again; None: that is so for all of them."""

    def goes_on(self, index: int | None) -> bool:
        """Return whether a child flow of this run is retried instead of made anew."""
        return self.unaffected is None or index in self.unaffected


_ANEW = Again(_NONE, _NONE)


def find_runs_again(
    ctx: PlanContext, jobs: Mapping[str, Job], *, tolerated: bool = False
) -> dict[int, Again]:
    """Return the steps of an ended flow that a retry runs again, by position. `jobs`: its vcjobs
    and child flows, by name; `tolerated`: tolerated failures run again too."""
    found: dict[int, Again] = {}
    judge = _Judge(ctx, jobs, tolerated=tolerated)
    for position in ctx.layout.order:
        again = judge.decide(position, found)
        if again is not None:
            found[position] = again
    found |= dict.fromkeys(list(_services(ctx, found)), Again(_NONE, None))
    return {position: found[position] for position in sorted(found)}


def _services(ctx: PlanContext, again: Collection[int]) -> Iterator[int]:
    """Yield the daemons that ended with the flow and that a step that runs again needs running,
    directly or through others."""
    found, work = set(again), list(again)
    while work:
        need = ctx.layout.needs[work.pop()]
        for target, want in zip(need.targets, need.wants, strict=True):
            may_be_over = need.probe is None and want is not Condition.RUNNING
            if target in found or (ctx.steps[target].daemon and may_be_over):
                continue
            found.add(target)
            work.append(target)
            if ctx.observed[target].stored.reason == StepReason.DAEMON_ENDED:
                yield target


class _Judge:
    """Decides about one step after another, in the order of their dependencies."""

    def __init__(self, ctx: PlanContext, jobs: Mapping[str, Job], *, tolerated: bool) -> None:
        self._ctx = ctx
        self._jobs = jobs
        self._tolerated = tolerated
        running = replace(ctx.lifecycle, ending_reason="")
        self._deadline = deadline(ctx.flow.spec.timeout, running)
        """When the timeout of the flow has ended it, if it has."""

    def decide(self, position: int, before: Mapping[int, Again]) -> Again | None:
        """Return how a step runs again, or None if it stays. `before`: the steps before it that run
        again."""
        ctx, observed = self._ctx, self._ctx.observed[position]
        if position in ctx.layout.left_out:
            return None
        if position >= ctx.last_from:
            return _ANEW
        unaffected: frozenset[int] | None = None
        need = ctx.layout.needs[position]
        for target in need.targets:
            if target not in before:
                continue
            if target not in need.matched:
                return _ANEW
            same = before[target].kept
            unaffected = same if unaffected is None else unaffected & same
        if observed.step.fan_out is not None:
            return self._items(observed, unaffected)
        if unaffected is not None:
            return _ANEW
        if observed.loops:
            return self._repeats(observed)
        return None if self._stays(observed.step, observed.stored) else Again(_NONE, None)

    def _items(self, observed: ObservedStep, unaffected: frozenset[int] | None) -> Again | None:
        step, stored = observed.step, observed.stored
        runs = stored.runs or ()
        kept = frozenset(run.index or 0 for run in runs if self._stays(step, run))
        if stored.phase == StepPhase.FAILED:
            items = get_items(step, stored.decisions)
            stays = bool(items) and kept.issuperset(range(len(items or ())))
        else:
            stays = self._stays(step, stored) and len(kept) == len(runs)
        if unaffected is None:
            return None if stays else Again(kept, None)
        return Again(kept & unaffected, unaffected)

    def _repeats(self, observed: ObservedStep) -> Again | None:
        """Return how a repeat runs again: from the first run that does not stay, or from its first
        run if there is none."""
        step, stored = observed.step, observed.stored
        runs = stored.runs or ()
        first = next((run.index or 0 for run in runs if not self._stays(step, run)), None)
        if first is None:
            return None if self._stays(step, stored) else Again(_NONE, None)
        return Again(frozenset(range(first)), frozenset(range(first + 1)))

    def _stays(self, step: Step, run: RunCondition) -> bool:
        """Return whether a step or a run stays, if nothing that it depends on runs again."""
        if run.phase == StepPhase.COMPLETED:
            return not goes_on(self._jobs.get(run.job), tolerated=self._tolerated)
        if run.phase == StepPhase.SKIPPED:
            return run.reason in _PASSED_OVER
        if self._tolerated or is_asked(step):
            return False
        is_tolerated = get_end(step, run, is_cancelled=False) is StepEnd.TOLERATED
        return is_tolerated and self._ended_by_itself(run)

    def _ended_by_itself(self, run: RunCondition) -> bool:
        if run.reason in WITH_THE_FLOW:
            return False
        if run.reason != TIMEOUT or self._ctx.lifecycle.ending_reason != TIMEOUT:
            return True
        ended = run.last_transition_time
        return ended is not None and self._deadline is not None and ended < self._deadline
