"""Output of real kubectl on the sandbox: events, warnings and refusals."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster.kubectl import Kubectl
from support.network.webhook_server import ALLOWED, configuration
from support.sandbox.rest_client import event, flow
from support.sandbox.sandboxed import Served, served

pytestmark = pytest.mark.kubectl


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("kubectl")) as found:
        yield found


@pytest.fixture
def kubectl(world: Served) -> Iterator[Kubectl]:
    """Run kubectl in an empty namespace, with a webhook that allows everything."""
    world.hook.decide = lambda request: ALLOWED
    yield world.kubectl
    world.kubectl("delete", "validatingwebhookconfiguration,jf,events", "--all")


def test_events_where_people_look_for_them(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=json.dumps(flow()))
    made = json.loads(kubectl("get", "jf", "f", "-o", "json").out)
    when = "2026-01-01T00:00:00Z"
    times = {"count": 1, "firstTimestamp": when, "lastTimestamp": when}
    words = {"type": "Warning", "reason": "StepFailed", "message": "step a failed"}
    sent = event(made, "e", source={"component": "jobflow"}, **words, **times)
    kubectl("create", "-f", "-", stdin=json.dumps(sent))
    described = kubectl("describe", "jf", "f").out.split("Events:")[1]
    assert described.split("\n")[3].split() == [
        *("Warning", "StepFailed"),
        *described.split("\n")[3].split()[2:3],
        *("jobflow", "step", "a", "failed"),
    ]
    for command in (("events", "--for", "jf/f"), ("get", "events")):
        head, row = kubectl(*command).rows
        assert head == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        assert row[1:3] == ["Warning", "StepFailed"] and row[3].lower() == "jobflow/f"
    assert kubectl("get", "events.events.k8s.io", "-o", "name").out == "event.events.k8s.io/e\n"


def test_types_are_refused_with_every_cause(kubectl: Kubectl) -> None:
    wrong = flow()
    wrong["spec"]["flows"] = [{"name": 1, "dependsOn": {"targets": "a"}}]
    said = kubectl.refused("apply", "-f", "-", stdin=json.dumps(wrong))
    lines = [line.rstrip() for line in said.splitlines()]
    assert lines[0] == 'The JobFlow "f" is invalid:'
    where, words = "spec.flows[0]", "in body must be of type"
    assert sorted(lines[1:]) == [
        f'* {where}.dependsOn.targets: Invalid value: "string": {where}.dependsOn.targets {words} '
        'array: "string"',
        f'* {where}.name: Invalid value: "integer": {where}.name {words} string: "integer"',
    ]


def refuse(world: Served, **status: Any) -> None:
    """Register the webhook for flows and let it refuse."""
    world.hook.decide = lambda request: {"allowed": False, "status": status}
    manifest = configuration(world.hook.webhook("jobflows"))
    world.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def test_a_refusal_with_causes(world: Served, kubectl: Kubectl) -> None:
    causes = [
        {"reason": "FieldValueDuplicate", "message": 'Duplicate value: "a"', "field": "spec.b"},
        {"reason": "FieldValueInvalid", "message": 'Invalid value: "x": no', "field": "spec.a"},
    ]
    details = {"name": "f", "group": "flow.volcano.sh", "kind": "JobFlow", "causes": causes}
    refuse(world, code=422, reason="Invalid", message="it is wrong", details=details)
    said = kubectl.refused("create", "-f", "-", stdin=json.dumps(flow()))
    assert [line.rstrip() for line in said.splitlines()] == [
        'The JobFlow "f" is invalid:',
        '* spec.b: Duplicate value: "a"',
        '* spec.a: Invalid value: "x": no',
    ]


def test_a_refusal_in_one_sentence(world: Served, kubectl: Kubectl) -> None:
    refuse(world, code=403, reason="Forbidden", message="flow f is Running: cancel it")
    said = kubectl.refused("create", "-f", "-", stdin=json.dumps(flow()))
    assert said == (
        'Error from server (Forbidden): error when creating "STDIN": admission webhook '
        '"check.jobflow.test" denied the request: flow f is Running: cancel it\n'
    )


def test_warnings_of_a_webhook(world: Served, kubectl: Kubectl) -> None:
    refuse(world)
    world.hook.decide = lambda request: {"allowed": True, "warnings": ["template a is missing"]}
    answer = kubectl("create", "-f", "-", stdin=json.dumps(flow()))
    assert answer.err == "Warning: template a is missing\n"


def test_a_webhook_configuration_is_listed(world: Served, kubectl: Kubectl) -> None:
    refuse(world)
    head, row = kubectl("get", "validatingwebhookconfigurations").rows
    assert head == ["NAME", "WEBHOOKS", "AGE"] and row[:2] == ["test", "1"]
