"""CRD schemas on both servers: refusals, pruning and warnings."""

from typing import Any

import pytest

from support.sandbox.rest_client import flow
from support.sandbox.servers import Server

KIND = 'JobFlow in version "v1alpha1" cannot be handled as a JobFlow: strict decoding error: '


def spec(**fields: Any) -> dict[str, Any]:
    return {**flow("f"), "spec": fields}


@pytest.mark.parametrize(
    ("fields", "path", "message"),
    [
        (
            {"flows": "x"},
            "spec.flows",
            'Invalid value: "string": spec.flows in body must be of type array: "string"',
        ),
        (
            {"flows": [{"name": 3}]},
            "spec.flows[0].name",
            'Invalid value: "integer": spec.flows[0].name in body must be of type string: '
            '"integer"',
        ),
        (
            {"flows": [{"name": "a", "dependsOn": {"targets": [None]}}]},
            "spec.flows[0].dependsOn.targets[0]",
            'Invalid value: "null": spec.flows[0].dependsOn.targets[0] in body must be of type '
            'string: "null"',
        ),
        (
            {"jobRetainPolicy": "keep"},
            "spec.jobRetainPolicy",
            'Unsupported value: "keep": supported values: "retain", "delete"',
        ),
    ],
    ids=["array", "string", "null-in-a-list", "enum"],
)
async def test_a_refusal_names_the_field_and_the_fault(
    api: Server, fields: dict[str, Any], path: str, message: str
) -> None:
    answer = await api.post(api.flows, spec(**fields))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.causes == {path: message}
    assert answer.message == f'JobFlow.flow.volcano.sh "f" is invalid: {path}: {message}'
    details = {k: v for k, v in answer.json["details"].items() if k != "causes"}
    assert details == {"name": "f", "group": "flow.volcano.sh", "kind": "JobFlow"}


async def test_all_faults_are_in_one_answer(api: Server) -> None:
    answer = await api.post(api.flows, spec(flows=[3, {"name": []}], jobRetainPolicy="x"))
    assert set(answer.causes) == {"spec.flows[0]", "spec.flows[1].name", "spec.jobRetainPolicy"}


async def test_a_status_must_match_its_schema(api: Server) -> None:
    await api.create(api.flows, flow("f"))
    status = {"progress": 3, "jobStatusList": [{"name": "a", "startTimestamp": "yesterday"}]}
    answer = await api.patch(f"{api.flows}/f/status", {"status": status})
    assert answer.code == 422
    assert answer.causes == {
        "status.progress": 'Invalid value: "integer": progress in body must be of type string: '
        '"integer"',
        "status.jobStatusList[0].startTimestamp": 'Invalid value: "yesterday": '
        'jobStatusList[0].startTimestamp in body must be of type date-time: "yesterday"',
    }


async def test_nulls_are_pruned_except_in_untyped_fields(api: Server) -> None:
    patch = {"jobSpec": {"queue": None, "x": {"y": None}}}
    step = {"name": "a", "dependsOn": None, "patch": patch}
    created = await api.create(api.flows, spec(jobRetainPolicy=None, flows=[step]))
    assert created["spec"] == {"flows": [{"name": "a", "patch": patch}]}
    status = {"status": {"jobStatusList": [{"name": "a", "endTimestamp": None}]}}
    answer = await api.patch(f"{api.flows}/f/status", status)
    assert answer.json["status"] == {"jobStatusList": [{"name": "a"}]}


ANYTHING: list[Any] = [
    None, 0, 1, -2.5, 1e300, True, "", "text", "$(item)", [], {}, [None, [None]],
    {"a": None, "b": {"c": [None, {"d": None}]}, "x.io/y": 1, "": 2},
]  # fmt: skip


