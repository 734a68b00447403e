"""Reviews of flows that reuse others, and of what would change those that are reused."""

from typing import Any

import pytest

from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.webhook.review.commands import CommandReviewer
from support.admission.admissions import FakeCluster, FakeRights, Response, respond, review, stored
from support.admission.review_process import aside_of
from support.sandbox.manifests import jobflow

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
OTHER_UID = "705ab4f5-6393-11e8-b7cc-42010a800003"
CLAIMS = {"volumeClaims": {"data": {"accessModes": ["ReadWriteOnce"]}}}
GET = 'get jobflows.flow.volcano.sh "first" in namespace "default"'
UPDATE = 'update jobflows.flow.volcano.sh "first" in namespace "default"'
CREATE_JOBS = 'create jobs.batch.volcano.sh in namespace "default"'
CONTROLLER = "system:serviceaccount:jobflow-system:jobflow"
FORCED = {"annotations": {"flow.volcano.sh/force-delete": "true"}}


def first(phase: str = "Failed", *, status: Any = None, spec: Any = None, **meta: Any) -> Any:
    state = {"state": {"phase": phase}} | (status or {})
    manifest = jobflow("first", {"a": []}, **(spec or {}))
    return stored(manifest, status=state, **{"uid": UID} | meta)


def second(phase: str = "", *, uid: str | None = None, **meta: Any) -> dict[str, Any]:
    reuse = {"flow": "first"} | ({"uid": uid} if uid else {})
    manifest = jobflow("second", {"a": []}, reuse=reuse)
    return stored(manifest, status={"state": {"phase": phase}}, **meta)


async def answer(
    operation: str,
    obj: dict[str, Any],
    cluster: FakeCluster,
    rights: FakeRights | None = None,
    **request: Any,
) -> Response:
    new, old = (None, obj) if operation == "DELETE" else (obj, None)
    return await respond(review(operation, new, old, **request), cluster, rights or FakeRights())


SOURCE = first(spec=CLAIMS, status={"volumeClaims": ["first-data"]})
TAKER = stored(
    jobflow("third", {"a": []}, reuse={"flow": "first"}, **CLAIMS),
    status={
        "state": {"phase": "Succeed"},
        "reuse": {"flow": "first", "uid": UID},
        "reusedClaims": {"data": "first-data"},
    },
)


