"""Flows with loops, cases and finally on the real API server: all that is wrong is one answer."""

import json
from typing import Any

import pytest

from support.cluster.kubectl import Kubectl
from support.sandbox.manifests import jobflow, template
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]


def flow(steps: list[dict[str, Any]], **spec: Any) -> str:
    made = jobflow("f", {})
    made["spec"] = {"flows": steps, **spec}
    return json.dumps(made)


@pytest.mark.usefixtures("served")
async def test_what_is_wrong_with_control_is_one_answer(api: Server, kubectl: Kubectl) -> None:
    home = ("-n", api.namespace)
    await api.made(api.templates, template("serve"))
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
    said = kubectl.refused("apply", *home, "--dry-run=server", "-f", "-", stdin=bad).splitlines()
    places = [line.removeprefix("* ").split(": ")[:2] for line in said if line.startswith("* ")]
    assert places == [
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
async def test_a_template_that_a_case_may_still_run_stays(api: Server, kubectl: Kubectl) -> None:
    home = ("-n", api.namespace)
    await api.made(api.templates, template("large"))
    waiting = flow(
        [{"name": "a", "switch": [{"when": "false", "template": "small"}, {"template": "large"}]}],
        suspend=True,
        **{"finally": [{"name": "last", "template": "clean"}]},
    )
    kubectl("apply", *home, "-f", "-", stdin=waiting)
    said = kubectl.refused("delete", *home, "jobtemplate", "large")
    assert "template large is still needed by flow f (step a)" in said
