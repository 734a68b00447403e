"""Lives of flows with every primitive of control, for laws of `plan`: the random flows of the model
test, and anything that may happen to them. No end is foretold here: what is kept are the books of
what was made, has failed, was lost, and went back by a retry of the flow.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from jobflow.api import labels
from jobflow.api.flow_status import ENDED_STEP_PHASES, StepCondition
from jobflow.api.job import Job
from jobflow.api.jobflow import JobFlow, Step
from jobflow.api.meta import ObjectMeta
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.planning.actions import AbortJob, CreateJob, DeleteCommand, DeleteJob
from jobflow.core.planning.view import Refusal
from model.random_flows import EVERY, TEMPLATES, Drawing
from support.plan.plan_pods import pod_of
from support.plan.plan_world import FLOW_UID, NOW, World
from support.plan.planned import Planned
from support.plan.steps import template
from support.sandbox.containers import ended, with_containers

Key = tuple[str, str]
"""A step and an index; of a plain step an empty one."""

MOVES = ("Pending", "Running", "Running", "Restarting", "Completing", "Aborting")
OUTCOMES = ("Completed", "Completed", "Completed", "Failed", "Terminated", "Aborted")
MESSAGES = ("", "oops", *(json.dumps({"n": n, "l": [1] * n}) for n in range(3)))
COMMANDS = (
    "SuspendFlow", "AbortJob", "ResumeJob", "ResumeJob",
    "TerminateJob", "TerminateNow", "RestartJob",
)  # fmt: skip


@st.composite
def flows(draw: st.DrawFn, features: frozenset[str] = EVERY) -> World:
    """A flow that admission takes."""
    metadata = ObjectMeta(
        name="f", namespace="ns", uid=FLOW_UID, generation=1, creation_timestamp=NOW
    )
    flow = JobFlow(metadata=metadata, spec=Drawing(draw, features).spec())
    assert not validate_flow(flow, Known()).violations
    known = {name: template(name, spec) for name, spec in TEMPLATES.items()}
    return World(flow, known, asked_before=False)


def lives(features: frozenset[str] = EVERY) -> st.SearchStrategy[tuple[World, Random, int]]:
    """A flow, and how much happens to it."""
    return st.tuples(flows(features), st.randoms(use_true_random=False), st.integers(0, 40))


class Life:
    """A world, and the books of what has happened in it."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.steps: dict[str, Step] = {
            step.name: step for step in (*world.flow.steps, *(world.flow.spec.finally_ or ()))
        }
        self.made: Counter[Key] = Counter()
        self.over: Counter[Key] = Counter()
        """Attempts that failed, were lost or went back: so many may follow the first."""
        self.taken: Counter[str] = Counter()
        """How often each Command was recorded."""
        self.ordered = 0

    # ------------------------------------------------------------------ what happens

    def happen(self) -> None:
        """One thing, whatever it is."""
        self.random.choice(
            (self.reconcile, self.reconcile, self.reconcile, self.crash, self.move, self.move,
             self.end, self.end, self.obey, self.lose, self.refuse, self.wait, self.wait,
             self.command, self.restart)
        )()  # fmt: skip

    def reconcile(self, share: float = 1.0, *, write: bool = True) -> None:
        """In any order; a crash leaves out what it likes."""
        planned = self.world.plan()
        self.check(planned)
        actions = list(planned.plan.actions)
        self.random.shuffle(actions)
        for action in actions:
            if self.random.random() > share:
                continue
            before = self.live()
            self.world = self.world.acted(action)
            self.over.update(before[name] for name in before.keys() - self.live().keys())
            if isinstance(action, CreateJob):
                self.made[key_of(self.world.jobs[action.name])] += 1
        if write:
            self.write(planned)

    def write(self, planned: Planned) -> None:
        stored, status = self.world.flow.status, planned.status
        self.taken.update({*(status.handled_commands or ())} - {*(stored.handled_commands or ())})
        if self.world.flow.final:
            if status.completion_time is None:
                self.go_back(planned)
            self.world = replace(self.world, refusals={}, held=None, missing=frozenset(), read={})
        self.world = self.world.with_status(status)

    def go_back(self, planned: Planned) -> None:
        """The flow is retried: what does not stay Completed may run again."""
        for name, condition in planned.conditions.items():
            was = self.stored(name)
            if was.phase == "Completed" and condition.phase != "Completed":
                assert self.may_run_again(name), f"{name} had completed"
            stay = {str(r.index) for r in condition.runs or () if r.phase == "Completed"}
            if self.has_fixed_items(name):
                had = {str(r.index) for r in was.runs or () if r.phase == "Completed"}
                assert had == stay, f"{name}: completed items run again"
            for key in self.made:
                if key[0] == name and condition.phase == "Waiting" and key[1] not in stay:
                    self.over[key] = max(self.over[key], self.made[key])

    def has_fixed_items(self, name: str) -> bool:
        """Whether it goes over the same whenever it runs, and does so once."""
        each = self.steps[name].for_each
        fixed = each is not None and each.from_ is None
        return fixed and self.steps[name] not in (self.world.flow.spec.finally_ or ())

    def may_run_again(self, name: str) -> bool:
        """`finally` does, and a service that somebody needs again."""
        last = {step.name for step in self.world.flow.spec.finally_ or ()}
        return name in last or bool(self.steps[name].daemon)

    def crash(self) -> None:
        """In the middle of a plan; what only this process knew is lost."""
        self.reconcile(0.5, write=self.random.random() < 0.5)
        self.restart()

    def restart(self) -> None:
        self.world = replace(
            self.world, aborts={}, missing=frozenset(), read={}, probes={}, refusals={}, held=None
        )

    def live(self) -> dict[str, Key]:
        world = self.world
        there = world.jobs.keys() - world.deleted
        return {name: key_of(world.jobs[name]) for name in there if not world.jobs[name].ended}

    def move(self) -> None:
        if live := sorted(self.live()):
            self.world = self.world.ended(self.random.choice(live), self.random.choice(MOVES))

    def end(self) -> None:
        if live := sorted(self.live()):
            self.goes(self.random.choice(live), self.random.choice(OUTCOMES))

    def goes(self, name: str, phase: str) -> None:
        """A vcjob ends, with a pod that may leave a message, which may be watched."""
        self.over[key_of(self.world.jobs[name])] += phase != "Completed"
        self.world = self.world.ended(name, phase)
        job = self.world.jobs[name]
        pod = pod_of(job, "t", 0, "Succeeded" if phase == "Completed" else "Failed")
        container = ended(int(phase != "Completed"), message=self.random.choice(MESSAGES))
        pods = {pod.metadata.name: with_containers(pod, container, node="n")}
        live = {**self.world.live, job.metadata.uid: pods}
        watched = live if self.random.random() < 0.5 else self.world.pods
        self.world = replace(self.world, live=live, pods=watched)

    def obey(self) -> None:
        """Volcano does what it was asked."""
        for name in sorted(self.live()):
            if self.world.jobs[name].metadata.uid in self.world.aborts:
                self.goes(name, self.random.choice(("Aborted", "Aborted", "Completed")))

    def lose(self) -> None:
        """A vcjob is deleted by hand: seen to the last, or unseen."""
        if not self.world.jobs or self.random.random() < 0.5:
            return
        name = self.random.choice(sorted(self.world.jobs))
        self.over[key_of(self.world.jobs[name])] += 1
        if self.random.random() < 0.5:
            self.world = replace(self.world, deleted=self.world.deleted | {name})
        else:
            jobs = {each: job for each, job in self.world.jobs.items() if each != name}
            self.world = replace(self.world, jobs=jobs, deleted=self.world.deleted - {name})

    def refuse(self) -> None:
        names = [a.name for a in self.world.plan().plan.actions if isinstance(a, CreateJob)]
        if names and self.random.random() < 0.3:
            wait = self.random.choice((0.0, 2.0))
            self.world = self.world.with_held(self.random.choice(names), retry_in=wait)
        elif names and self.random.random() < 0.5:
            again = self.world.now.replace(microsecond=0)
            refusal = Refusal(self.random.choice((403, 403, 422)), "no", again)
            refusals = {**self.world.refusals, self.random.choice(names): refusal}
            self.world = replace(self.world, refusals=refusals)

    def wait(self) -> None:
        self.world = self.world.later(self.random.choice((0.3, 1, 3, 11)))

    def command(self) -> None:
        if self.random.random() < 0.5:
            self.ordered += 1
            action = self.random.choice(COMMANDS)
            self.world = self.world.with_command(action, name=f"c{self.ordered}")

    def end_well(self) -> None:
        """From here on nothing is lost or refused, and every vcjob ends; a flow that failed is
        retried, perhaps."""
        self.world = replace(self.world, refusals={}, held=None)
        self.to_the_end()
        if self.random.random() < 0.5:
            self.world = self.world.with_command("RestartJob", name="again")
            self.to_the_end()

    def to_the_end(self) -> None:
        for turn in range(400):
            if self.world.flow.final and not self.world.commands:
                return
            if self.world.flow.status.suspended_at is not None:
                self.world = self.world.with_command("ResumeJob", name=f"on{turn}")
            before = self.world
            self.reconcile()
            if self.world == before or not self.world.plan().plan.actions:
                self.world = self.world.later(5)
                for name in sorted(self.live()):
                    self.goes(name, self.random.choice(OUTCOMES))
        raise AssertionError(f"it does not end: {self.world.plan().conditions}")

    # ------------------------------------------------------------------------ the laws

    def stored(self, name: str) -> StepCondition:
        conditions = self.world.flow.status.conditions or {}
        return conditions.get(self.world.name_of(name), StepCondition())

    def check(self, planned: Planned) -> None:
        """What must hold of every plan, at every moment."""
        assert not planned.asks_at_once and not planned.wakes_for_nothing
        live = self.live()
        alive = Counter(live.values())
        for action in planned.plan.actions:
            if isinstance(action, CreateJob):
                self.check_create(action, alive, planned)
            elif isinstance(action, DeleteCommand):
                assert action.uid in (self.world.flow.status.handled_commands or ()), "too early"
            elif isinstance(action, AbortJob):
                assert action.name in live
                assert self.since_written(live[action.name]), "aborted before that was written"
            elif isinstance(action, DeleteJob) and action.name in live:
                assert self.is_ending(live[action.name]), "deleted for no written reason"
        most = self.world.flow.spec.parallelism
        made = any(isinstance(action, CreateJob) for action in planned.plan.actions)
        assert most is None or not made or sum(alive.values()) <= most
        if planned.status.completion_time is not None or not self.world.flow.final:
            self.check_ends(planned)

    def check_create(self, action: CreateJob, alive: Counter[Key], planned: Planned) -> None:
        key = action.step, action.manifest["metadata"]["labels"].get(labels.INDEX, "")
        step, stored = self.steps[action.step], self.stored(action.step)
        runs = {str(run.index): run for run in stored.runs or ()}
        assert self.made[key] <= self.over[key], f"{key}: nothing was lost, nothing has failed"
        assert not alive[key], f"{key}: two at once"
        alive[key] += 1
        assert not self.world.flow.final
        assert planned.status.suspended_at is None, "made while suspended"
        assert stored.phase not in ENDED_STEP_PHASES, "ended, and started again"
        assert key[1] not in runs or runs[key[1]].phase not in ENDED_STEP_PHASES
        decides = step.when is not None or step.switch is not None
        decided = stored.decisions is not None
        assert decided or not decides, "made before its decision was written"
        last = self.world.flow.spec.finally_ or ()
        if step in last:
            rest = [self.stored(name) for name, each in self.steps.items() if each not in last]
            assert all(each.phase in ENDED_STEP_PHASES for each in rest), "before all are over"
        elif self.world.flow.status.state.reason in ("Cancelled", "Timeout"):
            raise AssertionError("made although the flow is being ended")

    def check_ends(self, planned: Planned) -> None:
        """What has ended stays as it was written."""
        for name in self.steps:
            stored = self.stored(name)
            if stored.phase in ENDED_STEP_PHASES and name in planned.conditions:
                now = planned.conditions[name]
                assert (now.phase, now.reason, now.attempts) == (
                    stored.phase,
                    stored.reason,
                    stored.attempts,
                ), f"{name} is told otherwise than when it ended"

    def is_ending(self, key: Key) -> bool:
        """Whether a vcjob may be deleted though it goes on: no step has any use for it."""
        over = self.stored(key[0]).phase in ENDED_STEP_PHASES
        state = self.world.flow.status.state
        failing = self.world.flow.spec.failure_policy == "Abort"
        ending = state.reason in ("Cancelled", "Timeout") or self.world.flow.final or failing
        return self.since_written(key) or over or ending

    def since_written(self, key: Key) -> bool:
        stored = self.stored(key[0])
        runs = [run for run in stored.runs or () if str(run.index) == key[1]] or [stored]
        return any(run.abort_time is not None for run in runs)


def key_of(job: Job) -> Key:
    said = job.metadata.annotations or {}
    return said[labels.STEP], said.get(labels.INDEX, "")


def lived(world: World, random: Random, things: int) -> Life:
    life = Life(world, random)
    for _ in range(things):
        life.happen()
    return life
