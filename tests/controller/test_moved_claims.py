"""Volume claims move to the flow that reuses another one, before anything else happens."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import EVENTS, JOBFLOWS, JOBS, VOLUME_CLAIMS, Object
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.crashing_requests import first_life, points
from support.sandbox.running_controller import NAMESPACE, Cluster, cluster, flow, template

DATA = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


class Happened(Object):
    """An Event."""

    reason: str = ""
    message: str = ""


STEPS = {"load": "", "train": "load", "plain": ""}


def mounting(name: str, *, image: str = "busybox") -> dict[str, Any]:
    """A template whose container mounts `data`, which its pod does not define."""
    made = template(name)
    (container,) = made["spec"]["tasks"][0]["template"]["spec"]["containers"]
    container |= {"image": image, "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    return made


def using(name: str, after: str = "", **spec: Any) -> dict[str, Any]:
    """A flow with a volume claim, of which `load` and `train` mount it."""
    more = {"reuse": {"flow": after}} if after else {}
    return flow(name, STEPS, **{"volumeClaims": {"data": DATA}, **more, **spec})


async def owners(world: Cluster) -> dict[str, str]:
    """Return the owner of each claim."""
    found = await world.raw(VOLUME_CLAIMS)
    metas = [each["metadata"] for each in found]
    return {m["name"]: (m.get("ownerReferences") or [{"name": ""}])[0]["name"] for m in metas}


def reused(done: JobFlow) -> list[str]:
    """Return the steps that took an earlier result."""
    prefix = f"{done.metadata.name}-"
    conditions = (done.status.conditions or {}).items()
    return sorted(key.removeprefix(prefix) for key, c in conditions if c.reason == "Reused")


async def mounted(world: Cluster, job: str) -> list[str]:
    """Return the claims in the volumes of a vcjob's pods."""
    (found,) = [each for each in await world.raw(JOBS) if each["metadata"]["name"] == job]
    pod = found["spec"]["tasks"][0]["template"]["spec"]
    return [each["persistentVolumeClaim"]["claimName"] for each in pod["volumes"]]


async def events(world: Cluster, reason: str) -> str:
    """Wait for an Event with this reason, and return its message."""
    found = await world.seen(
        EVENTS, Happened, lambda all_: any(e.reason == reason for e in all_.values())
    )
    return next(each.message for each in found.values() if each.reason == reason)


@asynccontextmanager
async def after_first(*, runs: bool = True, **phases: str) -> AsyncIterator[Cluster]:
    """A world in which `train` of the flow `first` has failed. `runs`: whether the controller runs
    from then on; `phases`: how further vcjobs end."""
    async with cluster() as world:
        await world.apply(mounting("load"), mounting("train"), template("plain"))
        await world.apply(using("first"))
        ends = {"first-train": "Failed"} | {k.replace("_", "-"): v for k, v in phases.items()}
        async with world.ends(ends):
            async with world.controller():
                await world.ended("first")
                if runs:
                    yield world
            if not runs:
                yield world


async def test_the_claim_moves_and_what_failed_runs_on_it() -> None:
    async with after_first() as world:
        assert await owners(world) == {"first-data": "first"}
        await world.apply(using("second", "first"))
        done = await world.ended("second")
        assert reused(done) == ["load", "plain"]
        assert await owners(world) == {"first-data": "second"}
        assert done.status.reused_claims == {"data": "first-data"}
        assert done.status.volume_claims == ["first-data"]
        assert await mounted(world, "second-train") == ["first-data"]


