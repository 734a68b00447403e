"""Runs a flow with `plan` in simulated time, and compares it with the reference at every moment.

Plans are applied until one has nothing left to do. Then time advances to the next event, or to the
time for which the plan asked. A plan that does not ask for a necessary one fails the test.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import msgspec

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus, RunCondition, StepCondition
from jobflow.api.flow.traits import WorkKind
from jobflow.api.volcano.command import Action as CommandAction
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.planning.actions import (
    AbortJob,
    Action,
    CommandFlow,
    CreateClaim,
    CreateJob,
    DeleteJob,
    MoveClaim,
    ReadPods,
    outdated,
)
from jobflow.core.planning.flow.restart import is_retried_with
from jobflow.core.planning.observed.child_flow import ChildFlow
from jobflow.core.planning.observed.steps import has_begun
from jobflow.core.planning.observed.view import Refusal
from model.acting import Script, Vcjob, pods, with_phase
from model.books import ENDED, SLACK, Batch, Created, Seen, ShownStep
from model.child_flows import CANCELLED, Child, Told, observed, retried
from model.reference import Reference
from model.work.kinds import KINDS
from model.work.own_work import OwnAttempt
from support.plan.plan_world import World
from support.plan.reusing_worlds import reusing
from support.plan.steps import template
from support.plan.world_state import NOW

INDEX = "flow.volcano.sh/index"
CRASH = 0.3
PLANS, MOMENTS = 120, 400
"""Limits: plans at one moment, and moments of a flow."""


@dataclass(frozen=True, repr=False)
class Case:
    """A flow, and the events that happen to it."""

    flow: JobFlow
    templates: Mapping[str, dict[str, Any]]
    scripts: Mapping[str, tuple[Script, ...]]
    """The scripts of a step's attempts, in a cycle."""
    commands: tuple[tuple[int, str], ...] = ()
    """(second, action), also `ApproveStep b/1 {"n": 2}` with the step and the outputs; sent half a
    second later, when nothing else happens."""
    answers: tuple[str, ...] = ("ApproveStep",)
    """Commands, in a cycle, with outputs, that are sent whenever the flow only waits for
    approval."""
    crashes: int | None = None
    """Seed of crashes, which apply only a part of a plan; None: no crashes."""
    free_at: int = 0
    """The second at which the place of the flow's concurrency group is free."""

    def __repr__(self) -> str:
        """Return the fields that are not the default."""
        spec = dict(msgspec.to_builtins(self.flow.spec))
        steps = [*spec.pop("flows"), *({"finally": s} for s in spec.pop("finally", ()))]
        lines = [f"spec: {spec}", *map(str, steps)]
        lines += [f"{step}: {' | '.join(map(repr, runs))}" for step, runs in self.scripts.items()]
        lines.append(f"commands: {list(self.commands)}, answers: {list(self.answers)}")
        lines.append(f"free at: {self.free_at}, crashes: {self.crashes}")
        return "\n" + "\n".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def script(self, step: str, index: int | None, attempt: int) -> Script:
        scripts = self.scripts[step]
        return scripts[((index or 0) + attempt - 1) % len(scripts)]


@dataclass
class Moment:
    """The requests and events of one moment."""

    batches: list[Batch] = field(default_factory=list)
    aborted: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    command: str = ""
    blurred: bool = False
    before: list[Batch] | None = None
    before_at: float = 0.0
    result_before: str = ""


