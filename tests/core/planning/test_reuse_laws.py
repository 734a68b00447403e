"""Laws of reuse: what a fingerprint depends on, and flows that reuse others of any kind."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api import labels
from jobflow.api.flow.control import Backoff, ForEach, Patch, Retry
from jobflow.api.flow.status import RunCondition
from jobflow.api.flow.step import DependsOn, Step
from model.matching import has_items
from model.random_flows import WITHOUT_CHILDREN
from support.laws.acyclic_graphs import acyclic_graphs
from support.laws.effort_of_laws import tries
from support.laws.random_flows import controlled_flows
from support.laws.random_walk import Walk, walks
from support.plan.loop_worlds import end_jobs, with_step
from support.plan.plan_world import World, world_of
from support.plan.reusing_worlds import reasons, reusing
from support.plan.steps import after

FAILS_FIRST = Retry(
    limit=3,
    avoid_nodes=True,
    backoff=Backoff(duration="1s"),
    patch=Patch(
        job_spec={
            "tasks": [
                {
                    "name": "t",
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "c",
                                    "env": [{"name": "WHY", "value": "$(failure.reason)"}],
                                }
                            ]
                        }
                    },
                }
            ]
        }
    ),
)


def saying(word: str, **fields: Any) -> World:
    """Step b depends on a, and its job says the value of a reference."""
    reader = Step(name="b", depends_on=after("a"), env={"SAID": word}, **fields)
    return world_of([Step(name="a"), reader])


@pytest.mark.parametrize(
    "word",
    [
        "$(attempt)",
        "$(retries)",
        "$(steps.a.job)",
        "$(steps.a.phase)",
        "$(steps.a.reason)",
        "$(vars.of)",
        "$(flow.namespace)",
    ],
)
def test_a_run_does_the_same_whatever_the_flow_and_the_attempt(word: str) -> None:
    fields = {"vars": {"of": "steps['a']['job']"}} if "vars" in word else {}
    first = saying(word, retry=FAILS_FIRST, **fields).settled()
    first = end_jobs(first, "Completed", "f-a")
    for name in ("f-b", "f-b-r1"):
        first = end_jobs(first, "Failed", name).later(5).settled()
    first = first.run()
    assert set(first.jobs) == {"f-a", "f-b", "f-b-r1", "f-b-r2"}
    assert reusing(first, name="another").run().jobs == {}


def scheduled(world: World, time: str) -> World:
    metadata = msgspec.structs.replace(
        world.flow.metadata, annotations={labels.SCHEDULED_TIME: time}
    )
    return replace(world, flow=msgspec.structs.replace(world.flow, metadata=metadata))


def test_the_name_of_the_flow_counts_where_it_is_named() -> None:
    again = reusing(saying("$(flow.name)").run()).run()
    assert set(again.jobs) == {"g-b"}


@pytest.mark.parametrize(("time", "ran"), [("2026-01-01", set()), ("2026-01-02", {"g-b"})])
def test_the_scheduled_time_counts_by_its_value(time: str, ran: set[str]) -> None:
    first = scheduled(saying("$(flow.scheduledTime)"), "2026-01-01").run()
    assert set(scheduled(reusing(first), time).run().jobs) == ran


def test_the_order_of_keys_does_not_count() -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return [turned(each) for each in value] if isinstance(value, list) else value

    container = {
        "image": "busybox",
        "args": ["b", "a"],
        "env": [{"name": "N", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    }
    first = world_of([Step(name="a", container=container)]).run()
    assert with_step(reusing(first), "a", container=turned(container)).run().jobs == {}


# ------------------------------------------------------------------ flows of any kind

FEATURES = WITHOUT_CHILDREN - {"volumeClaims"}


class Reused:
    """A flow that has ended, the one that has reused it, and what must hold between them."""

    def __init__(self, first: Walk, second: Walk) -> None:
        self.first, self.second, self.steps = first, second, second.steps

    def runs(self, walk: Walk, name: str) -> dict[int | None, RunCondition]:
        condition = walk.stored(name)
        return {run.index: run for run in condition.runs or (condition,)}

    def ran(self, name: str, index: int | None = None) -> bool:
        """Whether a job of the step, or of this item of it, was created in the second flow."""
        keys = [key for key, count in self.second.created.items() if count and key[0] == name]
        return any(index is None or key[1] == str(index) for key in keys)

    def has_jobs(self, walk: Walk, name: str) -> bool:
        step, runs = self.steps[name], self.runs(walk, name).values()
        begun = (run.attempts and run.phase != "Skipped" for run in runs)
        return step.approval is None and any(begun)

    def matched(self, step: Step, target: str) -> bool:
        return step.matches_items and has_items(self.steps[target])

    def made_of_what_ran(self, name: str, index: int | None) -> str:
        """Return a step that ran in the second flow and on which the run depends, directly or
        through steps without a job; "" if there is none."""
        step = self.steps[name]
        for target in step.targets:
            at = index if self.matched(step, target) else None
            if self.ran(target, at):
                return target
            if not self.has_jobs(self.second, target) and (
                found := self.made_of_what_ran(target, at)
            ):
                return found
        return ""

    def is_same(self, name: str) -> bool:
        """Whether a step is for those that depend on it as it was in the first flow."""
        runs = [self.runs(walk, name) for walk in (self.first, self.second)]
        if any(self.has_jobs(walk, name) for walk in (self.first, self.second)):
            has_taken_all = all(run.reason == "Reused" for run in runs[1].values())
            return has_taken_all and [run.job for run in runs[0].values()] == [
                run.job for run in runs[1].values()
            ]
        ends = [[(run.phase, run.outputs) for run in each.values()] for each in runs]
        return ends[0] == ends[1] and all(map(self.is_same, self.steps[name].targets))

    def must_be_reused(self, name: str, run: RunCondition) -> bool:
        """Whether a run that completed in the first flow, and has begun in the second one, does
        the same there in any case."""
        step = self.steps[name]
        text = msgspec.json.encode(step)
        depends_on = step.depends_on or DependsOn()
        conditions = {depends_on.condition, *(depends_on.conditions or {}).values()}
        if b"flow.name" in text or "Running" in conditions or depends_on.strategy == "any":
            return False
        if step.daemon or step.approval is not None or name in self.second.last:
            return False
        if run.phase != "Completed" or not run.fingerprint or self.ran_before(name):
            return False
        if run.reason == "OutputsMissing":
            return False
        if step.repeat is not None and self.first.stored(name).phase != "Completed":
            return False
        return all(map(self.is_same, step.targets))

    def ran_before(self, name: str) -> bool:
        """Whether the second flow was retried after the step had ended."""
        return self.second.world.flow.status.retries > 0 or any(
            run.past_attempts for run in self.runs(self.second, name).values()
        )

    def check(self) -> None:
        taken = list[str]()
        for name in self.steps:
            before = {run.job: run for run in self.runs(self.first, name).values()}
            for index, run in self.runs(self.second, name).items():
                if run.reason != "Reused":
                    continue
                old = before[run.job]
                assert (run.phase, run.outputs) == ("Completed", old.outputs)
                assert old.phase == "Completed"
                assert not self.ran(name, index), f"{name} {index} ran, and was reused"
                assert not (ran := self.made_of_what_ran(name, index)), f"{name} after {ran}"
                taken.append(run.job)
            needed = {r.job for r in before.values() if self.must_be_reused(name, r)}
            if self.second.stored(name).attempts:
                again = {run.job for run in self.runs(self.second, name).values()}
                assert needed <= again or not self.ran(name), f"{name} ran without need"
        assert len(taken) == len(set(taken)), "a result was taken twice"


@given(walks(controlled_flows(FEATURES), 30), st.integers(0, 30))
@tries(100)
def test_a_flow_takes_all_results_that_are_unchanged_and_no_others(walk: Walk, events: int) -> None:
    """Anything may happen to both flows, crashes included."""
    walk.end_well()
    again = Walk(replace(reusing(walk.world), templates=walk.templates), walk.random)
    for _ in range(events):
        again.happen()
    again.end_well(retries=False)
    Reused(walk, again).check()


# ------------------------------------------------------------------ one step changes

ITEMS = ("x", "y", "z")


@st.composite
def sweeps(draw: st.DrawFn) -> World:
    """Draw a flow of steps with and without items, some of which match those of their target."""
    steps = list[Step]()
    for node, targets in enumerate(draw(acyclic_graphs(7).filter(bool))):
        depends_on = DependsOn(targets=[f"s{target}" for target in targets]) if targets else None
        for_each = ForEach(items=list(ITEMS)) if draw(st.booleans()) else None
        if len(targets) == 1 and steps[targets[0]].fan_out and draw(st.booleans()):
            depends_on, for_each = DependsOn(targets=[f"s{targets[0]}"], items="Matching"), None
        step = Step(name=f"s{node}", template="t", depends_on=depends_on, for_each=for_each)
        said = {"ITEM": "$(item)"} if step.fan_out else {"N": node}
        steps.append(msgspec.structs.replace(step, env=said))
    return world_of(steps)


@st.composite
def step_changes(draw: st.DrawFn, world: World) -> World:
    """Draw a change of one step."""
    step = draw(st.sampled_from(world.flow.steps))
    kinds = ["word", "policy", *(["items"] * 3 if step.for_each else [])]
    match draw(st.sampled_from(kinds)):
        case "word":
            return with_step(world, step.name, env={**(step.env or {}), "MORE": "1"})
        case "policy":  # and another template of the same content
            return with_step(world, step.name, retry=FAILS_FIRST, timeout="2h", template="u")
    items = draw(st.permutations([*ITEMS, "w"]))[: draw(st.integers(0, 4))]
    return with_step(world, step.name, for_each=ForEach(items=items))


def doings(world: World) -> dict[str, dict[Any, Any]]:
    """Return what each run does and all that it is made of, by step and item."""
    found: dict[str, dict[Any, Any]] = {}
    below: dict[str, list[Any]] = {}
    for step in world.flow.steps:
        own = step.env
        # a step without items is made of nothing else than its targets
        made = [(target, [*found[target].values()] or below[target]) for target in step.targets]
        below[step.name] = made
        if step.fan_out is None:
            found[step.name] = {None: (own, made)}
        elif step.for_each is not None:
            found[step.name] = {item: (own, item, made) for item in step.for_each.items or ()}
        else:
            (target,) = step.targets
            found[step.name] = {
                item: (own, item, target, same) for item, same in found[target].items()
            }
    return found


@given(st.data())
@tries(200)
def test_exactly_what_has_changed_and_what_is_made_of_it_runs_again(data: st.DataObject) -> None:
    """Over several flows, each of which reuses the one before, and as the preview says."""
    world = data.draw(sweeps()).run()
    for name in "ghi":
        before = doings(world)
        new = data.draw(step_changes(reusing(world, name=name)))
        world = new.run()
        expected, said = set[str](), set[str]()
        rows = reasons(new)
        for step, runs in doings(world).items():
            for index, (item, made) in enumerate(runs.items()):
                job = world.name_of(step, index=None if item is None else index)
                if made not in before[step].values():
                    expected.add(job)
                if not {step, f"{step}/{index}"}.isdisjoint(rows):
                    said.add(job)
        assert world.end == ("Succeed", "")
        assert set(world.jobs) == expected
        assert said == expected
