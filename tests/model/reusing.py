"""Reuse: the runs that take the result of an ended flow, which completed in it and is unchanged.

The reference judges flows that reuse one of the same spec, so that a run is unchanged if the jobs
before it are. It accepts either answer where the jobs before it may not have been the same: after
conditions on targets that run, with `any`, and where the name of the flow or the number of attempts
is part of the job. A new child flow reuses its counterpart, and counts as it if no job had to run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from model.acting import Vcjob
from model.books import Attempt, Created, Run, State
from model.matching import has_items
from model.readiness import required_condition

if TYPE_CHECKING:
    from model.reference import Reference

REUSED = ("Completed", "Reused")
_NOT_THE_SAME = (b"flow.name", b"attempt", b"retries", b"failure", b"vars.")


def is_reused(run: Run) -> bool:
    """Whether a run has the result of the earlier flow, or its child flow only has such results."""
    last = run.last.vcjob if run.last is not None else None
    return run.reason == "Reused" or (last is not None and last.same_as is not last)


class Reusing:
    def __init__(self, reference: Reference, earlier: Reference | None) -> None:
        self.reference = reference
        self.earlier = earlier
        self.taken = set[str]()
        """The vcjobs whose results are taken."""

    def take_results(self) -> None:
        """Let the runs that may start take the results that the status shows."""
        if self.earlier is None:
            return
        for state in self.reference.states.values():
            for index in self.new_results(state):
                name = self.reference.seen.steps[state.name].jobs[index]
                results = [run.last.vcjob for run in self.results(state, index) if run.last]
                before = next((vcjob for vcjob in results if vcjob.name == name), None)
                assert before is not None, f"{state.name} {index} reuses {name}, not one of these"
                assert not (ran := self.ran_before(state, index)), f"{state.name} reuses, {ran} ran"
                self.taken.add(name)
                self.add(state, index, before)

    def new_results(self, state: State) -> Iterator[int | None]:
        reference = self.reference
        if state.ended or reference.suspended or reference.waits or state.name not in self.states:
            return
        if state.phase == "Waiting" and not reference.unstarted.may_start(state):
            return
        for index, shown in reference.seen.steps[state.name].runs.items():
            may_start = not has_items(state.step) or reference.matching.may_start(state, index or 0)
            may_start = may_start and reference.deciding.takes(state, index)
            if shown == REUSED and state.run(index) is None and may_start:
                yield index

    @property
    def states(self) -> dict[str, State]:
        assert self.earlier is not None
        return self.earlier.states

    def results(self, state: State, index: int | None) -> Iterator[Run]:
        """Yield the runs of the earlier flow that completed, did the same, and that no other run
        has taken."""
        old = self.states[state.name]
        text = msgspec.json.encode(state.step)
        for run in old.runs:
            same = run.index == index or (has_items(state.step) and b"(index" not in text)
            if b"(item" in text and old.items and state.items:
                same = same and old.items[run.index or 0] == state.items[index or 0]
            is_free = run.last is not None and run.last.vcjob.name not in self.taken
            if same and is_free and run.phase == "Completed":
                yield run

    def add(self, state: State, index: int | None, vcjob: Vcjob) -> None:
        now = self.reference.now
        result = Vcjob(vcjob.name, vcjob.uid, vcjob.script, now, vcjob.phase, ran=now)
        run = Run(index, [Attempt(result)], phase="Completed", reason="Reused", ended_at=now)
        state.runs = sorted([*state.runs, run], key=lambda run: run.index or 0)
        state.phase = "Running"

    def name_reason(self, state: State) -> None:
        """Let a step with the results of all its runs say so."""
        runs = state.runs
        if state.phase == "Completed" and runs and all(run.reason == "Reused" for run in runs):
            state.reasons = frozenset({"Reused"})

    # ------------------------------------------------------------ what it is made of

    def ran_before(self, state: State, index: int | None) -> str:
        """Return a target of a run that ran in this flow, directly or through steps without a job;
        "" if there is none."""
        for name in state.step.targets:
            target = self.reference.states[name]
            matched = state.step.matches_items and has_items(target.step)
            runs = [run for run in target.runs if not matched or run.index == index]
            if self.has_jobs(target) and any(run.attempts for run in runs):
                if not all(is_reused(run) for run in runs if run.attempts):
                    return name
            elif found := self.ran_before(target, index if matched else None):
                return found
        return ""

    def is_unchanged(self, state: State) -> bool:
        """Whether a step is for those that depend on it as it was in the earlier flow."""
        old = self.states[state.name]
        if old.phase != state.phase or len(old.runs) != len(state.runs):
            return False
        if self.has_jobs(state) and any(run.attempts for run in state.runs):
            names = [
                [run.last and run.last.vcjob.same_as.name for run in s.runs] for s in (old, state)
            ]
            return names[0] == names[1]
        same = [run.outputs for run in old.runs] == [run.outputs for run in state.runs]
        return same and all(self.is_unchanged(self.reference.states[t]) for t in state.step.targets)

    def has_jobs(self, state: State) -> bool:
        """Whether attempts of a step are vcjobs or child flows."""
        return self.reference.own_work(state) is None

    def check_needed(self, state: State, created: Created) -> None:
        """Check that a run whose vcjob is created could not take a result, or that a new child flow
        reuses the right one."""
        index, run = created.index, state.run(created.index)
        is_first = not (state.finally_ or state.past[index] or run is not None)
        if state.step.flow is not None:
            if not created.retried:
                self.check_counterpart(state, created, is_first=is_first)
            return
        if self.earlier is None or state.step.daemon or not is_first:
            return
        if state.step.repeat and (index or self.states[state.name].phase != "Completed"):
            return
        text = msgspec.json.encode((state.step, self.reference.templates))
        if any(word in text for word in _NOT_THE_SAME):
            return
        needed = any(self.results(state, index)) and self.is_made_of_the_same(state)
        assert not needed, f"{state.name} {index} runs, and its result is there"

    def check_counterpart(self, state: State, created: Created, *, is_first: bool) -> None:
        shown, found = created.spec.get("reuse"), self.counterpart(state, created.index)
        found = found if is_first else None
        if shown is not None:
            assert found is not None, f"{created.name} reuses {shown}, not nothing"
            assert shown["flow"] == found.name, f"{created.name} reuses {shown}, not {found.name}"
            ran = self.ran_before(state, created.index)
            assert not ran, f"{created.name} reuses {shown}, and {ran} ran"
        elif found is not None:
            needed = self.is_made_of_the_same(state)
            assert not needed, f"{created.name} runs whole, and {found.name} is there"

    def counterpart(self, state: State, index: int | None) -> Vcjob | None:
        """Return the child flow of the last attempt of the run with an equal item, which in random
        flows has the same index."""
        old = self.states[state.name].run(index) if self.earlier is not None else None
        return old.last.vcjob if old is not None and old.last is not None else None

    def is_made_of_the_same(self, state: State) -> bool:
        """Whether the jobs before a step were for sure the same in the earlier flow."""
        targets = [self.reference.states[name] for name in state.step.targets]
        is_any = state.step.depends_on is not None and state.step.depends_on.strategy == "any"
        runs_beside = any(required_condition(state.step, t.step) == "Running" for t in targets)
        return not (is_any or runs_beside) and all(map(self.is_unchanged, targets))
