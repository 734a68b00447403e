"""Malformed bodies and objects of the wrong shape: each gets a clear answer."""

import json
from typing import Any

import pytest

from jobflow.api.nesting import READABLE_DEPTH
from jobflow.webhook.review.envelope import ReviewOutcome
from support.admission.admissions import FakeCluster, Response, answer_to, review, stored
from support.sandbox.manifests import DIAMOND, jobflow, template

ENVELOPE = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


async def faults(body: bytes, kind: str = "") -> dict[str, str]:
    return Response(await answer_to(body, kind=kind)).faults


async def is_allowed(body: bytes) -> bool:
    return (await answer_to(body)).outcome is ReviewOutcome.ALLOWED


def edited(body: bytes, **request: Any) -> bytes:
    data = json.loads(body)
    data["request"] |= request
    return json.dumps(data).encode()


GOOD = review("CREATE", stored(jobflow("diamond", DIAMOND)))

MALFORMED = {
    b"": "not JSON",
    b"hello": "not JSON",
    b"\xff\xfe": "not JSON",
    b'{"kind": "AdmissionReview"': "not JSON",
    b'{"kind": "\xff"}': "byte 0xff in a text is not UTF-8",
    GOOD.replace(b"diamond", b"diam\xc3nd"): "byte 0xc3 in a text is not UTF-8",
    b"null": "not an AdmissionReview",
    b"[]": "not an AdmissionReview",
    b"5": "not an AdmissionReview",
    b"{}": "no apiVersion no kind; send an admission.k8s.io/v1 AdmissionReview",
    b'{"kind": "JobFlow", "apiVersion": "flow.volcano.sh/v1alpha1"}': "v1alpha1 JobFlow",
    b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1beta1"}': "v1beta1",
    json.dumps(ENVELOPE).encode(): "no request",
    json.dumps(ENVELOPE | {"request": None}).encode(): "no request",
    json.dumps(ENVELOPE | {"request": {}}).encode(): "no request.uid",
    json.dumps(ENVELOPE | {"request": []}).encode(): "$.request",
    edited(GOOD, uid=7): "$.request.uid",
    edited(GOOD, uid=None): "$.request.uid",
    edited(GOOD, kind={"group": "batch", "version": "v1", "kind": "Job"}): "not Job of group batch",
    edited(GOOD, kind={"group": "", "version": "v1", "kind": ""}): "not no kind of group core",
    edited(GOOD, operation="CONNECT"): "'CONNECT' is not CREATE, UPDATE, DELETE",
    edited(GOOD, operation=""): "'' is not CREATE",
    edited(GOOD, object=None): "a CREATE needs request.object",
    edited(GOOD, operation="UPDATE"): "a UPDATE needs request.oldObject",
    edited(GOOD, operation="DELETE", object=None): "a DELETE needs request.oldObject",
    edited(GOOD, object=0).replace(b'"object": 0', b'"object":' + b"[" * 5000): "not JSON",
}


@pytest.mark.parametrize("body", MALFORMED, ids=[text[:60] for text in MALFORMED.values()])
async def test_a_body_that_is_not_a_review_is_answered_with_the_reason(body: bytes) -> None:
    answer = await answer_to(body, kind="JobFlow")
    status = json.loads(answer.body)
    assert (answer.code, answer.outcome) == (400, ReviewOutcome.MALFORMED)
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 400, "BadRequest")
    assert MALFORMED[body] in status["message"]
    assert "\n" not in status["message"] and len(status["message"]) < 300


async def test_a_review_on_the_path_of_the_other_kind_is_answered_with_the_reason() -> None:
    answer = await answer_to(GOOD, kind="JobTemplate")
    message = json.loads(answer.body)["message"]
    assert message == (
        "this path reviews JobTemplate of group flow.volcano.sh, not JobFlow of group "
        "flow.volcano.sh"
    )


async def test_all_numbers_for_strings_in_a_template_are_named() -> None:
    changed = template("a")
    changed["spec"]["queue"] = 1
    changed["spec"]["tasks"][0]["name"] = 2
    for body in (
        review("CREATE", changed),
        review("UPDATE", stored(changed), stored(template("a"))),
    ):
        assert list(await faults(body)) == ["spec.queue", "spec.tasks[0].name"]


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    result = [path] if path else []
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, below in items:
        result += paths(below, (*path, key))
    return result


def with_value(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    copy = json.loads(json.dumps(value))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = by
    return copy


PATCHED = jobflow("diamond", DIAMOND) | {"status": {"state": {"phase": "Running"}}}
PATCHED["spec"]["flows"][1] |= {
    "template": "x",
    "patch": {"jobSpec": {"minAvailable": 1, "tasks": [{"name": "main", "replicas": 2}]}},
}


@pytest.mark.parametrize("value", [None, 7, "text", [], {}, [None], {"x": None}, -1e300, True])
@pytest.mark.parametrize("kind", ["JobFlow", "JobTemplate"])
async def test_any_value_in_any_field_gets_an_answer(kind: str, value: Any) -> None:
    good = stored(PATCHED if kind == "JobFlow" else template("a", output="{}"))
    for path in paths(good):
        changed = with_value(good, path, value)
        for body in (
            review("CREATE", changed, kind=kind),
            review("UPDATE", changed, good, kind=kind),
            review("UPDATE", good, changed, kind=kind),
            review("DELETE", None, changed, kind=kind),
        ):
            answer = await answer_to(body, kind=kind)
            judged = answer.outcome in (ReviewOutcome.ALLOWED, ReviewOutcome.REFUSED)
            assert judged, (path, answer.body)


@pytest.mark.parametrize("path", paths(PATCHED["spec"], ("spec",))[:3], ids=str)
async def test_a_null_is_handled_like_a_missing_field(path: tuple[Any, ...]) -> None:
    flow = with_value(stored(PATCHED), path, None)
    result = await faults(review("CREATE", flow))
    assert all("null" not in message for field, message in result.items() if "[" not in field)
    assert any(field.startswith("spec.flows") for field in result)


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"labels": {"n": 5}}, "metadata.labels.n"),
        ({"creationTimestamp": "yesterday"}, "metadata.creationTimestamp"),
    ],
)
async def test_metadata_of_the_wrong_type_is_named(metadata: Any, field: str) -> None:
    flow = jobflow("diamond", DIAMOND)
    flow["metadata"] |= metadata
    assert list(await faults(review("CREATE", flow))) == [field]


