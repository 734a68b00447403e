"""Patterns in a sandbox that runs the commands of their containers as processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from pathlib import Path

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition
from jobflow.api.resources import JOBFLOWS, JOBS, JOBTEMPLATES, NAMESPACES, ObjectMeta
from jobflow.api.volcano.job import Job
from jobflow.app.sandbox_world import SandboxOptions, SandboxWorld, sandbox_world
from jobflow.core.names import format_job_name
from jobflow.kube.cache import Cache
from jobflow.kube.reflector import Reflector
from jobflow.sandbox.nodes.process_runner import ProcessRunner
from support.patterns.pattern import Pattern
from support.sandbox.flow_commands import run_process
from support.time.alongside import alongside, until

AT_ONCE = 6
WITHIN_SECONDS = 60


@dataclass
class PatternRun:
    """What happened to a pattern's flow."""

    name: str
    """Name of the flow."""
    flow: JobFlow = field(default_factory=JobFlow)
    """The flow as it was seen last."""
    begun: dict[str, list[int]] = field(default_factory=dict)
    """For each step when its jobs (or flows) were created, as numbers that grow with each event."""
    ended: dict[str, list[int]] = field(default_factory=dict)
    """For each step when its jobs ended."""

    def at_once(self) -> int:
        """Return the largest number of jobs that existed without having ended."""
        changes = [(at, 1) for times in self.begun.values() for at in times]
        changes += [(at, -1) for times in self.ended.values() for at in times]
        return max(accumulate(change for _, change in sorted(changes)))

    def condition(self, step: str) -> StepCondition:
        """Return the condition of a step."""
        key = format_job_name(self.flow.metadata.name, step)
        return (self.flow.status.conditions or {}).get(key, StepCondition())

    def outputs(self, step: str) -> Mapping[str, object] | None:
        """Return the outputs of a step; with `repeat`, those of its last run."""
        condition = self.condition(step)
        return condition.outputs or (condition.runs or [condition])[-1].outputs

    def phases(self) -> dict[str, str]:
        """Return phase, and reason if there is one, by step."""
        conditions = {step.name: self.condition(step.name) for step in self.flow.all_steps}
        return {name: f"{each.phase} {each.reason}".strip() for name, each in conditions.items()}


class PatternRuns:
    """Follows the flows and jobs of a sandbox."""

    def __init__(self, world: SandboxWorld) -> None:
        self._world = world
        self._runs: dict[str, PatternRun] = {}
        """By namespace."""
        self._events = 0

    async def run(self, patterns: Sequence[Pattern]) -> Mapping[str, PatternRun]:
        """Run the patterns, a few at a time, and return their runs by name."""
        slots = asyncio.Semaphore(AT_ONCE)
        jobs: Reflector[Job] = Reflector(self._world.client, JOBS, Job, Cache(self._job))
        flows: Reflector[JobFlow] = Reflector(
            self._world.client, JOBFLOWS, JobFlow, Cache(self._flow)
        )
        async with alongside(jobs.run()), alongside(flows.run()), asyncio.TaskGroup() as group:
            for each in patterns:
                group.create_task(self._run(each, slots))
        return {each.name: self._runs[each.namespace] for each in patterns}

    async def _run(self, pattern: Pattern, slots: asyncio.Semaphore) -> None:
        async with slots:
            run = self._runs[pattern.namespace] = PatternRun(pattern.flow)
            await self._create(pattern)
            try:
                for command in pattern.commands:
                    when, _, arguments = command.partition(":")
                    await until(partial(has_reached, run, when), within=WITHIN_SECONDS)
                    await self._command(pattern, arguments.split())
                await until(lambda: run.flow.final, within=WITHIN_SECONDS)
            except TimeoutError:
                pass  # the test shows how far the flow has come

    async def _create(self, pattern: Pattern) -> None:
        client, namespace = self._world.client, pattern.namespace
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create(NAMESPACES, "", json.dumps(made).encode())
        for manifest in pattern.manifests:
            resource = JOBFLOWS if manifest["kind"] == "JobFlow" else JOBTEMPLATES
            await client.create(resource, namespace, json.dumps(manifest).encode())

    async def _command(self, pattern: Pattern, arguments: Sequence[str]) -> None:
        answer = await run_process(self._world.kubeconfig, *arguments, "-n", pattern.namespace)
        assert answer.code == 0, answer.err

    def _job(self, old: Job | None, new: Job | None) -> None:
        if new is not None and (run := self._run_of(new.metadata)) is not None:
            self._note(run, new.metadata, old is None, new.ended and not (old and old.ended))

    def _flow(self, old: JobFlow | None, new: JobFlow | None) -> None:
        if new is None:
            return
        if new.metadata.controller is None and new.metadata.namespace in self._runs:
            self._runs[new.metadata.namespace].flow = new
        elif (run := self._run_of(new.metadata)) is not None:
            self._note(run, new.metadata, old is None, new.final and not (old and old.final))

    def _run_of(self, made: ObjectMeta) -> PatternRun | None:
        """Return the run whose flow, and not a flow inside it, has made an object."""
        run, owner = self._runs.get(made.namespace), made.controller
        return run if run is not None and owner is not None and owner.name == run.name else None

    def _note(self, run: PatternRun, made: ObjectMeta, begins: bool, ends: bool) -> None:
        step = (made.annotations or {})[labels.STEP]
        for happened, times in ((begins, run.begun), (ends, run.ended)):
            if happened:
                self._events += 1
                times.setdefault(step, []).append(self._events)


def has_reached(run: PatternRun, when: str) -> bool:
    """Return whether a step has a phase or reason: `STEP REASON`; a flow has it without STEP."""
    *step, state = when.split()
    if not step:
        return state in (run.flow.status.state.phase, run.flow.status.state.reason)
    condition = run.condition(step[0])
    return state in (condition.phase, condition.reason)


async def run_patterns(patterns: Sequence[Pattern], logs: Path) -> Mapping[str, PatternRun]:
    """Run patterns in one sandbox, each in a namespace of its own."""
    with ProcessRunner(logs) as runner:
        async with sandbox_world(SandboxOptions(runner=runner)) as world:
            return await PatternRuns(world).run(patterns)
