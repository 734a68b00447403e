"""CustomResourceDefinitions and discovery: the server serves a kind as soon as its CRD exists."""

from typing import Any

import pytest

from support.sandbox.rest_client import DEFINITIONS, TABLE, Rest

THINGS = "/apis/x.io/v1/things"


def version(name: str, *, storage: bool = True, **more: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": True, "storage": storage, "schema": schema, **more}


def definition(*versions: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "things.x.io"},
        "spec": {
            "group": "x.io",
            "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
            "versions": list(versions or (version("v1"),)),
            **spec,
        },
    }


SCHEMA = "spec.versions[0].schema.openAPIV3Schema"
CEL = "x-kubernetes-validations"


def with_schema(**schema: Any) -> dict[str, Any]:
    return definition(version("v1", schema={"openAPIV3Schema": {"type": "object", **schema}}))


def thing(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "x.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


async def test_a_kind_is_served_after_its_definition(api: Rest) -> None:
    assert (await api.get(THINGS)).code == 404
    created = await api.create(DEFINITIONS, definition())
    conditions = {c["type"]: c["status"] for c in created["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert created["status"]["acceptedNames"]["listKind"] == "ThingList"
    created = await api.create(THINGS, thing("a", other=2))
    assert (created["kind"], created["spec"]) == ("Thing", {"size": 1})
    assert (await api.get(THINGS)).json["kind"] == "ThingList"


async def test_without_a_status_subresource_status_is_part_of_the_object(api: Rest) -> None:
    permissive = version("v1")
    permissive["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
    await api.create(DEFINITIONS, definition(permissive))
    created = await api.create(THINGS, {**thing("a"), "status": {"x": 1}})
    assert created["status"] == {"x": 1}
    assert (await api.patch(f"{THINGS}/a/status", {})).code == 404
    changed = await api.patch(f"{THINGS}/a", {"status": {"x": 2}})
    assert changed.meta["generation"] == 2


async def test_a_changed_schema_is_used_immediately(api: Rest) -> None:
    await api.create(DEFINITIONS, definition())
    changed = definition(version("v1"))["spec"]
    spec = changed["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["size"]["maximum"] = 3
    await api.patch(f"{DEFINITIONS}/things.x.io", {"spec": changed})
    assert (await api.post(THINGS, thing("a", size=4))).code == 422
    assert (await api.create(THINGS, thing("a", size=3)))["spec"] == {"size": 3}


async def test_versions_serve_the_same_objects(api: Rest) -> None:
    await api.create(DEFINITIONS, definition(version("v1", storage=False), version("v2")))
    created = await api.create(THINGS, thing("a", size=2))
    assert created["apiVersion"] == "x.io/v1"
    newer = THINGS.replace("v1", "v2")
    assert (await api.get(f"{newer}/a")).json == {**created, "apiVersion": "x.io/v2"}
    assert (await api.get(THINGS)).json["items"][0]["apiVersion"] == "x.io/v1"
    patched = await api.patch(f"{THINGS}/a", {"spec": {"size": 5}})
    assert patched.json["apiVersion"] == "x.io/v1"
    assert (await api.get(f"{newer}/a")).json["spec"] == {"size": 5}


async def test_printer_columns_are_rendered(api: Rest) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": '.spec.c[?(@.type=="Ready")].status'},
        {"name": "Names", "type": "string", "jsonPath": ".spec.c[*].type", "priority": 1},
        {"name": "Bad", "type": "string", "jsonPath": ".spec[[", "priority": 1},
    ]
    served = version("v1", additionalPrinterColumns=columns)
    spec = served["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-preserve-unknown-fields"] = True
    await api.create(DEFINITIONS, definition(served))
    conditions = [{"type": "Done", "status": "a"}, {"type": "Ready", "status": "b"}]
    await api.create(THINGS, thing("a", size=3, c=conditions))
    table = (await api.get(THINGS, accept=TABLE)).json
    assert table["rows"][0]["cells"] == ["a", 3, "b", "Done Ready", None]


@pytest.mark.parametrize(
    ("invalid", "field"),
    [
        (definition(group=""), "spec.group"),
        (definition(names={"plural": "other", "kind": "Thing"}), "metadata.name"),
        (definition(names={}), "spec.names.kind"),
        (definition(scope="Everywhere"), "spec.scope"),
        (definition(version("v1", storage=False)), "spec.versions"),
        (definition(version("v1", schema={})), SCHEMA),
        (definition(conversion={"strategy": "Webhook"}), "spec.conversion.strategy"),
        (with_schema(type="array"), f"{SCHEMA}.type"),
        (with_schema(properties={"spec": {}}), f"{SCHEMA}.properties[spec].type"),
        (with_schema(**{CEL: [{"rule": "true"}]}), f"{SCHEMA}.{CEL}"),
    ],
)
async def test_an_invalid_definition_is_refused(
    api: Rest, invalid: dict[str, Any], field: str
) -> None:
    answer = await api.post(DEFINITIONS, invalid)
    assert answer.code == 422 and field in answer.causes


async def test_discovery_lists_versions_groups_and_resources(api: Rest) -> None:
    assert (await api.get("/api")).json["versions"] == ["v1"]
    groups = [group["name"] for group in (await api.get("/apis")).json["groups"]]
    assert "flow.volcano.sh" in groups and "" not in groups
    group = (await api.get("/apis/flow.volcano.sh")).json
    assert group["preferredVersion"]["groupVersion"] == "flow.volcano.sh/v1alpha1"
    resources = (await api.get("/apis/flow.volcano.sh/v1alpha1")).json["resources"]
    assert [r["name"] for r in resources] == [
        "jobflows",
        "jobflows/status",
        "jobtemplates",
        "jobtemplates/status",
        "cronjobflows",
        "cronjobflows/status",
    ]
    assert (await api.get("/api/v1")).json["groupVersion"] == "v1"
    assert (await api.get("/apis/nobody.io/v1")).code == 404
    assert (await api.get("/version")).json["minor"] == "32"
    for path in ("/healthz", "/readyz", "/livez", "/livez/ping"):
        assert (await api.get(path)).json == "ok"


async def test_openapi_describes_the_served_kinds(api: Rest) -> None:
    paths = (await api.get("/openapi/v3")).json["paths"]
    before = paths["apis/flow.volcano.sh/v1alpha1"]["serverRelativeURL"]
    document = (await api.get(before)).json
    schema = document["components"]["schemas"]["sh.volcano.flow.v1alpha1.JobFlow"]
    gvk = {"group": "flow.volcano.sh", "version": "v1alpha1", "kind": "JobFlow"}
    assert schema["x-kubernetes-group-version-kind"] == [gvk]
    assert schema["properties"]["spec"]["properties"]["flows"]["description"]
    (path,) = (path for path in document["paths"] if path.endswith("/jobflows/{name}"))
    patch = document["paths"][path]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == gvk
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert (await api.get("/openapi/v2")).json["swagger"] == "2.0"
    assert (await api.get("/openapi/v3/apis/nobody.io/v1")).code == 404
    await api.delete(f"{DEFINITIONS}/jobtemplates.flow.volcano.sh")
    await api.wait_until_deleted(f"{DEFINITIONS}/jobtemplates.flow.volcano.sh")
    paths = (await api.get("/openapi/v3")).json["paths"]
    assert paths["apis/flow.volcano.sh/v1alpha1"]["serverRelativeURL"] != before


async def test_events_are_served_by_two_api_groups(api: Rest) -> None:
    newer = "/apis/events.k8s.io/v1/namespaces/default/events"
    older = "/api/v1/namespaces/default/events"
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "JobFlow", "namespace": "default", "name": "f"},
        "note": "it was so",
        "reportingController": "jobflow",
    }
    created = await api.create(newer, event)
    assert created["apiVersion"] == "events.k8s.io/v1" and created["note"] == "it was so"
    core = (await api.get(f"{older}/e")).json
    assert core["apiVersion"] == "v1" and core["message"] == "it was so"
    assert core["involvedObject"] == event["regarding"]
    patched = await api.patch(f"{newer}/e", {"note": "it was not"})
    assert patched.json["note"] == "it was not"
    assert (await api.get(f"{older}/e")).json["message"] == "it was not"
    about = await api.get(older, fieldSelector="involvedObject.name=f")
    assert about.names == ["e"]


async def test_an_event_must_be_in_the_namespace_of_its_object(api: Rest) -> None:
    about = {"kind": "JobFlow", "namespace": "kube-system", "name": "f"}
    event = {"metadata": {"name": "e"}, "involvedObject": about}
    answer = await api.post("/api/v1/namespaces/default/events", event)
    assert answer.causes == {
        "involvedObject.namespace": 'Invalid value: "kube-system": does not match event.namespace'
    }
