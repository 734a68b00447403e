"""Checks of the plans of a random walk, by what has happened to the flow so far.

The laws are written from docs/reference.md, not from the code.
"""

from collections import Counter
from random import Random

from jobflow.api import labels
from jobflow.api.flow.control import to_number
from jobflow.api.flow.status import ENDED_STEP_PHASES, StepCondition
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import WorkKind
from jobflow.api.volcano.command import RETRIES
from jobflow.api.volcano.job import Job
from jobflow.core.planning.actions import (
    AbortJob,
    CommandFlow,
    CreateJob,
    DeleteCommand,
    DeleteJob,
    ReadJob,
)
from jobflow.core.planning.observed.child_flow import ChildFlow
from support.laws.random_pods import PodHistory
from support.plan.plan_world import World
from support.plan.planned import Planned

Key = tuple[str, str]
"""A step and an index; the index of a step without items or repeats is empty."""

GOOD_FOR = {
    "Completed": {"Completed"},
    "Failed": {"Failed"},
    "Finished": {"Completed", "Failed", "UpstreamFailed"},
    "NotFailed": {"Completed", "NotTaken", "NotTargeted"},
    "Always": {"Completed", "Failed", "NotTaken", "NotTargeted", "UpstreamFailed", "Stopped"},
    "Running": {"Completed", "Failed", "not yet"},
}
"""The ends of a target that satisfy each condition."""


