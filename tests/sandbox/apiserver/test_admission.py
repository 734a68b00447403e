"""Admission webhooks over HTTPS: matching, failures, mutation, configuration rules."""

import asyncio
import base64
import json
from typing import Any

import pytest

from support.network.webhook_server import Hook, configuration, running_hook
from support.sandbox.rest_client import FLOWS, NAMESPACES, VCJOBS, Rest, flow, vcjob

REGISTERED = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{REGISTERED}/validatingwebhookconfigurations"
MUTATING = f"{REGISTERED}/mutatingwebhookconfigurations"


async def test_warnings_are_returned_to_the_client(api: Rest, hook: Hook) -> None:
    hook.decide = lambda request: {"allowed": True, "warnings": ['mind "the" gap', "zwei\nlinien"]}
    await api.create(VALIDATING, configuration(hook.webhook("jobflows")))
    answer = await api.post(FLOWS, flow())
    assert answer.warnings == [r'299 - "mind \"the\" gap"', '299 - "zwei linien"']


@pytest.mark.parametrize(
    ("rule", "reviewed"),
    [
        ({"resources": ["jobflows"]}, ["CREATE ", "UPDATE ", "DELETE "]),
        ({"resources": ["jobflows/status"]}, ["UPDATE status"]),
        ({"resources": ["jobflows/*"]}, ["CREATE ", "UPDATE ", "UPDATE status", "DELETE "]),
        ({"resources": ["*"]}, ["CREATE ", "UPDATE ", "DELETE "]),
        ({"resources": ["*/status"]}, ["UPDATE status"]),
        ({"resources": ["jobs"]}, []),
        ({"operations": ["DELETE"]}, ["DELETE "]),
        ({"apiGroups": ["batch.volcano.sh"]}, []),
        ({"apiVersions": ["v1"]}, []),
        ({"scope": "Cluster"}, []),
        ({"scope": "Namespaced"}, ["CREATE ", "UPDATE ", "DELETE "]),
    ],
)
async def test_rules_select_the_reviewed_requests(
    api: Rest, hook: Hook, rule: dict[str, Any], reviewed: list[str]
) -> None:
    webhook = hook.webhook("jobflows")
    webhook["rules"][0] |= rule
    await api.create(VALIDATING, configuration(webhook))
    await api.create(FLOWS, flow())
    await api.patch(f"{FLOWS}/f", {"metadata": {"labels": {"a": "b"}}})
    await api.patch(f"{FLOWS}/f/status", {"status": {"progress": "1/1"}})
    await api.delete(f"{FLOWS}/f")
    assert [f"{r['operation']} {r.get('subResource', '')}" for r in hook.requests] == reviewed


async def test_selectors_select_the_reviewed_objects(api: Rest, hook: Hook) -> None:
    namespaces = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In"}]}
    namespaces["matchExpressions"][0]["values"] = ["default"]  # type: ignore[assignment]
    webhook = hook.webhook(
        "jobflows", namespaceSelector=namespaces, objectSelector={"matchLabels": {"check": "yes"}}
    )
    await api.create(VALIDATING, configuration(webhook))
    await api.create(NAMESPACES, {"metadata": {"name": "other"}})
    await api.create(FLOWS.replace("default", "other"), flow("a", labels={"check": "yes"}))
    await api.create(FLOWS, flow("b"))
    await api.create(FLOWS, flow("c", labels={"check": "yes"}))
    await api.patch(f"{FLOWS}/c", {"metadata": {"labels": None}})
    assert [(r["operation"], r["name"]) for r in hook.requests] == [
        ("CREATE", "c"),
        ("UPDATE", "c"),
    ]


async def test_a_webhook_times_out(api: Rest, hook: Hook) -> None:
    hook.hold = asyncio.Event()
    await api.create(VALIDATING, configuration(hook.webhook("jobflows", timeoutSeconds=1)))
    answer = await api.post(FLOWS, flow())
    hook.hold.set()
    assert answer.code == 500 and answer.message.endswith("context deadline exceeded")


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({"uid": "x", "allowed": True}, 'expected response.uid="'),
        ({"allowed": True, "uid": None}, 'expected response.uid="'),
    ],
)
async def test_a_response_with_another_uid_is_an_error(
    api: Rest, hook: Hook, response: dict[str, Any], words: str
) -> None:
    hook.decide = lambda request: response
    await api.create(VALIDATING, configuration(hook.webhook("jobflows")))
    answer = await api.post(FLOWS, flow())
    assert answer.code == 500 and words in answer.message


