"""Reviews of flows with owners and of flows that cancel others: what the user may do."""

from typing import Any

import pytest

from support.admission.admissions import FakeCluster, FakeRights, Response, respond, review, stored
from support.sandbox.manifests import jobflow
from support.sandbox.running_controller import cron

CONTROLLER = "system:serviceaccount:jobflow-system:jobflow"
ANN = {"username": "ann"}
THE_CONTROLLER = {"username": CONTROLLER}
NOT_A_CHILD = (
    'user "ann" may not make this flow a child of JobFlow p: only JobFlow\'s controller makes '
    "child flows; remove the owner reference or, if this user is the controller, start the "
    "replicas with --controller-user=ann"
)


def owner(kind: str = "JobFlow", name: str = "p", **fields: Any) -> dict[str, Any]:
    uid = f"uid-of-{name}"
    return {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": kind, "name": name, "uid": uid} | (
        fields or {"controller": True}
    )


def flow(*owners: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a stored flow with these owners."""
    return stored(jobflow("f", {"a": []}), **({"ownerReferences": [*owners]} if owners else {})) | (
        more
    )


MISFIT = {"status": {"state": 7}}
"""A status that does not fit the type, so that the review is one of plain JSON."""


async def answer(
    operation: str,
    new: dict[str, Any],
    old: dict[str, Any] | None = None,
    *,
    user: dict[str, Any] = ANN,
    lacks: str | None = None,
    gone: bool = False,
) -> tuple[Response, FakeRights]:
    rights = FakeRights(lacks, CONTROLLER)
    cluster = FakeCluster(gone={("p", "uid-of-p")} if gone else set())
    return await respond(review(operation, new, old, userInfo=user), cluster, rights), rights


CHILD = owner(controller=True, blockOwnerDeletion=True)


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (flow(CHILD), None),
        (flow(owner(blockOwnerDeletion=False)), None),
        (flow(CHILD | {"apiVersion": "v1"}), None),
        (flow(CHILD), flow()),
        (flow(CHILD), flow(owner(name="q", controller=False))),
        (flow(CHILD), flow(CHILD | {"uid": "another"})),
        (flow(CHILD), flow(CHILD | {"kind": "CronJobFlow"})),
        (flow(CHILD), flow(CHILD | {"controller": False})),
        (flow(CHILD, deletionTimestamp="2026-01-01T00:00:00Z"), flow()),
        (flow(CHILD, **MISFIT), flow(**MISFIT)),
    ],
)
async def test_only_the_controller_makes_child_flows(
    new: dict[str, Any], old: dict[str, Any] | None
) -> None:
    operation = "CREATE" if old is None else "UPDATE"
    refused, _ = await answer(operation, new, old)
    assert (refused.code, refused.message) == (403, NOT_A_CHILD)
    made, rights = await answer(operation, new, old, user=THE_CONTROLLER)
    assert made.allowed
    assert all("jobflows" not in right for right in rights.asked)


@pytest.mark.parametrize(
    "new",
    [
        flow(CHILD | {"blockOwnerDeletion": False}),
        flow({**CHILD, "apiVersion": "flow.volcano.sh/v1"}),
        flow(CHILD, owner("Job", "j", controller=False)),
        flow(CHILD, **MISFIT),
    ],
)
async def test_an_update_that_keeps_the_parent_is_allowed(new: dict[str, Any]) -> None:
    """The garbage collector changes blockOwnerDeletion, under a name that differs by cluster."""
    allowed, _ = await answer("UPDATE", new, flow(CHILD) | {"status": new.get("status", {})})
    assert allowed.allowed


@pytest.mark.parametrize("new", [flow(), flow(CHILD | {"controller": False})])
async def test_a_child_is_taken_from_its_parent_once_that_is_gone(new: dict[str, Any]) -> None:
    refused, _ = await answer("UPDATE", new, flow(CHILD))
    assert refused.code == 403
    assert refused.message == (
        'user "ann" may not remove the owner reference to JobFlow p, whose step runs this flow; '
        "delete that flow first"
    )
    assert (await answer("UPDATE", new, flow(CHILD), gone=True))[0].allowed
    assert (await answer("UPDATE", new, flow(CHILD), user=THE_CONTROLLER))[0].allowed


async def test_owners_that_cannot_be_read_are_refused() -> None:
    new = flow() | {"metadata": flow()["metadata"] | {"ownerReferences": [{"name": 7}]}}
    refused, _ = await answer("UPDATE", new, flow())
    assert (refused.allowed, refused.code) == (False, 400)


CRON = owner("CronJobFlow", "nightly")
REPLACE, WAIT = (
    {"concurrency": {"group": "nightly", "policy": policy}} for policy in ("Replace", "Wait")
)
OTHER_GROUP = {"concurrency": {"group": "mine", "policy": "Replace"}}
UPDATE_CRON = 'update cronjobflows.flow.volcano.sh "nightly" in namespace "default"'
UPDATE_FLOWS = 'update jobflows.flow.volcano.sh in namespace "default"'
CREATE_JOBS = 'create jobs.batch.volcano.sh in namespace "default"'


def with_spec(spec: dict[str, Any]) -> dict[str, Any]:
    return stored(jobflow("f", {"a": []}, **spec))


def schedule(spec: dict[str, Any], times: str = "@daily") -> dict[str, Any]:
    """Return a CronJobFlow of flows with this spec."""
    return stored(cron(schedule=times, jobFlowTemplate={"spec": with_spec(spec)["spec"]}))


@pytest.mark.parametrize(
    ("new", "old", "right"),
    [
        (flow(CRON), None, UPDATE_CRON),
        (flow(CRON | {"controller": False}), None, UPDATE_CRON),
        (flow(CRON), flow(), UPDATE_CRON),
        (flow(CRON), flow(CRON | {"name": "mine"}), UPDATE_CRON),
        (with_spec(REPLACE), None, UPDATE_FLOWS),
        (schedule(REPLACE), None, UPDATE_FLOWS),
        (schedule(REPLACE), schedule(WAIT), UPDATE_FLOWS),
        (schedule(REPLACE), schedule(OTHER_GROUP), UPDATE_FLOWS),
    ],
)
async def test_flows_that_act_on_others_need_the_right_to_update_these(
    new: dict[str, Any], old: dict[str, Any] | None, right: str
) -> None:
    operation = "CREATE" if old is None else "UPDATE"
    refused, rights = await answer(operation, new, old, lacks="you may not")
    assert (refused.code, refused.message) == (403, "you may not")
    assert rights.asked == [right]
    _, rights = await answer(operation, new, old, user=THE_CONTROLLER)
    assert right not in rights.asked


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (with_spec(WAIT), None),
        (schedule(WAIT), schedule(REPLACE)),
        (schedule(REPLACE, "@hourly"), schedule(REPLACE)),
        (flow(CRON | {"blockOwnerDeletion": True}), flow(CRON)),
        (flow(), flow(CRON)),
    ],
)
async def test_other_flows_need_no_right_on_flows(
    new: dict[str, Any], old: dict[str, Any] | None
) -> None:
    _, rights = await answer("CREATE" if old is None else "UPDATE", new, old)
    assert {CREATE_JOBS}.issuperset(rights.asked)
