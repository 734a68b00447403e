"""The requests of a plan: the answers of the API server, and their effects."""

import asyncio
import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.status import FlowState, JobFlowStatus
from jobflow.api.resources import COMMANDS, JOBFLOWS, JOBS
from jobflow.api.volcano.job import Job
from jobflow.controller.apply.requests import Applied
from jobflow.core.planning.actions import AbortJob, DeleteCommand, DeleteFlow, DeleteJob, ReadJob
from jobflow.kube.client import UnreadableAnswer
from jobflow.sandbox.apiserver.requests.failures import RequestFailure, failure
from support.sandbox.applier_world import NOW, World
from support.sandbox.running_controller import NAMESPACE, flow, merge

RUNNING = JobFlowStatus(state=FlowState(phase="Running"))
KIND_OF_COMMAND = {"apiVersion": COMMANDS.api_version, "kind": "Command"}


async def test_a_job_is_in_the_store_before_apply_returns(world: World) -> None:
    applied = await world.apply(world.create())
    assert world.store.jobs_of(world.flow.metadata.uid).keys() == {"f-a"}
    assert applied == Applied()


async def test_a_job_of_the_flow_is_adopted(world: World) -> None:
    await world.create_unseen_job()
    assert (await world.apply(world.create())).again
    assert world.store.jobs_of(world.flow.metadata.uid).keys() == {"f-a"}
    assert world.answers.holders == {}


async def create_unreadable_job(world: World, **owner: Any) -> None:
    client, manifest = world.cluster.client, world.manifest("f-a", **owner)
    manifest["metadata"]["finalizers"] = ["test/hold"]
    await client.create(JOBS, NAMESPACE, json.dumps(manifest).encode())
    invalid = json.dumps({"status": {"state": [1]}}).encode()
    await client.patch(JOBS, NAMESPACE, "f-a", invalid, subresource="status")
    with pytest.raises(UnreadableAnswer):
        await client.get(JOBS, NAMESPACE, "f-a", Job)


async def test_an_unreadable_job_of_the_flow_is_adopted_by_its_metadata(world: World) -> None:
    await create_unreadable_job(world)
    for action in (world.create(), ReadJob("f-a")):
        assert await world.apply(action) == Applied(again=True)
        jobs = world.store.jobs_of(world.flow.metadata.uid)
        assert {name: job.ended for name, job in jobs.items()} == {"f-a": False}


async def test_an_unreadable_foreign_job_keeps_its_name(world: World) -> None:
    await create_unreadable_job(world, uid="x", name="other")
    assert await world.apply(world.create()) == Applied(again=True)
    assert world.answers.holders.keys() == {"f-a"}


@pytest.mark.parametrize(
    ("owner", "alive"),
    [
        ({"name": "g", "uid": None}, True),
        ({"name": "gone", "uid": "x"}, False),
        ({"uid": "first-life-of-f"}, False),
        ({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "x"}, False),
        ({"apiVersion": "none.example/v1", "kind": "None", "uid": "x"}, True),
        ({"controller": False}, True),
    ],
    ids=["alive", "gone", "another of its name", "looked up", "a kind not served", "no controller"],
)
async def test_owner_of_a_name_in_use(world: World, owner: dict[str, Any], alive: bool) -> None:
    await world.cluster.apply(flow("g", {"a": ""}))
    if owner.get("name") == "g":
        owner = owner | {"uid": (await world.cluster.flow("g")).metadata.uid}
    manifest = world.manifest("f-a", **owner)
    manifest["metadata"]["finalizers"] = ["test/hold"]
    await world.cluster.client.create(JOBS, NAMESPACE, json.dumps(manifest).encode())
    assert (await world.apply(world.create())).again
    assert world.answers.holders["f-a"].owner_alive is alive


async def test_a_job_deleted_between_create_and_read_is_created_next(world: World) -> None:
    world.fails("POST", "/jobs", failure(409, "AlreadyExists", "exists"))
    applied = await world.apply(world.create())
    assert (applied.failed, applied.again) == ({"CreateJob f-a"}, False)
    assert world.answers.holders == {}


