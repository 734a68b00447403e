"""Steps that probe or use pods, on a real API server, with simulated pods or processes."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from jobflow.sandbox.nodes.process_runner import ProcessRunner
from jobflow.sandbox.nodes.runner import Runner
from jobflow.sandbox.nodes.simulate import SimulateRunner
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served
from support.paths import ROOT
from support.sandbox.servers import Server
from support.sandbox.volcano_world import volcano

pytestmark = [pytest.mark.cluster, pytest.mark.kubectl]

EXAMPLES = ROOT / "examples"


@contextmanager
def simulated(logs: Path) -> Iterator[Runner]:
    yield SimulateRunner(4)


@contextmanager
def processes(logs: Path) -> Iterator[Runner]:
    with ProcessRunner(logs) as runner:
        yield runner


async def apply(api: Server, kubectl: Kubectl, name: str) -> None:
    path = str(EXAMPLES / name)
    await asyncio.to_thread(kubectl, "-n", api.namespace, "apply", "-f", path)


async def flow_until(api: Server, name: str, holds: Any) -> dict[str, Any]:
    def matches(found: Any) -> bool:
        return bool(found and "status" in found and holds(found["status"]))

    status: dict[str, Any] = (await api.until(f"{api.flows}/{name}", matches))["status"]
    return status


def final(status: dict[str, Any]) -> bool:
    return status["state"]["phase"] in ("Succeed", "Failed")


@pytest.mark.parametrize("runner", [simulated, processes], ids=["simulate", "process"])
async def test_a_step_starts_when_all_workers_have_succeeded(
    real: RealCluster, api: Server, served: Served, kubectl: Kubectl, tmp_path: Path, runner: Any
) -> None:
    """Workers succeed, a policy ends the parameter server, and the next step starts."""
    with runner(tmp_path / "logs") as pods:
        async with volcano(await real.client("volcano"), runner=pods):
            await apply(api, kubectl, "parameter-server.yaml")
            waiting = await flow_until(
                api, "mnist", lambda s: "of task worker" in _of(s, "export").get("message", "")
            )
            assert _of(waiting, "export")["reason"] == "WaitingForProbe"
            done = await flow_until(api, "mnist", final)
    assert done["state"]["phase"] == "Succeed"
    assert _of(done, "train")["phase"] == _of(done, "export")["phase"] == "Completed"
    assert real.audit.created("jobs", api.namespace) == {"mnist-train": 1, "mnist-export": 1}
    names = [pod["metadata"]["name"] for pod in (await api.get(api.pods)).json["items"]]
    assert sorted(names) == [
        "mnist-export-main-0", *(f"mnist-train-worker-{n}" for n in range(3)),
    ]  # fmt: skip


async def test_a_pipeline_runs_as_processes(
    real: RealCluster,
    api: Server,
    served: Served,
    kubectl: Kubectl,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with processes(tmp_path / "logs") as pods:
        async with volcano(await real.client("volcano"), runner=pods):
            await apply(api, kubectl, "training-pipeline.yaml")
            done = await flow_until(api, "training", final)
    assert done["state"]["phase"] == "Succeed"
    assert _of(done, "prepare")["outputs"] == {"points": 300}
    assert round(_of(done, "train")["outputs"]["slope"]) == 3
    assert _of(done, "evaluate")["outputs"]["error"] < 0.2


def _of(status: dict[str, Any], step: str) -> dict[str, Any]:
    conditions = (status.get("conditions") or {}).items()
    found: dict[str, Any] = next((c for name, c in conditions if name.endswith(f"-{step}")), {})
    return found
