"""Validation against the CRDs. The messages are those of kube-apiserver 1.36 with our CRDs."""

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.crd import openapi_schema
from jobflow.core.manifests.crd_schema import job_spec_violations, schema_violations

FLOW = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"}}
TEMPLATE = FLOW | {"kind": "JobTemplate"}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spec", "flows", "name", "tasks", "metadata", "labels", "x"]), inner
        )
    ),
    max_leaves=20,
)


def reported(obj: Any, *, strict: bool = False) -> list[str]:
    kind = obj.get("kind", "JobFlow") if isinstance(obj, dict) else "JobFlow"
    return [str(violation) for violation in schema_violations(kind, obj, strict=strict)]


def of_flow(spec: Any) -> list[str]:
    return reported(FLOW | {"spec": spec})


def of_template(spec: Any) -> list[str]:
    return reported(TEMPLATE | {"spec": spec})


def mistyped(path: str, wanted: str, found: str, hint: str = "") -> str:
    fault = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
    return f"{path}: {fault}" + (f"; {hint}" if hint else "")


INT32 = "must be of type integer with format int32"
STEP = "spec.flows[0]"
TARGETS = f"{STEP}.dependsOn.targets"
YAML_BOOLEAN = "put it in quotes: YAML reads y, yes and on as true"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (3, [mistyped("spec", "object", "integer")]),
        ([], [mistyped("spec", "object", "array")]),
        ({"flows": {"a": 1}}, [mistyped("spec.flows", "array", "object")]),
        ({"flows": "x"}, [mistyped("spec.flows", "array", "string", 'write a list: ["x"]')]),
        ({"flows": [None]},
         [mistyped("spec.flows[0]", "object", "null", "remove the empty item")]),
        ({"flows": [{"name": 3}]},
         [mistyped("spec.flows[0].name", "string", "integer", 'write "3", in quotes')]),
        (
            {"flows": [{"dependsOn": {"targets": ["a", None, True, 1.5, []]}}]},
            [
                mistyped(f"{TARGETS}[1]", "string", "null", "remove the empty item"),
                mistyped(f"{TARGETS}[2]", "string", "boolean", YAML_BOOLEAN),
                mistyped(f"{TARGETS}[3]", "string", "number", 'write "1.5", in quotes'),
                mistyped(f"{TARGETS}[4]", "string", "array"),
            ],
        ),
        ({"jobRetainPolicy": "keep"},
         ['spec.jobRetainPolicy: Unsupported value: "keep": supported values: "retain", "delete"']),
        (
            {"jobRetainPolicy": "Retain"},
            [
                'spec.jobRetainPolicy: Unsupported value: "Retain": '
                'supported values: "retain", "delete"; did you mean "retain"?'
            ],
        ),
        ({"jobRetainPolicy": 3},
         [mistyped("spec.jobRetainPolicy", "string", "integer", 'write "3", in quotes')]),
        ({"flows": [{"patch": {"jobSpec": None, "spec": []}}]},
         [mistyped("spec.flows[0].patch.spec", "object", "array")]),
        (
            {
                "params": [{"name": "p", "value": [None, {"a": None}], "enum": [None, 1.5, "x"]}],
                "flows": [{"forEach": {"items": [None, 3, {}, [], True]}}],
                "finally": [{"forEach": {"items": None}}],
            },
            [],
        ),
        (
            {
                "flows": [{"forEach": {"items": 3, "count": 2.5}, "retry": {"limit": True}}],
                "finally": {"name": "a"},
                "ttlSecondsAfterFinished": 2**31,
            },
            [
                mistyped(f"{STEP}.forEach.items", "array", "integer", "write a list: [3]"),
                mistyped(f"{STEP}.forEach.count", "integer,string", "number"),
                mistyped(f"{STEP}.retry.limit", "integer,string", "boolean"),
                mistyped("spec.finally", "array", "object"),
                f"spec.ttlSecondsAfterFinished: Invalid value: 2147483648: {INT32}",
            ],
        ),
    ],
)  # fmt: skip
def test_schema_faults_of_a_flow_are_reported(spec: Any, words: list[str]):
    assert of_flow(spec) == words


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            {"minAvailable": "1"},
            [mistyped("spec.minAvailable", "integer", "string", "write 1, without quotes")],
        ),
        ({"minAvailable": "one"}, [mistyped("spec.minAvailable", "integer", "string")]),
        ({"minAvailable": 1.5}, [mistyped("spec.minAvailable", "integer", "number")]),
        ({"minAvailable": 2**31}, [f"spec.minAvailable: Invalid value: 2147483648: {INT32}"]),
        (
            {"tasks": [{"policies": [{"exitCode": -(2**32)}]}]},
            [f"spec.tasks[0].policies[0].exitCode: Invalid value: -4294967296: {INT32}"],
        ),
        (
            {"plugins": {"env": None, "svc": [None], "ssh": 3, "mpi": {}}},
            [
                mistyped("spec.plugins.svc[0]", "string", "null", "remove the empty item"),
                mistyped("spec.plugins.ssh", "array", "integer", "write a list: [3]"),
                mistyped("spec.plugins.mpi", "array", "object"),
            ],
        ),
        ({"tasks": [{"template": "x"}]}, [mistyped("spec.tasks[0].template", "object", "string")]),
    ],
)
def test_schema_faults_of_a_template_are_reported(spec: Any, words: list[str]):
    assert of_template(spec) == words


