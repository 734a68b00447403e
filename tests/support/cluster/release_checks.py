"""Steps and checks of tests of a release, and the state of flows and vcjobs as JSON."""

import asyncio
from typing import Any

from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES
from support.cluster.real_cluster import RealCluster
from support.sandbox.manifests import DIAMOND, jobflow, template

WITHIN_SECONDS = 60


def get(bare: RealCluster, path: str) -> Any:
    """Return the object at this path; None if it does not exist."""
    answer = bare.admin.get(path)
    assert answer.status_code in (200, 404), answer.text
    return answer.json() if answer.status_code == 200 else None


async def until(bare: RealCluster, path: str, holds: Any) -> Any:
    """Return the object at this path as soon as `holds` is true of it (None: it does not exist)."""
    async with asyncio.timeout(WITHIN_SECONDS):
        while True:
            found = await asyncio.to_thread(get, bare, path)
            if holds(found):
                return found
            await asyncio.sleep(0.1)


async def post(bare: RealCluster, path: str, manifest: Any) -> Any:
    answer = await asyncio.to_thread(bare.admin.post, path, json=manifest)
    return answer.json()


async def delete(bare: RealCluster, path: str) -> Any:
    """Delete an object, from another thread: this one serves the port of the webhook."""
    return (await asyncio.to_thread(bare.admin.delete, path)).json()


async def apply_diamond(
    bare: RealCluster, namespace: str, name: str, duration: str = "200ms", **spec: Any
) -> str:
    """Create templates and a flow, and return the flow's path."""
    for step in DIAMOND:
        await post(bare, JOBTEMPLATES.path(namespace), template(step, duration=duration))
    created = await post(bare, JOBFLOWS.path(namespace), jobflow(name, DIAMOND, **spec))
    assert created["kind"] == "JobFlow", created
    return JOBFLOWS.path(namespace, name)


def state(found: Any) -> dict[str, str]:
    """Return the state of a flow or vcjob; empty without one, and for None."""
    return ((found or {}).get("status") or {}).get("state") or {}


def phase(found: Any) -> str:
    return state(found).get("phase", "")


async def succeeds(bare: RealCluster, path: str) -> None:
    flow = await until(bare, path, lambda flow: phase(flow) in ("Succeed", "Failed"))
    assert phase(flow) == "Succeed", flow["status"]
