"""Work without vcjobs: attempts that begin by the status, are answered, time out, and end.

An attempt takes no room, and ends at once when its flow ends it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from jobflow.api.duration import parse_duration
from jobflow.api.flow.step import DependsOn, Step
from model.acting import Script, Vcjob
from model.books import Attempt, Run, State
from model.by_hand import REASONS
from model.child_flows import STEP_OF_CHILD
from model.deciding import EXPRESSION_ERROR
from model.readiness import STOPPED
from model.words import NoValue, substitute

if TYPE_CHECKING:
    from model.random_steps import StepDrawing
    from model.reference import Reference


@dataclass
class OwnAttempt(Vcjob):
    """An attempt in the place of a vcjob."""

    number: int = 1
    not_counted: float = 0.0
    """The suspended seconds of the flow when it began."""
    reason: str = ""
    """Why it has failed, if its answer says so."""

    @property
    def alive(self) -> bool:
        return False

    @property
    def has_pods(self) -> bool:
        return False

    @property
    def failure_reason(self) -> str:
        return self.reason

    def next_move(self) -> tuple[float, str] | None:
        """Return the time and the phase of its answer."""
        if self.phase or self.script.lasts is None:
            return None
        return math.ceil(self.created_at) + self.script.lasts, self.script.end


class OwnWork:
    """The rules of a kind of work. Those of this class are of attempts that run until the outside
    answers the want of each (`kinds`)."""

    shows: ClassVar[tuple[str, str]] = ("Running", "")
    """The phase and reason of an attempt that goes on."""
    fails: ClassVar[str] = ""
    """The reason of an attempt that its answer fails."""
    scripts: ClassVar[tuple[Script, ...]] = ()
    """Random answers, and when they come."""
    at_once: ClassVar[bool] = False
    """Whether it ends where it starts."""
    is_asked: ClassVar[bool] = False
    """Whether users answer it, by Commands."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    @staticmethod
    def draw(drawing: StepDrawing, name: str, depends_on: DependsOn | None, *, last: bool) -> Step:
        """Draw a step of this kind; `last`: of `finally`."""
        raise NotImplementedError

    def written(self, step: Step) -> Any:
        """Return the texts of a step that may have references."""
        raise NotImplementedError

    # -------------------------------------------------------------------------- begin

    def begin_ready(self, state: State) -> None:
        """Begin the runs of a step that may begin and do by the status, or fail those whose texts
        have no value. Those that must begin do so (`check`)."""
        running, shown = self.reference.running, self.reference.seen.steps[state.name]
        if state.decided_in is self.reference.batch:
            return  # its decisions are stored first
        stops = shown.reason == STOPPED and self.reference.fails_at_once(state)
        is_sure = self.is_sure() and not stops
        must = set(running.ready(state, strict=True)) if is_sure else set()
        for index in list(running.ready(state, strict=False)):
            if index in must | self.shown_open(state) and self.has_values(state, index):
                self.begin(state, index)
            elif index in shown.failed and not self.has_values(state, index):
                running.no_vcjob(state, index, EXPRESSION_ERROR)

    def is_sure(self) -> bool:
        """Whether runs that must begin have begun, although the status does not show it: they were
        ended at this moment."""
        seen, policy = self.reference.seen, self.reference.flow.spec.failure_policy
        return not seen.blurred or policy == "Abort" or bool(self.reference.ending)

    def has_values(self, state: State, index: int | None) -> bool:
        """Return whether the texts of an attempt have values."""
        try:
            substitute(self.written(state.step), self.reference.deciding.values(state, index))
        except NoValue:
            return False
        return True

    def begin(self, state: State, index: int | None) -> None:
        reference, run = self.reference, state.run(index)
        number = state.number(index) + 1
        if run is None:
            run = Run(index)
            state.runs = sorted([*state.runs, run], key=lambda run: run.index or 0)
        script = Script(lasts=None)
        if not self.is_asked:
            script = reference.script(state.name, index, number)
        attempt = OwnAttempt("", "", script, reference.now, number=number, reason=self.fails)
        attempt.not_counted = reference.not_counted
        if self.shows[0] == "Running":
            attempt.ran = reference.now
        run.attempts.append(Attempt(attempt))
        run.again_at = None
        state.phase = "Running"

    # ---------------------------------------------------------------------------- end

    def update_run(self, state: State, run: Run) -> None:
        """End an attempt: by its answer, by its timeout, or with the flow."""
        reference, attempt = self.reference, run.attempts[-1]
        left = self.time_left(state, run)
        if attempt.vcjob.ended:
            reference.running.attempt_ended(state, run, attempt)
        elif reference.running.is_halted(state, run):
            self.end_for(state, run, self.halting_reason(state, run), for_good=True)
        elif left is not None and left <= 0:
            self.end_for(state, run, "Timeout")

    def end_for(self, state: State, run: Run, reason: str, *, for_good: bool = False) -> None:
        attempt = run.attempts[-1]
        attempt.intent, attempt.since, attempt.for_good = reason, self.reference.now, for_good
        attempt.vcjob.phase = "Aborted"
        self.reference.running.attempt_ended(state, run, attempt)

    def halting_reason(self, state: State, run: Run) -> str:
        """Return why an attempt ends for good. If several apply, the one in the status counts."""
        reference = self.reference
        order = state.order(run.index)
        reasons = [] if order is None else [order.reason]
        reasons += ["Cancelled" if state.finally_ else reference.ending] * reference.ends(state)
        reasons += ["FailurePolicy"] * reference.aborts(state)
        shown = reference.seen.steps[state.name].runs.get(run.index, ("", ""))[1]
        return shown if shown in reasons else reasons[0]

    def suspend(self, *, again: bool) -> None:
        """End what runs in a flow that is suspended by AbortJob; `again`: it was suspended
        before."""
        for state, run in self.open_runs():
            shown = self.reference.seen.steps[state.name].runs.get(run.index)
            if not again or shown == ("Waiting", "Suspended"):
                self.end_for(state, run, "Suspended")

    def time_left(self, state: State, run: Run) -> float | None:
        """Return the seconds until the timeout ends the attempt; None if it does not."""
        timeout, attempt = state.step.attempt_timeout, attempt_of(run)
        if timeout is None or attempt is None:
            return None
        return math.floor(attempt.created_at) + parse_duration(timeout) - self.reference.now

    def command(self, command: str) -> None:
        """Apply a Command about this kind of work alone."""

    # -------------------------------------------------------------------------- state

    def states(self) -> Iterator[State]:
        """Yield the steps of this kind."""
        states = self.reference.states.values()
        return (state for state in states if self.reference.own_work(state) is self)

    def open_runs(self) -> Iterator[tuple[State, Run]]:
        """Yield the runs of which an attempt goes on."""
        for state in self.states():
            for run in state.runs:
                attempt = attempt_of(run)
                if not run.phase and attempt is not None and not attempt.ended:
                    yield state, run

    def wanted(self) -> dict[tuple[str, str], OwnAttempt]:
        """Return the attempts that go on by the keys of their wants: the step, and the index and
        number of the attempt."""
        found = {}
        for state, run in self.open_runs() if not self.is_asked else ():
            attempt = attempt_of(run)
            assert attempt is not None
            index = "" if run.index is None else run.index
            found[state.name, f"{index}/{attempt.number}"] = attempt
        return found

    def shown_open(self, state: State) -> set[int | None]:
        """Return the items of which an attempt goes on by the status; None for the step itself."""
        runs = self.reference.seen.steps[state.name].runs
        return {index for index, shown in runs.items() if shown == self.shows}

    def first_open(self) -> str:
        """Return the first open run, as a Command names it, or ""."""
        for state, run in self.open_runs():
            return state.name if run.index is None else f"{state.name}/{run.index}"
        return ""

    def due(self) -> Iterator[float]:
        """Yield the times at which a timeout ends an attempt."""
        for state, run in self.open_runs():
            if (left := self.time_left(state, run)) is not None:
                yield self.reference.now + left

    def check(self) -> None:
        """Check which attempts go on by the status, and that no other one must."""
        reference = self.reference
        expected = {(state.name, run.index) for state, run in self.open_runs()}
        actual = {(state.name, i) for state in self.states() for i in self.shown_open(state)}
        assert actual == expected, f"at {reference.now} {actual} go on, not {expected}"
        for state in self.states():
            missing = list(reference.running.ready(state, strict=True))
            assert not missing, f"at {reference.now} {state.name} {missing} ought to begin"

    # ------------------------------------------------------------------------ drawing

    @classmethod
    def commands_on(cls, step: Step) -> list[str]:
        """Return the Commands that users may send about a step of this kind."""
        return steer(step)


