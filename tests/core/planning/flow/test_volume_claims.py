"""`spec.volumeClaims`: a claim exists before the first job that mounts it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobflow.api.flow.control import Backoff, Param, Retry
from jobflow.api.resources import OwnerReference
from jobflow.core.planning.actions import CreateClaim, CreateJob
from jobflow.core.planning.observed.view import ClaimHolder, CreateError, Refusal
from support.plan.plan_world import World, flow
from support.plan.steps import mounting, step, template
from support.plan.world_state import NOW

SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def world_with(world: World, *mounts: str, **claims: object) -> World:
    """Each step whose name is in `mounts` mounts all claims."""
    made = {name: template(name, mounting(*claims)) for name in mounts}
    return replace(
        world.with_spec(volume_claims=claims or {"data": SPEC}),
        templates={**world.templates, **made},
    )


def mounted(world: World, name: str) -> list[str]:
    """Return the claims of a job's pods."""
    create = next(
        action
        for action in world.plan().plan.actions
        if isinstance(action, CreateJob) and action.name == name
    )
    pod = create.manifest["spec"]["tasks"][0]["template"]["spec"]
    return [each["persistentVolumeClaim"]["claimName"] for each in pod.get("volumes", ())]


def test_a_claim_is_created_before_the_first_job_that_mounts_it() -> None:
    world = world_with(flow("a"), "a", data=SPEC)
    planned = world.plan()
    assert (planned.claims, planned.creates) == (["f-data"], [])
    assert planned.held_up == {"a": "Starting"}
    assert planned.conditions["a"].message == "the volume claim f-data is being created"
    after = world.apply(planned)
    assert after.plan().creates == ["f-a"]
    assert mounted(after, "f-a") == ["f-data"]


