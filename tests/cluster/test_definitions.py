"""Foreign definitions replace those of JobFlow, on a real API server with two replicas."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobflow.api.resources import LEASES
from support.cluster.definitions import apply_definitions, replace_schema
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served, registered, until
from support.sandbox.manifests import template
from support.sandbox.rest_client import flow
from support.sandbox.servers import Server

pytestmark = pytest.mark.cluster


@pytest.fixture
def restore_definitions(real: RealCluster) -> Iterator[None]:
    yield
    apply_definitions(real)


def reports_fault(served: Served) -> bool:
    """Whether the replica names the missing field and the remedy."""
    return any(
        "jobflows.flow.volcano.sh to be corrected: spec.flows[].template is missing" in clause
        and "`jobflow crds --apply`" in clause
        for clause in served.waiting_for() or ()
    )


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
        replace_schema(real)
        await until(lambda: reports_fault(one) and reports_fault(other))
        await until(lambda: not leader(real))
        answer = await api.post(api.flows, flow("f"))
        assert (answer.code, answer.reason) == (503, "ServiceUnavailable")
        assert "spec.flows[].template is missing" in json.dumps(answer.json)
        assert '"definition does not fit"' in one.log()
        apply_definitions(real)
        await until(lambda: one.ready() and other.ready())
        await until(lambda: leader(real))
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