@pytest.mark.parametrize(
    "body",
    [
        review("CREATE", "text"),
        review("CREATE", []),
        review("UPDATE", "text", stored(jobflow("diamond", DIAMOND))),
    ],
)
async def test_a_value_that_is_not_an_object_is_refused(body: bytes) -> None:
    assert await faults(body)


class TestStoredUnderAnotherSchema:
    odd = stored(jobflow("diamond", {"a": []}) | {"spec": {"flows": {"a": "b"}}})

    @pytest.mark.parametrize(
        "new",
        [
            odd | {"metadata": odd["metadata"] | {"labels": {"a": "b"}}},
            stored(jobflow("diamond", {"a": []}), deletionTimestamp="2026-08-01T11:00:00Z"),
            None,
        ],
        ids=["labels", "deletion", "delete"],
    )
    async def test_metadata_can_change_and_the_object_can_be_deleted(self, new: Any) -> None:
        assert await is_allowed(review("UPDATE" if new else "DELETE", new, self.odd))

    async def test_the_spec_cannot_change(self) -> None:
        result = await faults(review("UPDATE", stored(jobflow("diamond", DIAMOND)), self.odd))
        assert all(field.startswith("spec") for field in result)

    async def test_the_spec_of_a_template_can_be_corrected(self) -> None:
        odd = stored(template("a")) | {"spec": [1]}
        assert await is_allowed(review("UPDATE", stored(template("a")), odd))


def with_depth(obj: dict[str, Any], depth: int, leaf: str = "1") -> bytes:
    """Return the JSON of an object, with `depth` nested maps in place of the text DEEP."""
    written = json.dumps(obj).encode()
    assert b'"DEEP"' in written
    return written.replace(b'"DEEP"', b'{"a":' * depth + leaf.encode() + b"}" * depth)


def deep_flow(depth: int, leaf: str = "1", **meta: Any) -> bytes:
    """Return a flow with `depth` nested maps in its patch."""
    flow = stored(jobflow("diamond", {"a": []}), **meta)
    flow["spec"]["flows"][0]["patch"] = {"jobSpec": {"tasks": [{"template": "DEEP"}]}}
    return with_depth(flow, depth, leaf)


def deep_review(operation: str, obj: bytes | None, old: bytes | None = None) -> bytes:
    kinds = {"OBJ": obj, "OLD": old}
    body = review(operation, *(word if each is not None else None for word, each in kinds.items()))
    for word, each in kinds.items():
        body = body.replace(f'"{word}"'.encode(), each) if each is not None else body
    return body


DEPTHS = pytest.mark.parametrize("depth", [100, 300, 900, 990, 3_000, 30_000])
"""Below and above the recursion limits of interpreters."""
TOO_DEEP_AT = "spec.flows[0].patch.jobSpec.tasks[0].template" + ".a" * 92


@DEPTHS
async def test_an_object_that_is_nested_too_deeply_is_refused_at_its_place(depth: int) -> None:
    result = await faults(deep_review("CREATE", deep_flow(depth)))
    assert result == {
        TOO_DEEP_AT: "Too long: nested more than 100 levels deep; flatten the value or write it "
        "as a text"
    }


@pytest.mark.parametrize(("depth", "places"), [(92, []), (93, [TOO_DEEP_AT])])
async def test_a_depth_of_a_hundred_is_not_too_deep(depth: int, places: list[str]) -> None:
    answer = await answer_to(deep_review("CREATE", deep_flow(depth)))
    too_deep = [each.path for each in answer.violations if "nested" in each.detail]
    assert too_deep == places


@DEPTHS
async def test_a_template_that_is_nested_too_deeply_is_refused_at_its_place(depth: int) -> None:
    spec = stored(template("a"))
    spec["spec"]["tasks"][0]["template"]["spec"]["x"] = "DEEP"
    body = review("CREATE", "OBJ", kind="JobTemplate").replace(b'"OBJ"', with_depth(spec, depth))
    cluster = FakeCluster()
    answer = await answer_to(body, cluster)
    (violation,) = answer.violations
    assert violation.path == "spec.tasks[0].template.spec.x" + ".a" * 94
    assert cluster.tried == []


@DEPTHS
async def test_a_deep_value_of_the_wrong_shape_is_refused(depth: int) -> None:
    flow = stored(jobflow("diamond", {"a": []})) | {"spec": {"flows": "DEEP"}}
    (place,) = await faults(deep_review("CREATE", with_depth(flow, depth)))
    assert place == "spec.flows" + ".a" * 98


@DEPTHS
async def test_only_metadata_of_a_deep_stored_object_can_change(depth: int) -> None:
    old, labelled = deep_flow(depth), deep_flow(depth, labels={"a": "b"})
    changed = deep_flow(depth, "2")
    assert await is_allowed(deep_review("UPDATE", labelled, old))
    assert not await is_allowed(deep_review("UPDATE", changed, old))
    if depth > READABLE_DEPTH:
        assert await is_allowed(deep_review("DELETE", None, old))