def test_the_flow_owns_the_claim() -> None:
    world = world_with(flow("a"), "a", data={**SPEC, "storageClassName": "$(params.class)"})
    world = world.with_spec(params=[Param(name="class", value="fast")])
    (claim,) = [a for a in world.plan().plan.actions if isinstance(a, CreateClaim)]
    assert claim.manifest["spec"] == {**SPEC, "storageClassName": "fast"}
    metadata = claim.manifest["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("f-data", "ns")
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("JobFlow", "uid-f", True)


def test_a_claim_that_no_job_mounts_is_not_created() -> None:
    world = world_with(flow("a", b="a"), "b", data=SPEC)
    planned = world.plan()
    assert (planned.claims, planned.creates) == ([], ["f-a"])
    later = world.apply(planned).with_jobs(a="Completed").stored()
    assert later.plan().claims == ["f-data"]


def test_several_jobs_ask_for_a_claim_once() -> None:
    planned = world_with(flow("a", "b"), "a", "b", data=SPEC).plan()
    assert (planned.claims, planned.creates) == (["f-data"], [])


def test_the_status_remembers_claims_so_that_a_deleted_one_does_not_come_back() -> None:
    world = world_with(flow("a", b="a"), "a", "b", data=SPEC).settled()
    assert world.flow.status.volume_claims == ["f-data"]
    forgotten = replace(world, claims={}).with_jobs(a="Completed")
    planned = forgotten.stored().plan()
    assert (planned.claims, planned.creates) == ([], ["f-b"])


def test_a_retry_of_the_flow_creates_a_missing_claim_again() -> None:
    world = world_with(flow("a"), "a", data=SPEC).run(lambda name: "Failed")
    retried = replace(world, claims={}).with_command("RestartJob").stored()
    assert retried.flow.status.volume_claims is None
    assert retried.plan().claims == ["f-data"]


def test_an_event_names_the_created_claims() -> None:
    world = world_with(flow("a"), "a", data=SPEC, logs=SPEC)
    (event,) = [e for e in world.apply().plan().plan.events if e.reason == "VolumeClaimCreated"]
    assert event.message == "created volume claims f-data and f-logs"


def test_a_refused_claim_holds_back_only_jobs_that_mount_it() -> None:
    world = world_with(flow("a", "b"), "a", data=SPEC)
    full = Refusal(403, "exceeded quota: storage", NOW + timedelta(seconds=5))
    planned = world.with_claim("f-data", full).plan()
    assert (planned.claims, planned.creates) == ([], ["f-b"])
    assert planned.held_up["a"] == "CreateRefused"
    message = "the volume claim f-data was refused: exceeded quota: storage"
    assert planned.conditions["a"].message == message
    assert planned.reason == "CreateRefused"
    assert planned.plan.requeue_after == timedelta(seconds=5)
    due = world.with_claim("f-data", full).later(5).plan()
    assert due.claims == ["f-data"]
    assert due.held_up["a"] == "CreateRefused"


def test_an_error_of_the_create_of_a_claim_is_shown_after_five_seconds() -> None:
    """The create is sent again meanwhile, in the backoff of the flow."""
    text = "the API server answers with an error: 500 InternalError: etcdserver: mvcc"
    world = world_with(flow("a"), "a", data=SPEC).with_claim("f-data", CreateError(text, NOW))
    early, late = world.plan(), world.later(5).plan()
    assert early.held_up == {"a": "Starting"}
    assert late.held_up == {"a": "CreateRefused"}
    assert late.conditions["a"].message == f"the volume claim f-data cannot be created: {text}"
    assert early.claims == late.claims == ["f-data"]
    assert "CreateRefused" in late.events


def test_a_claim_that_the_api_server_calls_invalid_fails_the_step() -> None:
    world = world_with(flow("a"), "a", data=SPEC)
    planned = world.with_claim("f-data", Refusal(422, "no such class", None)).plan()
    assert planned.failed == {"a": "Refused"}
    assert planned.conditions["a"].message.endswith("f-data was refused: no such class")


OTHER = OwnerReference(api_version="flow.volcano.sh/v1alpha1", kind="JobFlow", name="g", uid="g")


@pytest.mark.parametrize(("owner", "whose"), [(OTHER, "JobFlow g"), (None, "no flow")])
def test_a_claim_of_somebody_else_fails_the_step(owner: OwnerReference | None, whose: str) -> None:
    holder = ClaimHolder(owner, going=False, retry_at=NOW)
    planned = world_with(flow("a"), "a", data=SPEC).with_claim("f-data", holder).plan()
    assert planned.failed == {"a": "NameConflict"}
    assert f"exists already and belongs to {whose}: delete it" in planned.conditions["a"].message


def test_a_claim_that_is_being_deleted_is_waited_for() -> None:
    holder = ClaimHolder(OTHER, going=True, retry_at=NOW + timedelta(seconds=2))
    world = world_with(flow("a"), "a", data=SPEC).with_claim("f-data", holder)
    assert world.plan().held_up == {"a": "NameInUse"}
    assert world.plan().claims == []
    assert world.later(2).plan().claims == ["f-data"]


def test_a_job_whose_claim_is_being_created_keeps_its_room() -> None:
    world = world_with(flow("a", "b"), "a", data=SPEC).with_spec(parallelism=1)
    planned = world.plan()
    assert (planned.claims, planned.creates) == (["f-data"], [])
    assert planned.held_up == {"a": "Starting", "b": "Parallelism"}
    refused = Refusal(403, "exceeded quota", NOW + timedelta(seconds=5))
    assert world.with_claim("f-data", refused).plan().creates == ["f-b"]


def test_a_suspended_flow_creates_no_claim() -> None:
    world = world_with(flow("a"), "a", data=SPEC).with_spec(suspend=True)
    assert world.plan().claims == []


def test_a_retried_step_mounts_the_same_claim() -> None:
    retry = Retry(limit=1, backoff=Backoff(duration="0s"))
    world = world_with(flow(a=step(retry=retry)), "a", data=SPEC).settled()
    again = world.ended("f-a", "Failed").settled()
    assert "f-a-r1" in again.jobs