@pytest.mark.parametrize("how", ["differs", "gone", "of nobody"])
async def test_runs_on_a_claim_that_does_not_move_are_not_reused(how: str) -> None:
    async with after_first() as world:
        claim = VOLUME_CLAIMS, NAMESPACE, "first-data"
        data = {**DATA, "storageClassName": "fast"} if how == "differs" else DATA
        if how == "gone":
            await world.client.delete(*claim)
        if how == "of nobody":
            changes = {"metadata": {"ownerReferences": None}}
            await world.client.patch(*claim, json.dumps(changes).encode())
        await world.apply(using("second", "first", volumeClaims={"data": data}))
        done = await world.ended("second")
        assert reused(done) == ["plain"]
        assert (await owners(world))["second-data"] == "second"
        assert (await owners(world)).get("first-data", "first") == ("" if "of" in how else "first")
        assert done.status.reused_claims is None
        assert await mounted(world, "second-load") == ["second-data"]
        if how != "differs":
            why = "is gone" if how == "gone" else "belongs to no flow"
            said = f"volume claim first-data {why}, so what mounts it runs again, on a new claim"
            assert await events(world, "VolumeClaimNotMoved") == said


async def test_a_claim_moves_through_a_chain_of_flows_and_stays_over_retries() -> None:
    async with after_first(second_train="Failed", third_train="Failed") as world:
        for name, before in (("second", "first"), ("third", "second")):
            await world.apply(using(name, before))
            done = await world.ended(name)
            assert (reused(done), await owners(world)) == (["load", "plain"], {"first-data": name})
        await world.order("RestartJob", flow="third")
        done = await world.until("third", lambda f: f.status.state.phase == "Succeed")
        assert done.status.reused_claims == {"data": "first-data"}
        assert await mounted(world, "third-train-r1") == ["first-data"]


NAMED = "$(flow.claims.data) $(flow.name)-data $(vars.claim)"
SHOWING = {
    "name": "show",
    "vars": {"claim": 'flow.claims["data"]'},
    "container": {"image": "busybox", "args": [NAMED]},
    "volumes": [{"name": "own", "persistentVolumeClaim": {"claimName": "$(flow.name)-data"}}],
}
PASSING = {
    "name": "pass",
    "dependsOn": {"targets": ["show"]},
    "flow": {
        "params": {"claim": "$(flow.claims.data)"},
        "flows": [
            {
                "name": "child",
                "container": {"image": "busybox"},
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "$(params.claim)"}}
                ],
            }
        ],
    },
}


async def test_pods_references_and_child_flows_get_the_real_name_of_a_claim() -> None:
    async with after_first() as world:
        await world.apply(using("second", "first", flows=[SHOWING, PASSING]))
        await world.ended("second")
        (made,) = [
            each for each in await world.raw(JOBS) if each["metadata"]["name"] == "second-show"
        ]
        pod = made["spec"]["tasks"][0]["template"]["spec"]
        assert pod["containers"][0]["args"] == ["first-data second-data first-data"]
        assert await mounted(world, "second-show") == ["first-data"]
        assert await mounted(world, "second-pass-child") == ["first-data"]


async def test_a_claim_among_the_params_of_a_child_flow_is_created_before_it() -> None:
    async with after_first() as world:
        await world.apply(using("other", flows=[{**PASSING, "dependsOn": None}]))
        await world.ended("other")
        assert await mounted(world, "other-pass-child") == ["other-data"]
        assert (await owners(world))["other-data"] == "other"


async def test_of_two_flows_at_once_one_gets_the_claim() -> None:
    async with after_first() as world:
        await world.apply(using("second", "first"), using("third", "first"))
        done = [await world.ended(name) for name in ("second", "third")]
        assert sorted(map(reused, done)) == [["load", "plain"], ["plain"]]
        has_it, other = sorted(done, key=lambda each: each.status.reused_claims is None)
        names = has_it.metadata.name, other.metadata.name
        assert await owners(world) == {"first-data": names[0], f"{names[1]}-data": names[1]}


async def test_a_flow_whose_claims_moved_is_neither_reused_nor_retried() -> None:
    async with after_first() as world:
        await world.apply(using("second", "first"))
        await world.ended("second")
        await world.apply(using("third", "first"))
        third = (await world.ended("third")).status
        assert third.state.reason == "ReuseNotFound"
        assert "its volume claims belong to the flow second" in third.state.message
        await world.order("RestartJob", name="retry", flow="third")
        again = await world.until("third", lambda f: f.final and f.status != third)
        assert again.status.state == third.state
        await world.order("RestartJob", flow="first")
        said = await events(world, "CommandRefused")
        assert "is spent, because its volume claims belong to the flow second: retry that" in said


