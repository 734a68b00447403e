"""Definitions of somebody else replace ours, on a real API server with two replicas."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobflow.api.resources import CRDS, JOBFLOWS, LEASES
from support.cluster.real_cluster import RealCluster, object_schema
from support.cluster.served import Served, registered, until
from support.sandbox.manifests import template
from support.sandbox.rest_client import flow
from support.sandbox.servers import Server

pytestmark = pytest.mark.cluster

TEXT = {"type": "string"}
STEP = object_schema(
    name=TEXT, patch=object_schema(jobSpec=object_schema(queue=TEXT | {"default": "default"}))
)
FEWER = object_schema(
    spec=object_schema(jobRetainPolicy=TEXT, flows={"type": "array", "items": STEP}),
    status=object_schema(state=object_schema(phase=TEXT)),
)
"""A definition of JobFlow from somebody else, with less in it."""


@pytest.fixture
def ours_afterwards(real: RealCluster) -> Iterator[None]:
    yield
    apply_ours(real)


def apply_ours(real: RealCluster) -> None:
    command = [str(Path(sys.executable).with_name("jobflow")), "crds", "--apply"]
    kubeconfig = str(real.plane.kubeconfig("admin"))
    subprocess.run([*command, "--kubeconfig", kubeconfig], check=True, stdout=subprocess.DEVNULL)


def apply_theirs(real: RealCluster) -> None:
    """Replace the schema, as `kubectl replace` or another chart would."""
    path = CRDS.path("", f"{JOBFLOWS.plural}.{JOBFLOWS.group}")
    definition = real.admin.get(path).raise_for_status().json()
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = FEWER
    real.admin.put(path, json=definition).raise_for_status()


def misses(served: Served) -> bool:
    """Whether the replica says which field is missing, and what to do."""
    return any(
        "jobflows.flow.volcano.sh to be corrected: spec.flows[].template is missing" in each
        and "`jobflow crds --apply`" in each
        for each in served.waiting_for() or ()
    )


def leader(real: RealCluster) -> str:
    spec = real.admin.get(LEASES.path("default", "jobflow")).raise_for_status().json()["spec"]
    return str(spec.get("holderIdentity") or "")


@pytest.mark.usefixtures("ours_afterwards")
async def test_nothing_goes_on_under_anothers_definition(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    one = Served(real, tmp_path)
    other = Served(real, tmp_path, user="jobflow-2", webhook=False)
    with one.running(), other.running(), registered(real, one):
        await until(lambda: leader(real))
        apply_theirs(real)
        await until(lambda: misses(one) and misses(other))
        await until(lambda: not leader(real))
        answer = await api.post(api.flows, flow("f"))
        assert (answer.code, answer.reason) == (503, "ServiceUnavailable")
        assert "spec.flows[].template is missing" in json.dumps(answer.json)
        assert '"definition does not fit"' in one.log()
        apply_ours(real)
        await until(lambda: one.ready() and other.ready())
        await until(lambda: leader(real))
        await api.create(api.flows, flow("f"))
        await api.until(
            f"{api.flows}/f", lambda found: found.get("status", {}).get("state", {}).get("phase")
        )


@pytest.mark.usefixtures("ours_afterwards")
async def test_a_flow_that_was_read_under_anothers_definition_is_read_again(
    real: RealCluster, api: Server, tmp_path: Path
) -> None:
    """Meanwhile the API server leaves out `template` in its answers under the same version. A
    replica that has just started must not run the step by its name."""
    steps = [{"name": "a", "template": "elsewhere"}]
    await api.create(api.flows, flow("f") | {"spec": {"flows": steps}})
    await api.create(api.templates, template("elsewhere"))
    apply_theirs(real)
    await api.until(f"{api.flows}/f", lambda found: "template" not in found["spec"]["flows"][0])
    one = Served(real, tmp_path)
    with one.running(ready=False):
        await until(lambda: misses(one))
        apply_ours(real)
        await until(one.ready)
        job = await api.until(f"{api.vcjobs}/f-a", lambda job: job is not None)
    by = job["metadata"]["labels"]["volcano.sh/createdByJobTemplate"]
    assert by == f"{api.namespace}.elsewhere"
