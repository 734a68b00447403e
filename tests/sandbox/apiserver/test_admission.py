"""Admission webhooks over HTTPS: matching, failures, mutation, configuration rules."""

import asyncio
import base64
import json
from typing import Any

import pytest

from support.network.webhook_server import Hook, configuration, hook
from support.sandbox.rest_client import FLOWS, NAMESPACES, VCJOBS, Rest, flow, vcjob

REGISTERED = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{REGISTERED}/validatingwebhookconfigurations"
MUTATING = f"{REGISTERED}/mutatingwebhookconfigurations"


async def test_warnings_are_handed_on(api: Rest, asked: Hook) -> None:
    asked.decide = lambda request: {"allowed": True, "warnings": ['mind "the" gap', "zwei\nlinien"]}
    await api.made(VALIDATING, configuration(asked.webhook("jobflows")))
    answer = await api.post(FLOWS, flow())
    assert answer.warnings == [r'299 - "mind \"the\" gap"', '299 - "zwei linien"']


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


async def test_a_webhook_has_so_long_and_no_longer(api: Rest, asked: Hook) -> None:
    asked.hold = asyncio.Event()
    await api.made(VALIDATING, configuration(asked.webhook("jobflows", timeoutSeconds=1)))
    answer = await api.post(FLOWS, flow())
    asked.hold.set()
    assert answer.code == 500 and answer.message.endswith("context deadline exceeded")


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
    asked.decide = lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": encoded}
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
