"""Flows that are in flight during an upgrade and the rollback, and what holds in each part."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition
from jobflow.api.resources import COMMANDS
from jobflow.api.volcano.job import Job
from support.cluster.completing_driver import Driven
from support.sandbox.job_pods import end_pod, make_pod
from support.sandbox.running_controller import flow_command, set_phase
from support.sandbox.servers import Server


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A stage of the life of a flow, under one version."""

    action: str = ""
    """The action of a Command for the flow, which is handled first."""
    text: str = ""
    """The message of the Command."""
    edits: Mapping[str, Any] = field(default_factory=dict)
    """Changes of the metadata of its jobs, by name, that somebody makes then."""
    overwrites: Mapping[str, Any] | None = None
    """What somebody then writes over its status."""
    messages: Mapping[str, str] = field(default_factory=dict)
    """Termination messages of the pods of jobs that end."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """The phases that its jobs get, in this order, each once it exists."""
    steps: Mapping[str, str] = field(default_factory=dict)
    """Phases of its steps after that, with the reason if there is one."""
    phase: str = "Running"
    """Its phase after that."""
    variables: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The variables of the containers of its jobs, by name."""
    holds: "Check" = lambda life: True
    """What else is so then."""


@dataclass(frozen=True)
class InFlight:
    """A flow, and its stages under the earlier version, this one, and the earlier one again. It is
    created in its first stage, once the flow that it reuses has ended."""

    manifest: Mapping[str, Any]
    before: Sequence[Stage]
    upgraded: Sequence[Stage]
    rolled_back: Sequence[Stage]
    taken_over: Mapping[str, Any] | None = None
    """The status that Volcano's own controller has written before JobFlow runs."""

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"]["name"])


class Life:
    """One of the flows in a cluster."""

    def __init__(self, api: Server, driver: Driven, flow: InFlight) -> None:
        self._api, self._driver = api, driver
        self.flow = flow
        self._is_created = False
        self.was: JobFlow | None = None
        """The flow at the end of the stage before."""

    async def live(self, stages: Sequence[Stage]) -> None:
        """Play Volcano and the users; return once the steps of the last stage are there."""
        for stage in stages:
            await self._live(stage)
            self.was = self._found

    @property
    def now(self) -> JobFlow:
        assert self._found is not None
        return self._found

    def condition(self, step: str) -> StepCondition:
        """Return the condition of a step."""
        return (self.now.status.conditions or {})[f"{self.flow.name}-{step}"]

    def job(self, name: str) -> Job:
        """Return a job that exists."""
        found = self._driver.jobs.get(self._api.namespace, name)
        assert found is not None
        return found

    async def create(self) -> None:
        """Create the flow."""
        self._is_created = True
        await self._api.create(self._api.flows, dict(self.flow.manifest))
        if self.flow.taken_over is not None:
            await self._write_status(self.flow.taken_over)

    async def _live(self, stage: Stage) -> None:
        if not self._is_created:
            reuse = self.flow.manifest["spec"].get("reuse")
            await self._until(stage, lambda: reuse is None or self._has_ended(reuse["flow"]))
            await self.create()
        await self._until(stage, lambda: self._found is not None)
        if stage.action:
            await self._command(stage.action, stage.text)
        for job, metadata in stage.edits.items():
            await self._api.patch(f"{self._api.vcjobs}/{job}", {"metadata": metadata})
        if stage.overwrites is not None:
            await self._write_status(stage.overwrites)
        for job, phase in stage.ends.items():
            await self._until(stage, partial(self._exists, job))
            if job in stage.messages:
                await self._end_pod(self.job(job), stage.messages[job])
            await set_phase(self._api.client, job, phase, namespace=self._api.namespace)
        await self._until(stage, lambda: self._has_phases(stage) and stage.holds(self))
        for job, variables in stage.variables.items():
            assert await self._variables(job) == variables

    async def _write_status(self, status: Mapping[str, Any]) -> None:
        path = f"{self._api.flows}/{self.flow.name}/status"
        await self._api.patch(path, {"status": status})

    async def _command(self, action: str, text: str) -> None:
        commands = COMMANDS.path(self._api.namespace)
        name = f"{self.flow.name}-{action.lower()}"
        body = flow_command(self.now.metadata, action, name, text)
        await self._api.create(commands, json.loads(body))
        await self._api.until(f"{commands}/{name}", lambda found: found is None)

    async def _end_pod(self, job: Job, message: str) -> None:
        pod = await make_pod(self._api.client, job.metadata)
        await end_pod(self._api.client, self._api.namespace, pod, message=message)

    async def _variables(self, job: str) -> Mapping[str, str]:
        found = (await self._api.get(f"{self._api.vcjobs}/{job}")).json
        (container,) = found["spec"]["tasks"][0]["template"]["spec"]["containers"]
        return {each["name"]: each["value"] for each in container["env"]}

    @property
    def _found(self) -> JobFlow | None:
        return self._driver.flows.get(self._api.namespace, self.flow.name)

    def _has_ended(self, flow: str) -> bool:
        found = self._driver.flows.get(self._api.namespace, flow)
        return found is not None and found.final

    def _exists(self, job: str) -> bool:
        return self._driver.jobs.get(self._api.namespace, job) is not None

    def _has_phases(self, stage: Stage) -> bool:
        conditions = self.now.status.conditions or {}
        phases = {key: f"{each.phase} {each.reason}".strip() for key, each in conditions.items()}
        steps = {f"{self.flow.name}-{step}": phase for step, phase in stage.steps.items()}
        return self.now.status.state.phase == stage.phase and phases.items() >= steps.items()

    async def _until(self, stage: Stage, holds: Callable[[], bool]) -> None:
        try:
            await self._driver.until(holds)
        except AssertionError as error:
            status = None if self._found is None else msgspec.to_builtins(self.now.status)
            jobs = sorted(job.metadata.name for job in self._driver.jobs)
            found = f"found {status} with jobs {jobs}"
            raise AssertionError(f"{self.flow.name}: expected {stage}, {found}") from error


Check = Callable[[Life], bool]
