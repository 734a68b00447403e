"""JobTemplates on the real API server, which checks their pod templates for the webhook."""

import json
import time
from collections import Counter
from typing import Any

import pytest

from jobflow.api.resources import JOBTEMPLATES, POD_TEMPLATES
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served
from support.sandbox.manifests import template
from support.sandbox.servers import WITHIN_SECONDS, Server

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]

TASKS = "spec.tasks"


def pod(**container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "busybox:1.36"}
    return {"spec": {"containers": [main | container], "restartPolicy": "Never"}}


def with_tasks(name: str, *pods: dict[str, Any], **spec: Any) -> dict[str, Any]:
    tasks = [{"name": f"t{i}", "replicas": 1, "template": call} for i, call in enumerate(pods)]
    return template(name) | {"spec": {"tasks": tasks, "queue": "default"} | spec}


def dry_runs(real: RealCluster, namespace: str) -> Counter[int]:
    asked = real.audit.asked(namespace, user="jobflow")
    runs = [call for call in asked if call.resource == "podtemplates"]
    assert all("dryRun=All" in call.uri for call in runs)
    return Counter(call.code for call in runs)


def stored(real: RealCluster, namespace: str) -> list[str]:
    found = real.admin.get(JOBTEMPLATES.path(namespace)).raise_for_status().json()["items"]
    assert real.admin.get(POD_TEMPLATES.path(namespace)).json()["items"] == []
    return [item["metadata"]["name"] for item in found]


