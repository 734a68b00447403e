"""Cancelling a flow by `jobflow cancel` and by a Command from kubectl, then deleting it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cluster.kubectl import Kubectl
from support.sandbox.manifests import DIAMOND, as_list, jobflow, template

pytestmark = pytest.mark.kubectl


def cancel(kubectl: Kubectl, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("jobflow")), "cancel", *arguments]
    return subprocess.run(
        command, env=kubectl.environment, capture_output=True, text=True, timeout=60, check=False
    )


def status(kubectl: Kubectl, namespace: str, name: str = "test") -> dict[str, Any]:
    output = kubectl("-n", namespace, "get", "jf", name, "-o", "json").out
    found: dict[str, Any] = json.loads(output)["status"]
    return found


def start(kubectl: Kubectl, namespace: str) -> None:
    """Apply a diamond whose c and d run for an hour, and wait until they run."""
    slow = {step: "1h" if step in ("c", "d") else "50ms" for step in DIAMOND}
    made = [template(step, duration=duration) for step, duration in slow.items()]
    objects = as_list(*made, jobflow("test", DIAMOND))
    kubectl("-n", namespace, "apply", "-f", "-", stdin=objects)
    for step in "cd":
        job = f"vcjob/test-{step}"
        kubectl("-n", namespace, "wait", "--for=create", job, "--timeout=30s")
        running = "--for=jsonpath={.status.state.phase}=Running"
        kubectl("-n", namespace, "wait", running, job, "--timeout=30s")


def assert_cancelled(kubectl: Kubectl, namespace: str) -> None:
    found = status(kubectl, namespace)
    ends = {key: (c["phase"], c.get("reason")) for key, c in found["conditions"].items()}
    assert ends == {
        "test-a": ("Completed", None),
        "test-b": ("Completed", None),
        "test-c": ("Failed", "Cancelled"),
        "test-d": ("Failed", "Cancelled"),
        "test-e": ("Skipped", "Stopped"),
    }
    assert (found["state"]["phase"], found["state"]["reason"]) == ("Failed", "Cancelled")
    assert found["terminatedJobs"] == ["test-c", "test-d"]


def test_a_running_flow_is_cancelled_and_deleted(kubectl: Kubectl, namespace: str) -> None:
    start(kubectl, namespace)
    refusal = kubectl.refused("-n", namespace, "delete", "jf", "test")
    assert f"cancel it (`jobflow cancel test -n {namespace}`)" in refusal
    done = cancel(kubectl, "test", "-n", namespace, "--wait")
    assert (done.returncode, done.stderr) == (0, "")
    last = done.stdout.splitlines()[-1]
    assert last == "JobFlow test: Failed, 5/5 steps finished (Cancelled): the flow was cancelled"
    assert_cancelled(kubectl, namespace)
    kubectl("-n", namespace, "wait", "--for=delete", "command", "--all", "--timeout=30s")
    assert cancel(kubectl, "test", "-n", namespace).returncode == 1
    kubectl("-n", namespace, "delete", "jf", "test")
    assert cancel(kubectl, "test", "-n", namespace).returncode == 2


def test_a_command_made_by_kubectl_cancels(kubectl: Kubectl, namespace: str) -> None:
    start(kubectl, namespace)
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
    failed = "--for=jsonpath={.status.state.phase}=Failed"
    kubectl("-n", namespace, "wait", failed, "jf/test", "--timeout=30s")
    assert_cancelled(kubectl, namespace)
    message = status(kubectl, namespace)["state"]["message"]
    assert message == "the flow was cancelled: wrong data"


def test_a_flow_that_waits_for_a_template_ends_at_once(kubectl: Kubectl, namespace: str) -> None:
    late = jobflow("test", {"a": [], "b": ["a"]})
    kubectl("-n", namespace, "apply", "-f", "-", stdin=json.dumps(late))
    waiting = "--for=jsonpath={.status.state.reason}=WaitingForTemplate"
    kubectl("-n", namespace, "wait", waiting, "jf/test", "--timeout=30s")
    assert cancel(kubectl, "test", "-n", namespace, "--wait").returncode == 0
    found = status(kubectl, namespace)
    assert (found["state"]["reason"], found["progress"]) == ("Cancelled", "2/2")
