"""Flows in the sandbox, with its API server, its job controller and the real controller, on a
simulated clock; and the same flows in virtual time."""

import asyncio
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from unittest.mock import patch

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.resources import JOBFLOWS, JOBTEMPLATES, NAMESPACES
from jobflow.controller.wants import SIMULATED
from jobflow.kube.cache import Cache
from jobflow.kube.reflector import Reflector
from jobflow.sandbox.apiserver.requests.in_process import in_process_client
from jobflow.sandbox.apiserver.resources import metadata
from jobflow.sandbox.nodes.simulate import SimulateRunner
from jobflow.sandbox.virtual_time.planned_flows import VirtualCluster
from jobflow.sandbox.volcano.controller import JobController
from support.sandbox.running_controller import Cluster, cluster
from support.time.alongside import alongside
from support.time.stepping_loop import START, clock, in_steps, now

Json = dict[str, Any]
Manifests = Sequence[Json]
"""JobTemplates, and one JobFlow."""
_SIMULATED_HOURS = 48 * 3600.0


@dataclass(frozen=True)
class FlowTimes:
    """How a flow ran: seconds are whole, and count from its creation."""

    phase: str
    makespan: float
    jobs: Mapping[str, tuple[str, float, float]]
    """Phase, creation and end of each vcjob, in the order of creation, then of names."""


def times_of(flow: JobFlow) -> FlowTimes:
    """Return the times in the status of a flow that has ended."""
    status, created = flow.status, flow.metadata.creation_timestamp
    assert created is not None

    def since(moment: datetime | None) -> float:
        return math.nan if moment is None else (moment - created).total_seconds()

    jobs = {
        record.name: (record.state, since(record.start_timestamp), since(record.end_timestamp))
        for record in status.job_status_list or ()
    }
    ordered = sorted(jobs.items(), key=lambda pair: (pair[1][1], pair[0]))
    return FlowTimes(status.state.phase, since(status.completion_time), dict(ordered))


def planned(manifests: Manifests) -> VirtualCluster:
    """Run a flow in virtual time, in which nobody answers an approval."""
    made = VirtualCluster(START, approve_after=lambda step: None)
    templates = [msgspec.convert(m, JobTemplate) for m in manifests if m["kind"] == "JobTemplate"]
    [flow] = (msgspec.convert(m, JobFlow) for m in manifests if m["kind"] == "JobFlow")
    made.add(flow, templates)
    made.run()
    return made


def simulated(worlds: Sequence[Manifests]) -> list[JobFlow]:
    """Run flows in one sandbox until they have ended, each in a namespace of its own."""
    return in_steps(_simulated(worlds))


async def _simulated(worlds: Sequence[Manifests]) -> list[JobFlow]:
    with patch.object(metadata, "now", lambda: now().strftime("%Y-%m-%dT%H:%M:%SZ")):
        async with cluster() as world, in_process_client(world.server) as client:
            jobs = JobController(client, SimulateRunner(clock=now), clock=now)
            async with (
                alongside(jobs.run()),
                world.controller(now=now, clock=clock, outside=SIMULATED),
            ):
                names = [f"world-{number}" for number in range(len(worlds))]
                for name, manifests in zip(names, worlds, strict=True):
                    await _create_templates(world, name, manifests)
                await asyncio.sleep(math.ceil(clock() + 1) - clock())
                return await _run(world, names, worlds)


async def _create_templates(world: Cluster, namespace: str, manifests: Manifests) -> None:
    made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await world.client.create(NAMESPACES, "", json.dumps(made).encode())
    for manifest in _in_namespace(namespace, manifests, "JobTemplate"):
        await world.client.create(JOBTEMPLATES, namespace, json.dumps(manifest).encode())


async def _run(world: Cluster, names: Sequence[str], worlds: Sequence[Manifests]) -> list[JobFlow]:
    """Create the flows at a whole second, and return them as they were when they ended."""
    ended: dict[str, JobFlow] = {}
    all_ended = asyncio.Event()

    def seen(old: JobFlow | None, new: JobFlow | None) -> None:
        if new is not None and new.final and new.metadata.controller is None:  # no child flow
            ended.setdefault(new.metadata.namespace, new)
        if len(ended) == len(names):
            all_ended.set()

    cache: Cache[JobFlow] = Cache(seen)
    reflector = Reflector(world.client, JOBFLOWS, JobFlow, cache)
    async with alongside(reflector.run()), asyncio.timeout(_SIMULATED_HOURS):
        for name, manifests in zip(names, worlds, strict=True):
            for manifest in _in_namespace(name, manifests, "JobFlow"):
                await world.client.create(JOBFLOWS, name, json.dumps(manifest).encode())
        await all_ended.wait()
    return [ended[name] for name in names]


def _in_namespace(namespace: str, manifests: Manifests, kind: str) -> Iterable[Json]:
    for manifest in manifests:
        if manifest["kind"] == kind:
            yield {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