@pytest.mark.usefixtures("served")
async def test_one_answer_has_all_faults_of_all_tasks(
    real: RealCluster, api: Server, kubectl: Kubectl
) -> None:
    bad = with_tasks(
        "train",
        pod(ports=[{"containerPort": 70000}], volumeMounts=[{"name": "v"}]),
        pod(image=""),
        pod(env=[{"name": "A"}, {"name": "B", "value": 2}, {"name": "C", "value": 3}]),
        pod(resources={"limits": {"cpu": "1 core", "memory": "1Gi"}}),
        {"metadata": {"labels": {"a b": "c"}}} | pod(),
        minAvailable=9,
    )  # fmt: skip
    for dry in ((), ("--dry-run=server",)):
        home = ("-n", api.namespace, *dry)
        message = kubectl.refused("apply", *home, "-f", "-", stdin=json.dumps(bad))
        lines = [line.removeprefix("* ") for line in message.splitlines()]
        assert lines[0] == 'The JobTemplate "train" is invalid: '
        mistyped = 'Invalid value: "integer": must be of type string: "integer"; write'
        assert sorted(lines[1:]) == [
            "spec.minAvailable: Invalid value: 9: must not be greater than the replicas of all "
            "tasks together (5)",
            f"{TASKS}[0].template.spec.containers[0].ports[0].containerPort: Invalid value: 70000: "
            "must be between 1 and 65535, inclusive",
            f"{TASKS}[0].template.spec.containers[0].volumeMounts[0].mountPath: Required value",
            f"{TASKS}[1].template.spec.containers[0].image: Required value: a container has an "
            "image",
            f'{TASKS}[2].template.spec.containers[0].env[1].value: {mistyped} "2", in quotes',
            f'{TASKS}[2].template.spec.containers[0].env[2].value: {mistyped} "3", in quotes',
            f"{TASKS}[3].template.spec.containers[0].resources.limits.cpu: Invalid value: "
            '"1 core": must be a quantity, such as 2, "500m" or "2Gi"',
            f'{TASKS}[4].template.metadata.labels: Invalid value: "a b": name part must consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
            "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        ]
    assert stored(real, api.namespace) == []
    assert dry_runs(real, api.namespace) == {422: 6, 400: 4}


@pytest.mark.usefixtures("served")
async def test_only_a_change_of_the_spec_is_checked(
    real: RealCluster, api: Server, kubectl: Kubectl
) -> None:
    def apply(manifest: dict[str, Any], *flags: str) -> str:
        home = ("-n", api.namespace)
        answer = kubectl.run("apply", *home, *flags, "-f", "-", stdin=json.dumps(manifest))
        assert answer.code == 0, answer.err
        return answer.err

    body = with_tasks("train", pod(), pod(), pod(image="busybox:1.37"))
    assert apply(body, "--dry-run=server") == ""
    assert (stored(real, api.namespace), dry_runs(real, api.namespace)) == ([], {201: 2})
    assert apply(body) == ""
    assert (stored(real, api.namespace), dry_runs(real, api.namespace)) == (["train"], {201: 4})
    kubectl("label", "-n", api.namespace, "jt", "train", "team=a")
    kubectl("annotate", "-n", api.namespace, "jt", "train", "note=b")
    apply(body)
    assert dry_runs(real, api.namespace) == {201: 4}
    misspelt = with_tasks("train", pod(comand=["sh"]))
    assert apply(misspelt) == (
        f"Warning: {TASKS}[0].template.spec.containers[0].comand: unknown field; did you mean "
        '"command"?\n'
    )
    assert dry_runs(real, api.namespace) == {201: 5}
    invalid = json.dumps(with_tasks("train", pod(imagePullPolicy="always")))
    message = kubectl.refused("apply", "-n", api.namespace, "-f", "-", stdin=invalid)
    assert f"{TASKS}[0].template.spec.containers[0].imagePullPolicy: Unsupported value" in message
    assert dry_runs(real, api.namespace) == {201: 5, 422: 1}


def deny(namespace: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy of the cluster that refuses every PodTemplate in the namespace."""
    group, name = "admissionregistration.k8s.io/v1", f"none-in-{namespace}"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["podtemplates"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    policy = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
            "validations": [{"expression": "false", "message": "we have none of these"}],
        },
    }
    binding = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    return policy, binding


async def test_refusals_by_quota_and_policy_do_not_count(
    real: RealCluster, api: Server, served: Served
) -> None:
    """Quota (403), a policy (422 about the object, not its template), PodSecurity (a warning)."""
    home = real.admin.get(api.home).json()
    home["metadata"]["labels"]["pod-security.kubernetes.io/warn"] = "restricted"
    real.admin.put(api.home, json=home).raise_for_status()
    answer = await api.post(api.templates, with_tasks("warned", pod()))
    assert answer.code == 201
    (warning,) = answer.warnings
    assert f"{TASKS}[0].template: would violate PodSecurity" in warning

    hard = {"count/podtemplates": "0"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    path = f"/api/v1/namespaces/{api.namespace}/resourcequotas"
    body = real.admin.post(path, json=quota | {"spec": {"hard": hard}}).raise_for_status().json()
    body["status"] = {"hard": hard, "used": {"count/podtemplates": "0"}}
    real.admin.put(f"{path}/q/status", json=body).raise_for_status()
    until_forbidden(real, api.namespace, "exceeded quota")
    assert (await api.post(api.templates, with_tasks("no-quota", pod()))).code == 201
    real.admin.delete(f"{path}/q").raise_for_status()

    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    policy, binding = deny(api.namespace)
    real.admin.post(f"{policies}ies", json=policy).raise_for_status()
    real.admin.post(f"{policies}ybindings", json=binding).raise_for_status()
    until_forbidden(real, api.namespace, "we have none of these")
    assert (await api.post(api.templates, with_tasks("no-policy", pod()))).code == 201
    real.admin.delete(f"{policies}ybindings/{binding['metadata']['name']}").raise_for_status()
    real.admin.delete(f"{policies}ies/{policy['metadata']['name']}").raise_for_status()

    assert served.log().count("pod template not checked") == 2
    metrics = served.get("/metrics").text
    for result in ("passed", "forbidden", "error"):
        assert f'jobflow_pod_template_checks_total{{result="{result}"}} 1.0' in metrics


def until_forbidden(real: RealCluster, namespace: str, why: str) -> None:
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": pod()}
    deadline = time.monotonic() + WITHIN_SECONDS
    path = f"{POD_TEMPLATES.path(namespace)}?dryRun=All"
    while why not in (answer := real.admin.post(path, json=body)).text:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.05)
