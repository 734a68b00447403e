"""Creates of volume claims: the answers of the API server, and their effects."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import VOLUME_CLAIMS
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.manifests.volume_claims import build_claim
from jobflow.core.planning.actions import CreateClaim, MoveClaim
from jobflow.core.planning.observed.view import ClaimHolder, CreateError, Refusal
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.applier_world import NOW, World
from support.sandbox.running_controller import NAMESPACE
from support.sandbox.running_controller import flow as jobflow

LATER = NOW + timedelta(seconds=1)
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def claim_of(flow: JobFlow) -> CreateClaim:
    changed = msgspec.structs.replace(flow.spec, volume_claims={"data": CLAIM})
    manifest = build_claim(msgspec.structs.replace(flow, spec=changed), "data")
    assert not isinstance(manifest, EvaluationFailure)
    return CreateClaim("f-data", manifest)


async def test_a_claim_is_created_once(world: World) -> None:
    action = claim_of(world.flow)
    assert (await world.apply(action)).again
    assert world.answers.claims == {"f-data": None}
    world.answers.claims.clear()  # another process
    await world.apply(action)
    assert world.answers.claims == {"f-data": None}
    assert len(await world.cluster.raw(VOLUME_CLAIMS)) == 1


async def test_a_claim_of_somebody_else_is_left_alone(world: World) -> None:
    action = claim_of(world.flow)
    metadata = {**action.manifest["metadata"], "ownerReferences": []}
    foreign = {**action.manifest, "metadata": metadata}
    await world.cluster.client.create(VOLUME_CLAIMS, NAMESPACE, msgspec.json.encode(foreign))
    await world.apply(action)
    assert world.answers.claims == {"f-data": ClaimHolder(None, going=False, retry_at=LATER)}


async def test_a_claim_of_an_earlier_flow_is_waited_for(world: World) -> None:
    action = claim_of(world.flow)
    (owner,) = action.manifest["metadata"]["ownerReferences"]
    owners = {"ownerReferences": [{**owner, "uid": "earlier"}], "finalizers": ["test/hold"]}
    metadata = {**action.manifest["metadata"], **owners}
    earlier = {**action.manifest, "metadata": metadata}
    await world.cluster.client.create(VOLUME_CLAIMS, NAMESPACE, msgspec.json.encode(earlier))
    await world.apply(action)
    holder = world.answers.claims["f-data"]
    assert isinstance(holder, ClaimHolder) and holder.going


async def test_a_refused_claim_is_tried_again_after_a_backoff(world: World) -> None:
    world.fails("POST", "/persistentvolumeclaims", failure(403, "Forbidden", "exceeded quota"))
    applied = await world.apply(claim_of(world.flow))
    assert (applied.again, applied.errors) == (True, [])
    assert world.answers.claims == {"f-data": Refusal(403, "exceeded quota", LATER)}


async def test_an_error_of_a_create_is_remembered_since_the_first(world: World) -> None:
    broken = failure(500, "InternalError", "etcdserver: mvcc")
    for message in ("etcdserver: mvcc", "shutting down"):
        world.fails("POST", "/persistentvolumeclaims", broken)
        applied = await world.apply(claim_of(world.flow))
        assert applied.failed == {"CreateClaim f-data"}
        broken = failure(503, "ServiceUnavailable", "shutting down")
        told = world.answers.claims["f-data"]
        assert isinstance(told, CreateError) and told.since == NOW
        assert told.message.startswith("the API server answers with an error: 50")
        assert told.message.endswith(message)
    await world.apply(claim_of(world.flow))
    assert world.answers.claims == {"f-data": None}


async def claim_of_first(world: World, **metadata: Any) -> tuple[str, dict[str, Any]]:
    """Create a flow `first` and its claim f-data; return the UID of the flow, and the claim."""
    await world.cluster.apply(jobflow("first", {"a": ""}))
    uid = (await world.cluster.flow("first")).metadata.uid
    manifest = claim_of(world.flow).manifest
    (ours,) = manifest["metadata"]["ownerReferences"]
    owners = [{**ours, "name": "first", "uid": uid}]
    body = {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": owners, **metadata}}
    stored = await world.cluster.client.create(VOLUME_CLAIMS, NAMESPACE, msgspec.json.encode(body))
    return uid, msgspec.json.decode(stored, type=dict[str, Any])


async def test_a_move_changes_only_the_owner(world: World) -> None:
    uid, before = await claim_of_first(world, labels={"a": "b"}, finalizers=["test/hold"])
    assert (await world.apply(MoveClaim("f-data", uid))).again
    assert world.answers.claims == {"f-data": None}
    (after,) = await world.cluster.raw(VOLUME_CLAIMS)
    assert [each["name"] for each in after["metadata"]["ownerReferences"]] == ["f"]
    for each in (before, after):
        for field in ("ownerReferences", "resourceVersion", "managedFields"):
            each["metadata"].pop(field, None)
    assert after == before


async def test_a_move_whose_answer_was_lost_is_found_again(world: World) -> None:
    uid, _ = await claim_of_first(world)
    for _ in range(2):
        await world.apply(MoveClaim("f-data", uid))
        assert world.answers.claims == {"f-data": None}
        world.answers.claims.clear()
    assert world.cluster.count("PUT", VOLUME_CLAIMS) == 1


async def test_of_two_moves_at_once_one_is_too_late(world: World) -> None:
    uid, _ = await claim_of_first(world)
    world.fails("PUT", "/f-data", failure(409, "Conflict", "the object has been modified"))
    applied = await world.apply(MoveClaim("f-data", uid))
    assert applied.failed == {"MoveClaim f-data"}
    assert isinstance(world.answers.claims["f-data"], CreateError)
    await world.apply(MoveClaim("f-data", uid))
    assert world.answers.claims == {"f-data": None}


@pytest.mark.parametrize("exists", [True, False])
async def test_a_claim_of_another_flow_does_not_move(world: World, exists: bool) -> None:
    if exists:
        await claim_of_first(world)
    await world.apply(MoveClaim("f-data", "another"))
    assert isinstance(world.answers.claims["f-data"], ClaimHolder)
    assert world.cluster.count("PUT", VOLUME_CLAIMS) == 0
