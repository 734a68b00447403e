"""A flow on a server and the parts that apply plans to it, for tests of `apply`."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.resources import JOBFLOWS, JOBS
from jobflow.api.volcano.job import Job
from jobflow.controller.apply.api_answers import Answers, Memory
from jobflow.controller.apply.apply import Applier
from jobflow.controller.apply.requests import Applied
from jobflow.core.planning.actions import Action, CreateJob, Guard, Plan
from jobflow.sandbox.apiserver.requests.failures import RequestFailure
from jobflow.store import Store
from support.sandbox.running_controller import NAMESPACE, Cluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """A flow on a server, and the parts that apply a plan to it."""

    def __init__(self, cluster: Cluster, flow: JobFlow) -> None:
        self.cluster = cluster
        self.flow = flow
        self.store = Store()
        self.store.flows.replace([flow], flow.metadata.resource_version)
        self.store.jobs.replace([], flow.metadata.resource_version)
        self.memory = Memory(dice=lambda: 0.0)
        self.applier = Applier(cluster.client, self.store, self.memory, now=lambda: NOW)

    @property
    def answers(self) -> Answers:
        return self.memory.of(self.flow)

    async def apply(self, *actions: Action, status: JobFlowStatus | None = None) -> Applied:
        plan = Plan(actions=actions, status=status or self.flow.status)
        return await self.applier.apply(self.flow, plan, write_status=status is not None)

    def create(self, name: str = "f-a", guard: Guard | None = None) -> CreateJob:
        return CreateJob("a", name, self.manifest(name), guard)

    def create_again(self, gone: str = "") -> CreateJob:
        """Return the action that creates the second attempt."""
        return self.create("f-a-r1", Guard(self.flow.metadata.uid, gone))

    def requests(self) -> list[str]:
        """Return the requests of the cluster's client, as method and last part of the path."""
        requests = self.cluster.server.requests
        return [f"{each.method} {each.path.rsplit('/', 1)[-1]}" for each in requests]

    def manifest(self, job: str, **owner: Any) -> dict[str, Any]:
        reference = {"apiVersion": JOBFLOWS.api_version, "kind": "JobFlow", "controller": True}
        names = {"name": self.flow.metadata.name, "uid": self.flow.metadata.uid}
        reference |= names | owner
        return {
            "apiVersion": JOBS.api_version,
            "kind": "Job",
            "metadata": {"name": job, "namespace": NAMESPACE, "ownerReferences": [reference]},
            "spec": {"minAvailable": 1},
        }

    async def create_unseen_job(self, **owner: Any) -> Job:
        """Create the vcjob f-a as another client; no watch has reported it yet."""
        body = json.dumps(self.manifest("f-a", **owner)).encode()
        return msgspec.json.decode(
            await self.cluster.client.create(JOBS, NAMESPACE, body), type=Job
        )

    def fails(self, method: str, ending: str, how: RequestFailure | None, **more: Any) -> None:
        self.cluster.fails(method, ending, how, **more)
