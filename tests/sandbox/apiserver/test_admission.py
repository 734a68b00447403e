"""Admission webhooks, called over real HTTPS: who is asked what, and what becomes of the answer."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from support.network.webhook_server import Hook, configuration, hook
from support.sandbox.rest_client import FLOWS, NAMESPACES, VCJOBS, Rest, flow, rest, vcjob

REGISTERED = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{REGISTERED}/validatingwebhookconfigurations"
MUTATING = f"{REGISTERED}/mutatingwebhookconfigurations"


@pytest_asyncio.fixture
async def api() -> AsyncIterator[Rest]:
    async with rest() as client:
        yield client


@pytest_asyncio.fixture
async def asked() -> AsyncIterator[Hook]:
    async with hook() as webhook:
        yield webhook


async def test_a_webhook_is_told_everything_about_a_write(api: Rest, asked: Hook) -> None:
    await api.made(VALIDATING, configuration(asked.webhook("jobflows")))
    await api.made(FLOWS, flow(), fieldManager="me")
    await api.patch(f"{FLOWS}/f", {"spec": {"jobRetainPolicy": "delete"}})
    await api.delete(f"{FLOWS}/f", {"propagationPolicy": "Background"})
    create, update, delete = asked.asked
    assert create["operation"] == "CREATE" and create["oldObject"] is None
    assert create["kind"] == {"group": "flow.volcano.sh", "version": "v1alpha1", "kind": "JobFlow"}
    assert create["resource"]["resource"] == "jobflows"
    assert (create["namespace"], create["name"], create["dryRun"]) == ("default", "f", False)
    assert create["object"]["metadata"]["uid"] and create["userInfo"]["username"]
    assert create["options"]["kind"] == "CreateOptions"
    assert create["options"]["fieldManager"] == "me"
    assert update["operation"] == "UPDATE"
    assert "jobRetainPolicy" not in update["oldObject"]["spec"]
    assert update["object"]["spec"]["jobRetainPolicy"] == "delete"
    assert delete["operation"] == "DELETE" and delete["object"] is None
    assert delete["oldObject"]["spec"]["jobRetainPolicy"] == "delete"
    assert delete["options"]["propagationPolicy"] == "Background"


async def test_a_refusal_keeps_code_reason_and_causes(api: Rest, asked: Hook) -> None:
    causes = [{"reason": "FieldValueInvalid", "message": "no such step", "field": "spec.flows[0]"}]
    details = {"name": "f", "kind": "JobFlow", "group": "flow.volcano.sh", "causes": causes}
    status = {"code": 422, "reason": "Invalid", "message": "it is wrong", "details": details}
    asked.decide = lambda request: {"allowed": False, "status": status}
    await api.made(VALIDATING, configuration(asked.webhook("jobflows")))
    answer = await api.post(FLOWS, flow())
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message == (
        'admission webhook "check.jobflow.test" denied the request: it is wrong'
    )
    assert answer.json["details"] == details
    assert (await api.get(f"{FLOWS}/f")).code == 404


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        ({"message": "no"}, 400, " denied the request: no"),
        ({"reason": "Forbidden", "code": 403}, 403, " denied the request: Forbidden"),
        ({"code": 200}, 400, " denied the request without explanation"),
        (None, 400, " denied the request without explanation"),
    ],
)
async def test_a_refusal_of_few_words(
    api: Rest, asked: Hook, status: Any, code: int, words: str
) -> None:
    asked.decide = lambda request: {"allowed": False, "status": status}
    await api.made(VALIDATING, configuration(asked.webhook("jobflows")))
    answer = await api.post(FLOWS, flow())
    assert (answer.code, answer.message) == (
        code,
        f'admission webhook "check.jobflow.test"{words}',
    )


async def test_warnings_are_handed_on(api: Rest, asked: Hook) -> None:
    asked.decide = lambda request: {"allowed": True, "warnings": ['mind "the" gap', "zwei\nlinien"]}
    await api.made(VALIDATING, configuration(asked.webhook("jobflows")))
    answer = await api.post(FLOWS, flow())
    assert answer.warnings == [r'299 - "mind \"the\" gap"', '299 - "zwei linien"']


async def test_what_the_schema_refuses_no_webhook_sees(api: Rest, asked: Hook) -> None:
    await api.made(VALIDATING, configuration(asked.webhook("jobflows")))
    assert (await api.post(FLOWS, {**flow(), "spec": {"flows": "x"}})).code == 422
    assert asked.asked == []


@pytest.mark.parametrize(
    ("rule", "heard"),
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
async def test_rules_say_what_is_asked(
    api: Rest, asked: Hook, rule: dict[str, Any], heard: list[str]
) -> None:
    webhook = asked.webhook("jobflows")
    webhook["rules"][0] |= rule
    await api.made(VALIDATING, configuration(webhook))
    await api.made(FLOWS, flow())
    await api.patch(f"{FLOWS}/f", {"metadata": {"labels": {"a": "b"}}})
    await api.patch(f"{FLOWS}/f/status", {"status": {"progress": "1/1"}})
    await api.delete(f"{FLOWS}/f")
    assert [f"{r['operation']} {r.get('subResource', '')}" for r in asked.asked] == heard


async def test_selectors_say_whose(api: Rest, asked: Hook) -> None:
    here = {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In"}]}
    here["matchExpressions"][0]["values"] = ["default"]  # type: ignore[assignment]
    webhook = asked.webhook(
        "jobflows", namespaceSelector=here, objectSelector={"matchLabels": {"check": "yes"}}
    )
    await api.made(VALIDATING, configuration(webhook))
    await api.made(NAMESPACES, {"metadata": {"name": "other"}})
    await api.made(FLOWS.replace("default", "other"), flow("a", labels={"check": "yes"}))
    await api.made(FLOWS, flow("b"))
    await api.made(FLOWS, flow("c", labels={"check": "yes"}))
    await api.patch(f"{FLOWS}/c", {"metadata": {"labels": None}})
    assert [(r["operation"], r["name"]) for r in asked.asked] == [("CREATE", "c"), ("UPDATE", "c")]


async def test_a_dry_run_is_passed_on(api: Rest, asked: Hook) -> None:
    await api.made(VALIDATING, configuration(asked.webhook("jobflows")))
    await api.post(FLOWS, flow(), dryRun="All")
    assert asked.asked[0]["dryRun"] is True


async def test_an_unreachable_webhook_refuses_or_is_passed_over(api: Rest, asked: Hook) -> None:
    webhook = asked.webhook("jobflows")
    webhook["clientConfig"]["url"] = "https://127.0.0.1:1/check"
    await api.made(VALIDATING, configuration(webhook))
    answer = await api.post(FLOWS, flow())
    assert (answer.code, answer.reason) == (500, "InternalError")
    assert answer.message.startswith(
        'Internal error occurred: failed calling webhook "check.jobflow.test": failed to call '
        'webhook: Post "https://127.0.0.1:1/check?timeout=10s": '
    )
    await api.patch(f"{VALIDATING}/test", {"webhooks": [{**webhook, "failurePolicy": "Ignore"}]})
    await api.made(FLOWS, flow())


async def test_a_webhook_has_so_long_and_no_longer(api: Rest, asked: Hook) -> None:
    asked.hold = asyncio.Event()
    await api.made(VALIDATING, configuration(asked.webhook("jobflows", timeoutSeconds=1)))
    answer = await api.post(FLOWS, flow())
    asked.hold.set()
    assert answer.code == 500 and answer.message.endswith("context deadline exceeded")


async def test_a_certificate_of_another_ca_is_not_trusted(api: Rest, asked: Hook) -> None:
    async with hook() as stranger:
        webhook = asked.webhook("jobflows")
        webhook["clientConfig"]["caBundle"] = stranger.webhook()["clientConfig"]["caBundle"]
        await api.made(VALIDATING, configuration(webhook))
        answer = await api.post(FLOWS, flow())
    assert answer.code == 500 and "certificate verify failed" in answer.message
    assert asked.asked == []


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({"uid": "x", "allowed": True}, 'expected response.uid="'),
        ({"allowed": True, "uid": None}, 'expected response.uid="'),
    ],
)
async def test_an_answer_that_is_none(
    api: Rest, asked: Hook, response: dict[str, Any], words: str
) -> None:
    asked.decide = lambda request: response
    await api.made(VALIDATING, configuration(asked.webhook("jobflows")))
    answer = await api.post(FLOWS, flow())
    assert answer.code == 500 and words in answer.message


async def test_a_webhook_that_fails_itself(api: Rest, asked: Hook) -> None:
    asked.status = 503
    await api.made(VALIDATING, configuration(asked.webhook("jobflows")))
    answer = await api.post(FLOWS, flow())
    assert answer.code == 500 and "status code 503" in answer.message


async def test_a_service_leads_nowhere_here(api: Rest, asked: Hook) -> None:
    webhook = asked.webhook("jobflows")
    webhook["clientConfig"] = {"service": {"name": "s", "namespace": "n", "path": "/p"}}
    await api.made(VALIDATING, configuration(webhook))
    answer = await api.post(FLOWS, flow())
    assert answer.message.endswith(
        'Post "https://s.n.svc:443/p?timeout=10s": service "s" not found'
    )


async def test_all_are_asked_and_one_refusal_is_enough(api: Rest, asked: Hook) -> None:
    async with hook() as other:
        other.decide = lambda request: {"allowed": False, "status": {"message": "not mine"}}
        second = other.webhook("jobflows", name="second.jobflow.test")
        await api.made(VALIDATING, configuration(asked.webhook("jobflows"), second))
        answer = await api.post(FLOWS, flow())
    assert answer.message == 'admission webhook "second.jobflow.test" denied the request: not mine'
    assert len(asked.asked) == len(other.asked) == 1


async def test_a_mutating_webhook_changes_what_is_stored(api: Rest, asked: Hook) -> None:
    patch = [{"op": "add", "path": "/spec/jobRetainPolicy", "value": "delete"}]
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    asked.decide = lambda request: {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": encoded,
    }
    await api.made(MUTATING, configuration(asked.webhook("jobflows"), mutating=True))
    made = await api.made(FLOWS, flow())
    assert made["spec"]["jobRetainPolicy"] == "delete"


@pytest.mark.parametrize("patch", ["?", base64.b64encode(b"x").decode()])
async def test_a_mutation_that_cannot_be_read(api: Rest, asked: Hook, patch: str) -> None:
    asked.decide = lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    await api.made(MUTATING, configuration(asked.webhook("jobflows"), mutating=True))
    assert (await api.post(FLOWS, flow())).code in (400, 500)


async def test_a_change_while_the_webhook_thinks_is_a_conflict(api: Rest, asked: Hook) -> None:
    await api.made(FLOWS, flow())
    asked.hold = asyncio.Event()
    await api.made(VALIDATING, configuration(asked.webhook("jobflows")))
    version = (await api.get(f"{FLOWS}/f")).meta["resourceVersion"]
    spec = {"spec": {"jobRetainPolicy": "delete"}}
    pinned = {**spec, "metadata": {"resourceVersion": version}}
    waiting = [asyncio.create_task(api.patch(f"{FLOWS}/f", body)) for body in (pinned, spec)]
    await asked.heard(2)
    await api.patch(f"{FLOWS}/f/status", {"status": {"progress": "0/1"}})
    asked.hold.set()
    first, second = await asyncio.gather(*waiting)
    assert (first.code, second.code) == (409, 200)
    assert second.json["status"] == {"progress": "0/1"}


async def test_namespaces_that_go_ask_about_what_is_in_them(api: Rest, asked: Hook) -> None:
    await api.made(NAMESPACES, {"metadata": {"name": "n"}})
    await api.made(FLOWS.replace("default", "n"), flow())
    await api.made(VALIDATING, configuration(asked.webhook("jobflows", operations=["DELETE"])))
    await api.delete(f"{NAMESPACES}/n")
    await api.gone(f"{NAMESPACES}/n")
    (request,) = asked.asked
    user = "system:serviceaccount:kube-system:namespace-controller"
    assert (request["namespace"], request["userInfo"]["username"]) == ("n", user)


async def test_a_dependent_that_may_not_go_is_asked_for_again(api: Rest, asked: Hook) -> None:
    owner = await api.made(FLOWS, flow())
    await api.made(VCJOBS, vcjob("j", owner))
    asked.decide = lambda request: {"allowed": len(asked.asked) > 1}
    await api.made(VALIDATING, configuration(asked.webhook("jobs")))
    await api.delete(f"{FLOWS}/f")
    await api.gone(f"{VCJOBS}/j")
    assert len(asked.asked) == 2


@pytest.mark.parametrize(
    ("change", "field"),
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
        ({"matchConditions": [{"name": "x", "expression": "true"}]}, "webhooks[0].matchConditions"),
    ],
)
async def test_a_configuration_that_cannot_work_is_refused(
    api: Rest, asked: Hook, change: dict[str, Any], field: str
) -> None:
    answer = await api.post(VALIDATING, configuration({**asked.webhook("jobflows"), **change}))
    assert answer.code == 422 and field in answer.causes


async def test_two_webhooks_of_one_name(api: Rest, asked: Hook) -> None:
    twice = configuration(asked.webhook("jobflows"), asked.webhook("jobs"))
    assert list((await api.post(VALIDATING, twice)).causes) == ["webhooks[1].name"]
