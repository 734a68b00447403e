"""Outcomes of reconciles: exceptions, statuses that are not stored, and written statuses."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus, StepCondition
from jobflow.api.resources import JOBFLOWS
from jobflow.api.volcano.job import Job
from jobflow.controller import reconciler as module
from jobflow.controller.hooks import NotJudgedYet
from jobflow.core.planning.actions import Event, EventType, Plan
from jobflow.core.planning.observed.view import View
from jobflow.core.violations import Reason, Violation
from jobflow.kube.write_order import Urgency
from support.sandbox.manual_reconciler import KEY, World, running_status, set_plan
from support.sandbox.running_controller import NAMESPACE, cluster, flow, merge, template


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with cluster() as servers:
        await servers.apply(flow("f", {"a": ""}))
        yield World(servers, await servers.flow("f"))


async def test_a_status_that_is_not_urgent_is_written_once_a_second(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (passed, writes, wait) in enumerate(
        [(0.0, 1, None), (0.25, 1, 0.75), (0.25, 1, 0.5), (0.5, 2, None)]
    ):
        world.now += passed
        set_plan(monkeypatch, says=str(number))
        outcome = await world.reconciler.reconcile(KEY)
        assert (world.writes, outcome.after) == (writes, wait)


async def test_the_status_of_a_large_flow_is_written_more_rarely(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    conditions = {f"f-{number}": StepCondition() for number in range(3000)}
    for passed, message, wait in [
        (0.0, "first", None),
        (1.0, "second", 2.0),
        (2.0, "second", None),
    ]:
        world.now += passed
        status = msgspec.structs.replace(running_status(message), conditions=conditions)
        set_plan(monkeypatch, status=status)
        assert (await world.reconciler.reconcile(KEY)).after == wait


async def test_events_after_a_long_plan_share_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plan_slowly(flow: JobFlow, view: View, *, now: datetime) -> Plan:
        world.now += 0.01
        return Plan(actions=(), status=flow.status)

    monkeypatch.setattr(module, "plan_flow", plan_slowly)
    world.queue.add(KEY)
    assert await world.queue.get() == KEY
    await world.reconciler.reconcile(KEY)
    world.queue.done(KEY)
    world.queue.add(KEY)
    world.now += 0.035
    world.queue.release()
    assert not world.queue._ready
    world.now += 0.01
    world.queue.release()
    assert await world.queue.get() == KEY


def job_of(subject: JobFlow, phase: str, version: int, **metadata: Any) -> Job:
    owner = {"kind": "JobFlow", "name": "f", "uid": subject.metadata.uid, "controller": True}
    meta = {
        "name": "f-a",
        "namespace": NAMESPACE,
        "uid": "uid-a",
        "resourceVersion": str(10**6 + version),
        "ownerReferences": [{"apiVersion": JOBFLOWS.api_version, **owner}],
        **metadata,
    }
    return msgspec.convert({"metadata": meta, "status": {"state": {"phase": phase}}}, Job)


DELETED = {"deletionTimestamp": "2030-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("only_ends_matter", "phase", "metadata", "waits"),
    [
        (True, "", {}, True),
        (True, "Running", {}, True),
        (True, "Completed", {}, False),
        (True, "Restarting", {}, False),
        (True, "Running", DELETED, False),
        (False, "Running", {}, False),
    ],
    ids=["pending", "running", "ended", "restarting", "being-deleted", "running-matters"],
)
async def test_a_job_that_has_not_ended_is_planned_with_what_follows(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    only_ends_matter: bool,
    phase: str,
    metadata: dict[str, Any],
    waits: bool,
) -> None:
    world.store.listeners.append(world.reconciler)
    set_plan(monkeypatch, only_ends_matter=only_ends_matter)
    await world.reconciler.reconcile(KEY)
    subject = await world.servers.flow("f")
    world.store.jobs.learn(job_of(subject, phase, 1, **metadata))
    assert bool(world.queue._ready) == (not waits)
    world.now += 0.1
    world.queue.release()
    assert await world.queue.get() == KEY


async def test_a_running_job_is_planned_at_once_with_the_first_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.store.listeners.append(world.reconciler)
    set_plan(monkeypatch, only_ends_matter=True)
    await world.reconciler.reconcile(KEY)
    subject = await world.servers.flow("f")
    for version, phase in enumerate(("", "Pending", "Running")):
        world.store.jobs.learn(job_of(subject, phase, version))
    assert not world.queue._ready
    world.store.jobs.learn(job_of(subject, "Completed", 4))
    assert await world.queue.get() == KEY
    world.queue.done(KEY)
    world.now += 0.1
    world.queue.release()
    assert not world.queue._ready


async def test_a_status_that_is_not_urgent_waits_for_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_plan(monkeypatch, says="first")
    await world.reconciler.reconcile(KEY)
    world.order.window.limit = 1
    async with world.order.turn(Urgency.NEEDED, "kind"):
        for seconds, wait in [(1.0, 0.1), (0.1, 29.9), (28.9, 1.0)]:
            world.now += seconds
            set_plan(monkeypatch, says="second")
            outcome = await world.reconciler.reconcile(KEY)
            assert (world.writes, outcome.after) == (1, pytest.approx(wait))
    assert await world.queue.get() == KEY
    await world.reconciler.reconcile(KEY)
    assert world.writes == 2


async def test_a_status_is_written_after_half_a_minute_without_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_plan(monkeypatch, says="first")
    await world.reconciler.reconcile(KEY)
    world.order.window.limit = 1
    async with world.order.turn(Urgency.NEEDED, "kind"):
        set_plan(monkeypatch, says="second")
        await world.reconciler.reconcile(KEY)
        world.now += 30.0
        await world.reconciler.reconcile(KEY)
        assert world.writes == 2


@pytest.mark.parametrize("continues", [False, True])
async def test_a_written_status_is_planned_at_once_only_if_something_waits_for_it(
    world: World, monkeypatch: pytest.MonkeyPatch, continues: bool
) -> None:
    world.store.listeners.append(world.reconciler)
    set_plan(monkeypatch, says="first", urgent=True, continues=continues)
    await world.reconciler.reconcile(KEY)
    assert world.writes == 1
    assert bool(world.queue._ready) == continues
    world.now += 0.1
    world.queue.release()
    assert await world.queue.get() == KEY


async def test_a_status_that_somebody_else_writes_is_planned_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.store.listeners.append(world.reconciler)
    set_plan(monkeypatch, says="first", urgent=True)
    await world.reconciler.reconcile(KEY)
    await merge(world.servers.client, JOBFLOWS, "f", {"metadata": {"labels": {"a": "b"}}})
    world.store.flows.learn(await world.servers.flow("f"))
    assert await world.queue.get() == KEY


async def test_an_urgent_status_is_written(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        set_plan(monkeypatch, says=str(number), urgent=True)
        await world.reconciler.reconcile(KEY)
    assert world.writes == 3


async def test_equal_statuses_are_not_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_plan(monkeypatch, requeue_after=timedelta(seconds=7))
    assert (await world.reconciler.reconcile(KEY)).after == 7
    assert world.writes == 0


async def test_a_pruned_status_is_sent_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    set_plan(monkeypatch, says="x", urgent=True)
    await world.reconciler.reconcile(KEY)
    stored = world.store.flows.get(*KEY)
    assert stored is not None
    pruned = msgspec.structs.replace(stored, status=JobFlowStatus())
    world.store.flows._objects[KEY] = pruned
    for seconds in range(3):
        later = msgspec.structs.replace(running_status("x"), duration=f"{seconds}s")
        set_plan(monkeypatch, status=later, urgent=True)
        await world.reconciler.reconcile(KEY)
    assert world.writes == 1


async def test_events_follow_their_status(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    event = Event(EventType.NORMAL, "Told", "once")
    set_plan(monkeypatch, says="first")
    await world.reconciler.reconcile(KEY)
    set_plan(monkeypatch, says="second", events=(event,))
    for _ in range(3):
        await world.reconciler.reconcile(KEY)
    await world.recorder.flush()
    assert await world.servers.events() == []
    world.now += 1
    await world.reconciler.reconcile(KEY)
    await world.recorder.flush()
    assert [entry["count"] for entry in await world.servers.events()] == [1]


async def test_a_deleted_flow_needs_no_requeue(world: World) -> None:
    outcome = await world.reconciler.reconcile((NAMESPACE, "none"))
    assert outcome == module.ReconcileOutcome()


async def test_one_failing_flow_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = module.plan_flow

    def failing(flow: JobFlow, view: View, *, now: datetime) -> Plan:
        if flow.metadata.name == "bad":
            raise ZeroDivisionError("a mistake of ours")
        return plan(flow, view, now=now)

    monkeypatch.setattr(module, "plan_flow", failing)
    async with cluster() as servers, servers.controller(), servers.ends():
        await servers.apply(template("a"), flow("bad", {"a": ""}), flow("good", {"a": ""}))
        assert (await servers.ended("good")).status.state.phase == "Succeed"
        assert (await servers.flow("bad")).status == JobFlowStatus()


async def test_nothing_is_planned_while_the_copies_cannot_be_followed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_plan(monkeypatch, says="planned")
    for trouble in (world.store.jobs.follow_fails, world.store.jobs.absent):
        trouble()
        outcome = await world.reconciler._reconcile_safely(KEY)
        assert (world.writes, outcome.after) == (0, module.UNFOLLOWED_SECONDS)
    world.store.jobs.replace([], "9")
    await world.reconciler._reconcile_safely(KEY)
    assert world.writes == 1


async def test_a_flow_is_judged_once_before_its_first_plan(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, judged = Violation("spec", Reason.INVALID, None, "wrong"), []
    seen: list[View] = []

    async def judge(flow: JobFlow) -> Sequence[Violation]:
        judged.append(flow.metadata.name)
        return (fault,)

    def plan_nothing(flow: JobFlow, view: View, *, now: datetime) -> Plan:
        seen.append(view)
        return Plan(actions=(), status=flow.status)

    monkeypatch.setattr(world.reconciler, "judge", judge)
    monkeypatch.setattr(module, "plan_flow", plan_nothing)
    for _ in range(2):
        await world.reconciler.reconcile(KEY)
    assert judged == ["f"]
    assert [view.violations for view in seen] == [(fault,), (fault,)]


async def test_a_flow_that_cannot_be_judged_now_is_not_planned(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def judge(flow: JobFlow) -> Sequence[Violation]:
        raise NotJudgedYet("16 large reviews are under way; try again")

    monkeypatch.setattr(world.reconciler, "judge", judge)
    set_plan(monkeypatch, says="planned")
    outcome = await world.reconciler.reconcile(KEY)
    assert (outcome.error, world.writes) == ("16 large reviews are under way; try again", 0)


async def test_a_flow_that_changes_while_it_is_judged_is_reconciled_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def judge(flow: JobFlow) -> Sequence[Violation]:
        metadata = msgspec.structs.replace(flow.metadata, resource_version="9999")
        world.store.flows.replace([msgspec.structs.replace(flow, metadata=metadata)], "9999")
        return ()

    monkeypatch.setattr(world.reconciler, "judge", judge)
    set_plan(monkeypatch, says="planned")
    assert (await world.reconciler.reconcile(KEY)).again
    assert world.writes == 0
