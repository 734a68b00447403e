"""Random walks of flows, for laws of `plan`: a flow, and anything that may happen to it.

A walk applies plans in part (a crash between any two requests) or in full, moves and ends jobs,
deletes them by hand, refuses creates, creates Commands, removes templates and lets time pass. It
counts the created jobs and those that may be created again, and raises AssertionError as soon as
a plan breaks a law (`walk_checks`).
"""

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from jobflow.core.planning.actions import (
    Action,
    CreateJob,
    ReadPods,
)
from jobflow.core.planning.observed.child_flow import ChildFlow
from jobflow.core.planning.observed.view import Refusal
from jobflow.core.spec.step_commands import asks
from jobflow.core.work import may_run_steps
from support.laws.walk_checks import CheckedFlow, key_of
from support.plan.plan_pods import pod_of
from support.plan.plan_world import World
from support.plan.planned import Planned
from support.sandbox.containers import ended, with_containers

PHASES = ("Pending", "Running", "Running", "Restarting", "Completing", "Aborting")
OUTCOMES = ("Completed", "Completed", "Completed", "Failed", "Terminated", "Aborted")
MESSAGES = ("", "oops", *(json.dumps({"n": n, "l": [1] * n}) for n in range(3)))
COMMANDS = (
    "SuspendFlow", "AbortJob", "ResumeJob", "ResumeJob", "TerminateJob", "TerminateNow",
    "RestartJob", "RetryTolerated", "CloseQueue",
)  # fmt: skip