class TestCreates:
    @pytest.mark.parametrize("phase", ["Failed", "Succeed"])
    @pytest.mark.parametrize("uid", [None, UID])
    async def test_a_flow_that_has_ended_is_reused(self, phase: str, uid: str | None) -> None:
        assert (await answer("CREATE", second(uid=uid), FakeCluster(flows=[first(phase)]))).allowed

    @pytest.mark.parametrize(
        ("flows", "words"),
        [
            ([], "flow first does not exist; name another flow of this namespace that has ended"),
            (
                [first("Running")],
                "flow first is Running; wait until it has ended, or cancel it "
                "(`jobflow cancel first`)",
            ),
            (
                [first(deletionTimestamp="2026-01-01T00:00:00Z")],
                "flow first is being deleted; name",
            ),
            ([first(uid=OTHER_UID)], f"flow first has the UID {OTHER_UID}, so it is another flow"),
        ],
        ids=["missing", "running", "being deleted", "recreated"],
    )
    async def test_no_other_flow_is_reused(self, flows: list[Any], words: str) -> None:
        refused = await answer("CREATE", second(uid=UID), FakeCluster(flows=flows))
        (fault,) = refused.faults.items()
        assert fault[0] == "spec.reuse.flow"
        assert fault[1].startswith(f'Invalid value: "first": {words}')

    async def test_a_flow_whose_claims_another_one_has_is_spent(self) -> None:
        refused = await answer("CREATE", second(), FakeCluster(flows=[SOURCE, TAKER]))
        assert refused.faults["spec.reuse.flow"].endswith(
            "flow first is spent, because its volume claims belong to the flow third; name that "
            "one instead"
        )
        assert (await answer("CREATE", second(), FakeCluster(flows=[SOURCE]))).allowed

    async def test_the_child_flows_of_the_controller_are_not_refused(self) -> None:
        parent = {"apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "name": "p", "uid": "9"}
        child = second(ownerReferences=[parent | {"controller": True}])
        rights, user = FakeRights(controller=CONTROLLER), {"username": CONTROLLER}
        assert (await answer("CREATE", child, FakeCluster(), rights, userInfo=user)).allowed
        assert rights.asked == [CREATE_JOBS]

    async def test_a_large_flow_is_judged_in_the_same_way(self) -> None:
        cluster, new = FakeCluster(flows=[SOURCE, TAKER]), second()
        new["spec"]["flows"] = [{"name": f"s{i}", "env": {"x": "y" * 400}} for i in range(1_000)]
        body = review("CREATE", new)
        async with aside_of(cluster, FakeRights()) as reviews:
            large = await respond(body, cluster, large_reviews=reviews)
            assert reviews._process is not None
        assert large.faults == (await respond(body, cluster)).faults
        assert "is spent" in large.message


class TestRights:
    async def test_who_reuses_a_flow_may_read_it(self) -> None:
        rights = FakeRights("you may not")
        refused = await answer("CREATE", second(), FakeCluster(), rights)
        assert (refused.code, refused.message) == (403, "you may not")
        assert rights.asked == [GET]

    @pytest.mark.parametrize(
        "source",
        [first(spec=CLAIMS), first(status={"volumeClaims": ["first-data"]})],
        ids=["in its spec", "in its status"],
    )
    async def test_who_takes_the_claims_of_a_flow_may_update_it(self, source: Any) -> None:
        rights = FakeRights()
        assert (await answer("CREATE", second(), FakeCluster(flows=[source]), rights)).allowed
        assert rights.asked == [GET, UPDATE, CREATE_JOBS]

    async def test_a_flow_without_claims_needs_no_right_to_update(self) -> None:
        rights = FakeRights()
        await answer("CREATE", second(), FakeCluster(flows=[first()]), rights)
        assert rights.asked == [GET, CREATE_JOBS]


KEPT = (
    "flow first is reused by flow second: wait until it has ended or, to {} it anyway, "
    "`kubectl annotate jf first flow.volcano.sh/force-delete=true` and "
)
USED = FakeCluster(flows=[first(), second()])
UNUSED = {
    "its end": [second("Failed")],
    "another UID": [second(uid=OTHER_UID)],
    "no flow": [],
}


class TestDeletes:
    async def test_a_flow_that_is_reused_is_kept(self) -> None:
        refused = await answer("DELETE", first(), USED)
        assert (refused.code, refused.status["reason"]) == (403, "Forbidden")
        assert refused.message.endswith(f"{KEPT.format('delete')}delete it again")

    @pytest.mark.parametrize("flows", UNUSED.values(), ids=UNUSED)
    async def test_a_flow_that_is_not_reused_is_deleted(self, flows: list[Any]) -> None:
        assert (await answer("DELETE", first(), FakeCluster(flows=[first(), *flows]))).allowed

    async def test_the_annotation_and_the_end_of_the_namespace_are_the_way_out(self) -> None:
        assert (await answer("DELETE", first(**FORCED), USED)).allowed
        terminating = FakeCluster(flows=USED.flows, terminating=True)
        assert (await answer("DELETE", first(), terminating)).allowed

    async def test_a_child_flow_that_is_reused_is_deleted_with_its_parent(self) -> None:
        parent = {"apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "name": "p", "uid": "9"}
        child = first(ownerReferences=[parent | {"controller": True}])
        assert (await answer("DELETE", child, USED)).code == 403
        orphaned = FakeCluster(flows=USED.flows, gone={("p", "9")})
        assert (await answer("DELETE", child, orphaned)).allowed


class TestCommands:
    async def send(self, *flows: dict[str, Any], uid: str = UID) -> Response:
        target = {"apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "name": "first"}
        command = {
            "apiVersion": COMMANDS.api_version,
            "kind": "Command",
            "metadata": {"name": "c"},
            "action": "RestartJob",
            "target": target | {"uid": uid},
        }
        body = review("CREATE", command, kind="Command", group="bus.volcano.sh")
        return Response(
            await CommandReviewer(FakeCluster(flows=[*flows]), FakeRights()).review(body)
        )

    async def test_a_flow_that_is_reused_gets_none(self) -> None:
        refused = await self.send(first(), second())
        assert (refused.code, refused.message) == (403, f"{KEPT.format('change')}try again")

    async def test_a_flow_whose_claims_have_moved_gets_none(self) -> None:
        refused = await self.send(SOURCE, TAKER)
        assert (refused.code, refused.message) == (
            403,
            "JobFlow first is spent, because its volume claims belong to the flow third: retry "
            "that one, or resubmit first",
        )

    @pytest.mark.parametrize("flows", UNUSED.values(), ids=UNUSED)
    async def test_a_flow_that_is_not_reused_gets_them(self, flows: list[Any]) -> None:
        assert (await self.send(first(), *flows)).allowed

    async def test_the_annotation_is_the_way_out(self) -> None:
        assert (await self.send(first(**FORCED), second())).allowed

    async def test_a_flow_that_runs_gets_them(self) -> None:
        assert (await self.send(first("Running"), second())).allowed

    async def test_a_child_flow_gets_those_of_its_parent(self) -> None:
        parent = {"apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "name": "p", "uid": "9"}
        child = first(ownerReferences=[parent | {"controller": True}])
        assert (await self.send(child, second())).allowed
