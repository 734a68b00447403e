"""Laws of runs: whatever becomes of their vcjobs, and wherever the controller stops, every loop
ends, and nothing runs again that was not lost or has not failed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobflow.api import labels
from jobflow.api.control import Backoff, ForEach, Repeat, Retry
from jobflow.api.flow_status import ENDED_STEP_PHASES, StepCondition
from jobflow.api.job import Job
from jobflow.core.planning.actions import CreateJob
from support.laws.effort_of_laws import tries
from support.plan.loop_worlds import stepped
from support.plan.plan_world import World

Key = tuple[str, str]
"""A step and an index; of a plain step an empty one."""

MOVES = ("Pending", "Running", "Restarting", "Completed", "Completed", "Failed", "Aborted")

loops: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(
        lambda count, most: {"for_each": ForEach(count=count, parallelism=most)},
        st.integers(0, 4),
        st.sampled_from([None, 1, 2]),
    ),
    st.builds(
        lambda at, most: {"repeat": Repeat(until=f"index == {at}", max=most)},
        st.integers(0, 3),
        st.integers(1, 3),
    ),
    st.just({}),
)
retries = st.none() | st.integers(0, 2).map(
    lambda limit: Retry(limit=limit, backoff=Backoff(duration="1s"), avoid_nodes=True)
)
lives = st.tuples(
    loops,
    retries,
    st.sampled_from([None, "5s"]),
    st.randoms(use_true_random=False),
    st.integers(0, 30),
)


class Life:
    """A flow, and the books of its vcjobs."""

    def __init__(self, world: World, random: Random) -> None:
        self.world = world
        self.random = random
        self.made: Counter[Key] = Counter()
        self.over: Counter[Key] = Counter()
        """Attempts that failed or were lost: so many may follow the first."""

    def happen(self) -> None:
        self.random.choice((self.plan, self.plan, self.crash, self.move, self.lose, self.wait))()

    def plan(self, share: float = 1.0, write: bool = True) -> None:
        planned = self.world.plan()
        actions = list(planned.plan.actions)
        self.random.shuffle(actions)
        self.check([action for action in actions if isinstance(action, CreateJob)])
        for action in actions:
            if self.random.random() <= share:
                before = self.live()
                self.world = self.world.acted(action)
                self.over.update(before[name] for name in before.keys() - self.live().keys())
                if isinstance(action, CreateJob):
                    self.made[key_of(self.world.jobs[action.name])] += 1
        if write:
            self.world = self.world.with_status(planned.status)

    def crash(self) -> None:
        """In the middle of a plan; what only this process knew is lost."""
        self.plan(share=0.5, write=self.random.random() < 0.5)
        self.world = replace(self.world, aborts={}, missing=frozenset(), read={})

    def move(self) -> None:
        if live := sorted(self.live()):
            name, phase = self.random.choice(live), self.random.choice(MOVES)
            self.over[key_of(self.world.jobs[name])] += phase in ("Failed", "Aborted")
            self.world = self.world.later(1).ended(name, phase)

    def lose(self) -> None:
        if self.random.random() < 0.3 and self.world.jobs:
            name = self.random.choice(sorted(self.world.jobs))
            self.over[key_of(self.world.jobs[name])] += 1
            jobs = {each: job for each, job in self.world.jobs.items() if each != name}
            self.world = replace(self.world, jobs=jobs, deleted=self.world.deleted - {name})

    def wait(self) -> None:
        self.world = self.world.later(self.random.choice((0.3, 1, 7, 70)))

    def live(self) -> dict[str, Key]:
        world = self.world
        there = world.jobs.keys() - world.deleted
        return {name: key_of(world.jobs[name]) for name in there if not world.jobs[name].ended}

    def stored(self) -> StepCondition:
        return (self.world.flow.status.conditions or {}).get("f-a", StepCondition())

    def check(self, creates: list[CreateJob]) -> None:
        step, stored = self.world.flow.steps[0], self.stored()
        runs = {str(run.index): run for run in stored.runs or ()}
        live = Counter(self.live().values())
        for action in creates:
            key = action.step, action.manifest["metadata"]["labels"].get(labels.INDEX, "")
            assert self.made[key] <= self.over[key], f"{key}: nothing was lost, nothing has failed"
            assert not live[key], f"{key}: two at once"
            live[key] += 1
            if action.step == "a":
                assert stored.phase not in ENDED_STEP_PHASES
                assert key[1] not in runs or runs[key[1]].phase not in ENDED_STEP_PHASES
                if step.repeat is not None and key[1] != "0":
                    assert runs[str(int(key[1]) - 1)].phase == "Completed", "not stored yet"
        most = step.for_each.parallelism if step.for_each is not None else None
        begun = sum(count for (name, _), count in live.items() if name == "a")
        assert most is None or begun <= most

    def end(self) -> None:
        """From here on every vcjob ends, and nothing is lost."""
        for _ in range(300):
            if self.world.flow.final:
                return
            before = self.world
            self.plan()
            if self.world == before or not self.world.plan().plan.actions:
                self.world = self.world.later(5)
                for name, key in sorted(self.live().items()):
                    phase = self.random.choice(("Completed", "Failed"))
                    self.over[key] += phase == "Failed"
                    self.world = self.world.ended(name, phase)
        raise AssertionError(f"it does not end: {self.world.plan().conditions}")


def key_of(job: Job) -> Key:
    said = job.metadata.annotations or {}
    return said[labels.STEP], said.get(labels.INDEX, "")


def lived(
    loop: dict[str, Any], retry: Retry | None, timeout: str | None, random: Random, n: int
) -> Life:
    life = Life(stepped(retry=retry, timeout=timeout, **loop), random)
    for _ in range(n):
        life.happen()
    return life


@given(lives)
@tries(60)
def test_every_loop_ends_and_nothing_runs_again_for_nothing(made) -> None:
    life = lived(*made)
    life.end()
    assert set(life.world.plan().phases.values()) <= ENDED_STEP_PHASES
    assert life.world.settled().plan().nothing
    for key, count in life.made.items():
        assert count <= 1 + life.over[key]


@given(lives)
@tries(40)
def test_a_plan_carried_out_leaves_nothing_to_do(made) -> None:
    world = lived(*made).world.settled()
    assert world.plan().nothing
    again = replace(world, missing=frozenset(), read={}, aborts={})
    assert again.plan().creates == []
    assert again.plan().status == world.flow.status


@given(lives)
@tries(40)
def test_what_a_run_came_to_stays_as_it_was_written(made) -> None:
    life = lived(*made)
    ended = {run.index: run for run in life.stored().runs or () if run.phase in ENDED_STEP_PHASES}
    life.end()
    left = {run.index: run for run in life.stored().runs or ()}
    assert {index: left[index] for index in ended} == ended
