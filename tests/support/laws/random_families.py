"""Random walks of a flow and its child flows, at all levels: each has a walk of its own, and the
copies of each other that the controller has.

A controller has one copy of all flows, so a plan sees its parent and its children as they are
stored, and an earlier version of nothing but vcjobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import msgspec
from hypothesis import assume
from hypothesis import strategies as st

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import HALTS, RunCondition
from jobflow.api.flow.traits import WorkKind
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.planning.actions import Action, CommandFlow, CreateJob
from jobflow.core.planning.observed.child_flow import ChildFlow, observe
from jobflow.core.planning.observed.children import goes_on
from model.random_flows import METADATA, Drawing
from model.random_values import TEMPLATES
from support.laws.random_walk import OUTCOMES, Walk
from support.laws.walk_checks import key_of
from support.plan.plan_world import World
from support.plan.planned import Planned
from support.plan.steps import template

FEATURES = frozenset(
    {
        "conditions", "when", "switch", "repeat", "retry", "timeout", "daemon",
        "continueOnFailure", "failurePolicy", "finally", "parallelism", "flowTimeout", "outputs",
        "retain",
    }
)  # fmt: skip
TURNS = 300


class Member(Walk):
    """The walk of one flow of a family."""

    def __init__(self, world: World, random: Random, family: Family) -> None:
        super().__init__(world, random)
        self.family = family

    @property
    def name(self) -> str:
        return self.world.flow.metadata.name

    @property
    def parent(self) -> Member | None:
        owner = self.world.flow.metadata.controller
        return None if owner is None else self.family.members[owner.name]

    def children(self) -> Iterator[Member]:
        world = self.world
        for name in sorted(world.jobs.keys() - world.deleted):
            if isinstance(world.jobs[name], ChildFlow):
                yield self.family.members[name]

    def act(self, action: Action) -> None:
        before = self.world.jobs
        super().act(action)
        if (
            isinstance(action, CreateJob)
            and action.kind is WorkKind.FLOW
            and self.world.jobs != before
        ):
            self.family.add(replace(self.world, flow=self.world.child_made(action)))
        if isinstance(action, CommandFlow):
            self.family.members[action.name].receive(action)

    def receive(self, action: CommandFlow) -> None:
        """Get a Command from the parent, unless there is one already."""
        prefix = f"by-parent-{action.action.lower()}"
        if not any(name.startswith(prefix) for name in self.world.commands or ()):
            self.commands += 1
            name = f"{prefix}-{self.commands}"
            self.world = self.world.with_command(action.action, name=name, uid=action.uid)

    def check(self, planned: Planned) -> None:
        super().check(planned)
        parent = self.world.parent
        above = parent is not None and not parent.final and parent.status.suspended_at is not None
        creates = any(isinstance(action, CreateJob) for action in planned.plan.actions)
        ends = self.world.flow.status.state.reason in HALTS
        assert not (above and creates) or ends, "created while its parent is suspended"

    def see_children(self) -> None:
        """Show the children as they are stored, and count their ends."""
        for child in self.children():
            known, now = self.world.jobs[child.name], observe(child.world.flow)
            if known == now:
                continue
            key = key_of(known)
            if now.phase == "Failed" and not known.ended:
                self.replaceable[key] += self.may_follow(child, key)
            jobs = {**self.world.jobs, child.name: now}
            self.world = replace(self.world, jobs=jobs)

    def may_follow(self, child: Member, key: tuple[str, str]) -> bool:
        """Return whether another attempt may follow a child that has failed: not if a user has
        cancelled it."""
        by_hand = child.world.flow.status.state.reason == "Cancelled" and not self.is_aborted(key)
        return self.steps[key[0]].retry is not None and not by_hand


class Family:
    """A flow and its child flows, by name."""

    def __init__(self, world: World, random: Random) -> None:
        self.random = random
        self.members: dict[str, Member] = {}
        self.root = self.add(world)

    def add(self, world: World) -> Member:
        """Let a flow take part, in a namespace with these templates at this time."""
        alone = World(world.flow, world.templates, now=world.now, failed_pods_read=False)
        member = self.members[alone.flow.metadata.name] = Member(alone, self.random, self)
        return member

    def happen(self) -> None:
        """Let something happen to one of the flows."""
        member = self.random.choice(list(self.members.values()))
        self.of(member, member.happen)

    def of(self, member: Member, event: Callable[[], Any]) -> None:
        """Let this happen to a flow, and show it to the others."""
        event()
        now = member.world.now
        there = {self.root.name, *(child.name for child in self.below(self.root))}
        self.members = {name: each for name, each in self.members.items() if name in there}
        for each in self.members.values():
            parent = each.parent
            flow = None if parent is None else parent.world.flow
            each.world = replace(each.world, now=now, parent=flow)
            each.see_children()

    def below(self, member: Member) -> Iterator[Member]:
        """Yield the child flows of a flow at all levels."""
        for child in member.children():
            yield child
            yield from self.below(child)

    def settle(self) -> None:
        """Apply plans of all flows until none has anything left to do."""
        for _ in range(TURNS):
            busy = [each for each in self.members.values() if not each.world.plan().nothing]
            if not busy:
                return
            for member in busy:
                if member.name in self.members:
                    self.of(member, member.reconcile)
        raise AssertionError("plans without end")

    def obey(self) -> None:
        """Let Volcano abort all the vcjobs that it has to abort, or aborts already."""
        for member in self.members.values():
            for name in member.vcjobs():
                job = member.world.jobs[name]
                if job.phase == "Aborting" or job.metadata.uid in member.world.aborts:
                    member.enter_phase(name, "Aborted")

    def run_to_end(self) -> None:
        """Run all flows to their end, and resume what is suspended by hand."""
        for _ in range(TURNS):
            self.settle()
            self.check_agreement()
            if all(
                each.world.flow.final and not each.world.commands for each in self.members.values()
            ):
                return
            for member in list(self.members.values()):
                self.of(member, partial(self.go_on, member))
        phases = {name: each.world.plan().phases for name, each in self.members.items()}
        raise AssertionError(f"the flows do not end: {phases}")

    def go_on(self, member: Member) -> None:
        """Resume a flow that is suspended by hand; else end its vcjobs."""
        status = member.world.flow.status
        if status.suspended_at is not None and not status.suspended_by.startswith("parent/"):
            member.order("ResumeJob")
        member.world = member.world.later(5)
        for name in member.vcjobs():
            member.enter_phase(name, self.random.choice(OUTCOMES))

    def end_well(self) -> None:
        """Run the flows to their end without losses and refusals."""
        for member in self.members.values():
            member.world = replace(member.world, refusals={}, held=None, templates=member.templates)
        self.run_to_end()

    def check_aborted(self) -> None:
        """Check that no vcjob runs in a flow whose vcjobs a suspension has aborted."""
        for member in self.members.values():
            status = member.world.flow.status
            if status.suspended_by.endswith("AbortJob") and not member.world.flow.final:
                assert not member.vcjobs(), f"{member.name} runs {member.vcjobs()}"

    def check_agreement(self) -> None:
        """Check the status of each settled flow against those of its children."""
        for member in self.members.values():
            for child in member.children():
                run = run_of(member, child)
                if run.flow == child.name:
                    check_end(member, child, run)
                    check_reach(member, child, run)
                else:
                    assert child.world.flow.final, f"{child.name} is forgotten"
                    assert attempt_of(child) <= run.attempts


def attempt_of(child: Member) -> int:
    return int((child.world.flow.metadata.labels or {})[labels.ATTEMPT])


def run_of(parent: Member, child: Member) -> RunCondition:
    """Return the stored item or repeat of the child flow, or the condition of its step."""
    step, index = key_of(parent.world.jobs[child.name])
    condition = parent.stored(step)
    return next((run for run in condition.runs or () if str(run.index) == index), condition)


def check_end(parent: Member, child: Member, run: RunCondition) -> None:
    """Check that a run has ended as its child flow."""
    flow, state = child.world.flow, child.world.flow.status.state
    where = f"{child.name} is {state}: {run}"
    between = run.phase == "Waiting" or run.attempts == run.past_attempts
    if run.phase == "Completed":
        assert state.phase == "Succeed", where
        assert (run.outputs or {}) == (flow.status.outputs or {}), where
    elif run.phase == "Failed":
        assert state.phase == "Failed", where
        assert run.reason in reasons(parent, child, run), where
    elif between:
        # items that a retry lets run again wait for their turn
        tolerated = parent.world.flow.status.tolerated_retried and run.attempts == run.past_attempts
        assert goes_on(parent.world.jobs[child.name], tolerated=tolerated), where
    else:
        assert not flow.final, where


def reasons(parent: Member, child: Member, run: RunCondition) -> set[str]:
    """Return the possible reasons of a run whose child flow has failed."""
    spec, step = parent.world.flow.spec, parent.steps[key_of(parent.world.jobs[child.name])[0]]
    by_user = child.world.flow.status.state.reason == "Cancelled"
    found = {"Cancelled" if by_user else "FlowFailed", parent.world.flow.status.state.reason}
    found |= {"Timeout"} if step.timeout is not None else set()
    found |= {"FailurePolicy"} if spec.failure_policy == "Abort" else set()
    found |= {"ExpressionError"} if step.retry is not None and step.retry.when else set()
    return found


def check_reach(parent: Member, child: Member, run: RunCondition) -> None:
    """Check that a child flow which runs is suspended and ended with its parent."""
    above, status = parent.world.flow.status, child.world.flow.status
    if child.world.flow.final:
        return
    ending = status.state.reason in HALTS
    in_finally = key_of(parent.world.jobs[child.name])[0] in parent.last
    if above.suspended_at is not None:
        assert ending or status.suspended_at is not None, f"{child.name} goes on"
    elif status.suspended_by.startswith("parent/"):
        raise AssertionError(f"{child.name} is not resumed")
    ends = above.state.reason in HALTS and not in_finally
    if ends or above.finally_cancelled or run.abort_time is not None:
        assert ending, f"{child.name} is not cancelled"
    if above.finally_cancelled:
        assert status.finally_cancelled, f"{child.name} runs its `finally`"


class FamilyDrawing(Drawing):
    """A flow whose steps run random child flows, down to so many levels below it."""

    most_steps = 3
    one_child_in = 2

    def __init__(self, draw: st.DrawFn, levels: int) -> None:
        super().__init__(draw, FEATURES | ({"children", "forEach"} if levels else set()))
        self.levels = levels

    def child_flow(self) -> dict[str, Any]:
        levels = self.draw(st.integers(0, self.levels - 1))
        flow: dict[str, Any] = msgspec.to_builtins(FamilyDrawing(self.draw, levels).spec())
        return flow


@st.composite
def families(draw: st.DrawFn, most: int) -> Family:
    """Draw families after at most `most` events."""
    flow = JobFlow(metadata=METADATA, spec=FamilyDrawing(draw, 2).spec())
    assume(any(step.flow is not None for step in flow.all_steps))
    assume(not validate_flow(flow, Known()).violations)
    known = {name: template(name, spec) for name, spec in TEMPLATES.items()}
    random = Random(draw(st.integers(0, 10**6)))
    family = Family(World(flow, known), random)
    for _ in range(draw(st.integers(0, most))):
        family.happen()
    return family
