"""Owner references, finalizers and namespaces on both servers."""

from typing import Any

import pytest

from support.sandbox.rest_client import NAMESPACES, event, flow, vcjob
from support.sandbox.servers import Server


def is_missing(found: Any) -> bool:
    return found is None


async def create_flow_and_job(api: Server) -> None:
    """Create the flow f and its vcjob j."""
    owner = await api.create(api.flows, flow("f"))
    await api.create(api.vcjobs, vcjob("j", owner))


class TestPropagation:
    @pytest.mark.parametrize("policy", ["Background", None])
    async def test_dependents_are_deleted_after_their_owner(
        self, api: Server, policy: str | None
    ) -> None:
        await create_flow_and_job(api)
        options = {"propagationPolicy": policy} if policy else None
        answer = await api.delete(f"{api.flows}/f", options)
        assert answer.json["status"] == "Success"
        assert (await api.get(f"{api.flows}/f")).code == 404
        await api.until(f"{api.vcjobs}/j", is_missing)

    async def test_foreground_deletion_waits_for_dependents(self, api: Server) -> None:
        await create_flow_and_job(api)
        await api.patch(f"{api.vcjobs}/j", {"metadata": {"finalizers": ["example.com/hold"]}})
        answer = await api.delete(f"{api.flows}/f", {"propagationPolicy": "Foreground"})
        assert answer.json["kind"] == "JobFlow"
        assert answer.meta["finalizers"] == ["foregroundDeletion"]
        await api.until(
            f"{api.vcjobs}/j", lambda job: job["metadata"].get("deletionTimestamp") is not None
        )
        assert (await api.get(f"{api.flows}/f")).code == 200
        await api.patch(f"{api.vcjobs}/j", {"metadata": {"finalizers": None}})
        await api.until(f"{api.flows}/f", is_missing)
        assert (await api.get(f"{api.vcjobs}/j")).code == 404

    async def test_orphans_lose_their_owner_reference(self, api: Server) -> None:
        await create_flow_and_job(api)
        answer = await api.delete(f"{api.flows}/f", {"propagationPolicy": "Orphan"})
        assert answer.meta["finalizers"] == ["orphan"]
        await api.until(f"{api.flows}/f", is_missing)
        job = (await api.get(f"{api.vcjobs}/j")).json
        assert "ownerReferences" not in job["metadata"]

    async def test_an_owner_with_another_uid_does_not_count(self, api: Server) -> None:
        owner = await api.create(api.flows, flow("f"))
        await api.delete(f"{api.flows}/f")
        await api.create(api.flows, flow("f"))
        await api.create(api.vcjobs, vcjob("j", owner))
        await api.until(f"{api.vcjobs}/j", is_missing)
        assert (await api.get(f"{api.flows}/f")).code == 200

    async def test_a_dependent_exists_until_its_last_owner_is_deleted(self, api: Server) -> None:
        first = await api.create(api.flows, flow("f"))
        second = await api.create(api.flows, flow("g"))
        await api.create(api.vcjobs, vcjob("j", first, second))
        await api.delete(f"{api.flows}/f")
        job = await api.until(
            f"{api.vcjobs}/j", lambda job: len(job["metadata"]["ownerReferences"]) == 1
        )
        assert job["metadata"]["ownerReferences"][0]["name"] == "g"
        await api.delete(f"{api.flows}/g")
        await api.until(f"{api.vcjobs}/j", is_missing)


class TestNamespace:
    async def test_a_namespace_is_deleted_after_its_contents(self, api: Server) -> None:
        await create_flow_and_job(api)
        answer = await api.delete(api.home)
        assert answer.code == 200 and answer.json["status"]["phase"] == "Terminating"
        assert answer.json["spec"]["finalizers"] == ["kubernetes"]
        await api.until(api.home, is_missing)
        assert (await api.get(api.flows)).names == (await api.get(api.vcjobs)).names == []

    async def test_a_terminating_namespace_refuses_new_objects(self, api: Server) -> None:
        await api.create(api.flows, flow("f", finalizers=["example.com/hold"]))
        await api.delete(api.home)
        answer = await api.post(api.flows, flow("g"))
        assert (answer.code, answer.reason) == (403, "Forbidden")
        assert answer.message == (
            'jobflows.flow.volcano.sh "g" is forbidden: unable to create new content in namespace '
            f"{api.namespace} because it is being terminated"
        )
        cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
        cause["message"] = f"namespace {api.namespace} is being terminated"
        details = {"name": "g", "group": "flow.volcano.sh", "kind": "jobflows"}
        assert answer.json["details"] == {**details, "causes": [cause]}
        await api.until(
            f"{api.flows}/f", lambda obj: obj["metadata"].get("deletionTimestamp") is not None
        )
        assert (await api.get(api.home)).code == 200
        await api.patch(f"{api.flows}/f", {"metadata": {"finalizers": None}})
        await api.until(api.home, is_missing)

    async def test_a_new_namespace_has_a_label_and_a_phase(self, api: Server) -> None:
        namespace = (await api.get(api.home)).json
        assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": api.namespace}
        assert namespace["status"] == {"phase": "Active"}
        answer = await api.post(NAMESPACES, {"metadata": {"name": "A.b"}})
        assert (answer.code, answer.reason) == (422, "Invalid")
        answer = await api.delete(f"{NAMESPACES}/default")
        assert (answer.code, answer.reason) == (403, "Forbidden")
        assert answer.message == (
            'namespaces "default" is forbidden: this namespace may not be deleted'
        )


async def test_events_are_created_and_updated(api: Server) -> None:
    owner = await api.create(api.flows, flow("f"))
    time = "2026-01-01T00:00:00Z"
    times = {"count": 1, "firstTimestamp": time, "lastTimestamp": time}
    manifest = event(owner, "f.1", reason="Started", message="it has", **times)
    about = manifest["involvedObject"]
    created = await api.create(api.events, manifest)
    assert created["count"] == 1 and created["involvedObject"] == about
    patched = await api.patch(f"{api.events}/f.1", {"count": 2, "message": "it has, again"})
    assert patched.json["count"] == 2
    selected = await api.get(
        api.events, fieldSelector=f"involvedObject.uid={about['uid']},involvedObject.kind=JobFlow"
    )
    assert selected.names == ["f.1"]
    elsewhere = event(owner, "f.2")
    elsewhere["involvedObject"] = {**about, "namespace": "elsewhere"}
    answer = await api.post(api.events, elsewhere)
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert "involvedObject.namespace" in answer.causes
