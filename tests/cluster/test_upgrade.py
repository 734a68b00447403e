"""An upgrade from an earlier version and the rollback to it, while flows run, on a real API server.

`FLOWS` has the flows that are in flight and what holds after each change. A change of behaviour
adds a flow that it affects.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import COMMANDS
from jobflow.api.volcano.command import Action
from support.cluster.completing_driver import Driven, driven
from support.cluster.definitions import put_definitions
from support.cluster.earlier_version import EarlierVersion, earlier_version
from support.cluster.real_cluster import CRDS as OURS
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served, until
from support.sandbox.manifests import jobflow, template
from support.sandbox.running_controller import flow_command, set_phase
from support.sandbox.servers import Server

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

EARLIER = "c8fda79c0059c03cfd6c03c0e2f04a065147d59c"
"""The version before this one."""

Check = Callable[[JobFlow, Driven], None]


@dataclass(frozen=True)
class Stage:
    """A part of the life of a flow, under one version."""

    action: str = ""
    """The action of a Command for the flow, sent first."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """How its jobs end, in this order, each once it exists."""
    steps: Mapping[str, str] = field(default_factory=dict)
    """Phases of its steps after that."""
    phase: str = "Running"
    """Its phase after that."""
    check: Check = lambda flow, driver: None
    """Asserts what else holds after that."""


@dataclass(frozen=True)
class InFlight:
    """A flow, and its life under the earlier version, this one, and the earlier one again. Without
    a part under the earlier version it is created under this one."""

    manifest: Mapping[str, Any]
    before: Stage | None
    upgraded: Stage
    rolled_back: Stage

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


AFTER = {"name": "b", "dependsOn": {"targets": ["a"]}}
CHILD = {"flows": [{"name": "a"}, AFTER]}
RETRIED = {"retry": {"limit": 1, "backoff": {"duration": "0s"}}}
FLOWS = (
    InFlight(
        jobflow("chain", {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}),
        Stage(ends={"chain-a": "Completed"}, steps={"a": "Completed", "b": "Pending"}),
        Stage(ends={"chain-b": "Completed"}, steps={"b": "Completed", "c": "Pending"}),
        Stage(ends={"chain-c": "Completed", "chain-d": "Completed"}, phase="Succeed"),
    ),
    InFlight(
        jobflow("new", {"a": [], "b": ["a"]}),
        None,
        Stage(ends={"new-a": "Completed"}, steps={"a": "Completed", "b": "Pending"}),
        Stage(ends={"new-b": "Completed"}, phase="Succeed"),
    ),
    InFlight(
        jobflow("failed", {"a": []}),
        Stage(ends={"failed-a": "Failed"}, steps={"a": "Failed"}, phase="Failed"),
        Stage(action=Action.RESTART_JOB, steps={"a": "Pending"}),
        Stage(ends={"failed-a-r1": "Completed"}, phase="Succeed"),
    ),
    InFlight(
        jobflow("parent", {}, flows=[{"name": "a", "flow": CHILD}, AFTER]),
        Stage(ends={"parent-a-a": "Completed"}, steps={"a": "Running"}),
        Stage(ends={"parent-a-b": "Completed"}, steps={"a": "Completed", "b": "Pending"}),
        Stage(ends={"parent-b": "Completed"}, phase="Succeed"),
    ),
    InFlight(
        jobflow("items", {}, flows=[{"name": "a", "forEach": {"count": 3}} | RETRIED]),
        Stage(ends={"items-a-0": "Completed", "items-a-1": "Failed"}, steps={"a": "Running"}),
        Stage(ends={"items-a-1-r1": "Completed"}, steps={"a": "Running"}),
        Stage(ends={"items-a-2": "Completed"}, phase="Succeed"),
    ),
)


@pytest.fixture
def definitions(real: RealCluster) -> Iterator[Callable[[Path], None]]:
    """A function that replaces all definitions of JobFlow by those of a folder."""
    yield partial(put_definitions, real)
    put_definitions(real, OURS)


@pytest.fixture(scope="module")
def earlier() -> EarlierVersion:
    found = earlier_version(EARLIER)
    if found is None:
        pytest.skip(f"this clone lacks commit {EARLIER[:8]}")
    return found


class Change:
    """Two replicas of different versions, and the change from one to the other and back."""

    def __init__(self, real: RealCluster, api: Server, home: Path, earlier: EarlierVersion) -> None:
        flags = ("--system-namespace", api.namespace, "--shutdown-delay=0s")
        self.old = Served(real, home, *flags, webhook=False, program=earlier.program)
        self.new = Served(real, home, *flags, user="jobflow-2", webhook=False)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the old one at first; at the end, one of both."""
        try:
            self.old.start()
            yield
        finally:
            for replica in (self.old, self.new):
                if replica.is_running:
                    replica.kill()

    async def to(self, replica: Served, *, then: Callable[[], None] = lambda: None) -> None:
        """Replace the other replica by this one, as a Deployment does; call `then` once it runs."""
        replica.launch()
        await until(lambda: replica.waiting_for() is not None)
        await asyncio.to_thread(then)
        await until(replica.ready)
        await asyncio.to_thread((self.new if replica is self.old else self.old).stop)
        await until(lambda: replica.metric("leader") == 1)


