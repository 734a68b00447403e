"""The interpreter: what must become of a flow, told what its vcjobs do (docs/reference.md).

At every moment it goes over all steps until nothing changes. It is slow, and it is meant to be
plain: a rule of docs/reference.md is a function here, in the words of that page.
"""

from jobflow.api.duration import parse_duration
from jobflow.api.jobflow import JobFlow
from model.books import Attempt, Batch, Made, Run, Seen, State
from model.commands import Commands
from model.deciding import Deciding, expected_name, expected_spec
from model.readiness import MET, STOPPED, handles, stops_just_now, verdict, waits_for_writing
from model.running import SLACK, Running


class Reference:
    """A flow's books, brought up to date at every moment by `at`."""

    def __init__(self, flow: JobFlow, templates: dict[str, dict[str, object]]) -> None:
        self.flow = flow
        self.templates = templates
        steps = [*flow.steps, *(flow.spec.finally_ or ())]
        self.states = {
            step.name: State(step, place, finally_=place >= len(flow.steps))
            for place, step in enumerate(steps)
        }
        self.suspended = bool(flow.spec.suspend)
        self.suspended_since = 0.0
        self.not_counted = 0.0
        """Suspended seconds, which do not count for the flow's timeout."""
        self.started = 0.0
        self.ending = ""
        self.finally_too = False
        """Whether `finally` is ended with the rest."""
        """Cancelled or Timeout: the flow is being brought to an end."""
        self.over = ""
        """Succeed or Failed, once it is."""
        self.waiting: set[tuple[str, int | None]] = set()
        """The runs that had no room at the last moment."""
        self.now = 0.0
        self.seen: Seen
        self.batch = Batch()
        self.deciding = Deciding(self)
        self.running = Running(self)
        self.commands = Commands(self)

    # --------------------------------------------------------------------- a moment

    def at(self, now: float, seen: Seen) -> None:
        """All that was done and shown at this moment has to be right."""
        self.now, self.seen = now, seen
        if seen.before is not None:
            self.before(seen.before)
            self.now = now
        self.commands.obey(seen.command)
        self.go_over()
        self.take_all(seen.batches)
        self.check_steps()
        self.check_aborts()
        self.check_nothing_is_left()
        self.check_flow()

    def take_all(self, batches: list[Batch]) -> None:
        for self.batch in batches:
            for made in self.batch.made:
                self.take(made)
                self.go_over()
            for name, index in self.batch.refused:
                self.running.no_vcjob(self.states[name], index, "Refused")
            self.go_over()

    def before(self, batches: list[Batch]) -> None:
        """Judge a moment in which a Command came while requests were in progress."""
        self.now = self.seen.before_at
        waiting = [state for state in self.states.values() if state.phase == "Waiting"]
        self.go_over()
        self.take_all(batches)
        if self.seen.over_before:
            assert not self.open_steps(), f"the flow was over, but {self.open_steps()}"
            self.over = self.seen.over_before
            assert self.over == self.end(), f"the flow was {self.over}, not {self.end()}"
        for state in waiting:  # what was not written yet is decided anew
            step = self.seen.steps[state.name]
            same = state.phase == step.phase and step.reason in (state.reasons or {step.reason})
            if not same and (state.ended or step.phase == "Skipped"):
                state.phase, state.decided = "Waiting", False
        for state in self.states.values():
            for attempt in state.attempts:
                shown = self.shown_intent(attempt)
                if attempt.since == self.now and attempt.intent != shown:
                    attempt.intent = ""

    def go_over(self) -> None:
        while True:
            before = self.outline()
            self.running.go_over()
            self.time_out()
            self.abort_what_has_to_be()
            for state in self.states.values():
                if state.phase == "Waiting":
                    self.go_over_waiting(state)
                self.running.look_into_references(state)
            self.end_daemons()
            if self.outline() == before:
                return

    def outline(self) -> object:
        return [
            (s.phase, s.decided, [(r.phase, r.again_at) for r in s.runs], len(list(s.attempts)))
            for s in self.states.values()
        ] + [(self.ending,), [a.intent for s in self.states.values() for a in s.attempts]]

    # ------------------------------------------------------------------- being ended

    def time_out(self) -> None:
        if self.ending or self.over or self.suspended or self.flow.spec.timeout is None:
            return
        late = self.time_left() <= -SLACK and not all(s.ended for s in self.states.values())
        if late or self.tells_timeout():
            self.ending = "Timeout"

    def time_left(self) -> float:
        allowed = parse_duration(self.flow.spec.timeout or "0s")
        return self.started + self.not_counted + allowed - self.now

    def tells_timeout(self) -> bool:
        """Whether the flow has correctly timed out."""
        timed = self.flow.spec.timeout is not None and self.seen.reason == "Timeout"
        return timed and self.time_left() < SLACK

    def stopped(self) -> bool:
        """Whether nothing new may start: a step has failed."""
        policy = self.flow.spec.failure_policy or "Stop"
        return policy != "Continue" and any(
            state.broken for state in self.states.values() if not state.finally_
        )

    def aborts(self, state: State) -> bool:
        """Whether failurePolicy Abort ends it."""
        return (
            self.flow.spec.failure_policy == "Abort"
            and self.stopped()
            and not state.finally_
            and not handles(state, self.states)
        )

    def abort_what_has_to_be(self) -> None:
        for state in self.states.values():
            for attempt in state.attempts:
                if self.ends(state):
                    reason = "Cancelled" if state.finally_ else self.ending
                    self.intend(attempt, reason, for_good=True)
                elif self.aborts(state):
                    self.intend(attempt, "FailurePolicy", for_good=True)

    def ends(self, state: State) -> bool:
        """Whether it is brought to its end with the flow."""
        return bool(self.ending) and (self.finally_too or not state.finally_)

    def intend(self, attempt: Attempt, intent: str, *, for_good: bool = False) -> None:
        """Return the reason in the status, if several are right at once."""
        told = self.shown_intent(attempt) == intent and attempt.since == self.now
        if attempt.vcjob.alive and (told or not attempt.intent):
            attempt.intent, attempt.since, attempt.for_good = intent, self.now, for_good

    def shown_intent(self, attempt: Attempt) -> str:
        name = attempt.vcjob.name
        return next((s.intents[name] for s in self.seen.steps.values() if name in s.intents), "")

    def others_are_over(self) -> bool:
        return all(s.ended for s in self.states.values() if not s.step.daemon and not s.finally_)

    def end_daemons(self) -> None:
        """Once all others are over. One that is between two attempts has no more of them; one that
        could start only now, or whose vcjob ends just now, is seen to end."""
        if not self.others_are_over():
            return
        for state in self.states.values():
            if not state.step.daemon or state.finally_ or state.ended:
                continue
            for attempt in state.attempts:
                if not self.suspended or self.shown_intent(attempt) == "DaemonEnded":
                    self.intend(attempt, "DaemonEnded")
            if any(run.again_at and run.between_since < self.now for run in state.runs):
                for run in state.runs:
                    run.between = True
                if self.ending:  # in this very second: it ends with the flow, or with the others
                    self.adopt(state)
                else:
                    state.end("Completed", "DaemonEnded", now=self.now)
            elif not state.alive:
                self.adopt(state)

    def adopt(self, state: State) -> None:
        """End a step that may end in several ways as the status shows it."""
        shown = self.seen.steps[state.name]
        if shown.phase in ("Completed", "Failed", "Skipped"):
            state.end(shown.phase, now=self.now)
            state.reason = shown.reason

    # ----------------------------------------------------------------------- waiting

    def go_over_waiting(self, state: State) -> None:
        """Skip or fail the step, or leave it to `may_start`."""
        targets = [self.states[name] for name in state.step.targets]
        so_far = verdict(state.step, targets)
        if self.ends(state):
            if all(target.phase != "Waiting" for target in targets):
                self.end_unbegun(state, so_far)
            return
        if state.finally_ and not self.finally_begins():
            return
        if so_far != MET:
            self.skip(state, so_far)
            return
        if self.suspended:
            return
        self.deciding.decide(state)
        if state.ended:
            return
        made_now = any(name == state.name for name, _ in self.seen.made)
        if state.items == []:
            self.go_over_nothing(state)
        elif self.gate_closed(state) and not made_now:
            self.skip(state, STOPPED)

    def end_unbegun(self, state: State, so_far: str) -> None:
        """With the flow; all that it depends on has begun, or ended."""
        known = {so_far} & {"NotTaken", "UpstreamFailed"}
        if so_far == MET and state.decided and self.deciding.not_taken(state):
            known = {"NotTaken"}
        ends = [self.seen.steps[name] for name in state.step.targets]
        if any(end.phase == "Failed" or end.reason == "UpstreamFailed" for end in ends):
            known |= {"NotTaken", "UpstreamFailed"}  # by what ends with the flow
        reason = self.seen.steps[state.name].reason
        state.end("Skipped", STOPPED, *known, now=self.now)
        state.reason = reason if reason in known else STOPPED

    def go_over_nothing(self, state: State) -> None:
        """End a forEach without items: Completed or Stopped; either if the flow stops at this
        moment."""
        told = self.seen.steps[state.name].reason == STOPPED
        if told if stops_just_now(self, state) else self.gate_closed(state):
            self.skip(state, STOPPED)
        else:
            state.end("Completed", "", now=self.now)

    def skip(self, state: State, reason: str) -> None:
        if reason in ("NotTaken", "UpstreamFailed", STOPPED):
            state.end("Skipped", reason, now=self.now)
            state.reason = reason

    def gate_closed(self, state: State) -> bool:
        return self.stopped() and not state.finally_ and not handles(state, self.states)

    def finally_begins(self) -> bool:
        rest = [state for state in self.states.values() if not state.finally_]
        over = all(state.ended and not state.alive for state in rest)
        return over and not self.suspended

    # ------------------------------------------------------------------ what is to come

    def due(self) -> list[float]:
        """When something has to happen although nothing else does."""
        if self.over:
            return []
        found = list(self.running.due())
        if self.flow.spec.timeout is not None and not (self.ending or self.suspended):
            allowed = parse_duration(self.flow.spec.timeout)
            found.append(self.started + self.not_counted + allowed)
        return found

    def has_room_for_more(self) -> bool:
        return self.room() and not self.suspended

    # ------------------------------------------------------------------------ making

    def may_start(self, state: State) -> bool:
        """Whether a step that has not begun may now."""
        if self.suspended or self.over or state.phase != "Waiting" or not state.decided:
            return False
        if self.gate_closed(state):
            broken = [s for s in self.states.values() if s.broken]
            new = all(s.failed_at == self.now for s in broken)
            return new and (self.seen.blurred or all(waits_for_writing(self, s) for s in broken))
        return True

    def need_not_be_made(self, state: State) -> bool:
        """Whether a vcjob of the step may be created, but does not have to be."""
        if state.step.daemon and not state.finally_ and self.others_are_over():
            return True
        return state.phase == "Waiting" and self.gate_closed(state)

    def room(self) -> bool:
        most = self.flow.spec.parallelism
        alive = sum(state.alive for state in self.states.values())
        return most is None or alive < most

    def take(self, made: Made) -> None:
        """Check a vcjob that was created."""
        state = self.states[made.step]
        where = f"{made.name} was made at {self.now}"
        ready = list(self.running.ready(state, strict=False))
        assert made.index in ready, f"{where}, which may not be: {state.phase}"
        assert self.room(), f"{where}, though there is no room"
        run = state.run(made.index)
        number = state.past[made.index] + (len(run.attempts) if run else 0) + 1
        name = expected_name(self.flow, state.step, made.index, number)
        assert (made.name, made.attempt) == (name, number), f"{made.name} is not {name}"
        self.check_order(state, made)
        wanted = expected_spec(self, state, made.index)
        for what, value in wanted.items():
            assert made.spec.get(what) == value, f"{name}: {what} is {made.spec.get(what)}, {value}"
        assert made.template == self.deciding.template(state), f"{name} of {made.template}"
        if state.step.retry and state.step.retry.avoid_nodes and run:
            for node in self.running.nodes_to_avoid(run):
                assert node in made.manifest, f"{name} does not keep off {node}"
        if run is None:
            run = Run(made.index)
            state.runs = sorted([*state.runs, run], key=lambda run: run.index or 0)
        run.attempts.append(Attempt(made.vcjob))
        run.again_at = None
        state.phase = "Running"

    def check_order(self, state: State, made: Made) -> None:
        """Check the order: vcjobs that waited for room before go first, even if they are
        refused."""
        if self.flow.spec.parallelism is None:
            return
        for name, index in self.waiting - self.seen.made - set(self.batch.refused):
            other = self.states[name]
            first = (other.place, index or 0) < (state.place, made.index or 0)
            still = index in list(self.running.ready(other, strict=True))
            assert not (first and still), f"{made.name} was made before {name} {index}"

    # ---------------------------------------------------------------------- checking

    def check_nothing_is_left(self) -> None:
        left = {
            (state.name, index)
            for state in self.states.values()
            for index in self.running.ready(state, strict=True)
        }
        assert not (left and self.room()), f"at {self.now} these ought to have been made: {left}"
        self.waiting = left

    def check_aborts(self) -> None:
        for state in self.states.values():
            for attempt in state.attempts:
                name = attempt.vcjob.name
                if not attempt.vcjob.alive:
                    continue
                shown, wanted = self.shown_intent(attempt), attempt.intent
                assert shown == wanted, (
                    f"at {self.now} {name} is to abort for {shown!r}: {wanted!r}"
                )
                if wanted and attempt.since == self.now:
                    assert name in self.seen.aborted, f"at {self.now} {name} is not aborted"
                elif not wanted:
                    assert name not in self.seen.aborted, f"at {self.now} {name} is aborted"

    def check_steps(self) -> None:
        for state in self.states.values():
            shown = self.seen.steps[state.name]
            there = f"at {self.now} {state.name} is {shown.phase} ({shown.reason})"
            if not state.ended:
                ended = shown.phase in ("Completed", "Failed", "Skipped")
                assert not ended, f"{there}, not over: {state.phase}"
                continue
            assert shown.phase == state.phase, f"{there}, not {state.phase} {state.reasons}"
            right = state.reasons is None or shown.reason in state.reasons
            assert right, f"{there}, not {set(state.reasons or ())}"
            state.reason = shown.reason

    def check_flow(self) -> None:
        over = all(state.ended and not state.alive for state in self.states.values())
        shown = self.seen.phase
        final = shown in ("Succeed", "Failed")
        there = f"at {self.now} the flow is {shown} ({self.seen.reason})"
        if not over:
            assert not final, f"{there}, but {self.open_steps()}"
            return
        self.over = self.end()
        assert shown == self.over, f"{there}, not {self.over}"
        reason = self.ending or ("StepFailed" if self.over == "Failed" else "")
        assert self.seen.reason == reason, f"{there}, not for {reason!r}"
        assert self.seen.progress == f"{len(self.states)}/{len(self.states)}"

    def end(self) -> str:
        broken = any(state.broken for state in self.states.values())
        return "Failed" if self.ending or broken else "Succeed"

    def open_steps(self) -> list[str]:
        return [state.name for state in self.states.values() if not state.ended or state.alive]
