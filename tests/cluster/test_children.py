"""A flow with many child flows on a real API server."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobflow.api import labels
from jobflow.api.resources import JOBFLOWS
from support.cluster.completing_driver import Driven, driven
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served
from support.sandbox import manifests
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

CHILDREN = 500


def parent() -> dict[str, Any]:
    inner = {"flows": [{"name": "x"}], "outputs": {"done": 'steps["x"].phase'}}
    each = {"count": CHILDREN, "parallelism": 50}
    return {
        "apiVersion": JOBFLOWS.api_version,
        "kind": JOBFLOWS.kind,
        "metadata": {"name": "f"},
        "spec": {"flows": [{"name": "a", "forEach": each, "flow": inner}]},
    }


def is_over(driver: Driven) -> bool:
    return any(flow.metadata.name == "f" and flow.final for flow in driver.flows)


async def test_a_flow_runs_five_hundred_child_flows(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    with Served(real, tmp_path, webhook=False).running():
        async with driven(real, api.namespace) as driver:
            await api.create(api.templates, manifests.template("x"))
            await api.create(api.flows, parent())
            await driver.until(lambda: is_over(driver), seconds=400)
            assert driver.phases == {"Succeed": 1 + CHILDREN}
            (outer,) = [flow for flow in driver.flows if flow.metadata.name == "f"]
    runs = (outer.status.conditions or {})["f-a"].runs or ()
    assert [run.flow for run in runs] == [f"f-a-{index}" for index in range(CHILDREN)]
    assert {json.dumps(run.outputs) for run in runs} == {'{"done": "Completed"}'}
    assert outer.status.completed_jobs is None
    created = real.audit.created("jobflows", api.namespace)
    assert set(created.values()) == {1}, "a child flow was made twice"
    children = [f for f in driver.flows if (f.metadata.labels or {}).get(labels.ROOT) == "f"]
    assert len(children) == CHILDREN
