"""Real kubectl on the sandbox's API server: get, edit, replace, apply, events and refusals."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cluster.kubectl import Kubectl
from support.network.webhook_server import ALLOWED, configuration
from support.sandbox.manifests import as_list
from support.sandbox.rest_client import event, flow, vcjob
from support.sandbox.sandboxed import Served, served

pytestmark = pytest.mark.kubectl

TEMPLATE = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobTemplate
metadata: {name: a}
spec:
  queue: default
  tasks: [{name: ps, replicas: 1, template: {}}, {name: worker, replicas: 2, template: {}}]
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("kubectl")) as found:
        yield found


@pytest.fixture
def kubectl(world: Served) -> Iterator[Kubectl]:
    """Run kubectl in an empty namespace, with a webhook that allows everything."""
    world.hook.decide = lambda request: ALLOWED
    yield world.kubectl
    world.kubectl("delete", "validatingwebhookconfiguration,jf,jt,vcjob,pods,events", "--all")


@pytest.mark.long
def test_a_built_in_kind_is_applied_without_a_warning(kubectl: Kubectl) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    for image in ("one", "two"):
        pod["spec"] = {"containers": [{"name": "c", "image": image}, {"name": "d"}]}
        answer = kubectl("apply", "-f", "-", stdin=json.dumps(pod))
        assert answer.err == ""
    images = kubectl("get", "pod", "p", "-o", "jsonpath={.spec.containers[*].name} {..image}").out
    assert images == "c d two"


@pytest.mark.long
def test_get_prints_the_columns_of_crds(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=TEMPLATE)
    kubectl("create", "-f", "-", stdin=as_list(flow(), vcjob("j")))
    state = {"phase": "Running", "reason": "Busy"}
    status = {"status": {"state": state, "progress": "0/1", "duration": "1m2s"}}
    merge = ("--type", "merge", "--subresource", "status", "-p")
    kubectl("patch", "jf", "f", *merge, json.dumps(status))
    job = {"status": {"state": {"phase": "Running"}, "minAvailable": 1, "running": 1}}
    kubectl("patch", "vj", "j", *merge, json.dumps(job))
    assert kubectl("get", "jf").rows[1][:5] == ["f", "Running", "Busy", "0/1", "1m2s"]
    head, row = kubectl("get", "jt").rows
    assert head == ["NAME", "QUEUE", "TASKS", "AGE"] and row[:4] == ["a", "default", "ps", "worker"]
    head, row = kubectl("get", "vcjob").rows
    assert head == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE"]
    assert row[:4] == ["j", "Running", "1", "1"]
    assert kubectl("get", "vj", "-o", "wide").rows[0][-1] == "QUEUE"


@pytest.mark.long
def test_get_prints_the_usual_columns_of_built_in_kinds(kubectl: Kubectl) -> None:
    containers = [{"name": "c", "image": "i"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    kubectl("create", "-f", "-", stdin=json.dumps(pod | {"spec": {"containers": containers}}))
    state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    statuses = [{"name": "c", "ready": False, "restartCount": 2, "state": state}]
    status = {"status": {"phase": "Failed", "containerStatuses": statuses, "podIP": "1.2.3.4"}}
    kubectl("patch", "pod", "p", "--subresource", "status", "-p", json.dumps(status))
    head, row = kubectl("get", "po", "-o", "wide").rows
    assert head[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row[:4] == ["p", "0/1", "Error", "2"] and row[5] == "1.2.3.4"
    assert kubectl("get", "ns", "default").rows[1][:2] == ["default", "Active"]
    assert kubectl("get", "pods", "--field-selector", "status.phase=Failed").rows[1][0] == "p"
    assert kubectl("get", "queue").rows[1] == ["default"]


@pytest.mark.long
def test_edit_and_replace_update_a_flow(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", stdin=json.dumps(flow(labels={"team": "a"})))
    edited = subprocess.run(
        ["kubectl", "--cache-dir", str(kubectl.home / "cache"), "edit", "jf", "f"],
        env=kubectl.environment | {"KUBE_EDITOR": "sed -i 's/team: a/team: b/'"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert edited.stdout == "jobflow.flow.volcano.sh/f edited\n"
    file = tmp_path / "f.yaml"
    file.write_text(kubectl("get", "jf", "f", "-o", "yaml").out.replace("team: b", "team: c"))
    assert kubectl("replace", "-f", str(file)).out == "jobflow.flow.volcano.sh/f replaced\n"
    refused = kubectl.refused("replace", "-f", str(file))
    assert "Error from server (Conflict)" in refused
    assert "please apply your changes to the latest version and try again" in refused


@pytest.mark.long
def test_delete_accepts_labels_all_and_names(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=as_list(flow("a", labels={"t": "x"}), flow("b"), flow("c")))
    assert kubectl("delete", "jf", "-l", "t=x").out == 'jobflow.flow.volcano.sh "a" deleted\n'
    assert kubectl("delete", "jf/b", "--now").out == 'jobflow.flow.volcano.sh "b" deleted\n'
    refused = kubectl.refused("delete", "jf", "b")
    assert refused == 'Error from server (NotFound): jobflows.flow.volcano.sh "b" not found\n'
    assert kubectl("delete", "jf", "b", "--ignore-not-found").out == ""
    assert kubectl("delete", "jf", "--all").out == 'jobflow.flow.volcano.sh "c" deleted\n'


@pytest.mark.long
def test_events_are_listed_by_both_commands(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", stdin=json.dumps(flow()))
    created = json.loads(kubectl("get", "jf", "f", "-o", "json").out)
    time = "2026-01-01T00:00:00Z"
    times = {"count": 1, "firstTimestamp": time, "lastTimestamp": time}
    fields = {"type": "Warning", "reason": "StepFailed", "message": "step a failed"}
    manifest = event(created, "e", source={"component": "jobflow"}, **fields, **times)
    kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    for command in (("events", "--for", "jf/f"), ("get", "events")):
        head, row = kubectl(*command).rows
        assert head == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        assert row[1:3] == ["Warning", "StepFailed"] and row[3].lower() == "jobflow/f"
    assert kubectl("get", "events.events.k8s.io", "-o", "name").out == "event.events.k8s.io/e\n"


def refuse(world: Served, **status: Any) -> None:
    """Register the webhook for flows and refuse its reviews with this status."""
    world.hook.decide = lambda request: {"allowed": False, "status": status}
    manifest = configuration(world.hook.webhook("jobflows"))
    world.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))


def test_the_causes_of_a_refusal_are_printed(world: Served, kubectl: Kubectl) -> None:
    causes = [
        {"reason": "FieldValueDuplicate", "message": 'Duplicate value: "a"', "field": "spec.b"},
        {"reason": "FieldValueInvalid", "message": 'Invalid value: "x": no', "field": "spec.a"},
    ]
    details = {"name": "f", "group": "flow.volcano.sh", "kind": "JobFlow", "causes": causes}
    refuse(world, code=422, reason="Invalid", message="it is wrong", details=details)
    output = kubectl.refused("create", "-f", "-", stdin=json.dumps(flow()))
    assert [line.rstrip() for line in output.splitlines()] == [
        'The JobFlow "f" is invalid:',
        '* spec.b: Duplicate value: "a"',
        '* spec.a: Invalid value: "x": no',
    ]


def test_a_webhook_configuration_is_listed(world: Served, kubectl: Kubectl) -> None:
    refuse(world)
    head, row = kubectl("get", "validatingwebhookconfigurations").rows
    assert head == ["NAME", "WEBHOOKS", "AGE"] and row[:2] == ["test", "1"]
