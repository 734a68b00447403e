"""The interpreter: how a flow must run, given the ends of its vcjobs (docs/reference.md).

At every moment it updates all steps until nothing changes. It is slow on purpose and plain: each
rule of docs/reference.md is a function, in the words of that page.
"""

from collections.abc import Callable

from jobflow.api.duration import parse_duration
from jobflow.api.flow.control import to_number
from jobflow.api.flow.jobflow import JobFlow
from model.acting import Script
from model.books import SECOND, SLACK, Attempt, Batch, Created, Run, Seen, State
from model.by_hand import ByHand
from model.checking import Checking
from model.commands import Commands
from model.daemons import Daemons
from model.deciding import Deciding, expected_env, expected_name, expected_spec
from model.inside import Inside
from model.matching import Matching
from model.readiness import handles
from model.reusing import Reusing
from model.running import Running
from model.tolerance import Tolerance
from model.waiting import Waiting
from model.words import with_params
from model.work.kinds import KINDS
from model.work.own_work import OwnWork


class Reference:
    """The expected state of a flow, which `at` updates at every moment."""

    def __init__(
        self,
        flow: JobFlow,
        templates: dict[str, dict[str, object]],
        free_at: float = 0.0,
        earlier: "Reference | None" = None,
        *,
        script: Callable[[str, int | None, int], Script],
    ) -> None:
        """`free_at`: when the place of the flow's concurrency group is free; `earlier`: the flow
        that is reused, at its end; `script`: the script of an attempt, by its step, index and
        number."""
        self.flow = with_params(flow)
        self.templates = templates
        self.script = script
        flow = self.flow
        steps = [*flow.steps, *(flow.spec.finally_ or ())]
        self.states = {
            step.name: State(step, place, finally_=place >= len(flow.steps))
            for place, step in enumerate(steps)
        }
        self.left_out = self.not_targeted()
        self.waits = flow.spec.concurrency is not None
        """Whether the flow waits for a place in its concurrency group."""
        self.free_at = free_at
        self.suspended = bool(flow.spec.suspend)
        self.suspended_since = 0.0
        self.not_counted = 0.0
        """Suspended seconds, which do not count for the flow's timeout."""
        self.scaled: dict[str, int] = {}
        """What ScaleFlow has set: the parallelism of steps by name, and that of the flow as ""."""
        self.started = 0.0
        self.ending = ""
        """Cancelled or Timeout while the flow is being ended."""
        self.aborted = set[str]()
        """Steps that `failurePolicy: Abort` ends. What they do at their end changes this only for
        those that have not been aborted yet."""
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
        self.unstarted = Waiting(self)
        self.running = Running(self)
        self.own_works = {kind: entry.rules(self) for kind, entry in KINDS.items()}
        """The kinds of work without vcjobs."""
        self.commands = Commands(self)
        self.by_hand = ByHand(self)
        self.inside = Inside(self)
        self.matching = Matching(self)
        self.tolerance = Tolerance(self)
        self.daemons = Daemons(self)
        self.reusing = Reusing(self, earlier)
        self.checking = Checking(self)

    def not_targeted(self) -> set[str]:
        """Return the steps of `spec.flows` that no target is or depends on."""
        needed = set(self.flow.spec.targets or ())
        if not needed:
            return set()
        for _ in self.states:
            needed |= {target for name in needed for target in self.states[name].step.targets}
        return {state.name for state in self.states.values() if not state.finally_} - needed

    def own_work(self, state: State) -> OwnWork | None:
        """Return the kind of work that a step runs, if it has no vcjobs."""
        return self.own_works.get(state.step.kind_of(None))

    def was_first(self, state: State) -> bool:
        """Whether a step that ends where it starts has done so in a plan of this moment before the
        one in which another step failed, by the status."""
        work, shown = self.own_work(state), self.seen.steps[state.name]
        if work is None or not work.at_once or shown.phase not in ("Completed", "Failed"):
            return False
        broken = [other for other in self.states.values() if other.broken and other is not state]
        return bool(broken) and all(other.failed_at == self.now for other in broken)

    def fails_at_once(self, before: State) -> bool:
        """Whether a step has failed where it starts, at this moment, so that others of the same
        plan do not begin. One that depends on another has not failed before that began."""
        dependants = self.commands.dependants_of(before.name, in_any_case=True)
        for state in self.states.values():
            if state.name in dependants:
                continue
            work, shown = self.own_work(state), self.seen.steps[state.name]
            is_new = state.failed_at in (None, self.now) and shown.phase == "Failed"
            if is_new and (not shown.attempts or (work is not None and work.at_once)):
                return True
        return False

    def is_asked(self, state: State) -> bool:
        work = self.own_work(state)
        return work is not None and work.is_asked

    # --------------------------------------------------------------------- a moment

    def at(self, now: float, seen: Seen) -> None:
        """Check everything that was done and stored at this moment."""
        self.now, self.seen = now, seen
        self.batch = next(iter(seen.batches), Batch())
        if seen.before is not None:
            self.before(seen.before)
            self.now = now
        self.commands.apply(seen.command)
        self.take_place()
        self.update()
        self.take_all(seen.batches)
        self.checking.check()

    def take_place(self) -> None:
        """Start the flow if there is a place for it. A suspended flow is passed over."""
        passed_over = self.suspended or self.ending or self.result
        if self.waits and not passed_over and self.now >= self.free_at:
            self.waits, self.started = False, self.now

    def take_all(self, batches: list[Batch]) -> None:
        for self.batch in batches:
            states = self.states.values()
            if any(state.step.matches_items or self.own_work(state) for state in states):
                self.update()
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
            failed = {state.name for state in self.states.values() if state.phase == "Failed"}
            self.aborted = {state.name for state in self.states.values() if self.aborts(state)}
            self.reusing.take_results()
            self.running.update()
            for state in self.states.values():
                self.reusing.name_reason(state)
            self.time_out()
            self.request_aborts()
            for state in self.states.values():
                if state.phase == "Waiting":
                    self.unstarted.update_waiting(state)
                if self.own_work(state) is None:
                    self.running.check_references(state)
                if state.phase == "Failed" and state.name not in failed:
                    break  # the steps that have started learn of it before those that follow
            self.end_daemons()
            if self.outline() == outline:
                # only now is it known whether the flow stops at this moment
                for state in self.states.values():
                    if (work := self.own_work(state)) is not None:
                        work.begin_ready(state)
            if self.outline() == outline:
                return

    def outline(self) -> object:
        return [
            (s.phase, s.decided, [(r.phase, r.again_at) for r in s.runs], len(list(s.attempts)))
            for s in self.states.values()
        ] + [(self.ending,), [a.intent for s in self.states.values() for a in s.attempts]]

    # --------------------------------------------------------------- ends and aborts

    def time_out(self) -> None:
        if self.waits or self.flow.spec.timeout is None:
            return
        if self.ending or self.result or self.suspended:
            return
        late = self.time_left() <= -SLACK and not all(s.ended for s in self.states.values())
        if late or self.reports_timeout():
            self.ending = "Timeout"

    def time_left(self) -> float:
        allowed = parse_duration(self.flow.spec.timeout or "0s")
        return self.started + SECOND + self.not_counted + allowed - self.now

    def reports_timeout(self) -> bool:
        """Whether the flow has correctly timed out."""
        timed = self.flow.spec.timeout is not None and self.seen.reason == "Timeout"
        return timed and self.time_left() < SLACK

    def stopped(self) -> bool:
        """Whether no further step may start, because one has failed."""
        policy = self.flow.spec.failure_policy or "Stop"
        return policy != "Continue" and any(
            state.broken and state.reason != "FailurePolicy"  # which is because of another one
            for state in self.states.values()
            if not state.finally_
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
                if order := state.order(state.index_of(attempt)):
                    self.intend(attempt, order.reason, for_good=True)
                elif self.ends(state):
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
        """End daemons that no step needs any more. One between two attempts gets no further one;
        one that could start only now, or whose vcjob ends at this moment, has the end in the
        status."""
        for state in self.daemons.ending():
            for attempt in state.attempts:
                if not self.suspended or self.shown_intent(attempt) == "DaemonEnded":
                    self.intend(attempt, "DaemonEnded")
            early = any(self.running.was_created_early(state, run) for run in state.runs)
            between = any(run.again_at and run.between_since < self.now for run in state.runs)
            if between and not early:
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

    # ------------------------------------------------------------------------ timers

    def due(self) -> list[float]:
        """Return the times at which something must happen even if no vcjob changes."""
        if self.result:
            return []
        found = [*self.running.due()]
        found += [due for work in self.own_works.values() for due in work.due()]
        passed_over = self.waits or self.ending or self.suspended
        if self.flow.spec.timeout is not None and not passed_over:
            allowed = parse_duration(self.flow.spec.timeout)
            found.append(self.started + SECOND + self.not_counted + allowed)
        return found

    def has_begun(self, state: State) -> bool:
        """Whether a step got a vcjob now, or an attempt without one goes on."""
        work = self.own_work(state)
        if work is not None and work.shown_open(state):
            return True
        return any(state.name == step for step, _ in self.seen.created)

    def has_room_for_more(self, state: State) -> bool:
        if self.suspended or self.waits:
            return False
        return self.own_work(state) is not None or self.room()

    # ----------------------------------------------------------------------- creates

    def room(self) -> bool:
        most = self.scaled.get("", to_number(self.flow.spec.parallelism))
        alive = sum(state.alive for state in self.states.values())
        return most is None or alive < most

    def has_place(self, state: State) -> bool:
        """Whether the places that a run of the step needs are free. All steps have one group, each
        with the same limit, and take one place."""
        places = state.step.concurrency
        if places is None:
            return True
        held = sum(other.alive for other in self.states.values() if other.step.concurrency)
        return self.now >= self.free_at and held < (places.limit or 1)

    def take(self, created: Created) -> None:
        """Check a vcjob or child flow that was created, or a child flow that was retried."""
        state = self.states[created.step]
        where = f"{created.name} was made at {self.now}"
        ready = list(self.running.ready(state, strict=False))
        assert created.index in ready, f"{where}, which may not be: {state.phase}"
        assert self.room(), f"{where}, though there is no room"
        assert self.has_place(state), f"{where}, though there is no place"
        self.reusing.check_needed(state, created)
        run = state.run(created.index)
        number = state.number(created.index) + 1
        name = expected_name(self.flow, state.step, created.index, number)
        assert (created.name, created.attempt) == (name, number), f"{created.name} is not {name}"
        retried = created.index in state.continued
        assert created.retried == retried, f"{where}, and retried: {created.retried}"
        self.check_order(state, created)
        if retried:
            self.inside.goes_on(created.name)
        else:
            self.check_manifest(state, created)
        timeout = self.deciding.timeout(state, created.index)
        if run is None:
            run = Run(created.index)
            state.runs = sorted([*state.runs, run], key=lambda run: run.index or 0)
        attempt = state.start(run, created.vcjob)
        attempt.timeout, attempt.not_counted = timeout, self.not_counted
        state.phase = "Running"

    def check_manifest(self, state: State, created: Created) -> None:
        """Check what the manifest of a new vcjob or child flow has from its step."""
        name, run = created.name, state.run(created.index)
        expected = expected_spec(self, state, created.index)
        for field, value in expected.items():
            assert created.spec.get(field) == value, (
                f"{name}: {field} is {created.spec.get(field)}, {value}"
            )
        env = [] if state.step.flow else created.container.get("env") or []
        assert env == expected_env(self, state, created.index), f"{name} has env {env}"
        assert created.template == self.deciding.template(state), f"{name} of {created.template}"
        if state.step.retry and state.step.retry.avoid_nodes and run:
            for node in self.running.nodes_to_avoid(run):
                assert node in created.manifest, f"{name} does not keep off {node}"

    def check_order(self, state: State, created: Created) -> None:
        """Check that vcjobs that waited for room before are created first, even if they are
        refused."""
        if self.flow.spec.parallelism is None and "" not in self.scaled:
            return
        for name, index in self.waiting - self.seen.created - set(self.batch.refused):
            other = self.states[name]
            first = (other.place, index or 0) < (state.place, created.index or 0)
            ready = index in list(self.running.ready(other, strict=True)) and self.has_place(other)
            assert not (first and ready), f"{created.name} was made before {name} {index}"

    # -------------------------------------------------------------------------- end

    def end(self) -> str:
        broken = any(state.broken for state in self.states.values())
        return "Failed" if self.ending or broken else "Succeed"

    def open_steps(self) -> list[str]:
        return [state.name for state in self.states.values() if not state.ended or state.alive]