async def test_a_webhook_that_fails_is_an_error(api: Rest, hook: Hook) -> None:
    hook.status = 503
    await api.create(VALIDATING, configuration(hook.webhook("jobflows")))
    answer = await api.post(FLOWS, flow())
    assert answer.code == 500 and "status code 503" in answer.message


async def test_a_service_is_not_found(api: Rest, hook: Hook) -> None:
    webhook = hook.webhook("jobflows")
    webhook["clientConfig"] = {"service": {"name": "s", "namespace": "n", "path": "/p"}}
    await api.create(VALIDATING, configuration(webhook))
    answer = await api.post(FLOWS, flow())
    assert answer.message.endswith(
        'Post "https://s.n.svc:443/p?timeout=10s": service "s" not found'
    )


async def test_all_webhooks_are_called_and_one_refusal_is_enough(api: Rest, hook: Hook) -> None:
    async with running_hook() as other:
        other.decide = lambda request: {"allowed": False, "status": {"message": "not mine"}}
        second = other.webhook("jobflows", name="second.jobflow.test")
        await api.create(VALIDATING, configuration(hook.webhook("jobflows"), second))
        answer = await api.post(FLOWS, flow())
    assert answer.message == 'admission webhook "second.jobflow.test" denied the request: not mine'
    assert len(hook.requests) == len(other.requests) == 1


