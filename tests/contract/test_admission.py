"""Admission webhooks on both servers, over TLS: requests to them, and their answers."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from jobflow.core.violations import Reason, Verdict, Violation
from support.network.webhook_server import Hook, running_hook
from support.sandbox.rest_client import Answer, flow
from support.sandbox.servers import Server

DENIED = 'admission webhook "check.jobflow.test" denied the request: '


@pytest_asyncio.fixture
async def hook() -> AsyncIterator[Hook]:
    async with running_hook() as webhook:
        yield webhook


def refusal() -> dict[str, Any]:
    """Return a refusal in the format of JobFlow's webhook."""
    causes = [
        {"reason": "FieldValueInvalid", "message": "no such step", "field": "spec.flows[0].name"},
        {"reason": "FieldValueDuplicate", "message": "twice", "field": "spec.flows[1].name"},
    ]
    details = {"name": "f", "kind": "JobFlow", "group": "flow.volcano.sh", "causes": causes}
    return {"code": 422, "reason": "Invalid", "message": "it is wrong", "details": details}


async def test_a_webhook_receives_all_fields_of_a_request(api: Server, hook: Hook) -> None:
    async with api.with_webhooks(hook.webhook("jobflows"), hook=hook):
        await api.create(api.flows, flow("f"), fieldManager="me")
        await api.patch(f"{api.flows}/f", {"spec": {"jobRetainPolicy": "delete"}})
        await api.patch(f"{api.flows}/f/status", {"status": {"progress": "1/1"}})
        await api.delete(f"{api.flows}/f", {"propagationPolicy": "Background"})
    create, update, delete = hook.requests
    assert create["operation"] == "CREATE" and create["oldObject"] is None
    assert create["kind"] == {"group": "flow.volcano.sh", "version": "v1alpha1", "kind": "JobFlow"}
    assert create["resource"]["resource"] == "jobflows" and create["dryRun"] is False
    assert (create["namespace"], create["name"]) == (api.namespace, "f")
    assert create["object"]["metadata"]["uid"] and create["userInfo"]["username"]
    assert create["options"]["kind"] == "CreateOptions"
    assert create["options"]["fieldManager"] == "me"
    assert update["operation"] == "UPDATE"
    assert "jobRetainPolicy" not in update["oldObject"]["spec"]
    assert update["object"]["spec"]["jobRetainPolicy"] == "delete"
    assert delete["operation"] == "DELETE" and delete["object"] is None
    assert delete["oldObject"]["spec"]["jobRetainPolicy"] == "delete"
    assert delete["options"]["propagationPolicy"] == "Background"


async def test_a_refusal_keeps_code_reason_and_causes(api: Server, hook: Hook) -> None:
    async with api.with_webhooks(hook.webhook("jobflows"), hook=hook):
        hook.decide = lambda request: {"allowed": False, "status": refusal()}
        answer = await api.post(api.flows, flow("f"))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message == f"{DENIED}it is wrong"
    assert answer.json["details"] == refusal()["details"]
    assert (await api.get(f"{api.flows}/f")).code == 404


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        ({"message": "no"}, 400, f"{DENIED}no"),
        ({"reason": "Forbidden", "code": 403}, 403, f"{DENIED}Forbidden"),
        ({"code": 200}, 400, DENIED.replace(": ", " without explanation")),
        (None, 400, DENIED.replace(": ", " without explanation")),
    ],
)
async def test_a_refusal_without_details_has_defaults(
    api: Server, hook: Hook, status: Any, code: int, message: str
) -> None:
    async with api.with_webhooks(hook.webhook("jobflows"), hook=hook):
        hook.decide = lambda request: {"allowed": False, "status": status}
        answer = await api.post(api.flows, flow("f"))
    assert (answer.code, answer.message) == (code, message)


async def test_deletes_and_updates_are_refused(api: Server, hook: Hook) -> None:
    await api.create(api.flows, flow("f"))
    async with api.with_webhooks(hook.webhook("jobflows"), hook=hook):
        hook.decide = lambda request: {"allowed": False, "status": refusal()}
        for answer in (
            await api.delete(f"{api.flows}/f"),
            await api.patch(f"{api.flows}/f", {"metadata": {"labels": {"a": "b"}}}),
            await api.delete(f"{api.flows}/f", dryRun="All"),
        ):
            assert (answer.code, answer.message) == (422, f"{DENIED}it is wrong")
    assert (await api.get(f"{api.flows}/f")).code == 200


async def test_warnings_are_returned_to_the_client(api: Server, hook: Hook) -> None:
    async with api.with_webhooks(hook.webhook("jobflows"), hook=hook):
        hook.decide = lambda request: {"allowed": True, "warnings": ['mind "the" gap', "and b"]}
        answer = await api.post(api.flows, flow("f"))
    assert answer.warnings == [r'299 - "mind \"the\" gap"', '299 - "and b"']


