"""Steps by hand: single steps and items that users give up, skip and run again
(docs/reference.md, Steps by hand)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from model.books import SKIPPED_BY_USER, Run, State
from model.matching import has_items
from model.readiness import STOPPED, UPSTREAM

if TYPE_CHECKING:
    from model.reference import Reference

REASONS = {"CancelStep": "CancelledByUser", "SkipStep": SKIPPED_BY_USER, "RetrySteps": "Retrying"}
"""The reason to end what a user has named. Of RetrySteps, it is what was made of that."""


@dataclass(frozen=True)
class Order:
    """What a user has said about a step or an item."""

    action: str
    outputs: Mapping[str, Any] | None = None

    @property
    def reason(self) -> str:
        return REASONS[self.action]


class ByHand:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    # -------------------------------------------------------------------- the Command

    def apply(self, action: str, text: str) -> None:
        """Apply a Command, whose text is `step` or `step/index`, and outputs as JSON."""
        path, _, outputs = text.partition(" ")
        name, _, item = path.partition("/")
        state, index = self.reference.states[name], int(item) if item else None
        needs_item = bool(outputs) and index is None and has_items(state.step)
        if needs_item or not self.makes_sense(action, state, index):
            return
        order = Order(action, json.loads(outputs) if outputs else None)
        if action != "CancelStep":
            self.apply_to_ended(state, index, order)
        if action != "RetrySteps":
            state.orders[index] = order

    def apply_to_ended(self, state: State, index: int | None, order: Order) -> None:
        """Let a skip or a retry take effect on what has ended, and on what was made of it."""
        action, name = order.action, state.name
        named = {name: index} if action == "RetrySteps" else {}

        def stays(other: State, run: Run) -> bool:
            is_named = other.name in named and named[other.name] in (None, run.index)
            behind = action == "SkipStep" and name in (other.name, *other.step.targets)
            reasons = (STOPPED, UPSTREAM) if behind else (STOPPED,)
            return not (is_named or (run.phase == "Skipped" and run.reason in reasons))

        again = self.reference.commands.runs_again(stays, by_hand=True)
        changes = action == "RetrySteps" or self.settle_ended(state, index, order)
        if changes or self.reference.result:
            self.go_back(again)

    def makes_sense(self, action: str, state: State, index: int | None) -> bool:
        reference = self.reference
        if reference.result and action == "CancelStep" or state.name in reference.left_out:
            return False
        if reference.ending and not reference.result:
            if not state.finally_ or action == "RetrySteps":
                return False
        if index is not None and index >= len(reference.matching.list_of(state) or ()):
            return False
        run: State | Run = state
        if index is not None:
            ended_with_it = state.phase == "Skipped" and action != "RetrySteps"
            run = state.run(index) or (state if ended_with_it else Run(index))
        has_ended = run.phase in ("Completed", "Failed", "Skipped")
        if action == "RetrySteps":
            return has_ended
        if reference.is_asked(state):
            return False
        if action == "CancelStep":
            return not has_ended
        if run.phase == "Skipped":
            return run.reason in (UPSTREAM, STOPPED)
        return run.phase != "Completed"

    def settle_ended(self, state: State, index: int | None, order: Order) -> bool:
        """Skip what has ended of a step, and return whether anything has. A step with items is
        judged again."""
        has_ended = state.ended
        if not has_items(state.step):
            if has_ended:
                for run in state.runs[-1:]:
                    self.skip(run, order)
                self.reference.unstarted.skip(state, order.reason)
            return has_ended
        for run in state.runs:
            if run.phase in ("Failed", "Skipped") and index in (None, run.index):
                if run.reason not in ("NotTaken", SKIPPED_BY_USER):
                    self.skip(run, order)
                    has_ended = True
        if state.ended:
            # it may fail again before any item starts, as with ItemsMismatch
            begins = not state.runs and self.others_left(state, index)
            state.phase, state.reason = "Waiting" if begins else "Running", ""
            state.reasons, state.failed_at = frozenset({""}), None
        if has_ended:
            state.outcome = ""
        return has_ended

    def others_left(self, state: State, index: int | None) -> bool:
        """Return whether some items are not skipped, when a user skips this one."""
        items = range(len(self.reference.matching.list_of(state) or ()))
        skipped = {i for i, order in state.orders.items() if order.action == "SkipStep"}
        return index is not None and bool({*items} - skipped - {index})

    def go_back(self, again: dict[str, set[int | None]]) -> None:
        """Let steps run again. What of them runs is ended first, unless the flow has ended."""
        reference = self.reference
        has_ended = bool(reference.result)
        for name, kept in again.items():
            state = reference.states[name]
            if state.phase == "Waiting" and not state.runs:
                continue
            waiting = set(state.continued)
            alive = [run for run in state.runs if run.alive and run.index not in kept]
            if not alive and (state.ended or not kept):
                begun = {run.index for run in state.runs}
                reference.commands.reset(state, kept, again)
                state.again = begun - kept if kept else set()
            elif not kept:
                state.orders = {None: Order("RetrySteps")}
            else:
                self.go_back_to_items(state, kept, {run.index for run in alive})
            if not has_ended:  # those go on that had to before
                state.continued = {i: c for i, c in state.continued.items() if i in waiting}
        if has_ended:
            reference.commands.go_on()

    def go_back_to_items(self, state: State, kept: set[int | None], alive: set[int | None]) -> None:
        for run in [run for run in state.runs if run.index not in kept | alive]:
            state.forget(run)
            state.orders.pop(run.index, None)
            state.again.add(run.index)
        state.outcome = ""
        state.orders |= dict.fromkeys(alive, Order("RetrySteps"))

    # ------------------------------------------------------------------------ its effect

    def skip(self, run: Run, order: Order) -> None:
        run.phase, run.reason, run.again_at = "Skipped", order.reason, None
        run.given, run.ended_at = order.outputs, self.reference.now

    def end_run(self, state: State, run: Run, order: Order) -> None:
        """End a run whose attempt has ended, or that is between two, and that a user has skipped,
        or that is made of something that runs again."""
        if order.action == "SkipStep":
            self.skip(run, order)
            return
        state.forget(run)
        state.continued.pop(run.index, None)
        is_whole = None in state.orders
        state.orders.pop(run.index, None)
        if is_whole and not state.alive:
            self.reference.commands.reset(state, set(), {})
            state.continued.clear()

    def settle_unstarted(self, state: State) -> None:
        """End the items that have not started and that a user has given up or skipped. Of a step
        that is given up as a whole, none starts."""
        for index in range(len(state.items or ())):
            order = state.order(index)
            if order is None or order.action == "RetrySteps" or state.run(index) is not None:
                continue
            if index in state.orders or order.action == "SkipStep":
                run = Run(index, phase="Failed", reason=order.reason)
                if order.action == "SkipStep":
                    self.skip(run, order)
                state.runs = sorted([*state.runs, run], key=lambda run: run.index or 0)
