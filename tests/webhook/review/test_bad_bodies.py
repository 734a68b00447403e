"""Bodies that no API server would send: each gets one clear sentence, none a traceback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobflow.api.schema.nesting import READABLE_DEPTH
from jobflow.webhook.review.review import Answer, ReviewOutcome, reviewers
from support.admission.admissions import FakeCluster, review, stored
from support.sandbox.manifests import DIAMOND, jobflow, template

ENVELOPE = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


async def answered(body: bytes, kind: str = "JobFlow") -> Answer:
    return await reviewers(FakeCluster())[f"/{kind.lower()}s/validate"].review(body)


async def causes(body: bytes, kind: str = "JobFlow") -> dict[str, str]:
    """Field and message of each cause of a 422."""
    answer = await answered(body, kind)
    response = json.loads(answer.body)["response"]
    assert (answer.code, answer.outcome) == (200, ReviewOutcome.REFUSED)
    assert (response["allowed"], response["status"]["code"]) == (False, 422)
    found = response["status"]["details"]["causes"]
    return {cause.get("field", ""): cause["message"] for cause in found}


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
async def test_a_body_that_is_no_review_is_told_so(body: bytes) -> None:
    answer = await answered(body)
    status = json.loads(answer.body)
    assert (answer.code, answer.outcome) == (400, ReviewOutcome.MALFORMED)
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 400, "BadRequest")
    assert MALFORMED[body] in status["message"]
    assert "\n" not in status["message"] and len(status["message"]) < 300


async def test_a_review_sent_to_the_other_path_is_told_so() -> None:
    answer = await answered(GOOD, "JobTemplate")
    message = json.loads(answer.body)["message"]
    assert message == (
        "this path reviews JobTemplate of group flow.volcano.sh, not JobFlow of group "
        "flow.volcano.sh"
    )


async def test_numbers_for_strings_are_all_named() -> None:
    flow = jobflow("diamond", {})
    flow["spec"] = {
        "flows": [{"name": 1}, {"name": "b", "dependsOn": {"targets": [2], "strategy": 3}}],
        "jobRetainPolicy": 4,
    }
    found = await causes(review("CREATE", flow))
    assert list(found) == [
        "spec.flows[0].name",
        "spec.flows[1].dependsOn.targets[0]",
        "spec.flows[1].dependsOn.strategy",
        "spec.jobRetainPolicy",
    ]
    assert all("must be of type string" in message for message in found.values())


async def test_numbers_for_strings_in_a_template_are_all_named() -> None:
    bad = template("a")
    bad["spec"]["queue"] = 1
    bad["spec"]["tasks"][0]["name"] = 2
    old = review("UPDATE", stored(bad), stored(template("a")), kind="JobTemplate")
    for body in (review("CREATE", bad, kind="JobTemplate"), old):
        assert list(await causes(body, "JobTemplate")) == ["spec.queue", "spec.tasks[0].name"]


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    found = [path] if path else []
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, below in items:
        found += paths(below, (*path, key))
    return found


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
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


@pytest.mark.parametrize("wrong", [None, 7, "text", [], {}, [None], {"x": None}, -1e300, True])
@pytest.mark.parametrize("kind", ["JobFlow", "JobTemplate"])
async def test_any_value_anywhere_has_an_answer(kind: str, wrong: Any) -> None:
    good = stored(PATCHED if kind == "JobFlow" else template("a", output="{}"))
    for path in paths(good):
        bad = replaced(good, path, wrong)
        for body in (
            review("CREATE", bad, kind=kind),
            review("UPDATE", bad, good, kind=kind),
            review("UPDATE", good, bad, kind=kind),
            review("DELETE", None, bad, kind=kind),
        ):
            answer = await answered(body, kind)
            assert answer.outcome in (ReviewOutcome.ALLOWED, ReviewOutcome.REFUSED), (
                path,
                answer.body,
            )


@pytest.mark.parametrize("path", paths(PATCHED["spec"], ("spec",))[:3], ids=str)
async def test_a_null_counts_as_left_out(path: tuple[Any, ...]) -> None:
    flow = replaced(stored(PATCHED), path, None)
    found = await causes(review("CREATE", flow))
    assert all("null" not in message for field, message in found.items() if "[" not in field)
    assert any(field.startswith("spec.flows") for field in found)


async def test_metadata_of_the_wrong_type_is_named() -> None:
    flow = jobflow("diamond", DIAMOND)
    flow["metadata"]["labels"] = {"n": 5}
    found = await causes(review("CREATE", flow))
    assert list(found) == ["metadata.labels.n"]


async def test_a_date_that_is_none_is_named_by_the_type() -> None:
    flow = jobflow("diamond", DIAMOND)
    flow["metadata"]["creationTimestamp"] = "yesterday"
    assert list(await causes(review("CREATE", flow))) == ["metadata.creationTimestamp"]


async def test_an_object_that_is_none_is_refused() -> None:
    assert await causes(review("CREATE", "text"))
    assert await causes(review("CREATE", []))
    assert await causes(review("UPDATE", "text", stored(jobflow("diamond", DIAMOND))))


class TestStoredUnderAnotherSchema:
    """Objects that no type of ours fits."""

    odd = stored(jobflow("diamond", {"a": []}) | {"spec": {"flows": {"a": "b"}}})

    async def test_it_may_be_labelled(self) -> None:
        new = self.odd | {"metadata": self.odd["metadata"] | {"labels": {"a": "b"}}}
        assert (await answered(review("UPDATE", new, self.odd))).outcome == ReviewOutcome.ALLOWED

    async def test_it_may_be_finalised(self) -> None:
        deleted = {"deletionTimestamp": "2026-08-01T11:00:00Z"}
        new = stored(jobflow("diamond", {"a": []}), **deleted)
        assert (await answered(review("UPDATE", new, self.odd))).outcome == ReviewOutcome.ALLOWED

    async def test_it_may_be_deleted(self) -> None:
        assert (await answered(review("DELETE", None, self.odd))).outcome == ReviewOutcome.ALLOWED

    async def test_its_spec_stays_all_the_same(self) -> None:
        found = await causes(review("UPDATE", stored(jobflow("diamond", DIAMOND)), self.odd))
        assert all(field.startswith("spec") for field in found)

    async def test_a_template_of_that_kind_may_be_mended(self) -> None:
        odd = stored(template("a")) | {"spec": [1]}
        body = review("UPDATE", stored(template("a")), odd, kind="JobTemplate")
        assert (await answered(body, "JobTemplate")).outcome == ReviewOutcome.ALLOWED


def deepened(obj: dict[str, Any], depth: int, leaf: str = "1") -> bytes:
    """The JSON of an object with so many maps in each other for the text DEEP."""
    written = json.dumps(obj).encode()
    assert b'"DEEP"' in written
    return written.replace(b'"DEEP"', b'{"a":' * depth + leaf.encode() + b"}" * depth)


def deep_flow(depth: int, leaf: str = "1", **meta: Any) -> bytes:
    """A flow with so many maps in each other below its patch."""
    flow = stored(jobflow("diamond", {"a": []}), **meta)
    flow["spec"]["flows"][0]["patch"] = {"jobSpec": {"tasks": [{"template": "DEEP"}]}}
    return deepened(flow, depth, leaf)


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
    found = await causes(deep_review("CREATE", deep_flow(depth)))
    assert found == {
        TOO_DEEP_AT: "Too long: nested more than 100 levels deep; flatten the value or write it "
        "as a text"
    }


@pytest.mark.parametrize(("depth", "places"), [(92, []), (93, [TOO_DEEP_AT])])
async def test_a_depth_of_a_hundred_is_not_too_deep(depth: int, places: list[str]) -> None:
    answer = await answered(deep_review("CREATE", deep_flow(depth)))
    too_deep = [each.path for each in answer.violations if "nested" in each.detail]
    assert too_deep == places


@DEPTHS
async def test_a_template_that_is_nested_too_deeply_is_refused_at_its_place(depth: int) -> None:
    spec = stored(template("a"))
    spec["spec"]["tasks"][0]["template"]["spec"]["x"] = "DEEP"
    body = review("CREATE", "OBJ", kind="JobTemplate").replace(b'"OBJ"', deepened(spec, depth))
    cluster = FakeCluster()
    answer = await reviewers(cluster)["/jobtemplates/validate"].review(body)
    (violation,) = answer.violations
    assert violation.path == "spec.tasks[0].template.spec.x" + ".a" * 94
    assert cluster.tried == []


@DEPTHS
async def test_what_is_nested_too_deeply_and_of_the_wrong_shape_is_refused(depth: int) -> None:
    flow = stored(jobflow("diamond", {"a": []})) | {"spec": {"flows": "DEEP"}}
    (place,) = await causes(deep_review("CREATE", deepened(flow, depth)))
    assert place == "spec.flows" + ".a" * 98


@DEPTHS
async def test_what_was_stored_too_deep_may_be_labelled_and_deleted_and_nothing_else(
    depth: int,
) -> None:
    old, labelled = deep_flow(depth), deep_flow(depth, labels={"a": "b"})
    changed = deep_flow(depth, "2")
    assert (await answered(deep_review("UPDATE", labelled, old))).outcome == ReviewOutcome.ALLOWED
    assert (await answered(deep_review("UPDATE", changed, old))).outcome == ReviewOutcome.REFUSED
    if depth > READABLE_DEPTH:
        assert (await answered(deep_review("DELETE", None, old))).outcome == ReviewOutcome.ALLOWED