@pytest.mark.parametrize(
    "obj",
    [
        TEMPLATE | {"spec": None},
        TEMPLATE | {"spec": {}},
        TEMPLATE | {"spec": {"minAvailable": 1.0}},
        TEMPLATE | {"spec": {"minAvailable": None, "tasks": None, "plugins": {"env": None}}},
        TEMPLATE | {"spec": {"networkTopology": {"highestTierAllowed": 3_000_000_000}}},
        TEMPLATE | {"spec": {"tasks": [{"template": {"anything": [None, 1, {"at": "all"}]}}]}},
        FLOW,
        FLOW | {"status": "x"},
        FLOW | {"spec": {"flows": [{"patch": {"jobSpec": {"queue": None, "x": [None]}}}]}},
    ],
)
def test_valid_objects_are_accepted(obj: Any):
    assert reported(obj, strict=True) == []


def test_the_api_group_of_old_manifests_is_refused():
    assert reported(FLOW | {"apiVersion": "batch.volcano.sh/v1alpha1"}) == [
        'apiVersion: Unsupported value: "batch.volcano.sh/v1alpha1": '
        'supported values: "flow.volcano.sh/v1alpha1"'
    ]


def test_metadata_of_a_wrong_type_is_refused():
    metadata = {"name": "f", "labels": {"a": None}, "annotations": {"x.io/exit-code": 3}}
    path = "metadata.annotations[x.io/exit-code]"
    assert reported(FLOW | {"metadata": metadata}) == [
        mistyped(path, "string", "integer", 'write "3", in quotes')
    ]


@pytest.mark.parametrize(
    ("obj", "hints"),
    [
        (FLOW | {"foo": 1}, {"foo": ""}),
        (FLOW | {"metadata": {"name": "f", "label": {}}},
         {"metadata.label": 'did you mean "labels"?'}),
        (FLOW | {"spec": {"JobRetainPolicy": "retain"}},
         {"spec.JobRetainPolicy": 'did you mean "jobRetainPolicy"?'}),
        (FLOW | {"spec": {"flows": [{"name": "a", "queue": "q"}]}},
         {"spec.flows[0].queue": "it is a job's: spec.queue of the JobTemplate, or queue in "
                                 "jobSpec or patch.jobSpec"}),
        (FLOW | {"spec": {"flows": [{"targets": ["a"], "dependsOn": {"target": ["b"]}}]}},
         {"spec.flows[0].targets": "it belongs in spec.flows[].dependsOn.targets",
          "spec.flows[0].dependsOn.target": 'did you mean "targets"?'}),
        (FLOW | {"spec": {"queue": "q", "limit": 3, "finally": [{"items": []}], "probe": {}}},
         {"spec.queue": "it belongs in spec.jobDefaults.queue",
          "spec.limit": "it belongs in spec.concurrency.limit or spec.flows[].retry.limit",
          "spec.finally[0].items": "it belongs in spec.finally[].forEach.items",
          "spec.probe": "it belongs in spec.flows[].dependsOn.probe"}),
        (TEMPLATE | {"spec": {"tasks": [{"queue": "q"}], "template": {}, "task": []}},
         {"spec.tasks[0].queue": "it belongs in spec.queue of the job",
          "spec.template": "it belongs in tasks[].template",
          "spec.task": 'did you mean "tasks"?'}),
        (TEMPLATE | {"spec": {"forEach": {"count": 3}}},
         {"spec.forEach": "it is a field of a JobFlow's step: spec.flows[].forEach"}),
        (TEMPLATE | {"spec": {"tasks": [{"template": {"anything": 1}}]}}, {}),
    ],
)  # fmt: skip
def test_unknown_fields_are_faults_only_if_strict(obj: dict[str, Any], hints: dict[str, str]):
    assert reported(obj, strict=True) == [
        f"{path}: Forbidden: unknown field" + (f"; {hint}" if hint else "")
        for path, hint in hints.items()
    ]
    assert reported(obj, strict=False) == []


