"""Flows with probes on the real API server: the definition accepts them, and the webhook refuses
faults."""

import json
from typing import Any

import pytest

from support.cluster.kubectl import Kubectl
from support.sandbox.manifests import jobflow, template
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]

HERE = "spec.flows[1].dependsOn.probe"


def probing(**probe: Any) -> str:
    flow = jobflow("f", {"serve": [], "use": ["serve"]})
    flow["spec"]["flows"][1]["dependsOn"]["probe"] = probe
    return json.dumps(flow)


@pytest.mark.usefixtures("served")
async def test_what_is_wrong_with_a_probe_is_one_answer(api: Server, kubectl: Kubectl) -> None:
    home = ("-n", api.namespace)
    await api.made(api.templates, template("serve"))
    get = {"taskName": "main", "path": "/ready", "port": 8080}
    bad = probing(
        httpGetList=[
            {"taskName": "mian", "path": "ready", "port": 0},
            get | {"httpHeader": {"name": "X-A", "value": "b\r\nX-C: d"}},
        ],
        taskStatusList=[{"taskName": "main", "phase": "Completed", "count": 2}],
    )
    said = kubectl.refused("apply", *home, "--dry-run=server", "-f", "-", stdin=bad).splitlines()
    assert [line.removeprefix("* ") for line in said if line.startswith("* ")] == [
        f'{HERE}.httpGetList[0].taskName: Invalid value: "mian": target "serve" has no such task; '
        'did you mean "main"?',
        f'{HERE}.httpGetList[0].path: Invalid value: "ready": a path begins with "/"; "/ready" '
        "would do",
        f"{HERE}.httpGetList[0].port: Invalid value: 0: a port is a number from 1 to 65535",
        f'{HERE}.httpGetList[1].httpHeader.value: Invalid value: "b\\r\\nX-C: d": the value of a '
        "header is one line of ASCII, without control characters",
        f'{HERE}.taskStatusList[0].phase: Unsupported value: "Completed": supported values: '
        '"Pending", "Running", "Succeeded", "Failed"; did you mean "Succeeded"?',
        f'{HERE}.taskStatusList[0].count: Invalid value: 2: task "main" of target "serve" has 1 '
        "pod; leave count out to check all of them",
    ]
    written_by_go = probing(httpGetList=[get | {"httpHeader": {"name": "", "value": ""}}])
    kubectl("apply", *home, "-f", "-", stdin=written_by_go)