def steer(step: Step) -> list[str]:
    """Return the Commands by which users end, run again or scale a step, or items of it."""
    scaled = [f"ScaleFlow {step.name}={n}" for n in (1, 3)] if step.for_each else []
    items = [f"{step.name}/{i}" for i in (0, 1)] if step.for_each else []
    ended = [f"{a} {path}" for a in REASONS for path in (step.name, *items)]
    outputs = items[:1] if step.for_each else [step.name]
    return [*ended, *(f'SkipStep {path} {{"n": 2}}' for path in outputs), *scaled]


def steer_inside(step: Step) -> list[str]:
    """Return the Commands on steps of its child flows."""
    if step.flow is None:
        return []
    is_loop = step.for_each is not None or step.repeat is not None
    places = [f"{step.name}/{i}" for i in (0, 1)] if is_loop else [step.name]
    ended = [f"{a} {place}/{STEP_OF_CHILD}" for a in REASONS for place in places]
    return [
        *ended,
        f'SkipStep {places[0]}/{STEP_OF_CHILD} {{"n": 2}}',
        f"ScaleFlow {places[0]}=2",
    ]


def attempt_of(run: Run) -> OwnAttempt | None:
    """Return the last attempt, if it had no vcjob."""
    vcjob = run.last.vcjob if run.last is not None else None
    return vcjob if isinstance(vcjob, OwnAttempt) else None
