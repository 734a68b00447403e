"""Objects on both servers: create, read, replace, delete, and the messages of refusals."""

import pytest

from jobflow.api.resources import SELF_SUBJECT_REVIEWS
from support.sandbox.rest_client import MERGE, failure_status, flow, vcjob
from support.sandbox.servers import Server

FLOW = {"group": "flow.volcano.sh", "kind": "jobflows"}


async def test_a_self_subject_review_names_the_user(api: Server) -> None:
    review = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind}
    answer = await api.create(SELF_SUBJECT_REVIEWS.path(), review)
    assert review.items() <= answer.items()
    user = answer["status"]["userInfo"]
    assert "admin" in user["username"] and "system:masters" in user["groups"]


class TestCreate:
    async def test_the_server_fills_in_metadata(self, api: Server) -> None:
        manifest = flow(
            "f", labels={}, uid="x", creationTimestamp="2020-01-01T00:00:00Z", generation=7
        )
        created = (await api.create(api.flows, manifest))["metadata"]
        assert created["generation"] == 1 and created["uid"] != "x"
        assert (
            created["creationTimestamp"].startswith("20") and created["namespace"] == api.namespace
        )
        assert int(created["resourceVersion"]) > 0
        assert not {"labels", "selfLink", "deletionTimestamp"} & set(created)

    async def test_a_name_can_be_used_once(self, api: Server) -> None:
        await api.create(api.flows, flow("f"))
        answer = await api.post(api.flows, flow("f"))
        message = 'jobflows.flow.volcano.sh "f" already exists'
        assert answer.json == failure_status(409, "AlreadyExists", message, name="f", **FLOW)

    async def test_generated_names_are_unique(self, api: Server) -> None:
        manifest = flow("")
        manifest["metadata"] = {"generateName": "f-"}
        names = {(await api.create(api.flows, manifest))["metadata"]["name"] for _ in range(3)}
        assert len(names) == 3 and all(n.startswith("f-") and len(n) == 7 for n in names)

    async def test_a_status_is_ignored(self, api: Server) -> None:
        created = await api.create(api.flows, {**flow("f"), "status": {"progress": "1/1"}})
        assert "status" not in created

    async def test_a_manifest_must_match_the_url(self, api: Server) -> None:
        answer = await api.post(api.flows, flow("f", namespace="other"))
        assert (answer.code, answer.reason) == (400, "BadRequest")
        assert answer.message == (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        answer = await api.post(api.vcjobs, flow("f"))
        assert (answer.code, answer.reason) == (400, "BadRequest")
        assert answer.message == (
            "the API version in the data (flow.volcano.sh/v1alpha1) does not match the expected "
            "API version (batch.volcano.sh/v1alpha1)"
        )
        created = await api.create(api.flows, flow("f"))
        answer = await api.put(f"{api.flows}/g", created)
        assert answer.code == 400
        assert answer.message == (
            "the name of the object (f) does not match the name on the URL (g)"
        )

    async def test_the_namespace_must_exist(self, api: Server) -> None:
        answer = await api.post(api.flows.replace(api.namespace, "nowhere"), flow("f"))
        assert (answer.code, answer.reason) == (404, "NotFound")
        assert answer.message == 'namespaces "nowhere" not found'
        assert answer.json["details"] == {"name": "nowhere", "kind": "namespaces"}

    async def test_missing_and_invalid_names_are_refused(self, api: Server) -> None:
        answer = await api.post(api.flows, flow(""))
        assert answer.message == (
            'JobFlow.flow.volcano.sh "" is invalid: metadata.name: Required value: '
            "name or generateName is required"
        )
        answer = await api.post(api.flows, flow("A_b"))
        assert (answer.code, answer.reason) == (422, "Invalid")
        assert answer.message == (
            'JobFlow.flow.volcano.sh "A_b" is invalid: metadata.name: Invalid value: "A_b": a '
            "lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' "
            "or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
            "regex used for validation is "
            "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )

    async def test_invalid_labels_and_owners_are_refused(self, api: Server) -> None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}
        manifest = flow("f", labels={"x": "a b"}, ownerReferences=[owner])
        answer = await api.post(api.flows, manifest)
        assert answer.code == 422
        assert set(answer.causes) == {"metadata.labels", "metadata.ownerReferences.uid"}


class TestDryRun:
    async def test_a_create_stores_nothing(self, api: Server) -> None:
        answer = await api.post(api.flows, flow("f"), dryRun="All")
        assert answer.code == 201 and answer.meta["uid"]
        assert "resourceVersion" not in answer.meta
        assert (await api.get(f"{api.flows}/f")).code == 404

    async def test_updates_and_deletes_store_nothing(self, api: Server) -> None:
        created = await api.create(api.flows, flow("f"))
        change = {"metadata": {"labels": {"a": "b"}}}
        answer = await api.patch(f"{api.flows}/f", change, dryRun="All")
        assert answer.meta["labels"] == {"a": "b"}
        assert answer.meta["resourceVersion"] == created["metadata"]["resourceVersion"]
        assert (await api.delete(f"{api.flows}/f", dryRun="All")).code == 200
        assert (await api.get(f"{api.flows}/f")).json == created

    async def test_an_unknown_value_is_refused(self, api: Server) -> None:
        answer = await api.post(api.flows, flow("f"), dryRun="Some")
        assert (answer.code, answer.reason) == (422, "Invalid")
        assert answer.message == (
            'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: '
            'supported values: "All"'
        )
        for method, options in (("PATCH", "PatchOptions"), ("DELETE", "DeleteOptions")):
            answer = (
                await api.send(method, f"{api.flows}/f", {}, content_type=MERGE, dryRun="Some")
                if method == "PATCH"
                else await api.delete(f"{api.flows}/f", dryRun="Some")
            )
            assert answer.message.startswith(f'{options}.meta.k8s.io "" is invalid: dryRun: ')


class TestReplace:
    async def test_a_stale_version_conflicts(self, api: Server) -> None:
        created = await api.create(api.flows, flow("f"))
        await api.patch(f"{api.flows}/f", {"metadata": {"labels": {"a": "b"}}})
        answer = await api.put(f"{api.flows}/f", created)
        message = (
            'Operation cannot be fulfilled on jobflows.flow.volcano.sh "f": the object has been '
            "modified; please apply your changes to the latest version and try again"
        )
        assert answer.json == failure_status(409, "Conflict", message, name="f", **FLOW)

    async def test_an_update_needs_a_version(self, api: Server) -> None:
        await api.create(api.flows, flow("f"))
        answer = await api.put(f"{api.flows}/f", flow("f"))
        assert (answer.code, answer.reason) == (422, "Invalid")
        assert answer.message == (
            'jobflows.flow.volcano.sh "f" is invalid: metadata.resourceVersion: Invalid value: '
            "0: must be specified for an update"
        )

    async def test_another_uid_conflicts(self, api: Server) -> None:
        created = await api.create(api.flows, flow("f"))
        uid = created["metadata"]["uid"]
        created["metadata"]["uid"] = "other"
        answer = await api.put(f"{api.flows}/f", created)
        assert (answer.code, answer.reason) == (409, "Conflict")
        assert answer.message == (
            'Operation cannot be fulfilled on jobflows.flow.volcano.sh "f": StorageError: invalid '
            f"object, Code: 4, Key: /registry/flow.volcano.sh/jobflows/{api.namespace}/f, "
            "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: "
            f"other, UID in object meta: {uid}"
        )

    async def test_status_and_spec_are_written_separately(self, api: Server) -> None:
        created = await api.create(api.flows, flow("f"))
        created["spec"]["jobRetainPolicy"] = "delete"
        created["status"] = {"progress": "1/1"}
        written = await api.put(f"{api.flows}/f/status", created)
        assert written.json["status"] == {"progress": "1/1"}
        assert "jobRetainPolicy" not in written.json["spec"] and written.meta["generation"] == 1
        created["metadata"]["resourceVersion"] = written.meta["resourceVersion"]
        created["status"] = {"progress": "0/1"}
        written = await api.put(f"{api.flows}/f", created)
        assert written.json["status"] == {"progress": "1/1"}
        assert written.json["spec"]["jobRetainPolicy"] == "delete"
        assert written.meta["generation"] == 2

    async def test_an_update_without_changes_writes_nothing(self, api: Server) -> None:
        created = await api.create(api.flows, flow("f"))
        assert (await api.put(f"{api.flows}/f", created)).json == created
        unchanged = await api.patch(f"{api.flows}/f", {"spec": created["spec"]})
        assert unchanged.json == created

    async def test_a_missing_object_is_not_found(self, api: Server) -> None:
        manifest = flow("f", resourceVersion="1")
        answer = await api.put(f"{api.flows}/f", manifest)
        assert (answer.code, answer.message) == (404, 'jobflows.flow.volcano.sh "f" not found')


class TestDelete:
    async def test_the_answer_has_the_deleted_object(self, api: Server) -> None:
        created = await api.create(api.flows, flow("f"))
        answer = await api.delete(f"{api.flows}/f")
        head = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        details = {"name": "f", **FLOW, "uid": created["metadata"]["uid"]}
        assert answer.json == {**head, "details": details}
        answer = await api.delete(f"{api.flows}/f")
        assert answer.json["details"] == {"name": "f", **FLOW}
        assert (answer.code, answer.reason) == (404, "NotFound")

    async def test_failed_preconditions_conflict(self, api: Server) -> None:
        created = (await api.create(api.flows, flow("f")))["metadata"]
        answer = await api.delete(f"{api.flows}/f", {"preconditions": {"uid": "other"}})
        assert (answer.code, answer.reason) == (409, "Conflict")
        assert answer.message == (
            'Operation cannot be fulfilled on JobFlow.flow.volcano.sh "f": the UID in the '
            f"precondition (other) does not match the UID in record ({created['uid']}). The object "
            "might have been deleted and then recreated"
        )
        assert answer.json["details"] == {"name": "f", **FLOW, "kind": "JobFlow"}
        answer = await api.delete(f"{api.flows}/f", {"preconditions": {"resourceVersion": "1"}})
        assert answer.message == (
            'Operation cannot be fulfilled on JobFlow.flow.volcano.sh "f": the ResourceVersion '
            f"in the precondition (1) does not match the ResourceVersion in record "
            f"({created['resourceVersion']}). The object might have been modified"
        )
        answer = await api.delete(f"{api.flows}/f", {"preconditions": {"uid": created["uid"]}})
        assert answer.code == 200

    async def test_an_object_with_finalizers_is_not_removed(self, api: Server) -> None:
        created = await api.create(api.flows, flow("f", finalizers=["example.com/hold"]))
        answer = await api.delete(f"{api.flows}/f")
        assert answer.code == 200 and answer.json["kind"] == "JobFlow"
        assert answer.meta["deletionTimestamp"] and answer.meta["deletionGracePeriodSeconds"] == 0
        assert answer.meta["generation"] == created["metadata"]["generation"] + 1
        repeated = await api.delete(f"{api.flows}/f")
        assert repeated.meta["resourceVersion"] == answer.meta["resourceVersion"]
        more = await api.patch(
            f"{api.flows}/f", {"metadata": {"finalizers": ["example.com/hold", "example.com/b"]}}
        )
        assert more.code == 422 and "metadata.finalizers: Forbidden: no new finalizers can be" in (
            more.message
        )
        removed = await api.patch(f"{api.flows}/f", {"metadata": {"finalizers": None}})
        assert removed.code == 200
        assert (await api.get(f"{api.flows}/f")).code == 404

    @pytest.mark.long
    async def test_the_selected_objects_of_a_collection_are_deleted(self, api: Server) -> None:
        await api.create(api.vcjobs, vcjob("a", labels={"x": "1"}))
        await api.create(api.vcjobs, vcjob("b"))
        answer = await api.delete(api.vcjobs, labelSelector="x=1")
        assert answer.code == 200
        assert (await api.get(api.vcjobs)).names == ["b"]

    async def test_an_unknown_propagation_policy_is_refused(self, api: Server) -> None:
        await api.create(api.flows, flow("f"))
        answer = await api.delete(f"{api.flows}/f", {"propagationPolicy": "Sideways"})
        assert (answer.code, answer.reason) == (422, "Invalid")
        assert "propagationPolicy: Unsupported value: " in answer.message


class TestUnsupportedRequests:
    @pytest.mark.parametrize(
        "path",
        [
            "/apis/flow.volcano.sh/v1alpha1/nothings",
            "/apis/flow.volcano.sh/v9/jobflows",
            "/apis/nobody.example.com/v1/things",
            "/nothing",
        ],
    )
    async def test_an_unknown_path_is_not_found(self, api: Server, path: str) -> None:
        answer = await api.get(path)
        assert (answer.code, answer.json) == (404, "404 page not found\n")

    async def test_an_unsupported_method_is_refused(self, api: Server) -> None:
        answer = await api.delete(f"{api.flows}/f/status")
        assert (answer.code, answer.reason) == (405, "MethodNotAllowed")
        assert answer.json["details"] == FLOW
        assert answer.message == (
            'delete is not supported on resources of kind "jobflows.flow.volcano.sh"'
        )

    async def test_an_unsupported_content_type_is_refused(self, api: Server) -> None:
        await api.create(api.flows, flow("f"))
        accepted = "application/json, application/yaml"
        answer = await api.post(api.flows, b"<x/>", content_type="application/xml")
        assert (answer.code, answer.reason) == (415, "UnsupportedMediaType")
        assert answer.message.startswith(
            "the body of the request was in an unknown format - accepted media types include: "
            + accepted
        )
        for content_type in ("text/plain", "application/strategic-merge-patch+json"):
            answer = await api.patch(f"{api.flows}/f", {}, content_type)
            assert (answer.code, answer.reason) == (415, "UnsupportedMediaType")
            assert answer.message == (
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json, "
                "application/apply-patch+yaml"
            )

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (b"{", "the object provided is unrecognized"),
            (b"[]", "the object provided is unrecognized"),
            (b"null", "the object provided is unrecognized"),
            (
                b"{}",
                "the object provided is unrecognized (must be of type JobFlow): Object 'Kind' ",
            ),
            (
                b'{"apiVersion":"flow.volcano.sh/v1alpha1","kind":"JobFlow","metadata":{"name":3}}',
                'JobFlow in version "v1alpha1" cannot be handled as a JobFlow: json: cannot '
                "unmarshal number into Go struct field ObjectMeta.name of type string",
            ),
        ],
    )
    async def test_a_body_that_is_not_a_flow_is_refused(
        self, api: Server, body: bytes, words: str
    ) -> None:
        answer = await api.post(api.flows, body)
        assert (answer.code, answer.reason) == (400, "BadRequest")
        assert answer.message.startswith(words)
