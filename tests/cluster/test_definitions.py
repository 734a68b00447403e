"""Foreign definitions replace those of JobFlow, on a real API server with two replicas."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.resources import LEASES
from support.cluster.definitions import (
    apply_definitions,
    edit_schema,
    put_definitions,
    replace_schema,
)
from support.cluster.real_cluster import CRDS, RealCluster
from support.cluster.served import Served, registered, until
from support.sandbox.manifests import template
from support.sandbox.rest_client import flow
from support.sandbox.servers import Server

pytestmark = pytest.mark.cluster


@pytest.fixture
def restore_definitions(real: RealCluster) -> Iterator[None]:
    yield
    put_definitions(real, CRDS)


def reports_fault(served: Served) -> bool:
    """Whether the replica names the missing field and the remedy."""
    return any(
        "jobflows.flow.volcano.sh to be corrected: spec.flows[].template is missing" in clause
        and "`jobflow crds --apply`" in clause
        for clause in served.waiting_for() or ()
    )


SUSPENDED = {"suspend": True, "params": [{"name": "x", "value": 1}], "flows": [{"name": "a"}]}


def run_doctor(real: RealCluster, namespace: str) -> str:
    command = [str(Path(sys.executable).with_name("jobflow")), "doctor", "-n", namespace]
    command += ["--kubeconfig", str(real.plane.kubeconfig("admin"))]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def leader(real: RealCluster) -> str:
    spec = real.admin.get(LEASES.path("default", "jobflow")).raise_for_status().json()["spec"]
    return str(spec.get("holderIdentity") or "")


@pytest.mark.usefixtures("restore_definitions")
async def test_nothing_runs_with_a_foreign_definition(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    one = Served(real, tmp_path)
    other = Served(real, tmp_path, user="jobflow-2", webhook=False)
    with one.running(), other.running(), registered(real, one):
        await until(lambda: leader(real))
        kept, lost = (flow(name) | {"spec": SUSPENDED} for name in ("kept", "lost"))
        await api.create(api.flows, kept)
        await api.create(api.flows, lost)
        await until(lambda: one.metric("flows_suspended") == 2)
        replace_schema(real)
        await until(lambda: reports_fault(one) and reports_fault(other))
        await until(lambda: not leader(real))
        answer = await api.post(api.flows, flow("f"))
        assert (answer.code, answer.reason) == (503, "ServiceUnavailable")
        assert "spec.flows[].template is missing" in json.dumps(answer.json)
        assert '"definition does not fit"' in one.log()
        path = f"{api.flows}/lost/status"  # any write drops fields; only users' are refused
        assert (await api.patch(path, {"status": {"state": {"phase": "Pending"}}})).code == 200
        apply_definitions(real)
        await until(lambda: one.ready() and other.ready())
        await until(lambda: leader(real))
        (line,) = [each for each in one.log().splitlines() if '"flow lost fields"' in each]
        assert json.loads(line)["flow"] == f"{api.namespace}/lost"
        assert "spec.params" in json.loads(line)["fields"]
        assert one.metric("flows_lost_fields") == 1
        doctor = await asyncio.to_thread(run_doctor, real, api.namespace)
        assert "JobFlow lost lost spec.params and spec.suspend while" in doctor
        assert "JobFlow kept" not in doctor
        await api.create(api.flows, flow("f"))
        await api.until(
            f"{api.flows}/f", lambda found: found.get("status", {}).get("state", {}).get("phase")
        )


@pytest.mark.usefixtures("restore_definitions")
async def test_a_flow_that_was_read_with_a_foreign_definition_is_read_again(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    """Meanwhile the API server omits `template` in its answers with the same version. A replica
    that has just started must not use the name of the step instead."""
    steps = [{"name": "a", "template": "elsewhere"}]
    await api.create(api.flows, flow("f") | {"spec": {"flows": steps}})
    await api.create(api.templates, template("elsewhere"))
    replace_schema(real)
    await api.until(f"{api.flows}/f", lambda found: "template" not in found["spec"]["flows"][0])
    one = Served(real, tmp_path)
    with one.running(ready=False):
        await until(lambda: reports_fault(one))
        apply_definitions(real)
        await until(one.ready)
        job = await api.until(f"{api.vcjobs}/f-a", lambda job: job is not None)
    by = job["metadata"]["labels"]["volcano.sh/createdByJobTemplate"]
    assert by == f"{api.namespace}.elsewhere"


def widen(schema: dict[str, Any]) -> None:
    """Admit what a newer version may read: a text as ttl, and another field."""
    spec = schema["properties"]["spec"]["properties"]
    spec["ttlSecondsAfterFinished"] = {"x-kubernetes-int-or-string": True}
    spec["later"] = {"type": "string"}


@pytest.mark.usefixtures("restore_definitions")
async def test_a_replica_works_with_the_definitions_and_objects_of_a_newer_version(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    await api.create(api.templates, template("a"))
    one = Served(real, tmp_path)
    with one.running():
        edit_schema(real, widen)
        late = flow("late")
        late["spec"] |= {"ttlSecondsAfterFinished": "1h"}
        await until(lambda: real.admin.post(api.flows, json=late).status_code == 201)
        with registered(real, one):
            await api.create(api.flows, flow("f"))
        await api.until(f"{api.vcjobs}/f-a", lambda job: job is not None)
        assert one.ready()
        assert f'"object":"{api.namespace}/late"' in one.log()
        assert (await api.get(f"{api.vcjobs}/late-a")).code == 404
    await api.delete(f"{api.flows}/late")