@pytest.mark.parametrize(("last", "reads"), [("", []), ("f-a", ["GET f-a"])])
async def test_an_attempt_follows_a_live_read(world: World, last: str, reads: list[str]) -> None:
    assert await world.apply(world.create_again(last)) == Applied()
    assert world.requests()[-2 - len(reads) :] == ["GET f", *reads, "POST jobs"]
    assert world.store.jobs_of(world.flow.metadata.uid).keys() == {"f-a-r1"}


async def test_a_further_attempt_is_not_created_while_the_latest_exists(world: World) -> None:
    await world.create_unseen_job()
    assert await world.apply(world.create_again("f-a")) == Applied(again=True)
    assert world.store.jobs_of(world.flow.metadata.uid).keys() == {"f-a"}


@pytest.mark.long
async def test_a_foreign_job_does_not_prevent_a_further_attempt(world: World) -> None:
    await world.create_unseen_job(uid="x", name="other")
    assert await world.apply(world.create_again("f-a")) == Applied()
    assert world.requests()[-1] == "POST jobs"


async def test_a_plan_with_a_new_attempt_is_dropped_if_the_flow_changed(world: World) -> None:
    note = json.dumps({"metadata": {"labels": {"x": "y"}}}).encode()
    await world.cluster.client.patch(JOBFLOWS, NAMESPACE, "f", note)
    actions = world.create_again(), world.create("f-b")
    assert await world.apply(*actions, status=JobFlowStatus()) == Applied(again=True)
    assert world.requests()[-1] == "GET f"
    changed = world.store.flows.get(NAMESPACE, "f")
    assert changed.metadata.labels == {"x": "y"}


async def test_a_live_read_that_is_older_than_the_copy_is_an_error(world: World) -> None:
    """The cluster was restored from a backup: another plan would read the same version again."""
    newer = msgspec.structs.replace(world.flow.metadata, resource_version="999999")
    world.flow = msgspec.structs.replace(world.flow, metadata=newer)
    world.store.flows.learn(world.flow)
    applied = await world.apply(world.create_again())
    assert (applied.again, len(applied.errors)) == (False, 1)


async def test_a_plan_with_a_new_attempt_is_dropped_without_its_flow(world: World) -> None:
    await world.cluster.client.delete(JOBFLOWS, NAMESPACE, "f")
    assert await world.apply(world.create_again()) == Applied()
    assert world.requests()[-1] == "GET f"


async def test_the_other_actions_are_sent_if_the_flow_cannot_be_read(world: World) -> None:
    world.fails("GET", "/f", failure(500, "InternalError", "broken"))
    applied = await world.apply(world.create_again(), world.create("f-b"))
    assert applied.failed == {"CreateJob f-a-r1"}
    assert world.requests()[-1] == "POST jobs"


@pytest.mark.parametrize("code", [400, 403, 404, 413, 422])
async def test_a_refusal_is_retried_with_a_doubling_backoff(world: World, code: int) -> None:
    for seconds in (1, 2, 4):
        world.fails("POST", "/jobs", failure(code, "", "no"))
        applied = await world.apply(world.create())
        assert applied.again
        assert not applied.errors
        refusal = world.answers.refusals["f-a"]
        assert (refusal.code, refusal.message) == (code, "no")
        assert refusal.retry_at == NOW + timedelta(seconds=seconds)
    await world.apply(world.create())
    assert world.answers.refusals == {}


async def test_a_create_in_a_terminating_namespace_is_not_retried(world: World) -> None:
    causes = [{"reason": "NamespaceTerminating", "message": "going", "field": "metadata.namespace"}]
    world.fails("POST", "/jobs", failure(403, "Forbidden", "terminating", causes=causes))
    await world.apply(world.create())
    held = world.answers.held
    assert (held.message, held.retry_at) == ("terminating", None)


@pytest.mark.parametrize(
    ("error", "wait"),
    [
        (failure(409, "Conflict", "quota"), 0.0),
        (failure(429, "TooManyRequests", "later", retryAfterSeconds=3), 3.0),
        (failure(500, "InternalError", "x"), 0.0),
        (failure(503, "ServiceUnavailable", "x", retryAfterSeconds=9), 9.0),
        (None, 0.0),
    ],
)
async def test_errors_are_retried(world: World, error: RequestFailure | None, wait: float) -> None:
    world.fails("POST", "/jobs", error)
    applied = await world.apply(world.create())
    assert applied.errors
    assert applied.retry_after == wait
    assert not applied.again
    assert world.answers.refusals == {}


