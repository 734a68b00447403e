"""Flows in kubectl, from apply to delete."""

import json
import subprocess
import time
from typing import Any

import pytest

from support.cluster.kubectl import Kubectl
from support.sandbox.manifests import DIAMOND, as_list, jobflow, template

pytestmark = pytest.mark.kubectl


def diamond(name: str = "test", *, duration: str = "200ms") -> str:
    return as_list(*(template(step, duration=duration) for step in DIAMOND), jobflow(name, DIAMOND))


def wait_for(kubectl: Kubectl, namespace: str, phase: str, flow: str = "test") -> None:
    path = f"--for=jsonpath={{.status.state.phase}}={phase}"
    kubectl("-n", namespace, "wait", path, f"jf/{flow}", "--timeout=60s")


def jobs(kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    answer = json.loads(kubectl("-n", namespace, "get", "vcjob", "-o", "json").out)
    return {item["metadata"]["name"]: item for item in answer["items"]}


@pytest.mark.long
def test_the_documentation_sample_succeeds(kubectl: Kubectl, namespace: str) -> None:
    applied = kubectl("-n", namespace, "apply", "-f", "-", stdin=diamond())
    assert "jobflow.flow.volcano.sh/test created" in applied.out
    wait_for(kubectl, namespace, "Succeed")

    flows = kubectl("-n", namespace, "get", "jf").rows
    head = ["NAME", "STATUS", "REASON", "PROGRESS", "DURATION", "AGE"]
    assert flows[0] == head
    assert flows[1][:3] == ["test", "Succeed", "5/5"]
    assert flows[1][3].endswith("s")
    everything = kubectl("-n", namespace, "get", "jf,jt,vcjob").out
    for name in ("jobflow.flow.volcano.sh/test", "jobtemplate.flow.volcano.sh/a"):
        assert name in everything
    assert "job.batch.volcano.sh/test-e" in everything
    wide = kubectl("-n", namespace, "get", "jf", "-o", "wide").rows[0]
    assert wide == [*head, "MESSAGE", "STARTED", "PARENT"]
    templates = kubectl("-n", namespace, "get", "jt").rows
    assert templates[0] == ["NAME", "QUEUE", "TASKS", "AGE"]
    assert templates[1][:3] == ["a", "default", "main"]
    assert {
        name: job["status"]["state"]["phase"] for name, job in jobs(kubectl, namespace).items()
    } == {f"test-{step}": "Completed" for step in DIAMOND}


@pytest.mark.long
def test_a_suspended_flow_is_listed_as_suspended(kubectl: Kubectl, namespace: str) -> None:
    suspended = jobflow("test", DIAMOND)
    suspended["spec"]["suspend"] = True
    kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(suspended))
    wait_for(kubectl, namespace, "Pending")
    [row] = kubectl("-n", namespace, "get", "jf", "--no-headers").rows
    assert row[:5] == ["test", "Pending", "Suspended", "0/5", "0s"]


@pytest.mark.long
def test_describe_has_events_of_all_steps(kubectl: Kubectl, namespace: str) -> None:
    kubectl("-n", namespace, "apply", "-f", "-", stdin=diamond())
    wait_for(kubectl, namespace, "Succeed")
    for _ in range(50):  # Events follow the status at a limited rate
        description = kubectl("-n", namespace, "describe", "jf", "test").out
        events = description[description.index("Events:") :]
        if "FlowSucceeded" in events:
            break
        time.sleep(0.1)
    assert "Phase:" in description
    for step in DIAMOND:
        assert f"test-{step}" in events


@pytest.mark.long
def test_watch_shows_the_phases_in_order(kubectl: Kubectl, namespace: str) -> None:
    command = ["kubectl", "-n", namespace, "get", "jf", "-w", "--no-headers"]
    with subprocess.Popen(
        command, env=kubectl.environment, stdout=subprocess.PIPE, text=True
    ) as watch:
        try:
            kubectl("-n", namespace, "apply", "-f", "-", stdin=diamond())
            phases = _phases_until_the_end(watch)
        finally:
            watch.terminate()
    assert phases[-2:] == ["Running", "Succeed"]


def _phases_until_the_end(watch: subprocess.Popen[str]) -> list[str]:
    """Return the phases that `get jf -w` prints, each once."""
    assert watch.stdout is not None
    phases: list[str] = []
    for line in watch.stdout:
        cells = line.split()
        phase = cells[1] if len(cells) > 3 else ""
        if phase and phase not in phases:
            phases.append(phase)
        if phase in {"Succeed", "Failed"}:
            break
    return phases