@pytest.mark.long
async def test_a_mutating_webhook_changes_the_stored_object(api: Rest, hook: Hook) -> None:
    patch = [{"op": "add", "path": "/spec/jobRetainPolicy", "value": "delete"}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    hook.decide = lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
    await api.create(MUTATING, configuration(hook.webhook("jobflows"), mutating=True))
    created = await api.create(FLOWS, flow())
    assert created["spec"]["jobRetainPolicy"] == "delete"


@pytest.mark.parametrize("patch", ["?", base64.b64encode(b"x").decode()])
async def test_a_malformed_patch_of_a_webhook_is_an_error(
    api: Rest, hook: Hook, patch: str
) -> None:
    hook.decide = lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    await api.create(MUTATING, configuration(hook.webhook("jobflows"), mutating=True))
    assert (await api.post(FLOWS, flow())).code in (400, 500)


async def test_a_change_during_a_review_is_a_conflict(api: Rest, hook: Hook) -> None:
    await api.create(FLOWS, flow())
    hook.hold = asyncio.Event()
    await api.create(VALIDATING, configuration(hook.webhook("jobflows")))
    version = (await api.get(f"{FLOWS}/f")).meta["resourceVersion"]
    spec = {"spec": {"jobRetainPolicy": "delete"}}
    pinned = {**spec, "metadata": {"resourceVersion": version}}
    patches = [asyncio.create_task(api.patch(f"{FLOWS}/f", body)) for body in (pinned, spec)]
    await hook.wait_for_requests(2)
    await api.patch(f"{FLOWS}/f/status", {"status": {"progress": "0/1"}})
    hook.hold.set()
    first, second = await asyncio.gather(*patches)
    assert (first.code, second.code) == (409, 200)
    assert second.json["status"] == {"progress": "0/1"}


async def test_the_deletion_of_a_namespace_sends_reviews_of_its_objects(
    api: Rest, hook: Hook
) -> None:
    await api.create(NAMESPACES, {"metadata": {"name": "n"}})
    await api.create(FLOWS.replace("default", "n"), flow())
    await api.create(VALIDATING, configuration(hook.webhook("jobflows", operations=["DELETE"])))
    await api.delete(f"{NAMESPACES}/n")
    await api.wait_until_deleted(f"{NAMESPACES}/n")
    (request,) = hook.requests
    user = "system:serviceaccount:kube-system:namespace-controller"
    assert (request["namespace"], request["userInfo"]["username"]) == ("n", user)


async def test_a_refused_delete_of_a_dependent_is_tried_again(api: Rest, hook: Hook) -> None:
    owner = await api.create(FLOWS, flow())
    await api.create(VCJOBS, vcjob("j", owner))
    hook.decide = lambda request: {"allowed": len(hook.requests) > 1}
    await api.create(VALIDATING, configuration(hook.webhook("jobs")))
    await api.delete(f"{FLOWS}/f")
    await api.wait_until_deleted(f"{VCJOBS}/j")
    assert len(hook.requests) == 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "short"}, "webhooks[0].name"),
        ({"name": ""}, "webhooks[0].name"),
        ({"sideEffects": None}, "webhooks[0].sideEffects"),
        ({"sideEffects": "Some"}, "webhooks[0].sideEffects"),
        ({"admissionReviewVersions": []}, "webhooks[0].admissionReviewVersions"),
        ({"failurePolicy": "Maybe"}, "webhooks[0].failurePolicy"),
        ({"matchPolicy": "Maybe"}, "webhooks[0].matchPolicy"),
        ({"timeoutSeconds": 31}, "webhooks[0].timeoutSeconds"),
        ({"clientConfig": {}}, "webhooks[0].clientConfig"),
        ({"clientConfig": {"url": "http://x"}}, "webhooks[0].clientConfig.url"),
        ({"clientConfig": {"service": {}}}, "webhooks[0].clientConfig"),
        (
            {"clientConfig": {"service": {"name": "x"}}},
            "webhooks[0].clientConfig.service.namespace",
        ),
        (
            {"clientConfig": {"url": "https://x", "caBundle": "?"}},
            "webhooks[0].clientConfig.caBundle",
        ),
        ({"rules": [{"operations": ["TURN"]}]}, "webhooks[0].rules[0].operations[0]"),
        ({"rules": [{}]}, "webhooks[0].rules[0].resources"),
        ({"matchConditions": [{"name": "x"}]}, "webhooks[0].matchConditions[0].expression"),
        (
            {"matchConditions": [{"name": "x", "expression": "1 +"}]},
            "webhooks[0].matchConditions[0].expression",
        ),
    ],
)
async def test_an_invalid_configuration_is_refused(
    api: Rest, hook: Hook, fields: dict[str, Any], field: str
) -> None:
    answer = await api.post(VALIDATING, configuration({**hook.webhook("jobflows"), **fields}))
    assert answer.code == 422 and field in answer.causes


async def test_two_webhooks_of_the_same_name_are_refused(api: Rest, hook: Hook) -> None:
    duplicates = configuration(hook.webhook("jobflows"), hook.webhook("jobs"))
    assert list((await api.post(VALIDATING, duplicates)).causes) == ["webhooks[1].name"]


@pytest.mark.parametrize(
    ("kind", "policy", "expression", "code", "reviewed"),
    [
        (VALIDATING, "Fail", "object.metadata.name == 'f'", 201, True),
        (MUTATING, "Fail", "object.metadata.name == 'f'", 201, True),
        (VALIDATING, "Fail", "object.metadata.name == 'g'", 201, False),
        (MUTATING, "Fail", "request.operation == 'UPDATE'", 201, False),
        (MUTATING, "Fail", "request.userInfo.username == 'kubernetes-admin'", 201, True),
        (MUTATING, "Ignore", "object.spec.missing == 1", 201, False),
        (MUTATING, "Fail", "object.spec.missing == 1", 500, False),
    ],
)
async def test_match_conditions_select_the_reviewed_objects(
    api: Rest, hook: Hook, kind: str, policy: str, expression: str, code: int, reviewed: bool
) -> None:
    conditions = [
        {"name": "always", "expression": "true"},
        {"name": "only", "expression": expression},
    ]
    webhook = hook.webhook("jobflows", failurePolicy=policy, matchConditions=conditions)
    await api.create(kind, configuration(webhook, mutating=kind == MUTATING))
    assert (await api.post(FLOWS, flow())).code == code
    assert bool(hook.requests) is reviewed