@pytest.mark.long
async def test_a_failed_action_does_not_stop_the_others(world: World) -> None:
    world.fails("POST", "/jobs", failure(500, "", "x"))
    applied = await world.apply(world.create("f-a"), world.create("f-b"), status=RUNNING)
    assert len(applied.errors) == 1
    assert applied.status_written
    assert len(await world.cluster.jobs()) == 1


async def test_only_the_job_with_the_uid_is_deleted(world: World) -> None:
    job = await world.create_unseen_job()
    assert await world.apply(DeleteJob("f-a", "another")) == Applied()
    assert (await world.cluster.jobs()).keys() == {"f-a"}
    assert await world.apply(DeleteJob("f-a", job.metadata.uid)) == Applied()
    assert await world.apply(DeleteJob("f-a", job.metadata.uid)) == Applied()
    assert await world.cluster.jobs() == {}


async def test_a_flow_is_deleted_in_the_version_that_was_read(world: World) -> None:
    assert await world.apply(DeleteFlow(world.flow.metadata.uid)) == Applied()
    assert await world.cluster.flow_names() == []
    assert await world.apply(DeleteFlow(world.flow.metadata.uid)) == Applied(), "it is gone"


async def test_a_flow_that_has_changed_is_not_deleted_but_planned_again(world: World) -> None:
    await merge(world.cluster.client, JOBFLOWS, "f", {"metadata": {"labels": {"keep": "me"}}})
    outdated = Applied(again=True)
    assert await world.apply(DeleteFlow(world.flow.metadata.uid)) == outdated
    known = world.store.flows.get(NAMESPACE, "f")
    assert known.metadata.labels == {"keep": "me"}
    assert await world.cluster.flow_names() == ["f"]


async def test_another_flow_with_the_same_name_is_not_deleted(world: World) -> None:
    await world.cluster.client.delete(JOBFLOWS, NAMESPACE, "f")
    await world.cluster.apply(flow("f", {"a": ""}))
    assert (await world.apply(DeleteFlow(world.flow.metadata.uid))).again
    assert await world.cluster.flow_names() == ["f"]


async def test_a_flow_that_may_not_be_deleted_is_an_error(world: World) -> None:
    world.fails("DELETE", "/f", failure(403, "Forbidden", "no"))
    [error] = (await world.apply(DeleteFlow(world.flow.metadata.uid))).errors
    assert "no" in error


async def test_a_job_that_a_live_read_does_not_find_is_missing(world: World) -> None:
    assert (await world.apply(ReadJob("f-a"))).again
    assert world.answers.missing == {"f-a"}
    assert world.requests()[-2:] == ["GET f", "GET f-a"], "the flow is read before the job"


async def test_a_live_read_finds_a_job_that_the_watch_has_not_shown(world: World) -> None:
    await world.create_unseen_job()
    await world.apply(ReadJob("f-a"))
    assert world.answers.missing == set()
    assert world.store.jobs_of(world.flow.metadata.uid).keys() == {"f-a"}


@pytest.mark.parametrize("again", [False, True], ids=["gone", "created again"])
async def test_answers_about_a_replaced_flow_are_ignored(world: World, again: bool) -> None:
    await world.cluster.client.delete(JOBFLOWS, NAMESPACE, "f")
    if again:
        await world.cluster.apply(flow("f", {"a": ""}))
    await world.apply(ReadJob("f-a"))
    assert world.answers.missing == set()


async def test_a_status_is_written_only_to_the_version_of_its_plan(world: World) -> None:
    label = json.dumps({"metadata": {"labels": {"x": "y"}}}).encode()
    await world.cluster.client.patch(JOBFLOWS, NAMESPACE, "f", label)
    applied = await world.apply(status=RUNNING)
    assert (applied.again, applied.status_written, applied.errors) == (True, False, [])
    caught_up = world.store.flows.get(NAMESPACE, "f")
    assert caught_up.metadata.labels == {"x": "y"}
    world.flow = caught_up
    assert (await world.apply(status=RUNNING)).status_written
    assert (await world.cluster.flow("f")).status == RUNNING


async def test_the_status_of_a_deleted_flow_is_dropped_without_an_error(world: World) -> None:
    await world.cluster.client.delete(JOBFLOWS, NAMESPACE, "f")
    assert await world.apply(status=RUNNING) == Applied()