async def test_a_webhook_receives_dry_runs(api: Server, hook: Hook) -> None:
    async with api.with_webhooks(hook.webhook("jobflows"), hook=hook):
        await api.post(api.flows, flow("f"), dryRun="All")
    assert [request["dryRun"] for request in hook.requests] == [True]


async def test_objects_that_the_schema_refuses_are_not_reviewed(api: Server, hook: Hook) -> None:
    async with api.with_webhooks(hook.webhook("jobflows"), hook=hook):
        assert (await api.post(api.flows, {**flow("f"), "spec": {"flows": "x"}})).code == 422
    assert hook.requests == []


async def test_a_failure_policy_handles_an_unreachable_webhook(api: Server, hook: Hook) -> None:
    """With failurePolicy Fail the write gets 500; Ignore skips the webhook."""
    for policy in ("Fail", "Ignore"):
        down = hook.webhook("jobflows", failurePolicy=policy)
        down["name"] = f"down.{policy.lower()}.test"
        down["clientConfig"]["url"] = "https://127.0.0.1:1/check"
        async with api.with_webhooks(hook.webhook("jobflows"), down, hook=hook):
            answer = await api.post(api.flows, flow(policy.lower()))
        assert answer.code == {"Fail": 500, "Ignore": 201}[policy]
        if policy == "Fail":
            _check_message(answer)


def _check_message(answer: Answer) -> None:
    assert answer.reason == "InternalError"
    assert answer.message.startswith(
        'Internal error occurred: failed calling webhook "down.fail.test": failed to call '
        'webhook: Post "https://127.0.0.1:1/check?timeout=10s": '
    )


async def test_a_webhook_with_an_untrusted_certificate_fails(api: Server, hook: Hook) -> None:
    async with running_hook() as other:
        foreign = hook.webhook("jobflows")
        foreign["name"] = "strange.jobflow.test"
        foreign["clientConfig"]["caBundle"] = other.webhook("jobflows")["clientConfig"]["caBundle"]
        async with api.with_webhooks(hook.webhook("jobflows"), foreign, hook=hook):
            answer = await api.post(api.flows, flow("f"))
    assert (answer.code, answer.reason) == (500, "InternalError")
    assert 'failed calling webhook "strange.jobflow.test"' in answer.message


async def test_rules_and_selectors_select_the_webhooks(api: Server, hook: Hook) -> None:
    labelled = {"matchLabels": {"check": "yes"}}
    webhook = hook.webhook("jobflows", objectSelector=labelled, operations=["CREATE"])
    first = hook.webhook("jobflows", operations=["CREATE"])
    webhook["name"] = "labelled.jobflow.test"
    async with api.with_webhooks(first, webhook, hook=hook):
        await api.create(api.flows, flow("a", labels={"check": "yes"}))
        await api.create(api.flows, flow("b"))
        await api.delete(f"{api.flows}/a")
    assert sorted(request["name"] for request in hook.requests) == ["a", "a", "b"]


async def test_a_client_receives_the_messages_of_the_webhook(api: Server, hook: Hook) -> None:
    """A client receives the violations of `core` as causes."""
    fault = Violation("spec.flows[0].name", Reason.DUPLICATE, "a", "already used by spec.flows[1]")
    verdict = Verdict(violations=(fault,))
    causes = [
        {"reason": v.reason, "field": v.path, "message": v.message} for v in verdict.violations
    ]
    status = {**refusal(), "message": str(fault), "details": {"causes": causes}}
    async with api.with_webhooks(hook.webhook("jobflows"), hook=hook):
        hook.decide = lambda request: {"allowed": False, "status": status}
        answer = await api.post(api.flows, flow("f"))
    assert answer.message == DENIED + str(fault)
    assert answer.causes == {fault.path: fault.message}


@pytest.mark.long
async def test_match_conditions_select_objects(api: Server, hook: Hook) -> None:
    """Match conditions are CEL."""
    condition = {"name": "mine", "expression": "object.metadata.name.startsWith('mine')"}
    webhook = hook.webhook("jobflows", operations=["CREATE"], matchConditions=[condition])
    webhook["name"] = "conditional.jobflow.test"
    first = hook.webhook("jobflows", operations=["CREATE"])
    async with api.with_webhooks(first, webhook, hook=hook):
        await api.create(api.flows, flow("mine"))
        await api.create(api.flows, flow("yours"))
    assert sorted(request["name"] for request in hook.requests) == ["mine", "mine", "yours"]