async def test_a_name_that_a_moved_claim_has_gets_a_suffix() -> None:
    async with after_first() as world:
        await world.apply(using("second", "first"))
        await world.ended("second")
        await world.client.delete(JOBFLOWS, NAMESPACE, "first")
        await world.seen(JOBFLOWS, JobFlow, lambda flows: "first" not in flows)
        await world.apply(using("first"))
        done = await world.ended("first")
        (name,) = done.status.volume_claims or ()
        assert name.startswith("first-data-") and done.status.reused_claims == {"data": name}
        assert await owners(world) == {"first-data": "second", name: "first"}
        # and back
        await world.apply(using("third", "second"))
        await world.ended("third")
        await world.client.delete(JOBFLOWS, NAMESPACE, "first")
        await world.seen(JOBFLOWS, JobFlow, lambda flows: "first" not in flows)
        await world.apply(using("first", "third"))
        done = await world.ended("first")
        assert (reused(done), done.status.reused_claims) == (["load", "plain", "train"], None)
        assert (await owners(world))["first-data"] == "first"


async def test_a_claim_that_is_gone_gets_another_name_than_that_of_old_results() -> None:
    async with after_first() as world:
        await world.apply(using("second", "first"))
        await world.ended("second")
        for resource, name in ((JOBFLOWS, "first"), (VOLUME_CLAIMS, "first-data")):
            await world.client.delete(resource, NAMESPACE, name)
        await world.seen(JOBFLOWS, JobFlow, lambda flows: "first" not in flows)
        await world.apply(using("first", "second"))
        done = await world.ended("first")
        assert reused(done) == ["plain"]
        assert (done.status.reused_claims or {})["data"].startswith("first-data-")


async def test_a_move_that_is_refused_is_tried_again_and_said() -> None:
    async with after_first() as world:
        world.fails("PUT", "/first-data", failure(403, "Forbidden", "no right to update"), times=1)
        await world.apply(using("second", "first"))
        held = await world.until("second", lambda f: f.status.state.reason == "CreateRefused")
        assert (
            "first-data cannot be moved from the flow first: no right" in held.status.state.message
        )
        assert not [name for name in await world.jobs() if name.startswith("second-")]
        assert reused(await world.ended("second")) == ["load", "plain"]


async def test_an_error_of_a_move_is_shown_and_the_claim_moves_once_it_is_over() -> None:
    async with after_first() as world:
        broken = failure(500, "InternalError", "etcdserver: mvcc: database space exceeded")
        world.fails("PUT", "/first-data", broken, times=None)
        await world.apply(using("second", "first"))
        held = await world.until("second", lambda f: f.status.state.reason == "CreateRefused")
        what = "the volume claim first-data cannot be moved from the flow first: the API server"
        text = f"{what} answers with an error: 500 InternalError: etcdserver: mvcc"
        assert text in held.status.state.message
        assert text in await events(world, "CreateRefused")
        world.server.faults.clear()
        assert reused(await world.ended("second")) == ["load", "plain"]


@pytest.mark.usefixtures("events_at_once")
@pytest.mark.law
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_the_claim_moves_again_wherever_the_controller_crashes(after: bool) -> None:
    for point in points(after, after=after):
        async with after_first(runs=False, second_train="Failed") as world:
            await world.apply(using("second", "first"))
            async with world.controller():
                await world.ended("second")
            await world.apply(using("f", "second"))
            reached = await first_life(world, point)
            async with world.controller():
                done = await world.ended("f")
            assert reused(done) == ["load", "plain"], point
            assert await owners(world) == {"first-data": "f"}, point
            assert world.count("POST", JOBS) == 5, point
        if not reached:
            break
    assert point.number >= 8, "the crash points ran out early"
