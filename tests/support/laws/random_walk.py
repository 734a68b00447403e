"""Lives of flows for laws of `plan`: any flow that admission takes, and anything that may happen.

A life is a flow and what happened to it: plans carried out in part (a crash between any two
requests) or in full, vcjobs that move and end, what goes on inside them (`insides`), vcjobs deleted
by hand, creates refused, Commands, time. It keeps its own books of what was made, lost and ordered,
and complains itself when a law is broken.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime
from random import Random

from hypothesis import strategies as st

from jobflow.api import labels
from jobflow.api.flow_status import ENDED_STEP_PHASES
from jobflow.api.jobflow import Condition, DependsOn, Step, Strategy
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.planning.actions import (
    AbortJob,
    CreateJob,
    DeleteCommand,
    DeleteJob,
    ReadJob,
    ReadPods,
)
from support.laws.random_pods import SPEC, Insides, probes
from support.plan.plan_world import FLOW_UID, World, template, world_of
from support.plan.planned import Planned

NAMES = "abcdefg"
PHASES = ("Pending", "Running", "Restarting", "Completing", "Aborting")
OUTCOMES = ("Completed", "Completed", "Failed", "Terminated", "Aborted")

#: What a target's end is worth to each condition, written anew from DESIGN §2.
GOOD_FOR = {
    "Completed": {"Completed"},
    "Failed": {"Failed"},
    "Finished": {"Completed", "Failed", "UpstreamFailed"},
    "Running": {"Completed", "Failed", "not yet"},
}


@st.composite
def flows(draw: st.DrawFn) -> World:
    """A flow that admission takes, its steps in any order."""
    count = draw(st.integers(1, len(NAMES)))
    steps = []
    for n, name in enumerate(NAMES[:count]):
        targets = draw(st.lists(st.sampled_from(NAMES[:n]), unique=True)) if n else []
        depends_on = DependsOn(
            targets=targets,
            strategy=draw(st.sampled_from([None, *Strategy])),
            condition=draw(st.sampled_from([None, None, *Condition])),
            probe=draw(probes),
        )
        steps.append(Step(name=name, depends_on=depends_on if targets else None))
    world = world_of(draw(st.permutations(steps)), retain=draw(st.sampled_from([None, "delete"])))
    assert not validate_flow(world.flow, Known()).violations
    templates = {name: template(name, SPEC) for name in world.templates}
    return replace(world, templates=templates, asked_before=False)


class Life:
    """A world, and the books of what has happened in it."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.made: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.ends: dict[str, tuple[str, str]] = {}
        self.taken: Counter[str] = Counter()
        """How often each Command was recorded."""
        self.ordered = 0
        self.insides = Insides(random)

    # ------------------------------------------------------------------ what happens

    def happen(self) -> None:
        """One thing, whatever it is."""
        what = self.random.choice(
            (self.reconcile, self.reconcile, self.crash, self.move, self.end, self.delete,
             self.refuse, self.wait, self.template, self.command, self.obey, self.restart,
             self.move_pods, self.watch, self.answer)
        )  # fmt: skip
        what()

    def reconcile(self) -> None:
        self.carry_out(self.world.plan(), share=1.0, write=True)

    def crash(self) -> None:
        self.carry_out(self.world.plan(), share=0.5, write=self.random.random() < 0.5)

    def carry_out(self, planned: Planned, *, share: float, write: bool) -> None:
        """In any order; a crash leaves out what it likes."""
        self.check(planned)
        self.world = self.insides.planned(self.world, planned.plan)
        actions = list(planned.plan.actions)
        self.random.shuffle(actions)
        for action in actions:
            if self.random.random() <= share:
                if isinstance(action, CreateJob):
                    self.made[action.step] += 1
                reads = isinstance(action, ReadPods)
                carry_out = self.insides.read if reads else World.acted
                self.world = carry_out(self.world, action)
        if write:
            before = self.world.flow.status.handled_commands or []
            self.taken.update(set(planned.status.handled_commands or []) - set(before))
            stored = self.world.flow.status.conditions or {}
            self.world = self.world.with_status(planned.status)
            for step, condition in planned.conditions.items():
                old = stored.get(self.world.name_of(step))
                suspended = condition.reason == "Suspended" and condition.phase == "Waiting"
                if suspended and old is not None and old.abort_time is not None:
                    self.lost[step] += 1  # it was aborted, and may run again
                if condition.phase in ENDED_STEP_PHASES:
                    self.ends.setdefault(step, (condition.phase, condition.reason))

    def live(self) -> list[str]:
        world = self.world
        return [n for n in sorted(world.jobs) if n not in world.deleted and not world.jobs[n].ended]

    def step_of(self, name: str) -> str:
        return (self.world.jobs[name].metadata.annotations or {})[labels.STEP]

    def move(self) -> None:
        if names := self.live():
            self.goes(self.random.choice(names), self.random.choice(PHASES))

    def end(self) -> None:
        if names := self.live():
            self.goes(self.random.choice(names), self.random.choice(OUTCOMES))

    def goes(self, name: str, phase: str) -> None:
        """A vcjob goes into a phase, its pods with it, though nobody may have seen them."""
        self.world = self.world.ended(name, phase)
        self.world = self.insides.move(self.world, self.world.jobs[name])

    def move_pods(self) -> None:
        if names := self.live():
            job = self.world.jobs[self.random.choice(names)]
            self.world = self.insides.move(self.world, job)

    def watch(self) -> None:
        self.world = self.insides.watch(self.world)

    def answer(self) -> None:
        self.world = self.insides.answer(self.world)

    def delete(self) -> None:
        """By hand: seen to the last, or unseen; a loss unless its end is known to anybody."""
        names = [name for name in sorted(self.world.jobs) if name not in self.world.deleted]
        if not names:
            return
        name = self.random.choice(names)
        job, step = self.world.jobs[name], self.step_of(name)
        if self.random.random() < 0.5:
            self.world = replace(self.world, deleted=self.world.deleted | {name})
            self.lost[step] += not job.ended
        else:
            left = {n: j for n, j in self.world.jobs.items() if n != name}
            self.world = replace(self.world, jobs=left)
            self.lost[step] += 1

    def refuse(self) -> None:
        names = [a.name for a in self.world.plan().plan.actions if isinstance(a, CreateJob)]
        if names:
            code = self.random.choice((400, 403, 403, 422))
            step, _, run = self.random.choice(names)[2:].partition("-r")
            self.world = self.world.with_refusal(step, code, retry_in=1.5, run=int(run or 0))

    def wait(self) -> None:
        self.world = self.world.later(self.random.choice((0.3, 1, 7)))

    def template(self) -> None:
        name = self.random.choice([step.name for step in self.world.flow.steps])
        there = name in self.world.templates
        world = self.world
        self.world = world.without_template(name) if there else self.with_template(name)

    def with_template(self, name: str) -> World:
        templates = {**self.world.templates, name: template(name, SPEC)}
        return replace(self.world, templates=templates)

    def command(self) -> None:
        """Mostly something that ends nothing, so that most lives go on."""
        action = self.random.choice(
            ("TerminateJob", "SuspendFlow", "AbortJob", "ResumeJob", "ResumeJob", "CloseQueue")
        )
        uid = self.random.choice((FLOW_UID, FLOW_UID, "uid-old"))
        self.ordered += 1
        self.world = self.world.with_command(action, name=f"c{self.ordered}", uid=uid)

    def obey(self) -> None:
        """Volcano does what it was asked."""
        for name in self.live():
            if self.world.jobs[name].metadata.uid in self.world.aborts:
                self.goes(name, self.random.choice(("Aborting", "Aborted")))

    def restart(self) -> None:
        """Another process goes on: what only the last one knew is lost."""
        self.world = replace(self.world, aborts={}, missing=frozenset(), read={}, probes={})

    def end_well(self) -> World:
        """From here on nothing is lost or refused and every vcjob ends somehow."""
        for step in self.world.flow.steps:
            self.world = self.with_template(step.name)
        outcomes = {step.name: self.random.choice(OUTCOMES) for step in self.world.flow.steps}
        for turn in range(200):
            if self.world.flow.final:
                return self.world
            if self.world.flow.status.suspended_at is not None:
                self.world = self.world.with_command("ResumeJob", name=f"on{turn}")
            before = self.world
            self.reconcile()
            self.answer()
            if self.world == before or not self.world.plan().plan.actions:
                self.world = self.world.later(1)
                for name in self.live():
                    self.goes(name, outcomes[self.step_of(name)])
        raise AssertionError(f"it does not end: {self.world.plan().conditions}")

    # ------------------------------------------------------------------------ the laws

    def check(self, planned: Planned) -> None:
        """What must hold of every plan, at every moment."""
        assert not planned.asks_at_once and not planned.wakes_for_nothing
        for action in planned.plan.actions:
            if isinstance(action, CreateJob):
                self.check_create(action, planned)
            elif isinstance(action, ReadJob):
                assert action.name not in self.live()
            elif isinstance(action, DeleteCommand):
                assert action.uid in (self.world.flow.status.handled_commands or ()), "too early"
            elif isinstance(action, AbortJob):
                self.check_abort(action)
            elif isinstance(action, DeleteJob) and action.name in self.live():
                self.check_delete(action)
        for name, condition in planned.conditions.items():
            if name in self.ends:
                end = condition.phase, condition.reason
                assert end == self.ends[name], f"{name} has ended already"
                stored = (self.world.flow.status.conditions or {})[self.world.name_of(name)]
                assert condition == stored, f"{name} is told otherwise than when it ended"
            elif condition.reason == "ProbeUnsatisfiable":
                self.insides.check_unsatisfiable(self.step(name), self.world)

    def check_create(self, action: CreateJob, planned: Planned) -> None:
        step = action.step
        assert step not in self.ends, "ended, and started again"
        assert self.made[step] <= self.lost[step], "a second job although none was lost"
        assert step not in {self.step_of(name) for name in self.live()}, "two at once"
        assert not self.world.flow.final
        assert self.world.flow.status.state.reason != "Cancelled"
        assert planned.status.suspended_at is None
        assert self.may_start(step, planned), "before its time"

    def check_abort(self, action: AbortJob) -> None:
        """Only what the stored status says is to be aborted."""
        assert action.name in self.live()
        assert self.since(action.name) is not None, "aborted before that was written"

    def check_delete(self, action: DeleteJob) -> None:
        """A vcjob that has not ended: after a minute, or where no step has any use for it."""
        since = self.since(action.name)
        assert since is not None or self.world.flow.status.state.reason == "Cancelled"
        if since is not None and self.step_of(action.name) not in self.ends:
            assert (self.world.now - since).total_seconds() >= 60

    def since(self, job: str) -> datetime | None:
        """`abortTime` of the stored condition of a vcjob's step."""
        conditions = self.world.flow.status.conditions or {}
        condition = conditions.get(self.world.name_of(self.step_of(job)))
        return condition.abort_time if condition is not None else None

    def may_start(self, name: str, planned: Planned) -> bool:
        step = self.step(name)
        if self.made[name]:
            return True
        if "Failed" in planned.phases.values() and not self.handles(step, planned):
            return False
        if step.depends_on is None:
            return True
        ends = [self.end_of(target, planned) for target in step.targets]
        good = [self.good(step, target, planned) for target in step.targets]
        if step.depends_on.strategy == "any":
            return any(good)
        passed = [end == "NotTaken" for end in ends]
        return any(good) and all(g or p for g, p in zip(good, passed, strict=True))

    def good(self, step: Step, target: str, planned: Planned) -> bool:
        """Whether a target is, or may have been, as the step wants it."""
        if step.depends_on is not None and step.depends_on.probe is not None:
            return self.insides.may_have_passed(step, target)
        wanted = step.depends_on.condition if step.depends_on else None
        return self.end_of(target, planned) in GOOD_FOR[wanted or "Completed"]

    def step(self, name: str) -> Step:
        return next(step for step in self.world.flow.steps if step.name == name)

    def end_of(self, name: str, planned: Planned) -> str:
        condition = planned.conditions[name]
        if condition.phase == "Skipped":
            return condition.reason
        return condition.phase if condition.phase in ENDED_STEP_PHASES else "not yet"

    def handles(self, step: Step, planned: Planned) -> bool:
        """Whether it may start in a flow that has stopped."""
        if step.depends_on is None:
            return False
        if step.depends_on.probe is None and step.depends_on.condition in ("Failed", "Finished"):
            return True
        targets = [other for other in self.world.flow.steps if other.name in step.targets]
        return any(
            self.handles(target, planned) and self.good(step, target.name, planned)
            for target in targets
        )


def lived(world: World, random: Random, things: int) -> Life:
    life = Life(world, random)
    for _ in range(things):
        life.happen()
    return life


lives = st.tuples(flows(), st.randoms(use_true_random=False), st.integers(0, 25))