class CheckedFlow:
    """A flow in its world, and counts of its events, by which its plans are checked."""

    def __init__(self, world: World, random: Random, *, probes: bool = False) -> None:
        self.world = world
        self.random = random
        self.templates = world.templates
        self.last = {step.name for step in world.flow.spec.finally_ or ()}
        self.steps: dict[str, Step] = {step.name: step for step in world.flow.all_steps}
        self.history = PodHistory(random) if probes else None
        """The pods of flows with probes; other jobs have one pod each."""
        self.created: Counter[Key] = Counter()
        self.replaceable: Counter[Key] = Counter()
        """Attempts that failed, were lost or were retried; at most as many may follow the first."""
        self.handled: Counter[str] = Counter()
        """How often each Command was recorded."""
        self.commands = 0

    def live(self) -> dict[str, Key]:
        world = self.world
        there = world.jobs.keys() - world.deleted
        return {name: key_of(world.jobs[name]) for name in there if not world.jobs[name].ended}

    def stored(self, name: str) -> StepCondition:
        conditions = self.world.flow.status.conditions or {}
        return conditions.get(self.world.name_of(name), StepCondition())

    def check(self, planned: Planned) -> None:
        assert not planned.asks_at_once and not planned.wakes_for_nothing
        live = self.live()
        alive = Counter(live.values())
        for action in planned.plan.actions:
            if isinstance(action, CreateJob):
                self.check_create(action, alive, planned)
            elif isinstance(action, ReadJob):
                assert action.name not in live
            elif isinstance(action, DeleteCommand):
                assert action.uid in (self.world.flow.status.handled_commands or ()), "too early"
            elif isinstance(action, AbortJob):
                assert self.is_aborted(live[action.name]), "aborted before that was written"
            elif isinstance(action, CommandFlow) and action.action in RETRIES:
                self.check_retry_of_child(action, planned)
            elif isinstance(action, CommandFlow):
                assert self.may_delete(live[action.name]), "cancelled for no written reason"
            elif isinstance(action, DeleteJob) and action.name in live:
                assert action.kind is not WorkKind.FLOW, "deletes a child flow that runs"
                assert self.may_delete(live[action.name]), "deleted for no written reason"
        most = to_number(self.world.flow.spec.parallelism)
        creates = any(isinstance(action, CreateJob) for action in planned.plan.actions)
        assert most is None or not creates or sum(alive.values()) <= most
        if planned.status.completion_time is not None or not self.world.flow.final:
            self.check_ends(planned)

    def check_create(self, action: CreateJob, alive: Counter[Key], planned: Planned) -> None:
        key = action.step, action.manifest["metadata"]["labels"].get(labels.INDEX, "")
        step, stored = self.steps[action.step], self.stored(action.step)
        runs = {str(run.index): run for run in stored.runs or ()}
        assert self.created[key] <= self.replaceable[key], (
            f"{key}: nothing was lost, nothing has failed"
        )
        assert not alive[key], f"{key}: two at once"
        alive[key] += 1
        assert not self.world.flow.final
        assert planned.status.suspended_at is None, "created while suspended"
        assert stored.phase not in ENDED_STEP_PHASES, "ended, and started again"
        assert key[1] not in runs or runs[key[1]].phase not in ENDED_STEP_PHASES
        decides = step.when is not None or step.switch is not None
        assert stored.decisions is not None or not decides, "created before its decision was stored"
        if step.repeat is not None and key[1] != "0":
            assert runs[str(int(key[1]) - 1)].phase == "Completed", "the run before is not stored"
        if step.for_each is not None and (most := to_number(step.for_each.parallelism)) is not None:
            assert sum(n for (name, _), n in alive.items() if name == step.name) <= most
        if step.name in self.last:
            others = [self.stored(name) for name in self.steps if name not in self.last]
            assert all(each.phase in ENDED_STEP_PHASES for each in others), "finally too early"
        else:
            assert self.world.flow.status.state.reason not in ("Cancelled", "Timeout")
        if self.history is not None:
            assert self.may_start(step, planned), "before its time"

    def check_retry_of_child(self, action: CommandFlow, planned: Planned) -> None:
        """Check that a child flow is retried only with its flow, while steps may start."""
        child = self.world.jobs[action.name]
        stored, retries = planned.status, self.world.flow.status.retries
        assert isinstance(child, ChildFlow)
        assert child.phase == "Failed" or child.has_tolerated_failures
        assert child.retries < retries, f"retried twice: {action.name}"
        assert not self.world.flow.final and stored.suspended_at is None
        assert self.stored(key_of(child)[0]).phase not in ENDED_STEP_PHASES

    def check_ends(self, planned: Planned) -> None:
        """Check that the end of a step stays as it was written."""
        for name in self.steps:
            if name not in planned.conditions:
                continue
            stored, now = self.stored(name), planned.conditions[name]
            if stored.phase in ENDED_STEP_PHASES:
                ends = [(each.phase, each.reason, each.attempts) for each in (stored, now)]
                assert ends[0] == ends[1], f"{name} has ended already"
            elif now.reason == "ProbeUnsatisfiable" and self.history is not None:
                self.history.check_unsatisfiable(self.steps[name], self.world)

    def is_aborted(self, key: Key) -> bool:
        stored = self.stored(key[0])
        runs = [run for run in stored.runs or () if str(run.index) == key[1]] or [stored]
        return any(run.abort_time is not None for run in runs)

    def may_delete(self, key: Key) -> bool:
        """Return whether a job may be deleted although it runs: its step or flow has ended."""
        state = self.world.flow.status.state
        ending = state.reason in ("Cancelled", "Timeout") or self.world.flow.final
        failing = self.world.flow.spec.failure_policy == "Abort"
        ended = self.stored(key[0]).phase in ENDED_STEP_PHASES
        return self.is_aborted(key) or ended or ending or failing

    def may_start(self, step: Step, planned: Planned) -> bool:
        if self.created[step.name, ""]:
            return True
        if "Failed" in planned.phases.values() and not self.handles_failure(step, planned):
            return False
        if step.depends_on is None:
            return True
        ends = [self.end_of(target, planned) for target in step.targets]
        good = [self.satisfies(step, target, planned) for target in step.targets]
        if step.depends_on.strategy == "any":
            return any(good)
        return any(good) and all(
            fits or end == "NotTaken" for fits, end in zip(good, ends, strict=True)
        )

    def satisfies(self, step: Step, target: str, planned: Planned) -> bool:
        """Return whether a target is, or may have been, as the step's condition or probe says."""
        assert self.history is not None
        if step.depends_on is not None and step.depends_on.probe is not None:
            return self.history.may_have_passed(step, target)
        return self.end_of(target, planned) in GOOD_FOR[condition_for(step, target)]

    def end_of(self, name: str, planned: Planned) -> str:
        condition = planned.conditions[name]
        if condition.phase == "Skipped":
            return condition.reason
        return condition.phase if condition.phase in ENDED_STEP_PHASES else "not yet"

    def handles_failure(self, step: Step, planned: Planned) -> bool:
        """Return whether a step may start after another one failed."""
        if step.depends_on is None:
            return False
        conditions = {condition_for(step, target) for target in step.targets}
        if step.depends_on.probe is None and conditions & {"Failed", "Finished", "Always"}:
            return True
        return any(
            self.handles_failure(self.steps[target], planned)
            and self.satisfies(step, target, planned)
            for target in step.targets
        )


def condition_for(step: Step, target: str) -> str:
    if step.depends_on is None:
        return "Completed"
    own = (step.depends_on.conditions or {}).get(target)
    return own or step.depends_on.condition or "Completed"


def key_of(job: Job) -> Key:
    annotations = job.metadata.annotations or {}
    return annotations[labels.STEP], annotations.get(labels.INDEX, "")
