"""A reconciler without workers, with plans from the test."""

from datetime import datetime
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowState, JobFlowStatus
from jobflow.api.resources import JOBFLOWS
from jobflow.controller import reconciler as module
from jobflow.controller.apply.api_answers import Memory
from jobflow.controller.apply.apply import Applier
from jobflow.controller.apply.events import Recorder
from jobflow.controller.queue import WorkQueue
from jobflow.controller.reconciler import Reconciler
from jobflow.controller.wants import Wants
from jobflow.core.planning.actions import Plan
from jobflow.core.planning.observed.view import View
from jobflow.kube.cache import Key
from jobflow.kube.write_order import WriteOrder
from jobflow.store import Store
from support.sandbox.running_controller import NAMESPACE, Cluster

KEY = (NAMESPACE, "f")


class World:
    """A reconciler without workers, on a server with one flow and with a manual clock."""

    def __init__(self, servers: Cluster, subject: JobFlow) -> None:
        self.servers = servers
        self.now = 100.0
        self.store = Store()
        self.store.flows.replace([subject], subject.metadata.resource_version)
        self.store.jobs.replace([], subject.metadata.resource_version)
        self.queue = WorkQueue[Key](clock=lambda: self.now, dice=lambda: 0.0)
        self.recorder = Recorder(servers.client)
        self.memory = Memory()
        self.order = WriteOrder()
        self.reconciler = Reconciler(
            self.store,
            Applier(servers.client, self.store, self.memory),
            self.memory,
            self.recorder,
            self.queue,
            Wants({}),
            self.order,
            clock=lambda: self.now,
        )

    @property
    def writes(self) -> int:
        return self.servers.count("PATCH", JOBFLOWS, subresource="status")


def set_plan(monkeypatch: pytest.MonkeyPatch, **plan: Any) -> None:
    """Replace every plan; `says` becomes the message of the state."""

    def plan_flow(flow: JobFlow, view: View, *, now: datetime) -> Plan:
        message = plan.get("says")
        status = flow.status if message is None else running_status(message)
        fields = {key: value for key, value in plan.items() if key != "says"}
        return Plan(**{"actions": (), "status": status, **fields})

    monkeypatch.setattr(module, "plan_flow", plan_flow)


def running_status(message: str) -> JobFlowStatus:
    return JobFlowStatus(state=FlowState(phase="Running", message=message))