class Walk(CheckedFlow):
    """A flow to which anything may happen."""

    def happen(self) -> None:
        events: list[Callable[[], Any]] = [
            self.reconcile, self.reconcile, self.reconcile, self.crash, self.move, self.move,
            self.end, self.end, self.obey, self.delete, self.refuse, self.wait, self.wait,
            self.command, self.restart,
        ]  # fmt: skip
        if self.history is not None:
            events += [self.lose_template, self.move_pods, self.watch, self.answer]
        self.random.choice(events)()

    def reconcile(self, share: float = 1.0, *, write: bool = True) -> None:
        """Apply a plan, its requests in any order; a crash leaves out some."""
        planned = self.world.plan()
        self.check(planned)
        if self.history is not None:
            self.world = self.history.planned(self.world, planned.plan)
        actions = list(planned.plan.actions)
        self.random.shuffle(actions)
        for action in actions:
            if self.random.random() > share:
                continue
            before = self.live()
            self.act(action)
            self.replaceable.update(before[name] for name in before.keys() - self.live().keys())
            if isinstance(action, CreateJob):
                self.created[key_of(self.world.jobs[action.name])] += 1
        if write:
            self.write(planned)

    def act(self, action: Action) -> None:
        if self.history is not None and isinstance(action, ReadPods):
            self.world = self.history.read(self.world, action)
        else:
            self.world = self.world.apply_action(action)

    def write(self, planned: Planned) -> None:
        stored, status = self.world.flow.status, planned.status
        self.handled.update({*(status.handled_commands or ())} - {*(stored.handled_commands or ())})
        if self.world.flow.final:
            if status.completion_time is None:
                self.go_back(planned)
            self.world = replace(self.world, refusals={}, held=None, missing=frozenset(), read={})
        self.world = self.world.with_status(status)

    def go_back(self, planned: Planned) -> None:
        """Record a retry of the flow. Steps behind one that runs again run again, other Completed
        ones stay, but for `finally`, for daemons and child flows that are needed again, and for
        tolerated items."""
        again = {name for name, each in planned.conditions.items() if each.phase == "Waiting"}
        for name, condition in planned.conditions.items():
            was, is_behind = self.stored(name), self.is_behind(name, again)
            assert name in again or not is_behind or was.reason == "NotTargeted", f"{name} stays"
            step = self.steps[name]
            if was.phase == "Completed" and name in again:
                why = is_behind or name in self.last or step.daemon or may_run_steps(step)
                has_failed = any(run.phase == "Failed" for run in was.runs or ())
                is_tolerated = planned.status.tolerated_retried and step.tolerates_items
                assert why or (is_tolerated and has_failed), f"{name} had completed"
            stay = {str(r.index) for r in condition.runs or () if r.phase == "Completed"}
            if self.has_fixed_items(name) and not is_behind and not may_run_steps(step):
                had = {str(r.index) for r in was.runs or () if r.phase == "Completed"}
                assert had == stay, f"{name}: completed items run again"
            for key in self.created:
                if key[0] == name and condition.phase == "Waiting" and key[1] not in stay:
                    self.replaceable[key] = max(self.replaceable[key], self.created[key])

    def is_behind(self, name: str, again: set[str]) -> bool:
        """Return whether a step depends on one that runs again, but for a daemon that is only
        started again for others."""
        return any(
            target in again
            and (self.stored(target).reason != "DaemonEnded" or self.is_behind(target, again))
            for target in self.steps[name].targets
        )

    def has_fixed_items(self, name: str) -> bool:
        """Return whether every retry of the flow has the items of the first run."""
        each = self.steps[name].for_each
        return each is not None and each.from_ is None and name not in self.last

    def crash(self) -> None:
        """Stop in the middle of a plan; another process starts without any state."""
        self.reconcile(0.5, write=self.random.random() < 0.5)
        self.restart()

    def restart(self) -> None:
        self.world = replace(
            self.world, aborts={}, missing=frozenset(), read={}, probes={}, refusals={}, held=None
        )

    def vcjobs(self) -> list[str]:
        """The names of the live vcjobs. A child flow has a walk of its own."""
        jobs = self.world.jobs
        return sorted(name for name in self.live() if not isinstance(jobs[name], ChildFlow))

    def move(self) -> None:
        if live := self.vcjobs():
            self.enter_phase(self.random.choice(live), self.random.choice(PHASES))

    def end(self) -> None:
        if live := self.vcjobs():
            self.enter_phase(self.random.choice(live), self.random.choice(OUTCOMES))

    def enter_phase(self, name: str, phase: str) -> None:
        """Move a job to a phase, and its pods with it; a watch may or may not show the pods."""
        key = key_of(self.world.jobs[name])
        self.world = self.world.ended(name, phase)
        job = self.world.jobs[name]
        if job.ended and phase != "Completed":
            self.replaceable[key] += self.steps[key[0]].retry is not None or self.is_aborted(key)
        if self.history is not None:
            self.world = self.history.move(self.world, job)
        elif job.ended:
            pod = pod_of(job, "t", 0, "Succeeded" if phase == "Completed" else "Failed")
            container = ended(int(phase != "Completed"), message=self.random.choice(MESSAGES))
            pods = {pod.metadata.name: with_containers(pod, container, node="n")}
            live = {**self.world.live, job.metadata.uid: pods}
            watched = live if self.random.random() < 0.5 else self.world.pods
            self.world = replace(self.world, live=live, pods=watched)

    def move_pods(self) -> None:
        if self.history is not None and (live := self.vcjobs()):
            self.world = self.history.move(self.world, self.world.jobs[self.random.choice(live)])

    def watch(self) -> None:
        self.world = replace(self.world, pods=self.world.live)

    def answer(self) -> None:
        if self.history is not None:
            self.world = self.history.answer(self.world)

    def obey(self) -> None:
        """Let Volcano abort the jobs that it has to abort; some complete instead."""
        for name in self.vcjobs():
            if self.world.jobs[name].metadata.uid in self.world.aborts:
                self.enter_phase(
                    name, self.random.choice(("Aborting", "Aborted", "Aborted", "Completed"))
                )

    def delete(self) -> None:
        """Delete a job by hand; a watch may or may not show its last object."""
        live = {name for name in self.live() if isinstance(self.world.jobs[name], ChildFlow)}
        names = sorted(self.world.jobs.keys() - self.world.deleted - live)
        if not names or self.random.random() < 0.5:
            return
        name = self.random.choice(names)
        job = self.world.jobs[name]
        seen = self.random.random() < 0.5
        self.replaceable[key_of(job)] += not (seen and job.ended)
        if seen:
            self.world = replace(self.world, deleted=self.world.deleted | {name})
        else:
            jobs = {each: job for each, job in self.world.jobs.items() if each != name}
            self.world = replace(self.world, jobs=jobs)

    def refuse(self) -> None:
        names = [a.name for a in self.world.plan().plan.actions if isinstance(a, CreateJob)]
        if names and self.random.random() < 0.3:
            wait = self.random.choice((0.0, 2.0))
            self.world = self.world.with_held(self.random.choice(names), retry_in=wait)
        elif names and self.random.random() < 0.5:
            again = self.world.now.replace(microsecond=0)
            refusal = Refusal(self.random.choice((400, 403, 403, 422)), "no", again)
            refusals = {**self.world.refusals, self.random.choice(names): refusal}
            self.world = replace(self.world, refusals=refusals)

    def wait(self) -> None:
        self.world = self.world.later(self.random.choice((0.3, 1, 3, 11, 70)))

    def lose_template(self) -> None:
        name = self.random.choice(sorted(self.templates))
        there = {**self.templates, **self.world.templates}
        self.world = replace(self.world, templates={n: t for n, t in there.items() if n != name})

    def command(self) -> None:
        if self.random.random() < 0.5:
            uid = self.random.choice((None, None, "uid-old"))
            self.order(self.random.choice(COMMANDS), uid=uid)

    def order(self, action: str, *, uid: str | None = None, text: str = "") -> None:
        """Let a user create a Command with a name and UID of its own, for the flow, or for an
        earlier one with this UID."""
        self.commands += 1
        name = f"c{self.commands}"
        self.world = self.world.with_command(action, name=name, uid=uid, text=text)

    def end_well(self, *, retries: bool = True) -> World:
        """Run the flow to its end without losses and refusals; a flow that has ended may be retried
        once."""
        self.world = replace(self.world, refusals={}, held=None, templates=self.templates)
        self.run_to_end()
        if retries and self.random.random() < 0.5:
            action = self.random.choice(("RestartJob", "RetryTolerated"))
            self.order(action)
            self.run_to_end()
        return self.world

    def run_to_end(self) -> None:
        for _ in range(400):
            if self.world.flow.final and not self.world.commands:
                return
            if self.world.flow.status.suspended_at is not None:
                self.order("ResumeJob")
            before = self.world
            self.reconcile()
            self.answer()
            self.approve()
            if self.world == before or not self.world.plan().plan.actions:
                self.world = self.world.later(5)
                for name in self.vcjobs():
                    self.enter_phase(name, self.random.choice(OUTCOMES))
        raise AssertionError(f"the flow does not end: {self.world.plan().conditions}")

    def approve(self) -> None:
        """Approve or reject all that waits for an answer and has no timeout."""
        flow = self.world.flow
        for step in flow.all_steps:
            if step.approval is None or step.approval.timeout is not None:
                continue
            condition = self.stored(step.name)
            items = [f"{step.name}/{run.index}" for run in condition.runs or () if asks(run)]
            for text in items or ([step.name] if asks(condition) else []):
                verb = self.random.choice(("ApproveStep", "RejectStep"))
                self.order(verb, text=text)


def walks(
    worlds: st.SearchStrategy[World], most: int, *, probes: bool = False
) -> st.SearchStrategy[Walk]:
    """Draw walks of at most `most` events; with `probes`, pods change while their job runs."""

    def walked(world: World, random: Random, events: int) -> Walk:
        walk = Walk(world, random, probes=probes)
        for _ in range(events):
            walk.happen()
        return walk

    return st.builds(walked, worlds, st.randoms(use_true_random=False), st.integers(0, most))