@pytest.mark.long
async def test_values_of_any_type_are_stored_unchanged(api: Server) -> None:
    """Nulls in lists and maps are stored at any depth. Only a value that is null itself can be
    dropped."""
    params = [{"name": f"p{i}", "value": value} for i, value in enumerate(ANYTHING)]
    fields = {
        "flows": [{"name": "a", "forEach": {"items": ANYTHING}, "switch": [{"patch": PATCH}]}],
        "params": [*params, {"name": "e", "value": [ANYTHING], "enum": [*ANYTHING, ANYTHING]}],
        "finally": [{"name": "b", "patch": PATCH, "forEach": {"items": [ANYTHING]}}],
        "jobDefaults": {"labels": {"x.io/y": "z"}, "plugins": {"svc": []}},
    }
    await api.create(api.flows, spec(**fields))
    stored = (await api.get(f"{api.flows}/f")).json["spec"]
    first = stored["params"][0]
    assert first in ({"name": "p0"}, {"name": "p0", "value": None})
    first["value"] = None
    assert stored == fields


async def test_decided_items_are_stored_except_for_nulls_in_maps(api: Server) -> None:
    """A real API server drops nulls of maps within lists from a merge patch."""
    items = [None, 0, 1.5, "x", [], {}, [None, [None]], {"a": {"b": [None, 1]}}]
    await api.create(api.flows, flow("f"))
    run = {"index": 0, "phase": "Running", "attempts": 1}
    conditions = {"f-a": {"decisions": {"when": True, "case": 0, "items": items}, "runs": [run]}}
    answer = await api.patch(f"{api.flows}/f/status", {"status": {"conditions": conditions}})
    assert answer.json["status"]["conditions"] == conditions


PATCH = {"jobSpec": {"queue": None, "tasks": [{"name": "x", "replicas": "$(item)", "y": None}]}}


async def test_a_null_spec_is_pruned(api: Server) -> None:
    created = await api.create(api.flows, {**flow("f"), "spec": None})
    assert "spec" not in created


UNKNOWN = {**flow("f"), "spec": {"flows": [{"name": "a", "nmae": "b"}]}, "extra": 1}
UNKNOWN_FIELDS = ['unknown field "extra"', 'unknown field "spec.flows[0].nmae"']
DUPLICATE = (
    b'{"apiVersion":"flow.volcano.sh/v1alpha1","kind":"JobFlow","metadata":{"name":"f"},'
    b'"spec":{"flows":[{"name":"a","name":"b"}]}}'
)


class TestUnknownFields:
    async def test_strict_validation_refuses_unknown_fields(self, api: Server) -> None:
        answer = await api.post(api.flows, UNKNOWN, fieldValidation="Strict")
        assert (answer.code, answer.reason) == (400, "BadRequest")
        assert answer.message == KIND + ", ".join(UNKNOWN_FIELDS)
        answer = await api.post(api.flows, DUPLICATE, fieldValidation="Strict")
        assert answer.message == KIND + 'duplicate field "spec.flows[0].name"'
        await api.create(api.flows, flow("f"))
        answer = await api.patch(f"{api.flows}/f", {"spec": {"bogus": 1}}, fieldValidation="Strict")
        assert (answer.code, answer.reason) == (422, "Invalid")
        assert answer.message.endswith('strict decoding error: unknown field "spec.bogus"')

    async def test_warn_validation_warns_and_prunes(self, api: Server) -> None:
        answer = await api.post(api.flows, UNKNOWN)
        assert answer.code == 201 and "extra" not in answer.json
        assert answer.json["spec"] == {"flows": [{"name": "a"}]}
        escaped = [text.replace('"', '\\"') for text in UNKNOWN_FIELDS]
        assert answer.warnings == [f'299 - "{text}"' for text in escaped]
        answer = await api.patch(f"{api.flows}/f", {"spec": {"bogus": 1}})
        assert answer.warnings == ['299 - "unknown field \\"spec.bogus\\""']

    async def test_ignore_validation_prunes_silently(self, api: Server) -> None:
        answer = await api.post(api.flows, UNKNOWN, fieldValidation="Ignore")
        assert (answer.code, answer.warnings) == (201, [])
        assert answer.json["spec"] == {"flows": [{"name": "a"}]}

    async def test_an_unknown_validation_is_refused(self, api: Server) -> None:
        answer = await api.post(api.flows, flow("f"), fieldValidation="Some")
        assert (answer.code, answer.reason) == (422, "Invalid")
        assert answer.message == (
            'CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Some": '
            'supported values: "", "Ignore", "Strict", "Warn"'
        )