def test_explain_describes_the_fields(kubectl: Kubectl) -> None:
    explanation = kubectl("explain", "jf.spec.flows.dependsOn").out
    for words in ("targets", "strategy", "condition"):
        assert words in explanation
    assert "aborted" in kubectl("explain", "jf.status.conditions.abortTime").out
    assert "Commands" in kubectl("explain", "jf.status.handledCommands").out


@pytest.mark.long
def test_a_running_flow_keeps_its_spec_and_gets_a_label(kubectl: Kubectl, namespace: str) -> None:
    kubectl("-n", namespace, "apply", "-f", "-", stdin=diamond(duration="60s"))
    wait_for(kubectl, namespace, "Running")

    patch = '{"spec": {"jobRetainPolicy": "delete"}}'
    refusal = kubectl.refused("-n", namespace, "patch", "jf", "test", "--type=merge", "-p", patch)
    assert "spec.jobRetainPolicy" in refusal and "delete" in refusal and "apply" in refusal
    refusal = kubectl.refused("-n", namespace, "delete", "jf", "test")
    assert "flow test is Running: cancel it (`jobflow cancel test -n " in refusal
    assert "kubectl annotate jf test flow.volcano.sh/force-delete=true" in refusal

    kubectl("-n", namespace, "label", "jf", "test", "team=x")
    kubectl("-n", namespace, "annotate", "jf", "test", "flow.volcano.sh/force-delete=true")
    kubectl("-n", namespace, "delete", "jf", "test")
    kubectl("-n", namespace, "wait", "--for=delete", "vcjob/test-a", "--timeout=30s")
    assert jobs(kubectl, namespace) == {}


@pytest.mark.long
def test_a_template_in_use_is_not_deleted(kubectl: Kubectl, namespace: str) -> None:
    kubectl("-n", namespace, "apply", "-f", "-", stdin=diamond(duration="60s"))
    wait_for(kubectl, namespace, "Running")
    refusal = kubectl.refused("-n", namespace, "delete", "jt", "e")
    assert "test" in refusal and "e" in refusal
    kubectl("-n", namespace, "annotate", "jt", "e", "flow.volcano.sh/force-delete=true")
    kubectl("-n", namespace, "delete", "jt", "e")


@pytest.mark.long
def test_deleting_a_finished_flow_deletes_its_jobs(kubectl: Kubectl, namespace: str) -> None:
    kubectl("-n", namespace, "apply", "-f", "-", stdin=diamond())
    wait_for(kubectl, namespace, "Succeed")
    kubectl("-n", namespace, "delete", "jf", "test")
    kubectl("-n", namespace, "wait", "--for=delete", "vcjob", "--all", "--timeout=30s")
    assert jobs(kubectl, namespace) == {}
    assert len(kubectl("-n", namespace, "get", "jt", "-o", "name").out.split()) == 5


@pytest.mark.long
def test_all_faults_of_a_flow_are_in_one_answer(kubectl: Kubectl, namespace: str) -> None:
    steps = {"a": ["c"], "b": ["a"], "c": ["b"], "d": ["nowhere"]}
    broken = jobflow("broken", steps)
    broken["spec"]["flows"].append({"name": "d"})
    refusal = kubectl.refused("-n", namespace, "apply", "-f", "-", stdin=json.dumps(broken))
    assert "spec.flows[4].name: Duplicate value" in refusal
    assert 'spec.flows[3].dependsOn.targets[0]: Invalid value: "nowhere"' in refusal
    assert "a -> b -> c -> a" in refusal
    dry_run_refusal = kubectl.refused(
        "-n", namespace, "apply", "--dry-run=server", "-f", "-", stdin=json.dumps(broken)
    )
    assert "a -> b -> c -> a" in dry_run_refusal


@pytest.mark.long
def test_a_command_from_kubectl_cancels_a_flow(kubectl: Kubectl, namespace: str) -> None:
    kubectl("-n", namespace, "apply", "-f", "-", stdin=diamond(duration="1h"))
    wait_for(kubectl, namespace, "Running")
    uid = kubectl("-n", namespace, "get", "jf", "test", "-o", "jsonpath={.metadata.uid}").out
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "name": "test", "uid": uid}
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"generateName": "test-"},
        "action": "TerminateJob",
        "target": flow,
        "message": "wrong data",
    }
    kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(command))
    wait_for(kubectl, namespace, "Failed")
    status = json.loads(kubectl("-n", namespace, "get", "jf", "test", "-o", "json").out)["status"]
    assert status["state"]["message"] == "the flow was cancelled: wrong data"
    assert status["terminatedJobs"] == ["test-a"]