class Simulation:
    """Runs one flow from its start to its end."""

    def __init__(
        self,
        case: Case,
        interrupted: tuple[int, str] | None = None,
        earlier: "Simulation | None" = None,
    ) -> None:
        """`interrupted`: the number of plans after which this Command comes; `earlier`: a flow at
        its end, which this one reuses."""
        refused = validate_flow(case.flow, Known()).violations
        assert not refused, f"admission refuses it: {refused[0]}"
        self.case = case
        self.interrupted = interrupted
        self.plans = 0
        self.dice = None if case.crashes is None else Random(case.crashes)
        templates = {name: template(name, spec) for name, spec in case.templates.items()}
        self.world = World(case.flow, templates)
        if earlier is not None:
            world = replace(reusing(earlier.world), templates=templates, now=NOW)
            metadata = msgspec.structs.replace(case.flow.metadata, name="g", uid="uid-g")
            spec = msgspec.structs.replace(case.flow.spec, reuse=world.flow.spec.reuse)
            flow = msgspec.structs.replace(case.flow, metadata=metadata, spec=spec)
            self.case = case = replace(case, flow=flow)
            self.world = replace(world, flow=flow)
        ended = None if earlier is None else earlier.reference
        self.reference: Reference = Reference(
            case.flow, dict(case.templates), case.free_at, ended, script=case.script
        )
        self.earlier = {} if earlier is None else earlier.vcjobs
        """The vcjobs and child flows of the flow that is reused."""
        self.vcjobs: dict[str, Vcjob] = {}
        self.made: dict[str, Created] = {}
        """How each vcjob and child flow was created, by name."""
        self.commands = list(case.commands)
        self.moment = Moment()
        self.commands_sent = 0
        self.answers = 0
        """The number of answers that the flow needed."""
        self.claims: set[str] = set()
        """The PersistentVolumeClaims that exist."""

    @property
    def now(self) -> float:
        return (self.world.now - NOW).total_seconds()

    def run_to_end(self) -> World:
        """Run until the flow has ended and no more Commands come."""
        for _ in range(MOMENTS):
            self.advance()
            if self.world.flow.final and not self.commands:
                return self.world
            self.world = self.world.later(self.next_time() - self.now)
        raise AssertionError(f"it does not end: {self.reference.open_steps()}")

    def advance(self) -> None:
        self.moment = Moment(blurred=self.dice is not None)
        self.move_vcjobs()
        self.answer_wants()
        self.send_next_command()
        self.share_place()
        if not self.settle():
            self.interrupt()
        self.reference.at(self.now, self.seen())

    def next_time(self) -> float:
        moves = [move for job in self.vcjobs.values() if (move := job.next_move())]
        moves += [move for each in self.wanted().values() if (move := each.next_move())]
        times = [at for at, _ in moves]
        times += [second + 0.5 for second, _ in self.commands[:1]]
        if any(group.holders for group in self.world.groups.values()):
            times.append(self.case.free_at)
        plan = self.world.plan().plan
        wanted, expected = {want.key for want in plan.wants}, set(self.wanted())
        assert wanted == expected, f"at {self.now} plans want {wanted}, not {expected}"
        wake = plan.requeue_after
        woken = None if wake is None else self.now + wake.total_seconds()
        if woken is not None:
            times.append(woken)
        for due in self.reference.due():
            in_time = woken is not None and woken <= max(due, self.now) + SLACK
            assert in_time, f"at {due} something has to happen, and the flow is woken at {woken}"
        if not times and (command := self.needed_command()):
            self.commands.append((int(self.now), command))
            times.append(self.now + 0.5)
        assert times, f"nothing can happen any more: {self.reference.open_steps()}"
        assert min(times) > self.now, f"time stands still at {self.now}"
        return min(times)

    def wanted(self) -> dict[tuple[str, str], OwnAttempt]:
        """Return the attempts that wait for an answer from outside, by the keys of their wants."""
        found: dict[tuple[str, str], OwnAttempt] = {}
        for work in self.reference.own_works.values():
            found |= work.wanted()
        return found

    def needed_command(self) -> str:
        """Return a Command without which the flow cannot go on, or ""."""
        if self.reference.suspended:
            return "ResumeJob"
        asked = (work for work in self.reference.own_works.values() if work.is_asked)
        key = next(filter(None, (work.first_open() for work in asked)), "")
        if not key:
            return ""
        action, _, outputs = self.case.answers[self.answers % len(self.case.answers)].partition(" ")
        self.answers += 1
        return f"{action} {key} {outputs}".rstrip()

    # ------------------------------------------------------------------------ events

    def move_vcjobs(self) -> None:
        for name, vcjob in self.vcjobs.items():
            due = vcjob.next_move()
            if due is None or due[0] > self.now:
                continue
            vcjob.move(due[1], self.now)
            job = self.world.jobs[name]
            if isinstance(vcjob, Child):
                self.world = self.world.with_job(observed(job, vcjob, self.world.now))
                continue
            job = with_phase(job, vcjob.phase, self.world.now)
            self.world = self.world.with_job(job)
            if vcjob.phase == vcjob.script.end:
                uid, ended = job.metadata.uid, pods(job, vcjob)
                self.world = replace(self.world, live={**self.world.live, uid: ended})
                if vcjob.script.watched:
                    self.world = replace(self.world, pods={**self.world.pods, uid: ended})

    def answer_wants(self) -> None:
        """Answer the attempts without vcjobs whose time has come."""
        for kind, work in self.reference.own_works.items():
            answer = KINDS[kind].answer
            for key, attempt in work.wanted().items():
                due = attempt.next_move()
                if answer is not None and due is not None and due[0] <= self.now:
                    attempt.move(due[1], self.now)
                    answers = {**self.world.probes, key: answer(attempt.script)}
                    self.world = replace(self.world, probes=answers)

    def share_place(self) -> None:
        """Another flow holds the place of the concurrency group until it is free."""
        busy = ("other",) if self.now < self.case.free_at else ()
        (group,) = self.world.with_group(*busy).groups.values()
        self.world = replace(self.world, groups={(False, "g"): group, (True, "p"): group})

    def send_next_command(self) -> None:
        if self.commands and self.commands[0][0] + 0.5 <= self.now:
            self.send_command(self.commands.pop(0)[1])

    def send_command(self, action: str) -> None:
        if not self.reference.inside.accepts(action):
            return  # the webhook refuses it
        self.moment.command = action
        self.commands_sent += 1
        self.world = replace(self.world, refusals={})
        name = f"c{self.commands_sent}"
        action, _, text = action.partition(" ")
        key, _, outputs = text.partition(" ")
        annotations = {labels.OUTPUTS: outputs} if outputs else None
        self.world = self.world.with_command(action, name=name, text=key, annotations=annotations)

    def interrupt(self) -> None:
        assert self.interrupted is not None
        moment = self.moment
        moment.before, moment.batches, moment.before_at = moment.batches, [], self.now
        moment.blurred = True
        moment.result_before = self.world.flow.status.state.phase if self.world.flow.final else ""
        self.world = self.world.later(0.25)
        self.send_command(self.interrupted[1])
        assert self.settle()

    def settle(self) -> bool:
        """Apply plans until nothing is left to do; return False if a Command interrupts that."""
        for _ in range(PLANS):
            self.forget_aborts()
            self.hand_down()
            planned = self.world.plan()
            if planned.nothing:
                return True
            before, after = map(self.ended_steps, (self.world.flow.status, planned.status))
            batch = Batch(ended=after, ended_before=before, begun=self.begun_steps())
            self.moment.batches.append(batch)
            for action in planned.plan.actions:
                if not self.crashes_now():
                    self.act(action)
            if not self.crashes_now():
                self.world = self.world.with_status(planned.status)
            if self.crashes_now():
                lost: dict[str, Any] = {"aborts": {}, "missing": frozenset(), "read": {}}
                self.world = replace(self.world, **lost, claims={})
            self.plans += 1
            if self.interrupted is not None and self.plans == self.interrupted[0]:
                return False
        raise AssertionError(f"plans without end at {self.now}")

    def forget_aborts(self) -> None:
        """Forget the times of Commands that no longer count, as the controller does."""
        old = outdated(self.world.aborts, self.world.jobs.values())
        aborts = {key: at for key, at in self.world.aborts.items() if key not in old}
        self.world = replace(self.world, aborts=aborts)

    def crashes_now(self) -> bool:
        return self.dice is not None and self.dice.random() < CRASH

    def act(self, action: Action) -> None:
        match action:
            case CreateJob():
                self.create(action)
                return
            case AbortJob():
                self.moment.aborted.add(action.name)
                self.vcjobs[action.name].abort(self.now)
            case CommandFlow(action=CommandAction.RESTART_JOB | CommandAction.RETRY_TOLERATED):
                self.retry_child(action.name)
                return
            case CommandFlow():
                self.moment.aborted.add(action.name)
                self.cancel_child(action.name)
            case DeleteJob():
                self.delete(action)
            case ReadPods():
                self.moment.blurred = True
            case CreateClaim() | MoveClaim():
                self.claims.add(action.name)
        self.world = self.world.apply_action(action)

    def create(self, action: CreateJob) -> None:
        metadata = action.manifest["metadata"]
        index = int(metadata["labels"][INDEX]) if INDEX in metadata["labels"] else None
        attempt = int(metadata["labels"][labels.ATTEMPT])
        script = self.case.script(action.step, index, attempt)
        if script.refused:
            self.moment.batches[-1].refused.append((action.step, index))
            refused = {**self.world.refusals, action.name: Refusal(422, "no", None)}
            self.world = replace(self.world, refusals=refused)
            return
        assert action.name not in self.vcjobs, f"{action.name} was made twice"
        is_flow = action.kind is WorkKind.FLOW
        missing = set() if is_flow else mounted_by(action.manifest["spec"]) - self.claims
        assert not missing, f"{action.name} mounts {missing}, which do not exist"
        self.world = self.world.apply_action(action)
        uid = self.world.jobs[action.name].metadata.uid
        kind = Child if is_flow else Vcjob
        vcjob = self.vcjobs[action.name] = kind(action.name, uid, script, self.now)
        if isinstance(vcjob, Child) and not script.is_changed:
            vcjob.counterpart = self.completed_counterpart(action.manifest["spec"])
        template = metadata["annotations"].get(labels.CREATED_BY_TEMPLATE, "").partition(".")[2]
        made = self.made[action.name] = Created(
            name=action.name,
            step=action.step,
            index=index,
            attempt=attempt,
            template=template,
            spec=dict(action.manifest["spec"]),
            manifest=json.dumps(action.manifest),
            vcjob=vcjob,
        )
        self.moment.batches[-1].created.append(made)

    def completed_counterpart(self, spec: Mapping[str, Any]) -> Vcjob | None:
        """Return the child flow that a new one reuses, if it is there and has completed."""
        reuse = spec.get("reuse") or {"flow": ""}
        found = self.earlier.get(reuse["flow"])
        is_there = found is not None and found.uid == reuse["uid"]
        return found if found is not None and is_there and found.phase == "Completed" else None

    def retry_child(self, name: str) -> None:
        """Retry a failed child flow, which says so at once."""
        made, before = self.made[name], self.vcjobs[name]
        assert isinstance(before, Child)
        retries = self.world.flow.status.retries
        number = made.attempt + retries + len(before.told)
        script = self.case.script(made.step, made.index, number)
        child = Child(name, before.uid, script, self.now, told=before.told)
        for told in self.handed_down_to(name):
            child = before.gone_on(told, script, self.now)
            break
        self.vcjobs[name] = child
        self.world = self.world.with_job(retried(self.world.jobs[name], retries))
        self.moment.batches[-1].created.append(replace(made, vcjob=child, retried=True))

    def handed_down_to(self, name: str) -> Iterator[Told]:
        """Yield the Commands on steps that a child flow has to take over, and let it say that it
        has."""
        for entry in self.world.flow.status.handed_down or ():
            job = self.world.jobs[name]
            assert isinstance(job, ChildFlow)
            if entry.flow == name and entry.number > job.taken_over:
                job = msgspec.structs.replace(job, taken_over=entry.number)
                self.world = self.world.with_job(job)
                yield Told(entry.action, entry.message.strip(), entry.outputs)

    def hand_down(self) -> None:
        """Let child flows take over what users have said about their steps. One that has ended
        refuses it, unless its parent is about to retry it."""
        for name in dict.fromkeys(e.flow for e in self.world.flow.status.handed_down or ()):
            child, job = self.vcjobs[name], self.world.jobs[name]
            assert isinstance(child, Child)
            assert isinstance(job, ChildFlow)
            status = JobFlowStatus(retries=job.retries, taken_over=job.taken_over)
            stored = JobFlow(metadata=job.metadata, status=status)
            if child.ended and is_retried_with(stored, self.world.flow):
                continue
            for told in self.handed_down_to(name):
                if not child.ended:
                    child.take_over(told, self.now)

    def cancel_child(self, name: str) -> None:
        """Cancel a child flow, which says so at once."""
        child = self.vcjobs[name]
        assert isinstance(child, Child)
        child.cancel(self.now)
        shown = msgspec.structs.replace(self.world.jobs[name], ending=CANCELLED)
        self.world = self.world.with_job(shown)

    def delete(self, action: DeleteJob) -> None:
        vcjob = self.vcjobs[action.name]
        if isinstance(vcjob, Child):
            vcjob.is_gone = True
        if not vcjob.ended:
            self.moment.deleted.add(action.name)
            vcjob.deleted = True

    # ------------------------------------------------------------------------ status

    def seen(self) -> Seen:
        status = self.world.flow.status
        return Seen(
            batches=self.moment.batches,
            aborted=self.moment.aborted,
            deleted=self.moment.deleted,
            steps=self.shown_steps(status),
            phase=status.state.phase,
            reason=status.state.reason,
            suspended=status.suspended_at is not None,
            progress=status.progress,
            outputs=status.outputs,
            command=self.moment.command,
            blurred=self.moment.blurred,
            before=self.moment.before,
            before_at=self.moment.before_at,
            result_before=self.moment.result_before,
        )

    def begun_steps(self) -> frozenset[str]:
        prefix = f"{self.case.flow.metadata.name}-"
        conditions = (self.world.flow.status.conditions or {}).items()
        return frozenset(key.removeprefix(prefix) for key, c in conditions if has_begun(c))

    def ended_steps(self, status: JobFlowStatus) -> frozenset[str]:
        steps = self.shown_steps(status).items()
        return frozenset(name for name, step in steps if step.phase in ENDED)

    def shown_steps(self, status: JobFlowStatus) -> dict[str, ShownStep]:
        prefix = f"{self.case.flow.metadata.name}-"
        conditions = status.conditions or {}
        return {key.removeprefix(prefix): shown_step(c) for key, c in conditions.items()}


def shown_step(condition: StepCondition) -> ShownStep:
    aborted = [run for run in condition.runs or [condition] if run.abort_time is not None]
    intents = {run.job or run.flow: run.reason for run in aborted}
    runs = {run.index: (run.phase, run.reason) for run in condition.runs or [condition]}
    jobs = {run.index: run.job for run in condition.runs or [condition]}
    decided = condition.decisions is not None and condition.decisions.items is not None
    attempts = _attempts(condition)
    return ShownStep(condition.phase, condition.reason, attempts, intents, runs, jobs, decided)


def _attempts(condition: StepCondition) -> int:
    runs: list[RunCondition] = [*(condition.runs or ())] or [condition]
    return sum(run.attempts for run in runs)


def mounted_by(spec: dict[str, Any]) -> set[str]:
    """Return the PersistentVolumeClaims that the pods of a vcjob mount."""
    volumes = (
        volume for task in spec["tasks"] for volume in task["template"]["spec"].get("volumes") or ()
    )
    return {volume["persistentVolumeClaim"]["claimName"] for volume in volumes}
