"""Reuse: the runs that take the result of an ended flow, which completed in it and is unchanged.

The reference judges flows that reuse one of the same spec, so that a run is unchanged if the jobs
before it are. It accepts either answer where the jobs before it may not have been the same: after
conditions on targets that run, with `any`, and where the name of the flow or the number of attempts
is part of the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from model.acting import Vcjob
from model.books import Attempt, Run, State
from model.matching import has_items
from model.readiness import required_condition

if TYPE_CHECKING:
    from model.reference import Reference

REUSED = ("Completed", "Reused")
_NOT_THE_SAME = (b"flow.name", b"attempt", b"retries", b"failure", b"vars.")


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
                if not all(run.reason == "Reused" for run in runs if run.attempts):
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
            names = [[run.last and run.last.vcjob.name for run in s.runs] for s in (old, state)]
            return names[0] == names[1]
        same = [run.outputs for run in old.runs] == [run.outputs for run in state.runs]
        return same and all(self.is_unchanged(self.reference.states[t]) for t in state.step.targets)

    def has_jobs(self, state: State) -> bool:
        """Whether attempts of a step are vcjobs or child flows."""
        return self.reference.own_work(state) is None

    def check_needed(self, state: State, index: int | None) -> None:
        """Check that a run whose vcjob is created could not take a result."""
        if self.earlier is None or state.step.daemon or state.finally_ or state.past[index]:
            return
        run, old = state.run(index), self.states[state.name]
        if run is not None or (state.step.repeat and (index or old.phase != "Completed")):
            return
        targets = [self.reference.states[name] for name in state.step.targets]
        is_any = state.step.depends_on is not None and state.step.depends_on.strategy == "any"
        runs_beside = any(required_condition(state.step, t.step) == "Running" for t in targets)
        text = msgspec.json.encode((state.step, self.reference.templates))
        if is_any or runs_beside or any(word in text for word in _NOT_THE_SAME):
            return
        needed = any(self.results(state, index)) and all(map(self.is_unchanged, targets))
        assert not needed, f"{state.name} {index} runs, and its result is there"
