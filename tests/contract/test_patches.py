"""Patches on both servers: merge, JSON and apply, of an object and of its status."""

from typing import Any

import pytest

from support.sandbox.rest_client import APPLY, JSON_PATCH, flow
from support.sandbox.servers import Server

NOT_DONE = "the server rejected our request due to an error in our request"
LABEL = "/metadata/labels"


async def test_a_merge_patch_sets_and_removes(api: Server) -> None:
    await api.create(api.flows, flow("f", labels={"a": "1", "b": "2"}))
    answer = await api.patch(f"{api.flows}/f", {"metadata": {"labels": {"a": None, "c": "3"}}})
    assert answer.meta["labels"] == {"b": "2", "c": "3"}
    answer = await api.patch(f"{api.flows}/f", {"metadata": {"labels": None}})
    assert "labels" not in answer.meta


async def test_status_and_spec_are_patched_separately(api: Server) -> None:
    await api.create(api.flows, flow("f"))
    both = {"spec": {"jobRetainPolicy": "delete"}, "status": {"progress": "9/9"}}
    answer = await api.patch(f"{api.flows}/f", both)
    assert "status" not in answer.json and answer.meta["generation"] == 2
    assert answer.json["spec"]["jobRetainPolicy"] == "delete"
    both["spec"]["jobRetainPolicy"] = "retain"
    answer = await api.patch(f"{api.flows}/f/status", both)
    assert answer.json["status"] == {"progress": "9/9"}
    assert answer.json["spec"]["jobRetainPolicy"] == "delete" and answer.meta["generation"] == 2
    before = answer.meta["resourceVersion"]
    answer = await api.patch(f"{api.flows}/f/status", {"metadata": {"labels": {"a": "b"}}})
    assert answer.code == 200 and answer.meta["resourceVersion"] == before
    answer = await api.patch(f"{api.flows}/f/status", {"status": None})
    assert "status" not in answer.json


async def test_a_change_of_labels_keeps_the_generation(api: Server) -> None:
    await api.create(api.flows, flow("f"))
    answer = await api.patch(f"{api.flows}/f", {"metadata": {"labels": {"a": "b"}}})
    assert answer.meta["generation"] == 1


async def test_an_old_version_in_a_patch_conflicts(api: Server) -> None:
    created = await api.create(api.flows, flow("f"))
    version = created["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "status": {"progress": "1/1"}}
    assert (await api.patch(f"{api.flows}/f/status", patch)).code == 200
    patch["status"]["progress"] = "2/2"
    answer = await api.patch(f"{api.flows}/f/status", patch)
    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message.endswith("please apply your changes to the latest version and try again")


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"metadata": {"name": "g"}}, 400, "the name of the object (g) does not match the name on"),
        (
            {"metadata": {"uid": "other"}},
            422,
            'JobFlow.flow.volcano.sh "f" is invalid: metadata.uid: Invalid value: "other": field '
            "is immutable",
        ),
    ],
)
async def test_name_and_uid_cannot_be_patched(
    api: Server, change: Any, code: int, words: str
) -> None:
    await api.create(api.flows, flow("f"))
    answer = await api.patch(f"{api.flows}/f", change)
    assert answer.code == code and answer.message.startswith(words)


async def test_fields_that_the_server_sets_cannot_be_patched(api: Server) -> None:
    created = await api.create(api.flows, flow("f"))
    answer = await api.patch(
        f"{api.flows}/f", {"metadata": {"generation": 9, "creationTimestamp": None}}
    )
    assert answer.json == created


async def test_a_missing_object_is_not_found(api: Server) -> None:
    for path in (f"{api.flows}/f", f"{api.flows}/f/status"):
        answer = await api.patch(path, {"status": {}})
        assert (answer.code, answer.reason) == (404, "NotFound")


