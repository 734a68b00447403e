"""What the API server makes of objects: metadata, versions, conflicts, the status subresource."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.sandbox.rest_client import FLOWS, NAMESPACES, PODS, VCJOBS, Rest, flow, rest, vcjob


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Rest]:
    async with rest() as client:
        yield client


async def test_a_new_object_gets_its_metadata_from_the_server(api: Rest) -> None:
    sent = flow(
        uid="mine", resourceVersion="7", generation=9, creationTimestamp="2001-01-01T00:00:00Z"
    )
    sent["status"] = {"state": {"phase": "Succeed"}}
    made = await api.made(FLOWS, sent)
    meta = made["metadata"]
    assert (meta["name"], meta["namespace"], meta["generation"]) == ("f", "default", 1)
    assert meta["uid"] != "mine" and len(meta["uid"]) == 36
    assert meta["creationTimestamp"] > "2025" and int(meta["resourceVersion"]) > 1
    assert "status" not in made
    assert (await api.get(f"{FLOWS}/f")).json == made


async def test_a_name_is_generated(api: Rest) -> None:
    made = await api.made(FLOWS, flow("", generateName="train-"))
    name = made["metadata"]["name"]
    assert name.startswith("train-") and len(name) == len("train-") + 5
    assert (await api.get(f"{FLOWS}/{name}")).code == 200


async def test_a_name_is_taken_once(api: Rest) -> None:
    await api.made(FLOWS, flow())
    again = await api.post(FLOWS, flow())
    assert (again.code, again.reason) == (409, "AlreadyExists")
    assert again.message == 'jobflows.flow.volcano.sh "f" already exists'
    assert again.json["details"] == {"name": "f", "group": "flow.volcano.sh", "kind": "jobflows"}


async def test_versions_grow_over_all_kinds(api: Rest) -> None:
    one = await api.made(FLOWS, flow())
    two = await api.made(VCJOBS, vcjob("j"))
    assert int(two["metadata"]["resourceVersion"]) == int(one["metadata"]["resourceVersion"]) + 1


async def test_generation_counts_changes_of_the_spec_alone(api: Rest) -> None:
    await api.made(FLOWS, flow())
    labelled = await api.patch(f"{FLOWS}/f", {"metadata": {"labels": {"a": "b"}}})
    assert labelled.meta["generation"] == 1
    status = await api.patch(f"{FLOWS}/f/status", {"status": {"progress": "0/1"}})
    assert status.meta["generation"] == 1
    spec = await api.patch(f"{FLOWS}/f", {"spec": {"jobRetainPolicy": "delete"}})
    assert spec.meta["generation"] == 2


async def test_an_update_of_nothing_keeps_the_version(api: Rest) -> None:
    made = await api.made(FLOWS, flow())
    put = await api.put(f"{FLOWS}/f", made)
    patched = await api.patch(f"{FLOWS}/f", {"spec": {"jobRetainPolicy": None}})
    version = made["metadata"]["resourceVersion"]
    assert [put.meta["resourceVersion"], patched.meta["resourceVersion"]] == [version, version]


async def test_an_update_from_an_old_version_is_a_conflict(api: Rest) -> None:
    made = await api.made(FLOWS, flow())
    await api.patch(f"{FLOWS}/f", {"spec": {"jobRetainPolicy": "delete"}})
    put = await api.put(f"{FLOWS}/f", made)
    assert (put.code, put.reason) == (409, "Conflict")
    assert put.message == (
        'Operation cannot be fulfilled on jobflows.flow.volcano.sh "f": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    old = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    assert (await api.patch(f"{FLOWS}/f", old)).code == 409


async def test_a_custom_object_is_not_put_without_its_version(api: Rest) -> None:
    await api.made(FLOWS, flow())
    put = await api.put(f"{FLOWS}/f", flow())
    assert put.code == 422
    assert put.causes == {
        "metadata.resourceVersion": "Invalid value: 0: must be specified for an update"
    }
    await api.made(PODS, {"metadata": {"name": "p"}, "spec": {}})
    assert (await api.put(f"{PODS}/p", {"metadata": {"name": "p"}, "spec": {"x": 1}})).code == 200


async def test_an_object_of_another_uid_is_not_overwritten(api: Rest) -> None:
    made = await api.made(FLOWS, flow())
    answer = await api.patch(f"{FLOWS}/f", {"metadata": {"uid": "other"}})
    assert answer.causes == {"metadata.uid": 'Invalid value: "other": field is immutable'}
    made["metadata"]["uid"] = "other"
    answer = await api.put(f"{FLOWS}/f", made)
    assert answer.code == 409 and "UID in precondition: other" in answer.message


async def test_status_is_written_through_its_own_path_alone(api: Rest) -> None:
    await api.made(FLOWS, flow())
    status = {"state": {"phase": "Running"}}
    main = await api.patch(f"{FLOWS}/f", {"status": status, "metadata": {"labels": {"a": "b"}}})
    assert "status" not in main.json and main.meta["labels"] == {"a": "b"}
    both = {"status": status, "spec": {"flows": []}, "metadata": {"labels": {"a": "c"}}}
    sub = await api.patch(f"{FLOWS}/f/status", both)
    assert sub.json["status"] == status
    assert sub.json["spec"] == flow()["spec"] and sub.meta["labels"] == {"a": "b"}
    put = await api.put(f"{FLOWS}/f", {**sub.json, "status": {}})
    assert put.json["status"] == status


async def test_dry_run_says_what_would_be_and_stores_nothing(api: Rest) -> None:
    made = await api.post(FLOWS, flow(), dryRun="All")
    assert made.code == 201 and made.meta["uid"]
    assert (await api.get(f"{FLOWS}/f")).code == 404
    kept = await api.made(FLOWS, flow())
    patched = await api.patch(f"{FLOWS}/f", {"spec": {"jobRetainPolicy": "delete"}}, dryRun="All")
    assert patched.json["spec"]["jobRetainPolicy"] == "delete" and patched.meta["generation"] == 2
    assert (await api.delete(f"{FLOWS}/f", dryRun="All")).code == 200
    assert (await api.get(f"{FLOWS}/f")).json == kept
    refused = await api.post(FLOWS, flow("g"), dryRun="Some")
    assert (refused.code, refused.message) == (
        422,
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported '
        'values: "All"',
    )


async def test_a_namespace_has_to_be_there(api: Rest) -> None:
    path = FLOWS.replace("default", "nowhere")
    answer = await api.post(path, flow())
    assert (answer.code, answer.message) == (404, 'namespaces "nowhere" not found')
    await api.made(NAMESPACES, {"metadata": {"name": "nowhere"}})
    assert (await api.post(path, flow())).code == 201


@pytest.mark.parametrize(
    ("sent", "code", "words"),
    [
        (flow(namespace="other"), 400, "namespace of the provided object does not match"),
        ({**flow(), "kind": "JobTemplate"}, 422, 'kind: Invalid value: "JobTemplate": must be'),
        ({**flow(), "kind": ""}, 400, "Object 'Kind' is missing in"),
        ({**flow(), "apiVersion": "flow.volcano.sh/v2"}, 400, "does not match the expected API"),
        ({**flow(), "metadata": "x"}, 400, "into Go value of type v1.ObjectMeta"),
        ({**flow(), "metadata": None}, 422, "name or generateName is required"),
        (flow(labels={"a": 1}), 400, "cannot unmarshal number into Go struct field"),
        (flow(finalizers="x"), 400, "cannot unmarshal string into Go struct field"),
        (flow(finalizers=[1]), 400, "field ObjectMeta.finalizers of type string"),
        (flow(ownerReferences=["x"]), 400, "of type v1.OwnerReference"),
        (flow(ownerReferences=[{"uid": 1}]), 400, "ownerReferences.uid of type string"),
        (flow(generation="x"), 400, "ObjectMeta.generation of type int64"),
        (flow(creationTimestamp="now"), 400, 'parsing time "now"'),
        (flow("A"), 422, "a lowercase RFC 1123 subdomain"),
        (flow("x" * 254), 422, "must be no more than 253 characters"),
        (flow(""), 422, "name or generateName is required"),
        (flow(labels={"a": "x" * 64}), 422, "must be no more than 63 bytes"),
        (flow(labels={"a b": "x"}), 422, "name part must consist of"),
        (flow(labels={"/a": "x"}), 422, "prefix part must be non-empty"),
        (flow(labels={"a": "-"}), 422, "a valid label must be an empty string or"),
        (flow(annotations={"a": "x" * 262145}), 422, "may not be more than 262144 bytes"),
        (flow(ownerReferences=[{"kind": "x"}]), 422, "must not be empty"),
        (flow(finalizers=["a b"]), 422, "name part must consist of"),
    ],
)
async def test_bad_metadata_is_refused(
    api: Rest, sent: dict[str, object], code: int, words: str
) -> None:
    answer = await api.post(FLOWS, sent)
    assert answer.code == code and words in answer.message


async def test_two_controllers_are_one_too_many(api: Rest) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": True}
    sent = flow(ownerReferences=[owner, {**owner, "name": "b", "uid": "2"}])
    answer = await api.post(FLOWS, sent)
    assert answer.code == 422 and 'Found "true" in references for Pod/a and Pod/b' in answer.message


async def test_identity_is_immutable(api: Rest) -> None:
    made = await api.made(FLOWS, flow())
    renamed = {**made, "metadata": {**made["metadata"], "name": "g"}}
    answer = await api.put(f"{FLOWS}/f", renamed)
    assert (answer.code, answer.message) == (
        400,
        "the name of the object (g) does not match the name on the URL (f)",
    )
    stamp = {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 5}}
    kept = await api.patch(f"{FLOWS}/f", stamp)
    assert kept.meta["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert kept.meta["generation"] == 1


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/apis/flow.volcano.sh/v1alpha1/namespaces/default/nothing", 404),
        ("GET", f"{FLOWS}/f/scale", 404),
        ("GET", "/apis/flow.volcano.sh/v2/namespaces/default/jobflows", 404),
        ("GET", "/nowhere", 404),
        ("GET", "/api", 200),
        ("GET", "/", 200),
        ("GET", f"{NAMESPACES}/default/namespaces/x", 404),
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v2", 404),
        ("POST", f"{PODS}/p", 405),
        ("PUT", FLOWS, 400),
        ("PUT", PODS, 405),
        ("DELETE", NAMESPACES, 405),
        ("DELETE", f"{FLOWS}/f/status", 405),
        ("POST", "/apis/flow.volcano.sh/v1alpha1/jobflows", 404),
    ],
)
async def test_paths_and_methods_that_are_not_served(
    api: Rest, method: str, path: str, code: int
) -> None:
    answer = await api.send(method, path)
    assert answer.code == code
    assert code == 200 or answer.json == "404 page not found\n" or answer.reason


async def test_finalizers_keep_an_object_until_the_last_has_gone(api: Rest) -> None:
    await api.made(FLOWS, flow(finalizers=["x.io/keep"]))
    marked = await api.delete(f"{FLOWS}/f")
    assert marked.meta["deletionTimestamp"] and marked.meta["generation"] == 2
    again = await api.delete(f"{FLOWS}/f")
    assert again.meta["resourceVersion"] == marked.meta["resourceVersion"]
    more = await api.patch(f"{FLOWS}/f", {"metadata": {"finalizers": ["x.io/keep", "x.io/more"]}})
    assert more.code == 422 and "no new finalizers can be added" in more.message
    last = await api.patch(f"{FLOWS}/f", {"metadata": {"finalizers": None}})
    assert last.code == 200
    assert (await api.get(f"{FLOWS}/f")).code == 404


async def test_a_delete_may_name_the_object_it_means(api: Rest) -> None:
    made = await api.made(FLOWS, flow())
    for precondition in ({"uid": "other"}, {"resourceVersion": "1"}):
        answer = await api.delete(f"{FLOWS}/f", {"preconditions": precondition})
        assert (answer.code, answer.reason) == (409, "Conflict")
        assert "in the precondition" in answer.message
    uid = made["metadata"]["uid"]
    gone = await api.delete(f"{FLOWS}/f", {"preconditions": {"uid": uid}})
    assert gone.json["status"] == "Success" and gone.json["details"]["uid"] == uid
    assert (await api.delete(f"{FLOWS}/f")).code == 404


async def test_a_name_is_taken_until_its_object_is_gone(api: Rest) -> None:
    await api.made(FLOWS, flow(finalizers=["x.io/keep"]))
    await api.delete(f"{FLOWS}/f")
    again = await api.post(FLOWS, flow())
    assert (again.code, again.message) == (
        409,
        'object is being deleted: jobflows.flow.volcano.sh "f" already exists',
    )


async def test_the_first_namespaces_stay(api: Rest) -> None:
    answer = await api.delete(f"{NAMESPACES}/default")
    assert (answer.code, answer.message) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )


async def test_a_secret_takes_texts(api: Rest) -> None:
    path = "/api/v1/namespaces/default/secrets"
    made = await api.made(path, {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert made["data"] == {"a": "Yg=="} and made["type"] == "Opaque"


async def test_a_null_in_metadata_is_nothing(api: Rest) -> None:
    made = await api.made(FLOWS, flow(labels={"a": None}, annotations=None, finalizers=None))
    assert made["metadata"]["labels"] == {"a": ""}
    assert not {"annotations", "finalizers"} & set(made["metadata"])


async def test_a_finalizer_of_no_domain_is_warned_of(api: Rest) -> None:
    (warning,) = (await api.post(FLOWS, flow(finalizers=["keep"]))).warnings
    assert "prefer a domain-qualified finalizer name" in warning
