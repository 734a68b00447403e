"""Steps with `items: Matching`: when their items are known, and which of them may start.

Such a step may begin once every matched target has begun, so that its items are known. Item i
depends on item i of each target that has items; other targets count as a whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from jobflow.api.flow.status import Decisions, RunCondition, StepPhase
from jobflow.api.flow.step import Condition, Step, Strategy
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.observed.steps import ObservedRun, has_run_once
from jobflow.core.spec.items import get_items, takes_items
from jobflow.core.spec.readiness import (
    SKIPS,
    TARGET_STATES,
    Requirement,
    StepEnd,
    TargetState,
    combine_states,
)
from jobflow.core.text import MAX_NAMES, format_count, join_names

_ENDS_AFTER_ITEMS = (StepEnd.COMPLETED, StepEnd.FAILED, StepEnd.TOLERATED)
"""Ends of steps whose items may have run. The items of a skipped step did not."""


class _Target(msgspec.Struct, frozen=True):
    step: Step
    want: Condition
    end: StepEnd | None
    runs: Mapping[int | None, RunCondition]
    """The conditions of its items, by index."""
    observed: Mapping[int | None, ObservedRun]
    untaken: "ItemStates | None"
    """If it was not taken and its items are matched too: the states of their targets."""


class ItemStates:
    """The states of the dependencies of one step, by item."""

    def __init__(
        self,
        position: int,
        ctx: PlanContext,
        *,
        completing: bool = False,
        above: dict[int, "ItemStates"] | None = None,
    ) -> None:
        """`completing`: every vcjob that exists completes, for a forecast."""
        need, own = ctx.layout.needs[position], ctx.observed[position]
        self._ctx = ctx
        self._completing = completing
        self._need = need
        self._targets: list[_Target] = []
        self._whole: set[TargetState] = set()
        """The states of targets without items."""
        self._names: list[str] = []
        """The names of these targets."""
        self._states: dict[int, TargetState] = {}
        self._above: dict[int, ItemStates] = {} if above is None else above
        """Those of the untaken steps between it and the items that run, in dependency order."""
        for each in _untaken_above(position, ctx) if above is None else ():
            self._above[each] = ItemStates(each, ctx, completing=completing, above=self._above)
        for place, (target, want) in enumerate(zip(need.targets, need.wants, strict=True)):
            if target in need.matched:
                shown = ctx.shown_to_dependants(target, at_once=own.work.at_once)
                observed, end = ctx.observed[target], ctx.progress.ends[target]
                if target in ctx.progress.unstored and not own.work.at_once:
                    end = None
                runs = {run.index: run for run in shown.runs or ()}
                known = {run.index: run for run in observed.runs}
                untaken = self._above.get(target)
                self._targets.append(_Target(observed.step, want, end, runs, known, untaken))
                continue
            self._names.append(ctx.layout.graph.names[target])
            state = need.rows[place][ctx.progress.ends[target]]
            # a step that has begun has met them all, and they stay so
            is_met = own.started and need.how is Strategy.ALL
            if is_met or (place in need.to_run and ctx.has_run_for(own, target)):
                state = TargetState.MET
            self._whole.add(state)

    def of(self, index: int) -> TargetState:
        """Return the state of all targets for an item."""
        # one after the other, because a chain may be longer than Python's limit of recursion
        for each in self._above.values() if index not in self._states else ():
            each._known(index)
        return self._known(index)

    def is_passed_over(self, index: int) -> bool:
        """Return whether an item is skipped only because no target of it was taken."""
        found = {*self._whole, *(self._state(target, index) for target in self._targets)}
        return found == {TargetState.PASSED_OVER}

    def _known(self, index: int) -> TargetState:
        if (found := self._states.get(index)) is None:
            states = [self._state(target, index) for target in self._targets]
            found = combine_states(self._need.how, [*self._whole, *states])
            self._states[index] = found
        return found

    def is_tolerated(self, index: int) -> bool | None:
        """Return whether an item is skipped only for items of steps that have completed without
        them; None if that is not known yet."""
        if self.of(index) is not TargetState.UPSTREAM_FAILED or self._whole & {self.of(index)}:
            return False
        ends = {each.end for each in self._targets if self._state(each, index) is self.of(index)}
        return None if None in ends else ends == {StepEnd.COMPLETED}

    def message(self, index: int) -> str:
        """Return what an item waits for, or why it is skipped: `item 2 of train (Running)`. Returns
        "" if no target of it was taken."""
        wanted = self.of(index)
        names, work = list[str](), [self]
        for each in work:
            for target in each._targets:
                if each._state(target, index) is not wanted:
                    continue
                run = target.runs.get(index)
                if run is None and target.untaken is not None:
                    work.append(target.untaken)
                    continue
                phase = f" ({run.phase})" if run is not None and run.phase else ""
                names.append(f"item {index} of {target.step.name}{phase}")
            names += each._names if wanted in each._whole else ()
        last = "or" if self._need.how is Strategy.ANY else "and"
        return join_names(names[:MAX_NAMES], total=len(names), last=last)

    def _state(self, target: _Target, index: int) -> TargetState:
        run = target.runs.get(index)
        end = None if run is None else self._ctx.end_of(target.step, run)
        if end is None and run is not None and self._completing and run.phase != StepPhase.WAITING:
            end = StepEnd.COMPLETED
        # no further item of that target starts, and one that never began has no failure to handle
        if end is None and target.end is StepEnd.FAILED:
            if target.want in (Condition.FAILED, Condition.FINISHED):
                return TargetState.NOT_TAKEN
            return TARGET_STATES[target.want][StepEnd.UPSTREAM_FAILED]
        end = end or target.end
        # it ends no earlier than if it was decided by itself, and fails with its targets
        if run is None and target.untaken is not None:
            found = target.untaken._known(index)
            end = None if found is TargetState.NOT_YET else SKIPS.get(found, end)
        # an item that ran once has met Running, even if it failed
        if target.want is Condition.RUNNING and run is not None:
            known = target.observed.get(index)
            if known is not None and has_run_once(known, run, self._ctx.records):
                return TargetState.MET
        return TARGET_STATES[target.want][end]


def with_known_lists(
    ctx: PlanContext, need: Requirement, reaches: Sequence[TargetState]
) -> list[TargetState]:
    """Return the states of a step's targets, in which those whose items are known count as met. All
    items must be known before the step begins, with strategy `any` too."""
    # a target must have begun before this plan: only then all that it depends on has ended, which
    # expressions of the step may use, and a fault of the step's items cannot keep the target back
    found = list(reaches)
    for place, target in enumerate(need.targets):
        if target not in need.matched:
            continue
        end, is_known = ctx.progress.ends[target], _known_items(target, ctx) is not None
        # one list that is missing delays the step, with strategy `any` too
        if end is None and not (is_known and ctx.observed[target].started):
            return [TargetState.NOT_YET] * len(found)
        if end is None or (end in _ENDS_AFTER_ITEMS and is_known):
            found[place] = TargetState.MET
    return found


def _known_items(target: int, ctx: PlanContext) -> Sequence[Any] | None:
    """Return the items of a target, None if they are not known."""
    # a target that ended before one of its items began has only those that its spec lists, whether
    # its decisions were stored or not
    items = get_items(ctx.layout.steps[target], ctx.progress.standing[target].decisions)
    end = ctx.progress.ends[target]
    began = end in (None, StepEnd.COMPLETED) or ctx.progress.standing[target].runs
    return items if began or get_items(ctx.layout.steps[target], None) is not None else None


def _untaken_above(position: int, ctx: PlanContext, *, giving: bool = False) -> list[int]:
    """Return the steps that match items and were not taken between a step and the items that it
    matches through them, in dependency order. `giving`: only those that have the items of their
    targets."""
    needs, ends, found, work = ctx.layout.needs, ctx.progress.ends, set[int](), [position]
    while work:
        matched = needs[work.pop()].matched - found
        new = {t for t in matched if ends[t] is StepEnd.NOT_TAKEN and needs[t].matched}
        new = {t for t in new if takes_items(ctx.layout.steps[t])} if giving else new
        found |= new
        work += new
    return sorted(found, key=ctx.layout.ranks.__getitem__)


def given_items(position: int, ctx: PlanContext) -> Sequence[Any] | None:
    """Return the items of the first matched target that was taken, else of the first whose spec
    lists them, else those that an untaken target would have had; None without any."""
    for each in (position, *reversed(_untaken_above(position, ctx, giving=True))):
        for taken in (True, False):
            for _, items in _lists(each, ctx, taken=taken):
                return items
    return None


def find_mismatch(position: int, decided: Decisions | None, ctx: PlanContext) -> str:
    """Return how the number of the step's items differs from that of a target, or ""."""
    items = get_items(ctx.layout.steps[position], decided)
    for name, others in _lists(position, ctx, taken=True):
        if items is not None and len(others) != len(items):
            own = format_count(len(items), "item")
            return f"it has {own} and {name} has {len(others):,}; items: Matching needs as many"
    return ""


def _lists(position: int, ctx: PlanContext, *, taken: bool) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield the known items of each matched target that was taken, or was not, by name."""
    need = ctx.layout.needs[position]
    for target in need.targets:
        was_taken = ctx.progress.ends[target] is not StepEnd.NOT_TAKEN
        if target in need.matched and was_taken is taken:
            if (items := _known_items(target, ctx)) is not None:
                yield ctx.layout.graph.names[target], items
