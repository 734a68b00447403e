"""Creates that the namespace refuses: the number of attempts, and recovery."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from jobflow.api.flow.status import FlowState, JobFlowStatus
from jobflow.api.resources import JOBS, Status
from jobflow.controller.apply.api_answers import LONGEST_HELD, Memory
from jobflow.controller.apply.requests import REQUESTS_AT_ONCE
from jobflow.core.planning.actions import CreateJob
from jobflow.kube.client import ApiError
from jobflow.sandbox.apiserver.requests.failures import failure
from support.plan.loop_worlds import for_each
from support.plan.plan_world import World
from support.plan.world_state import NOW
from support.sandbox.applier_world import World as Server
from support.sandbox.running_controller import cluster, flow, template

QUOTA = (
    'jobs.batch.volcano.sh "x" is forbidden: exceeded quota: q, requested: '
    "count/jobs.batch.volcano.sh=1, used: count/jobs.batch.volcano.sh=0, limited: "
    "count/jobs.batch.volcano.sh=0"
)


@dataclass
class Namespace:
    """A flow in a namespace that refuses creates, planned whenever a plan is due."""

    world: World
    accepts: Callable[[str], bool] = lambda name: False
    memory: Memory = field(default_factory=lambda: Memory(dice=lambda: 0.0))
    tried: list[str] = field(default_factory=list)
    writes: int = 0

    def run(self, seconds: float) -> None:
        end = self.world.now + timedelta(seconds=seconds)
        while self.world.now < end:
            self.plan()
            planned = self.world.plan()
            if not planned.nothing:
                continue
            after = planned.plan.requeue_after
            assert after is None or after > timedelta(0)
            wake = end if after is None else min(self.world.now + after, end)
            self.world = replace(self.world, now=wake)

    def plan(self) -> None:
        """Apply a plan up to the first refused create."""
        planned = self.world.plan()
        for action in planned.plan.actions:
            assert isinstance(action, CreateJob)
            self.tried.append(action.name)
            if not self.accepts(action.name):
                error = ApiError(Status(code=403, reason="Forbidden", message=QUOTA))
                self.memory.refuse(self.world.flow, action.name, error, self.world.now)
                break
            self.memory.let_in(self.world.flow, action.name, self.world.now)
            self.world = self.world.apply_action(action)
        self.writes += planned.status != self.world.flow.status
        held = self.memory.of(self.world.flow).held
        self.world = replace(self.world.with_status(planned.status), held=held)


@pytest.mark.long
def test_a_namespace_that_refuses_all_creates_receives_few() -> None:
    namespace = Namespace(for_each(200))
    namespace.run(15)
    assert len(namespace.tried) <= 5
    namespace.run(3600 - 15)
    assert len(namespace.tried) <= 10 + 3600 / LONGEST_HELD
    assert namespace.writes <= 2 * len(namespace.tried)


def test_a_job_that_fits_is_created() -> None:
    namespace = Namespace(for_each(8), lambda name: name == "f-a-6")
    namespace.run(600)
    assert sorted(namespace.world.jobs) == ["f-a-6"]
    assert namespace.tried[:8] == [f"f-a-{n}" for n in (0, 1, 2, 3, 4, 5, 6, 0)]


def test_every_job_is_tried_before_one_is_tried_again() -> None:
    namespace = Namespace(for_each(20))
    namespace.run(3600)
    rounds = [set(namespace.tried[n : n + 20]) for n in (0, 20, 40)]
    assert [len(tried) for tried in rounds] == [20, 20, 20]


def test_after_a_create_succeeds_the_others_follow_at_once() -> None:
    namespace = Namespace(for_each(200))
    namespace.run(300)
    before = len(namespace.tried)
    namespace.accepts = lambda name: True
    namespace.run(LONGEST_HELD)
    assert len(namespace.world.jobs) == 200
    assert len(namespace.tried) - before == 200


@pytest.mark.long
def test_a_free_place_is_filled_after_few_attempts() -> None:
    places = 0

    def accepts(_: str) -> bool:
        nonlocal places
        places -= 1
        return places >= 0

    namespace = Namespace(for_each(100), accepts)
    namespace.run(120)
    before = len(namespace.tried)
    for _ in range(20):
        places = 1
        namespace.run(30)
    assert len(namespace.world.jobs) >= 15
    assert len(namespace.tried) - before <= 7 * 20


def test_a_refusal_of_one_job_does_not_delay_others() -> None:
    memory, subject = Memory(dice=lambda: 0.0), for_each(3).flow
    denied = 'admission webhook "p" denied the request: ' + QUOTA
    memory.refuse(subject, "f-a-0", ApiError(Status(code=403, message=denied)), NOW)
    assert memory.of(subject).held is None
    assert memory.of(subject).refusals.keys() == {"f-a-0"}


@pytest.mark.parametrize(
    ("reason", "creates", "most"),
    [("", 200, 1), ("", REQUESTS_AT_ONCE, REQUESTS_AT_ONCE), ("CreateRefused", 2, 1)],
)
async def test_a_plan_stops_creating_after_a_refusal(
    world: Server, reason: str, creates: int, most: int
) -> None:
    await world.apply(status=JobFlowStatus(state=FlowState(phase="Pending", reason=reason)))
    world.flow = await world.cluster.flow("f")
    world.fails("POST", "/jobs", failure(403, "Forbidden", QUOTA), times=None)
    assert (await world.apply(*(world.create(f"f-a-{n}") for n in range(creates)))).again
    assert 1 <= world.requests().count("POST jobs") <= most
    held = world.answers.held
    assert held.message.startswith("exceeded quota: q")
    assert world.answers.held_tries == 1


async def test_a_plan_with_many_creates_sends_them_all(world: Server) -> None:
    await world.apply(*(world.create(f"f-a-{n}") for n in range(100)))
    assert len(await world.cluster.jobs()) == 100


async def test_a_flow_completes_after_a_quota_is_lifted() -> None:
    steps = {"a": "", "b": "", "c": "a b"}
    async with cluster() as world, world.controller(), world.ends():
        quota = world.fails("POST", "/jobs", failure(403, "Forbidden", QUOTA), times=None)
        await world.apply(*(template(name) for name in steps), flow("f", steps))
        refused = await world.until("f", lambda f: f.status.state.reason == "CreateRefused")
        assert refused.status.state.message.startswith("step a: exceeded quota: q, requested")
        world.server.faults.remove(quota)
        assert (await world.ended("f")).status.state.phase == "Succeed"
        assert world.count("POST", JOBS) == 3
