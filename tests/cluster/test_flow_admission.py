"""Flows with loops, cases, finally and probes on the real API server. One answer has all faults."""

import json
from typing import Any

import pytest

from support.cluster.kubectl import Kubectl
from support.sandbox.manifests import jobflow, template
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]

PROBE = "spec.flows[1].dependsOn.probe"


def flow(steps: list[dict[str, Any]], **spec: Any) -> str:
    manifest = jobflow("f", {})
    manifest["spec"] = {"flows": steps, **spec}
    return json.dumps(manifest)


def faults_of(api: Server, kubectl: Kubectl, bad: str) -> list[str]:
    dry = ("-n", api.namespace, "--dry-run=server", "-f", "-")
    lines = kubectl.refused("apply", *dry, stdin=bad).splitlines()
    return [line.removeprefix("* ") for line in lines if line.startswith("* ")]


@pytest.mark.usefixtures("served")
async def test_one_answer_has_all_faults_of_control(api: Server, kubectl: Kubectl) -> None:
    await api.create(api.templates, template("serve"))
    case = {"when": "true", "template": "serve", "patch": {"jobSpec": {"minAvailable": 5}}}
    bad = flow(
        [
            {"name": "a", "forEach": {"count": 2000}, "retry": {"limit": 1}, "timeout": "soon"},
            {"name": "a-0", "template": "serve", "switch": [{}, case]},
            {"name": "b", "repeat": {}, "dependsOn": {"targets": ["last"]}},
        ],
        parallelism=0,
        **{"finally": [{"name": "last", "daemon": True}]},
    )
    answer = await api.post(api.flows, json.loads(bad))
    assert (answer.code, answer.reason) == (422, "Invalid")
    assert "spec.flows[1].name" in answer.causes
    assert [line.split(": ")[:2] for line in faults_of(api, kubectl, bad)] == [
        ["spec.flows[0].forEach.count", "Invalid value"],
        ["spec.flows[0].timeout", "Invalid value"],
        ["spec.flows[1].name", "Duplicate value"],
        ["spec.flows[1].template", "Forbidden"],
        ["spec.flows[1].switch[1]", "Forbidden"],
        ["spec.flows[1].switch[1].patch.jobSpec.minAvailable", "Invalid value"],
        ["spec.flows[2].dependsOn.targets[0]", "Invalid value"],
        ["spec.flows[2].repeat.until", "Required value"],
        ["spec.flows[2].repeat.max", "Required value"],
        ["spec.parallelism", "Invalid value"],
        ["spec.finally[0].daemon", "Forbidden"],
    ]


@pytest.mark.usefixtures("served")
async def test_a_template_that_a_case_may_need_is_kept(api: Server, kubectl: Kubectl) -> None:
    home = ("-n", api.namespace)
    await api.create(api.templates, template("large"))
    waiting = flow(
        [{"name": "a", "switch": [{"when": "false", "template": "small"}, {"template": "large"}]}],
        suspend=True,
        **{"finally": [{"name": "last", "template": "clean"}]},
    )
    kubectl("apply", *home, "-f", "-", stdin=waiting)
    message = kubectl.refused("delete", *home, "jobtemplate", "large")
    assert "template large is still needed by flow f (step a)" in message


def probing(**probe: Any) -> str:
    depends_on = {"targets": ["serve"], "probe": probe}
    return flow([{"name": "serve"}, {"name": "use", "dependsOn": depends_on}])


@pytest.mark.usefixtures("served")
async def test_one_answer_has_all_faults_of_a_probe(api: Server, kubectl: Kubectl) -> None:
    await api.create(api.templates, template("serve"))
    get = {"taskName": "main", "path": "/ready", "port": 8080}
    bad = probing(
        httpGetList=[
            {"taskName": "mian", "path": "ready", "port": 0},
            get | {"httpHeader": {"name": "X-A", "value": "b\r\nX-C: d"}},
        ],
        taskStatusList=[{"taskName": "main", "phase": "Completed", "count": 2}],
    )
    assert faults_of(api, kubectl, bad) == [
        f'{PROBE}.httpGetList[0].taskName: Invalid value: "mian": target "serve" has no such task; '
        'did you mean "main"?',
        f'{PROBE}.httpGetList[0].path: Invalid value: "ready": a path begins with "/"; "/ready" '
        "would do",
        f"{PROBE}.httpGetList[0].port: Invalid value: 0: a port is a number from 1 to 65535",
        f'{PROBE}.httpGetList[1].httpHeader.value: Invalid value: "b\\r\\nX-C: d": the value of a '
        "header is one line of ASCII, without control characters",
        f'{PROBE}.taskStatusList[0].phase: Unsupported value: "Completed": supported values: '
        '"Pending", "Running", "Succeeded", "Failed"; did you mean "Succeeded"?',
        f'{PROBE}.taskStatusList[0].count: Invalid value: 2: task "main" of target "serve" has 1 '
        "pod; leave count out to check all of them",
    ]
    go_manifest = probing(httpGetList=[get | {"httpHeader": {"name": "", "value": ""}}])
    kubectl("apply", "-n", api.namespace, "-f", "-", stdin=go_manifest)