def test_faults_are_in_the_order_of_the_object():
    obj = FLOW | {"spec": {"flows": [{"x": 1, "template": 2}], "y": 3}, "a": 1}
    assert [v.path for v in schema_violations("JobFlow", obj, strict=True)] == [
        "spec.flows[0].x",
        "spec.flows[0].template",
        "spec.y",
        "a",
    ]


@pytest.mark.parametrize(
    ("obj", "word"),
    [(None, "null"), (3, "integer"), ([], "array"), ("x", "string"), (True, "boolean")],
)
def test_a_value_that_is_no_object_is_refused(obj: Any, word: str):
    assert reported(obj) == [f'Invalid value: "{word}": must be of type object: "{word}"']


def deep() -> dict[str, Any]:
    node: dict[str, Any] = {}
    for _ in range(400):
        node = {"x": node}
    return node


@pytest.mark.parametrize(
    "value",
    [{1: 2}, datetime.date(2026, 1, 1), "\ud800", b"x", deep()],
    ids=["a key that is a number", "a date", "half a surrogate pair", "bytes", "400 levels"],
)
def test_a_value_that_is_no_json_is_one_violation(value: Any):
    (words,) = of_flow({"jobRetainPolicy": value})
    assert words.startswith('Invalid value: "object": cannot be read as JSON: ')


KNOWN_KEYWORDS = {
    *("type", "description", "format", "enum", "nullable", "properties", "items"),
    *("additionalProperties", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"),
    "x-kubernetes-map-type",  # describes the owner of a field, not its values
}


@pytest.mark.parametrize("kind", ["JobFlow", "JobTemplate"])
def test_the_check_understands_every_keyword_of_the_crds(kind: str):
    schemas = [openapi_schema(kind)]
    for schema in schemas:
        assert schema.keys() <= KNOWN_KEYWORDS
        assert schema.get("format") in (None, "int32", "int64", "date-time")
        below = [schema.get("items"), schema.get("additionalProperties")]
        schemas += [*schema.get("properties", {}).values(), *(s for s in below if s)]
    assert len(schemas) > 20


def test_a_kind_without_a_crd_raises():
    with pytest.raises(KeyError):
        schema_violations("Pod", {}, strict=True)


def test_faults_of_a_job_spec_have_its_path():
    spec = {"tasks": [{"replicas": "2"}, None], "queue": None}
    assert [str(violation) for violation in job_spec_violations(spec, "p.jobSpec")] == [
        'p.jobSpec.tasks[0].replicas: Invalid value: "string": must be of type integer: "string"; '
        "write 2, without quotes",
        'p.jobSpec.tasks[1]: Invalid value: "null": must be of type object: "null"; '
        "remove the empty item",
    ]


@given(JSON, st.sampled_from(["JobFlow", "JobTemplate"]), st.booleans())
def test_no_object_makes_the_check_raise(obj: Any, kind: str, strict: bool):
    for violation in schema_violations(kind, obj, strict=strict):
        assert str(violation)
