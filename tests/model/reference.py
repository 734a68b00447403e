"""The interpreter: how a flow must run, given the ends of its vcjobs (docs/reference.md).

At every moment it updates all steps until nothing changes. It is slow on purpose and plain: each
rule of docs/reference.md is a function, in the words of that page.
"""

from jobflow.api.duration import parse_duration
from jobflow.api.jobflow import JobFlow
from model.books import Attempt, Batch, Created, Run, Seen, State
from model.commands import Commands
from model.deciding import Deciding, expected_name, expected_spec
from model.readiness import MET, STOPPED, handles, stops_now, verdict, waits_for_storage
from model.running import SLACK, Running


class Reference:
    """The expected state of a flow, which `at` updates at every moment."""

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
        """Cancelled or Timeout while the flow is being ended."""
        self.finally_too = False
        """Whether `finally` is aborted with the other steps."""
        self.result = ""
        """Succeed or Failed after the end of the flow, else ""."""
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
        """Check everything that was done and stored at this moment."""
        self.now, self.seen = now, seen
        if seen.before is not None:
            self.before(seen.before)
            self.now = now
        self.commands.apply(seen.command)
        self.update()
        self.take_all(seen.batches)
        self.check_steps()
        self.check_aborts()
        self.check_no_create_is_missing()
        self.check_flow()

    def take_all(self, batches: list[Batch]) -> None:
        for self.batch in batches:
            for created in self.batch.created:
                self.take(created)
                self.update()
            for name, index in self.batch.refused:
                self.running.no_vcjob(self.states[name], index, "Refused")
            self.update()

    def before(self, batches: list[Batch]) -> None:
        """Judge a moment in which a Command came while requests were in progress."""
        self.now = self.seen.before_at
        waiting = [state for state in self.states.values() if state.phase == "Waiting"]
        self.update()
        self.take_all(batches)
        if self.seen.result_before:
            assert not self.open_steps(), f"the flow was over, but {self.open_steps()}"
            self.result = self.seen.result_before
            assert self.result == self.end(), f"the flow was {self.result}, not {self.end()}"
        for state in waiting:  # unstored ends are decided again
            step = self.seen.steps[state.name]
            same = state.phase == step.phase and step.reason in (state.reasons or {step.reason})
            if not same and (state.ended or step.phase == "Skipped"):
                state.phase, state.decided = "Waiting", False
        for state in self.states.values():
            for attempt in state.attempts:
                actual = self.shown_intent(attempt)
                if attempt.since == self.now and attempt.intent != actual:
                    attempt.intent = ""

    def update(self) -> None:
        while True:
            outline = self.outline()
            self.running.update()
            self.time_out()
            self.request_aborts()
            for state in self.states.values():
                if state.phase == "Waiting":
                    self.update_waiting(state)
                self.running.check_references(state)
            self.end_daemons()
            if self.outline() == outline:
                return

    def outline(self) -> object:
        return [
            (s.phase, s.decided, [(r.phase, r.again_at) for r in s.runs], len(list(s.attempts)))
            for s in self.states.values()
        ] + [(self.ending,), [a.intent for s in self.states.values() for a in s.attempts]]

    # --------------------------------------------------------------- ends and aborts

    def time_out(self) -> None:
        if self.ending or self.result or self.suspended or self.flow.spec.timeout is None:
            return
        late = self.time_left() <= -SLACK and not all(s.ended for s in self.states.values())
        if late or self.reports_timeout():
            self.ending = "Timeout"

    def time_left(self) -> float:
        allowed = parse_duration(self.flow.spec.timeout or "0s")
        return self.started + self.not_counted + allowed - self.now

    def reports_timeout(self) -> bool:
        """Whether the flow has correctly timed out."""
        timed = self.flow.spec.timeout is not None and self.seen.reason == "Timeout"
        return timed and self.time_left() < SLACK

    def stopped(self) -> bool:
        """Whether no further step may start, because one has failed."""
        policy = self.flow.spec.failure_policy or "Stop"
        return policy != "Continue" and any(
            state.broken for state in self.states.values() if not state.finally_
        )

    def aborts(self, state: State) -> bool:
        """Whether `failurePolicy: Abort` ends the step."""
        return (
            self.flow.spec.failure_policy == "Abort"
            and self.stopped()
            and not state.finally_
            and not handles(state, self.states)
        )

    def request_aborts(self) -> None:
        for state in self.states.values():
            for attempt in state.attempts:
                if self.ends(state):
                    reason = "Cancelled" if state.finally_ else self.ending
                    self.intend(attempt, reason, for_good=True)
                elif self.aborts(state):
                    self.intend(attempt, "FailurePolicy", for_good=True)

    def ends(self, state: State) -> bool:
        """Whether the step is ended with the flow."""
        return bool(self.ending) and (self.finally_too or not state.finally_)

    def intend(self, attempt: Attempt, intent: str, *, for_good: bool = False) -> None:
        """Set the reason to abort. If several apply, the one in the status counts."""
        reported = self.shown_intent(attempt) == intent and attempt.since == self.now
        if attempt.vcjob.alive and (reported or not attempt.intent):
            attempt.intent, attempt.since, attempt.for_good = intent, self.now, for_good

    def shown_intent(self, attempt: Attempt) -> str:
        name = attempt.vcjob.name
        return next((s.intents[name] for s in self.seen.steps.values() if name in s.intents), "")

    def others_have_ended(self) -> bool:
        return all(s.ended for s in self.states.values() if not s.step.daemon and not s.finally_)

    def end_daemons(self) -> None:
        """End daemons after all other steps. One between two attempts gets no further one; one that
        could start only now, or whose vcjob ends at this moment, has the end in the status."""
        if not self.others_have_ended():
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
                if self.ending:  # at this moment: it ends with the flow, or with the other steps
                    self.accept_shown(state)
                else:
                    state.end("Completed", "DaemonEnded", now=self.now)
            elif not state.alive:
                self.accept_shown(state)

    def accept_shown(self, state: State) -> None:
        """End a step that may end in several ways as the status shows it."""
        actual = self.seen.steps[state.name]
        if actual.phase in ("Completed", "Failed", "Skipped"):
            state.end(actual.phase, now=self.now)
            state.reason = actual.reason

    # ----------------------------------------------------------------------- waiting

    def update_waiting(self, state: State) -> None:
        """Skip or fail the step, or leave it to `may_start`."""
        targets = [self.states[name] for name in state.step.targets]
        so_far = verdict(state.step, targets)
        if self.ends(state):
            if all(target.phase != "Waiting" for target in targets):
                self.skip_unstarted(state, so_far)
            return
        if state.finally_ and not self.finally_may_start():
            return
        if so_far != MET:
            self.skip(state, so_far)
            return
        if self.suspended:
            return
        self.deciding.decide(state)
        if state.ended:
            return
        made_now = any(name == state.name for name, _ in self.seen.created)
        if state.items == []:
            self.end_without_items(state)
        elif self.gate_closed(state) and not made_now:
            self.skip(state, STOPPED)

    def skip_unstarted(self, state: State, verdict_so_far: str) -> None:
        """Skip a step when the flow ends. All its targets have started or ended."""
        known = {verdict_so_far} & {"NotTaken", "UpstreamFailed"}
        if verdict_so_far == MET and state.decided and self.deciding.not_taken(state):
            known = {"NotTaken"}
        ends = [self.seen.steps[name] for name in state.step.targets]
        if any(end.phase == "Failed" or end.reason == "UpstreamFailed" for end in ends):
            known |= {"NotTaken", "UpstreamFailed"}  # because of a step that ends with the flow
        reason = self.seen.steps[state.name].reason
        state.end("Skipped", STOPPED, *known, now=self.now)
        state.reason = reason if reason in known else STOPPED

    def end_without_items(self, state: State) -> None:
        """End a forEach without items: Completed or Stopped; either if the flow stops at this
        moment."""
        reported = self.seen.steps[state.name].reason == STOPPED
        if reported if stops_now(self, state) else self.gate_closed(state):
            self.skip(state, STOPPED)
        else:
            state.end("Completed", "", now=self.now)

    def skip(self, state: State, reason: str) -> None:
        if reason in ("NotTaken", "UpstreamFailed", STOPPED):
            state.end("Skipped", reason, now=self.now)
            state.reason = reason

    def gate_closed(self, state: State) -> bool:
        return self.stopped() and not state.finally_ and not handles(state, self.states)

    def finally_may_start(self) -> bool:
        others = [state for state in self.states.values() if not state.finally_]
        ended = all(state.ended and not state.alive for state in others)
        return ended and not self.suspended

    # ------------------------------------------------------------------------ timers

    def due(self) -> list[float]:
        """Return the times at which something must happen even if no vcjob changes."""
        if self.result:
            return []
        found = list(self.running.due())
        if self.flow.spec.timeout is not None and not (self.ending or self.suspended):
            allowed = parse_duration(self.flow.spec.timeout)
            found.append(self.started + self.not_counted + allowed)
        return found

    def has_room_for_more(self) -> bool:
        return self.room() and not self.suspended

    # ----------------------------------------------------------------------- creates

    def may_start(self, state: State) -> bool:
        """Whether a step that has not started may start now."""
        if self.suspended or self.result or state.phase != "Waiting" or not state.decided:
            return False
        if self.gate_closed(state):
            broken = [s for s in self.states.values() if s.broken]
            new = all(s.failed_at == self.now for s in broken)
            return new and (self.seen.blurred or all(waits_for_storage(self, s) for s in broken))
        return True

    def may_be_omitted(self, state: State) -> bool:
        """Whether a vcjob of the step may be created, but does not have to be."""
        if state.step.daemon and not state.finally_ and self.others_have_ended():
            return True
        return state.phase == "Waiting" and self.gate_closed(state)

    def room(self) -> bool:
        most = self.flow.spec.parallelism
        alive = sum(state.alive for state in self.states.values())
        return most is None or alive < most

    def take(self, created: Created) -> None:
        """Check a vcjob that was created."""
        state = self.states[created.step]
        where = f"{created.name} was made at {self.now}"
        ready = list(self.running.ready(state, strict=False))
        assert created.index in ready, f"{where}, which may not be: {state.phase}"
        assert self.room(), f"{where}, though there is no room"
        run = state.run(created.index)
        number = state.past[created.index] + (len(run.attempts) if run else 0) + 1
        name = expected_name(self.flow, state.step, created.index, number)
        assert (created.name, created.attempt) == (name, number), f"{created.name} is not {name}"
        self.check_order(state, created)
        expected = expected_spec(self, state, created.index)
        for field, value in expected.items():
            assert created.spec.get(field) == value, (
                f"{name}: {field} is {created.spec.get(field)}, {value}"
            )
        assert created.template == self.deciding.template(state), f"{name} of {created.template}"
        if state.step.retry and state.step.retry.avoid_nodes and run:
            for node in self.running.nodes_to_avoid(run):
                assert node in created.manifest, f"{name} does not keep off {node}"
        if run is None:
            run = Run(created.index)
            state.runs = sorted([*state.runs, run], key=lambda run: run.index or 0)
        run.attempts.append(Attempt(created.vcjob))
        run.again_at = None
        state.phase = "Running"

    def check_order(self, state: State, created: Created) -> None:
        """Check that vcjobs that waited for room before are created first, even if they are
        refused."""
        if self.flow.spec.parallelism is None:
            return
        for name, index in self.waiting - self.seen.created - set(self.batch.refused):
            other = self.states[name]
            first = (other.place, index or 0) < (state.place, created.index or 0)
            ready = index in list(self.running.ready(other, strict=True))
            assert not (first and ready), f"{created.name} was made before {name} {index}"

    # ---------------------------------------------------------------------- checking

    def check_no_create_is_missing(self) -> None:
        missing = {
            (state.name, index)
            for state in self.states.values()
            for index in self.running.ready(state, strict=True)
        }
        assert not (missing and self.room()), (
            f"at {self.now} these ought to have been made: {missing}"
        )
        self.waiting = missing

    def check_aborts(self) -> None:
        for state in self.states.values():
            for attempt in state.attempts:
                name = attempt.vcjob.name
                if not attempt.vcjob.alive:
                    continue
                actual, expected = self.shown_intent(attempt), attempt.intent
                assert actual == expected, (
                    f"at {self.now} {name} is to abort for {actual!r}: {expected!r}"
                )
                if expected and attempt.since == self.now:
                    assert name in self.seen.aborted, f"at {self.now} {name} is not aborted"
                elif not expected:
                    assert name not in self.seen.aborted, f"at {self.now} {name} is aborted"

    def check_steps(self) -> None:
        for state in self.states.values():
            actual = self.seen.steps[state.name]
            prefix = f"at {self.now} {state.name} is {actual.phase} ({actual.reason})"
            if not state.ended:
                ended = actual.phase in ("Completed", "Failed", "Skipped")
                assert not ended, f"{prefix}, not over: {state.phase}"
                continue
            assert actual.phase == state.phase, f"{prefix}, not {state.phase} {state.reasons}"
            right = state.reasons is None or actual.reason in state.reasons
            assert right, f"{prefix}, not {set(state.reasons or ())}"
            state.reason = actual.reason

    def check_flow(self) -> None:
        ended = all(state.ended and not state.alive for state in self.states.values())
        actual = self.seen.phase
        final = actual in ("Succeed", "Failed")
        prefix = f"at {self.now} the flow is {actual} ({self.seen.reason})"
        if not ended:
            assert not final, f"{prefix}, but {self.open_steps()}"
            return
        self.result = self.end()
        assert actual == self.result, f"{prefix}, not {self.result}"
        reason = self.ending or ("StepFailed" if self.result == "Failed" else "")
        assert self.seen.reason == reason, f"{prefix}, not for {reason!r}"
        assert self.seen.progress == f"{len(self.states)}/{len(self.states)}"

    def end(self) -> str:
        broken = any(state.broken for state in self.states.values())
        return "Failed" if self.ending or broken else "Succeed"

    def open_steps(self) -> list[str]:
        return [state.name for state in self.states.values() if not state.ended or state.alive]
