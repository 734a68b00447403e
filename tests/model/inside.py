"""Commands on steps of child flows, by their paths from the outermost flow
(docs/reference.md, Steps by hand).

The outermost flow hands them down to the child flow of the run. If that has ended, it goes on, and
all that was made of it runs again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from model.books import Run, State
from model.by_hand import REASONS, Order
from model.child_flows import Child, Told
from model.matching import has_items

if TYPE_CHECKING:
    from model.reference import Reference

THE_FLOW = "."
"""The path in a Command that is about the whole child flow, and not about one of its steps."""


class Inside:
    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.told: defaultdict[str, list[Told]] = defaultdict(list)
        """The Commands that each child flow must have taken over so far, by its name."""
        self.waiting: dict[str, Told] = {}
        """The Commands for child flows that have ended and wait for room to continue, by name."""

    # -------------------------------------------------------------------- the Command

    def read(self, command: str) -> tuple[State, int | None, Told] | None:
        """Return the step and the index of the run whose child flow a Command is for, and the
        Command that the child flow gets. None if a Command is for no child flow."""
        action, _, text = command.partition(" ")
        path, _, outputs = text.partition(" ")
        number = ""
        if action == "ScaleFlow":
            path, _, number = path.rpartition("=")
        name, _, rest = path.partition("/")
        state, index = self.reference.states.get(name), None
        if action not in (*REASONS, "ScaleFlow") or state is None or state.step.flow is None:
            return None
        is_loop = has_items(state.step) or state.step.repeat is not None
        if rest and is_loop:
            item, _, rest = rest.partition("/")
            index = int(item)
        if action == "ScaleFlow" and not rest and (index is not None or not is_loop):
            rest = THE_FLOW
        message = f"{rest}={number}" if number else rest
        told = Told(action, message, json.loads(outputs) if outputs else None)
        return (state, index, told) if rest else None

    def accepts(self, command: str) -> bool:
        """Return whether the child flow that a Command is for can carry it out."""
        if (found := self.read(command)) is None:
            return True
        state, index, told = found
        child = self.child(state, index)
        return child is None or child.accepts(told)

    def apply(self, command: str) -> bool:
        """Apply a Command on a step of a child flow; return False for any other."""
        if (found := self.read(command)) is None:
            return False
        state, index, told = found
        run, child = state.run(index), self.child(state, index)
        if child is None or not self.makes_sense(state, run, told):
            return True
        if run is not None and not run.phase:
            if not child.ended:  # else it is between two attempts
                self.told[child.name].append(told)
            return True
        self.reference.by_hand.apply_to_ended(state, index, Order("RetrySteps"))
        if state.run(index) is None:
            state.continued[index] = child
            self.waiting[child.name] = told
        return True

    def child(self, state: State, index: int | None) -> Child | None:
        """Return the child flow of the last attempt of a run. A step that was about to run again
        when the flow ended still has one."""
        run = state.run(index)
        last = run.last.vcjob if run is not None and run.last is not None else None
        if run is None and index is None and state.ended:
            last = state.continued.get(index)
        return last if isinstance(last, Child) and not last.is_gone else None

    def makes_sense(self, state: State, run: Run | None, told: Told) -> bool:
        reference = self.reference
        if state.name in reference.left_out or (reference.ending and not reference.result):
            return False
        is_over = run is None or bool(run.phase)
        if state.step.repeat is not None:  # only the run that is under way, as they belong together
            return not is_over and run is state.runs[-1]
        return not is_over or told.action in ("SkipStep", "RetrySteps")

    # ------------------------------------------------------------------------ its effect

    def goes_on(self, name: str) -> None:
        """Note that a child flow continues, and takes over the Command that waits for it."""
        if name in self.waiting:
            self.told[name].append(self.waiting.pop(name))

    def check(self) -> None:
        """Check that each child flow has got the Commands of users about it, and no others."""
        for state in self.reference.states.values():
            for run in state.runs:
                if (child := self.child(state, run.index)) is not None:
                    expected = self.told[child.name]
                    assert child.told == expected, f"{child.name}: {child.told}, not {expected}"
