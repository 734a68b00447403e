"""Items that depend on single items of targets (docs/reference.md, Matching items)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from jobflow.api.flow.step import Step
from model.books import SKIPPED_BY_USER, Run, State
from model.readiness import (
    MET,
    NOT_TAKEN,
    NOT_YET,
    PASSED,
    STOPPED,
    UPSTREAM,
    combined,
    reached,
    required_condition,
)

if TYPE_CHECKING:
    from model.reference import Reference


def has_items(step: Step) -> bool:
    return step.for_each is not None or matches(step)


def matches(step: Step) -> bool:
    return step.depends_on is not None and step.depends_on.items == "Matching"


def takes_items(step: Step) -> bool:
    """Whether the step has the items of its targets."""
    each = step.for_each
    own = each is not None and (each.items, each.from_, each.count) != (None, None, None)
    return matches(step) and not own


class Matching:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def targets(self, state: State) -> tuple[list[State], list[State]]:
        """Return the targets whose items are matched, and those that count as a whole."""
        targets = [self.reference.states[name] for name in state.step.targets]
        matched = [t for t in targets if matches(state.step) and has_items(t.step)]
        return matched, [t for t in targets if t not in matched]

    def list_of(self, state: State) -> list[Any] | None:
        """Return the items of a step if they are known. A step that ended before one of its items
        began has only those that its spec lists."""
        for_each = state.step.for_each
        began = state.phase in ("Waiting", "Running", "Completed") or bool(state.runs)
        if began and (state.items is not None or takes_items(state.step)):
            return state.items
        if takes_items(state.step):
            return None
        if for_each is None or for_each.from_ is not None:
            return None
        return [*(for_each.items or range(int(for_each.count or 0)))]

    # ------------------------------------------------------------------- the whole step

    def verdict(self, state: State, running: Collection[str] = ()) -> str:
        """Return whether a step can decide: all matched targets have started, and the other targets
        satisfy."""
        matched, whole = self.targets(state)
        reaches = [reached(state.step, target, running) for target in whole]
        for target in matched:
            if target.phase in ("Completed", "Failed") and self.list_of(target) is not None:
                reaches.append(MET)
            elif target.ended:
                reaches.append(reached(state.step, target))
            elif self.has_started(target) and self.list_of(target) is not None:
                reaches.append(MET)
            else:
                return NOT_YET
        return combined(state.step, reaches)

    def has_started(self, target: State) -> bool:
        """Whether an attempt of a target began before the present plan."""
        batch = self.reference.batch
        if self.reference.own_work(target) is not None:
            return target.phase == "Running" and target.name in batch.begun
        new = {created.name for created in batch.created}
        before = (attempt for attempt in target.attempts if attempt.vcjob.name not in new)
        return target.phase == "Running" and any(before)

    def lists(self, state: State, *, taken: bool = True) -> list[list[Any]]:
        """Return the known lists of the matched targets that were taken, or were not."""
        found = [
            self.list_of(target)
            for target in self.targets(state)[0]
            if self.was_taken(target) is taken
        ]
        return [items for items in found if items is not None]

    def upstream(self, state: State) -> list[State]:
        """Return the steps whose items a step matches, directly or through others."""
        found, work = dict[str, State](), [state]
        while work:
            for target in self.targets(work.pop())[0]:
                if target.name not in found:
                    found[target.name] = target
                    work.append(target)
        return list(found.values())

    def given(self, state: State) -> list[Any] | str:
        """Return the items that the targets of a step give it, or why it is skipped."""
        for items in (*self.lists(state), *self.lists(state, taken=False)):
            return items
        for target in self.targets(state)[0]:
            if takes_items(target.step) and not self.was_taken(target):
                if not isinstance(found := self.given(target), str):
                    return found
        return UPSTREAM if any(map(self.was_taken, self.targets(state)[0])) else NOT_TAKEN

    def was_taken(self, target: State) -> bool:
        return target.phase != "Skipped" or target.reason in (UPSTREAM, STOPPED, SKIPPED_BY_USER)

    def goes_on(self, state: State) -> bool:
        """Whether only steps have failed on whose items those of this step depend."""
        reference = self.reference
        if reference.flow.spec.failure_policy not in (None, "Stop"):
            return False
        upstream = {target.name for target in self.upstream(state)}
        broken = {s.name for s in reference.states.values() if s.broken and not s.finally_}
        return bool(upstream) and broken <= upstream

    # ------------------------------------------------------------------------ one item

    def item(self, state: State, index: int, running: Collection[str] = ()) -> str:
        """Return the combined state of the targets for an item."""
        matched, whole = self.targets(state)
        reaches = [self.item_reached(state.step, target, index) for target in matched]
        is_any = state.step.depends_on is not None and state.step.depends_on.strategy == "any"
        begun = state.phase == "Running" and not is_any
        reaches += [MET if begun else reached(state.step, target, running) for target in whole]
        return combined(state.step, reaches)

    def item_reached(self, step: Step, target: State, index: int) -> str:
        condition = required_condition(step, target.step)
        run = target.run(index)
        if run is not None and condition == "Running":
            if any(a.vcjob.ran is not None for a in run.attempts) or run.phase == "Completed":
                return MET
        if run is None or not run.phase:
            if not target.ended:
                return NOT_YET
            if not self.was_taken(target) and self.targets(target)[0]:
                # it ends when it could have decided, and not as untaken if it could not
                verdict = self.item(target, index)
                if verdict == NOT_YET:
                    return NOT_YET
                if verdict in (UPSTREAM, STOPPED):
                    ended = State(target.step, target.place, phase="Skipped", reason=verdict)
                    return reached(step, ended)
            if target.broken and condition != "Always":
                return NOT_TAKEN if condition in ("Failed", "Finished") else UPSTREAM
            return reached(step, target)
        is_cancelled = run.attempts and run.attempts[-1].intent == "Cancelled"
        if run.phase == "Failed" and is_cancelled and condition != "Always":
            return STOPPED
        ended = State(target.step, target.place, phase=run.phase, reason=run.reason, runs=[run])
        return reached(step, ended)

    def is_passed_over(self, state: State, index: int) -> bool:
        """Whether an item is skipped only because no target of it was taken."""
        matched, whole = self.targets(state)
        reaches = [self.item_reached(state.step, target, index) for target in matched]
        return {*reaches, *(reached(state.step, target) for target in whole)} == {PASSED}

    def skip_items(self, state: State) -> None:
        """Skip the items whose targets did not end as required. If the step is ended now, or starts
        no further item because one has failed, skip those that the status shows as skipped."""
        if not self.targets(state)[0]:
            return
        running = self.reference.running
        halted = running.is_halted(state) or running.starts_no_more(state)
        shown = self.reference.seen.steps[state.name].runs
        for index in range(len(state.items or ())):
            if halted and shown.get(index, ("", ""))[0] != "Skipped":
                continue
            verdict = self.item(state, index) if state.run(index) is None else MET
            if verdict in (UPSTREAM, NOT_TAKEN, STOPPED):
                state.skip_item(index, verdict)

    def may_start(self, state: State, index: int) -> bool:
        return not self.targets(state)[0] or self.item(state, index) == MET

    def is_tolerated(self, state: State, run: Run) -> bool:
        """Whether an item is skipped for items without which their steps have completed."""
        if run.reason != UPSTREAM:
            return False
        matched, whole = self.targets(state)
        index = run.index or 0
        causes = [t for t in matched if self.item_reached(state.step, t, index) == UPSTREAM]
        others = any(reached(state.step, target) == UPSTREAM for target in whole)
        return not others and all(target.phase == "Completed" for target in causes)

    def end(self, state: State) -> bool:
        """End a step all of whose items have ended without a failure, if some were skipped."""
        skipped = [r for r in state.runs if r.phase == "Skipped" and r.reason != SKIPPED_BY_USER]
        bad = {run.reason for run in skipped if not self.is_tolerated(state, run)} - {NOT_TAKEN}
        if any(self.is_tolerated(state, run) for run in skipped) and not bad:
            return False
        begun = len(skipped) < len(state.runs)
        decides = state.step.for_each is not None and state.step.for_each.when is not None
        if not skipped or ((begun or decides) and not bad):
            return False
        if not bad and all(self.is_passed_over(state, run.index or 0) for run in skipped):
            return False
        reasons = bad or {NOT_TAKEN}
        state.end("Failed" if begun else "Skipped", *reasons, now=self.reference.now)
        state.reason = UPSTREAM if UPSTREAM in reasons else next(iter(reasons))
        return True
