"""Patches on both servers: merge, JSON and apply, of an object and of its status."""

from typing import Any

import pytest

from support.sandbox.rest_client import APPLY, JSON_PATCH, Answer, flow
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
        """A real server refuses to change a field of another; the sandbox does by design."""
        await api.patch(f"{api.flows}/f", flow("f"), APPLY, fieldManager="me")
        answer = await api.patch(f"{api.flows}/f", flow("f", "b"), APPLY, fieldManager="you")
        if not api.real:
            assert answer.json["spec"] == {"flows": [{"name": "b"}]}
            return
        assert (answer.code, answer.reason) == (409, "Conflict")
        assert answer.message == 'Apply failed with 1 conflict: conflict with "me": .spec.flows'


class TestLeftOutByApply:
    """An apply removes the fields that its manager applied before, unless they are another's."""

    async def test_fields_and_map_entries_are_removed(self, api: Server) -> None:
        plugins = {"env": ["--x"], "svc": []}
        labels = {"team": "vision"}
        first = _template({"a": "1", "b": "2"}, labels, maxRetry=5, queue="q", plugins=plugins)
        first["metadata"]["namespace"] = api.namespace
        await _apply(api, first)
        answer = await _apply(api, _template({"a": "1"}, queue="q", plugins={"svc": []}))
        assert answer.meta["annotations"] == {"a": "1"} and "labels" not in answer.meta
        assert answer.json["spec"] == {**TASKS, "queue": "q", "plugins": {"svc": []}}
        assert answer.meta["generation"] == 2

    async def test_a_map_of_which_all_entries_are_left_out_is_removed(self, api: Server) -> None:
        await _apply(api, _template({"a": "1"}, plugins={"svc": []}))
        answer = await _apply(api, _template())
        assert "annotations" not in answer.meta and answer.json["spec"] == TASKS

    async def test_fields_of_others_stay(self, api: Server) -> None:
        await _apply(api, _template({"mine": "1", "shared": "1", "changed": "1"}, queue="q"))
        await _apply(api, _template({"shared": "1", "yours": "1"}), "you")
        await api.patch(f"{api.templates}/t", {"metadata": {"annotations": {"changed": "2"}}})
        answer = await _apply(api, _template())
        expected = {"shared": "1", "changed": "2", "yours": "1"}
        assert answer.meta["annotations"] == expected and "queue" not in answer.json["spec"]
        answer = await _apply(api, _template(), "you")
        assert answer.meta["annotations"] == {"changed": "2"}

    async def test_fields_of_the_creator_stay(self, api: Server) -> None:
        await api.create(api.templates, _template({"a": "1"}, maxRetry=5))
        await _apply(api, _template({"a": "1", "b": "2"}, maxRetry=5))
        answer = await _apply(api, _template())
        assert answer.meta["annotations"] == {"a": "1"} and answer.json["spec"]["maxRetry"] == 5

    async def test_a_dry_run_removes_nothing(self, api: Server) -> None:
        await _apply(api, _template({"a": "1"}))
        answer = await _apply(api, _template(), dryRun="All")
        assert "annotations" not in answer.meta
        stored = await api.get(f"{api.templates}/t")
        assert stored.meta["annotations"] == {"a": "1"}
        assert "annotations" not in (await _apply(api, _template())).meta

    async def test_what_was_applied_to_a_deleted_object_is_forgotten(self, api: Server) -> None:
        await _apply(api, _template({"a": "1"}))
        await api.delete(f"{api.templates}/t")
        await api.create(api.templates, _template({"a": "1"}))
        assert (await _apply(api, _template())).meta["annotations"] == {"a": "1"}

    async def test_fields_of_a_status_are_removed(self, api: Server) -> None:
        await _apply(api, flow("f", annotations={"a": "1"}), plural=api.flows)
        head = {key: flow("f")[key] for key in ("apiVersion", "kind")}
        for status in ({"progress": "1/1", "state": {"phase": "Running"}}, {"progress": "1/1"}):
            body = head | {"status": status}
            answer = await api.patch(f"{api.flows}/f/status", body, APPLY, fieldManager="me")
        assert answer.json["status"] == {"progress": "1/1"}
        assert answer.meta["annotations"] == {"a": "1"}


TASKS = {"tasks": [{"name": "t", "template": {"spec": {"containers": [{"name": "c"}]}}}]}


def _template(
    annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    given = {"annotations": annotations, "labels": labels}
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobTemplate",
        "metadata": {"name": "t", **{key: value for key, value in given.items() if value}},
        "spec": {**TASKS, **spec},
    }


async def _apply(
    api: Server, obj: dict[str, Any], manager: str = "me", plural: str = "", **options: str
) -> Answer:
    path = f"{plural or api.templates}/{obj['metadata']['name']}"
    answer = await api.patch(path, obj, APPLY, fieldManager=manager, **options)
    assert answer.code in (200, 201), answer.json
    return answer