class Life:
    """One of the flows in a cluster."""

    def __init__(self, api: Server, driver: Driven, flow: InFlight) -> None:
        self._api, self._driver = api, driver
        self._manifest, self._name = flow.manifest, flow.name

    async def live(self, stage: Stage | None) -> None:
        """Play Volcano and the users in one part of its life; return once its steps are there."""
        if stage is None:
            return
        if self._now is None:
            await self._api.create(self._api.flows, dict(self._manifest))
            await self._until(stage, lambda: self._now is not None)
        assert self._now is not None
        if stage.action:
            name = f"{self._name}-{stage.action.lower()}"
            command = flow_command(self._now.metadata, stage.action, name)
            await self._api.client.create(COMMANDS, self._api.namespace, command)
        for job, phase in stage.ends.items():
            await self._until(stage, lambda job=job: job in self._jobs)
            await set_phase(self._api.client, job, phase, namespace=self._api.namespace)
        await self._until(stage, lambda: self._has_phases(stage))
        stage.check(self._now, self._driver)

    @property
    def _now(self) -> JobFlow | None:
        return self._driver.flows.get(self._api.namespace, self._name)

    @property
    def _jobs(self) -> set[str]:
        return {job.metadata.name for job in self._driver.jobs}

    def _has_phases(self, stage: Stage) -> bool:
        assert self._now is not None
        status = self._now.status
        phases = {key: condition.phase for key, condition in (status.conditions or {}).items()}
        steps = {f"{self._name}-{step}": phase for step, phase in stage.steps.items()}
        return status.state.phase == stage.phase and phases.items() >= steps.items()

    async def _until(self, stage: Stage, holds: Callable[[], bool]) -> None:
        try:
            await self._driver.until(holds)
        except AssertionError as error:
            found = f"found {self._now} with jobs {self._jobs}"
            raise AssertionError(f"expected {stage}, {found}") from error


@pytest.mark.parametrize("definitions_first", [True, False], ids=["crds-first", "crds-last"])
async def test_flows_continue_after_an_upgrade_and_after_the_rollback(
    real: RealCluster,
    api: Server,
    tmp_path: Path,
    earlier: EarlierVersion,
    definitions: Callable[[Path], None],
    definitions_first: bool,
) -> None:
    change = Change(real, api, tmp_path, earlier)

    async def each(stage_of: Callable[[InFlight], Stage | None]) -> None:
        await asyncio.gather(*(Life(api, driver, flow).live(stage_of(flow)) for flow in FLOWS))

    definitions(earlier.crds)
    with change.running():
        async with driven(real, api.namespace) as driver:
            driver.completes = False
            for name in "abcd":
                await api.create(api.templates, template(name))
            await each(lambda flow: flow.before)
            if definitions_first:
                definitions(OURS)
                await change.to(change.new)
            else:
                await change.to(change.new, then=lambda: definitions(OURS))
            await each(lambda flow: flow.upgraded)
            if definitions_first:
                definitions(earlier.crds)
            await change.to(change.old)
            await each(lambda flow: flow.rolled_back)
    created = real.audit.created("jobs", api.namespace)
    assert created.keys() == driver.uids.keys()
    assert set(created.values()) == {1}, "a job was created twice"
    assert {len(uids) for uids in driver.uids.values()} == {1}