async def test_a_conflict_without_a_change_is_retried_with_a_backoff(world: World) -> None:
    world.fails("PATCH", "/status", failure(409, "Conflict", "busy"))
    applied = await world.apply(status=RUNNING)
    assert applied.errors
    assert not applied.again


async def test_a_plan_has_a_limited_number_of_concurrent_requests(world: World) -> None:
    in_progress, most = 0, 0
    request = world.cluster.client.request

    async def counting(*args: Any, **more: Any) -> bytes:
        nonlocal in_progress, most
        in_progress += 1
        most = max(most, in_progress)
        await asyncio.sleep(0)
        try:
            return await request(*args, **more)
        finally:
            in_progress -= 1

    world.cluster.client.request = counting  # type: ignore[method-assign]
    await world.apply(*(world.create(f"f-{number}") for number in range(50)))
    assert most == 16
    assert len(await world.cluster.jobs()) == 50


ABORT = AbortJob("f-a", "uid-a")


async def test_an_abort_is_a_command_that_the_job_owns(world: World) -> None:
    uid = (await world.create_unseen_job()).metadata.uid
    assert await world.apply(AbortJob("f-a", uid)) == Applied()
    [command] = await world.cluster.raw(COMMANDS)
    job = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "f-a", "uid": uid}
    assert (command["metadata"]["name"], command["action"]) == ("f-a-abort", "AbortJob")
    assert (command["target"], command["metadata"]["ownerReferences"]) == (job, [job])
    assert world.answers.aborts == {uid: NOW}


async def test_an_existing_abort_is_not_sent_again(world: World) -> None:
    abort = AbortJob("f-a", (await world.create_unseen_job()).metadata.uid)
    await world.apply(abort)
    world.answers.aborts.clear()
    assert await world.apply(abort) == Applied()
    assert world.cluster.count("POST", COMMANDS) == 1
    assert world.answers.aborts == {abort.uid: NOW}


@pytest.mark.parametrize("code", [403, 404, 422])
async def test_a_refused_abort_is_not_sent_again_at_once(world: World, code: int) -> None:
    world.fails("POST", "/commands", failure(code, "", "no"))
    assert await world.apply(ABORT) == Applied()
    assert world.answers.aborts == {"uid-a": NOW}


@pytest.mark.parametrize("error", [failure(500, "", "x"), failure(429, "", "x"), None])
async def test_an_abort_that_failed_is_retried(world: World, error: RequestFailure | None) -> None:
    world.fails("POST", "/commands", error)
    applied = await world.apply(ABORT)
    assert len(applied.errors) == 1
    assert world.answers.aborts == {}


async def test_a_command_is_deleted_by_its_uid(world: World) -> None:
    body = json.dumps({"metadata": {"name": "c"}, **KIND_OF_COMMAND}).encode()
    answer = await world.cluster.client.create(COMMANDS, NAMESPACE, body)
    uid = json.loads(answer)["metadata"]["uid"]
    assert await world.apply(DeleteCommand("c", "another")) == Applied()
    assert len(await world.cluster.raw(COMMANDS)) == 1
    assert await world.apply(DeleteCommand("c", uid)) == Applied()
    assert await world.cluster.raw(COMMANDS) == []
    assert await world.apply(DeleteCommand("c", uid)) == Applied()


async def test_flows_that_wait_for_a_released_name_are_found(world: World) -> None:
    job = await world.create_unseen_job(uid="another")
    world.memory.hold(world.flow, job, owner_alive=False, now=NOW)
    assert world.memory.released((NAMESPACE, "other")) == set()
    assert world.memory.released((NAMESPACE, "f-a")) == {(NAMESPACE, "f")}
    assert world.answers.holders == {}
    assert world.memory.released((NAMESPACE, "f-a")) == set()


async def test_answers_about_a_flow_are_dropped_with_it(world: World) -> None:
    job = await world.create_unseen_job(uid="another")
    world.memory.hold(world.flow, job, owner_alive=False, now=NOW)
    reborn = msgspec.structs.replace(
        world.flow, metadata=msgspec.structs.replace(world.flow.metadata, uid="second")
    )
    assert world.memory.of(reborn).holders == {}
    assert world.memory.released((NAMESPACE, "f-a")) == set()
    world.memory.forget((NAMESPACE, "f"))
    assert not world.memory._answers
