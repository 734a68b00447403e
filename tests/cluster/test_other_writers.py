"""Users and other controllers in the way of running flows, on a real API server."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jobflow.api import labels
from support.cluster.real_cluster import RealCluster
from support.cluster.release_checks import phase
from support.cluster.served import Served
from support.sandbox.manifests import jobflow, template
from support.sandbox.servers import Server

pytestmark = pytest.mark.cluster

EDITS: dict[str, Any] = {"labels": None, "annotations": {labels.STEP: "zzz"}}
VOLCANOS = {
    "state": {"phase": "Failed"},
    "conditions": {"test-a": {"phase": "Running", "job": None, "uid": None, "attempts": None}},
}
"""What Volcano's own controller, as far as JobFlow sees it, writes over a status."""


async def set_job(api: Server, name: str, word: str) -> None:
    await api.until(f"{api.vcjobs}/{name}", lambda job: job is not None)
    await api.patch(f"{api.vcjobs}/{name}/status", {"status": {"state": {"phase": word}}})


def runs(flow: Any) -> bool:
    step = flow.get("status", {}).get("conditions", {}).get("test-a", {})
    return phase(flow) == "Running" == step.get("phase") and step.get("attempts") == 1


async def test_edits_of_others_neither_repeat_a_job_nor_stop_a_flow(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    serve = Served(real, tmp_path, webhook=False)
    with serve.running():
        for step in ("a", "b"):
            await api.create(api.templates, template(step))
        await api.create(api.flows, jobflow("test", {"a": [], "b": ["a"]}))
        await set_job(api, "test-a", "Running")
        await api.until(f"{api.flows}/test", runs)
        await api.patch(f"{api.vcjobs}/test-a", {"metadata": EDITS})
        await api.patch(f"{api.flows}/test/status", {"status": VOLCANOS})
        await api.until(f"{api.flows}/test", runs)
        await asyncio.to_thread(serve.kill)
        await api.patch(f"{api.flows}/test/status", {"status": VOLCANOS})
        await asyncio.to_thread(serve.start)
        await api.until(f"{api.flows}/test", runs)
        await api.patch(f"{api.vcjobs}/test-a", {"metadata": {"ownerReferences": None}})
        for step in ("a", "b"):
            await set_job(api, f"test-{step}", "Completed")
        await api.until(f"{api.flows}/test", lambda flow: phase(flow) == "Succeed")
    assert real.audit.created("jobs", api.namespace) == {"test-a": 1, "test-b": 1}
    events = (await api.get(api.events)).json["items"]
    assert {"JobEdited", "StatusOverwritten"} <= {event["reason"] for event in events}
