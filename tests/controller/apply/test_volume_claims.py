"""Creates of volume claims: the answers of the API server, and their effects."""

from datetime import timedelta

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import VOLUME_CLAIMS
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.manifests.volume_claims import build_claim
from jobflow.core.planning.actions import CreateClaim
from jobflow.core.planning.observed.view import ClaimHolder, Refusal
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.applier_world import NOW, World
from support.sandbox.running_controller import NAMESPACE

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
