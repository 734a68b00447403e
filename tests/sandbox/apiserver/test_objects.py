"""Objects on the API server: metadata rules, paths and methods, built-in kinds."""

import pytest

from support.sandbox.rest_client import FLOWS, NAMESPACES, PODS, VCJOBS, Rest, flow, vcjob


async def test_resource_versions_increase_across_kinds(api: Rest) -> None:
    first = await api.create(FLOWS, flow())
    second = await api.create(VCJOBS, vcjob("j"))
    assert (
        int(second["metadata"]["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1
    )


@pytest.mark.parametrize(
    ("manifest", "code", "words"),
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
async def test_invalid_metadata_is_refused(
    api: Rest, manifest: dict[str, object], code: int, words: str
) -> None:
    answer = await api.post(FLOWS, manifest)
    assert answer.code == code and words in answer.message


async def test_two_controllers_of_an_object_are_refused(api: Rest) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": True}
    manifest = flow(ownerReferences=[owner, {**owner, "name": "b", "uid": "2"}])
    answer = await api.post(FLOWS, manifest)
    assert answer.code == 422 and 'Found "true" in references for Pod/a and Pod/b' in answer.message


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
async def test_unknown_paths_and_methods_are_errors(
    api: Rest, method: str, path: str, code: int
) -> None:
    answer = await api.send(method, path)
    assert answer.code == code
    assert code == 200 or answer.json == "404 page not found\n" or answer.reason


async def test_a_name_is_taken_until_its_object_is_deleted(api: Rest) -> None:
    await api.create(FLOWS, flow(finalizers=["x.io/keep"]))
    await api.delete(f"{FLOWS}/f")
    answer = await api.post(FLOWS, flow())
    assert (answer.code, answer.message) == (
        409,
        'object is being deleted: jobflows.flow.volcano.sh "f" already exists',
    )


async def test_string_data_of_a_secret_is_encoded(api: Rest) -> None:
    path = "/api/v1/namespaces/default/secrets"
    created = await api.create(path, {"metadata": {"name": "s"}, "stringData": {"a": "b"}})
    assert created["data"] == {"a": "Yg=="} and created["type"] == "Opaque"


@pytest.mark.parametrize(
    ("kind", "fields", "message"),
    [
        ("secrets", {"stringData": {"port": 5432}}, "stringData.port: Invalid value: must be a st"),
        ("secrets", {"stringData": ["hidden"]}, "stringData: Invalid value: must be a mapping"),
        ("secrets", {"data": {"a": "hidden"}}, "data.a: Invalid value: must be base64; plain text"),
        ("secrets", {"stringData": {"../a": "hidden"}}, "a key must consist of alphanumeric"),
        ("secrets", {"data": {"..": ""}}, "a key must consist of alphanumeric"),
        ("configmaps", {"data": {"a": True}}, "data.a: Invalid value: must be a string"),
        ("configmaps", {"binaryData": {"a": "?"}}, "must be base64; plain text belongs to data"),
    ],
)
async def test_what_a_secret_or_a_config_map_cannot_hold_is_refused_without_its_value(
    api: Rest, kind: str, fields: dict[str, object], message: str
) -> None:
    answer = await api.post(
        f"/api/v1/namespaces/default/{kind}", {"metadata": {"name": "s"}, **fields}
    )
    assert answer.code == 422 and message in answer.message
    assert "hidden" not in answer.message and "5432" not in answer.message


@pytest.mark.long
async def test_nulls_in_metadata_are_removed(api: Rest) -> None:
    created = await api.create(FLOWS, flow(labels={"a": None}, annotations=None, finalizers=None))
    assert created["metadata"]["labels"] == {"a": ""}
    assert not {"annotations", "finalizers"} & set(created["metadata"])


async def test_a_finalizer_without_a_domain_gets_a_warning(api: Rest) -> None:
    (warning,) = (await api.post(FLOWS, flow(finalizers=["keep"]))).warnings
    assert "prefer a domain-qualified finalizer name" in warning