class TestJson:
    async def test_all_operations_are_applied(self, api: Server) -> None:
        await api.create(api.flows, flow("f", annotations={"x/y": "1"}))
        operations = [
            {"op": "test", "path": "/spec/flows/0/name", "value": "a"},
            {"op": "add", "path": LABEL, "value": {"l": "1"}},
            {"op": "copy", "from": "/metadata/labels/l", "path": "/metadata/labels/m"},
            {"op": "move", "from": "/metadata/labels/m", "path": "/metadata/labels/n"},
            {"op": "remove", "path": "/metadata/annotations/x~1y"},
            {"op": "add", "path": "/spec/flows/-", "value": {"name": "b"}},
            {"op": "replace", "path": "/spec/jobRetainPolicy", "value": "delete"},
        ]
        answer = await api.patch(f"{api.flows}/f", operations, JSON_PATCH)
        assert answer.meta["labels"] == {"l": "1", "n": "1"}
        assert "annotations" not in answer.meta
        steps = [{"name": "a"}, {"name": "b"}]
        assert answer.json["spec"] == {"flows": steps, "jobRetainPolicy": "delete"}
        status = [{"op": "add", "path": "/status", "value": {"progress": "1/1"}}]
        answer = await api.patch(f"{api.flows}/f/status", status, JSON_PATCH)
        assert answer.json["status"] == {"progress": "1/1"}

    @pytest.mark.parametrize(
        "operation",
        [
            {"op": "test", "path": "/spec/flows/0/name", "value": "z"},
            {"op": "test", "path": "/spec/flows/9/name", "value": "z"},
            {"op": "remove", "path": "/spec/none"},
            {"op": "frob", "path": "/spec/none"},
        ],
        ids=["test", "test-nothing", "remove", "unknown"],
    )
    async def test_an_operation_that_cannot_be_applied_is_refused(
        self, api: Server, operation: dict[str, Any]
    ) -> None:
        await api.create(api.flows, flow("f"))
        answer = await api.patch(f"{api.flows}/f", [operation], JSON_PATCH)
        assert (answer.code, answer.reason, answer.message) == (422, "Invalid", NOT_DONE)

    async def test_a_malformed_patch_is_refused(self, api: Server) -> None:
        await api.create(api.flows, flow("f"))
        for body, content_type in ((b"{}", JSON_PATCH), (b"{", JSON_PATCH), (b"[]", "")):
            options = (content_type,) if content_type else ()
            answer = await api.patch(f"{api.flows}/f", body, *options)
            assert (answer.code, answer.reason) == (400, "BadRequest")
            assert answer.message.startswith("error decoding patch: ")


class TestApply:
    async def test_apply_creates_and_updates_an_object(self, api: Server) -> None:
        answer = await api.patch(f"{api.flows}/f", flow("f"), APPLY, fieldManager="me")
        assert answer.code == 201 and answer.json["spec"] == {"flows": [{"name": "a"}]}
        answer = await api.patch(
            f"{api.flows}/f", flow("f", "a", "b"), APPLY, fieldManager="me", force="true"
        )
        assert answer.code == 200 and len(answer.json["spec"]["flows"]) == 2
        repeated = await api.patch(
            f"{api.flows}/f", flow("f", "a", "b"), APPLY, fieldManager="me", force="true"
        )
        assert repeated.meta["resourceVersion"] == answer.meta["resourceVersion"]

    async def test_apply_updates_a_status(self, api: Server) -> None:
        await api.create(api.flows, flow("f"))
        applied = {k: flow()[k] for k in ("apiVersion", "kind")} | {"status": {"progress": "1/1"}}
        answer = await api.patch(f"{api.flows}/f/status", applied, APPLY, fieldManager="me")
        assert answer.json["status"] == {"progress": "1/1"}

    async def test_apply_needs_a_manager_and_a_kind(self, api: Server) -> None:
        answer = await api.patch(f"{api.flows}/f", flow("f"), APPLY)
        assert (answer.code, answer.reason) == (422, "Invalid")
        assert answer.message == (
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required '
            "for apply patch"
        )
        await api.create(api.flows, flow("f"))
        answer = await api.patch(f"{api.flows}/f", {"spec": {}}, APPLY, fieldManager="me")
        assert (answer.code, answer.reason) == (400, "BadRequest")

    async def test_a_field_of_another_manager_conflicts(self, api: Server) -> None:
        """A real server tracks who owns a field; the sandbox has one manager by design."""
        await api.patch(f"{api.flows}/f", flow("f"), APPLY, fieldManager="me")
        answer = await api.patch(f"{api.flows}/f", flow("f", "b"), APPLY, fieldManager="you")
        if not api.real:
            assert answer.json["spec"] == {"flows": [{"name": "b"}]}
            return
        assert (answer.code, answer.reason) == (409, "Conflict")
        assert answer.message == 'Apply failed with 1 conflict: conflict with "me": .spec.flows'
