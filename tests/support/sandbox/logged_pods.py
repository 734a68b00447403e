"""Pods of flows whose states and logs a test writes itself."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from jobflow.api.labels import CREATED_BY_FLOW, INDEX, ROOT, STEP
from jobflow.api.resources import JOBFLOWS, PODS
from jobflow.api.volcano.pod import TASK
from support.sandbox.running_controller import NAMESPACE, Cluster, cluster, flow, write_status

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class WrittenLog:
    """A log that a test writes; each line is a tenth of a second later than the one before."""

    text: bytes = b""
    ended: bool = False
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by each request for the log."""

    def read(
        self, *, tail: int | None, since: datetime | None, timestamps: bool, follow: bool
    ) -> Generator[bytes, None, None]:
        self.opened.set()
        read = 0
        first = len(self._lines()) - tail if tail is not None else 0
        while True:
            over, lines = self.ended, self._lines()
            for number in range(read, len(lines)):
                time = NOON + timedelta(seconds=number / 10)
                if number >= first and (since is None or time >= since):
                    stamp = f"{time:%Y-%m-%dT%H:%M:%S.%f}000Z ".encode() if timestamps else b""
                    yield stamp + lines[number]
            read = len(lines)
            if over or not follow:
                return
            yield b""

    def _lines(self) -> list[bytes]:
        return self.text.splitlines(keepends=True)


class LoggedPods:
    """Pods, and the source of their logs."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._logs: defaultdict[tuple[str, str], WrittenLog] = defaultdict(WrittenLog)
        self._started = 0

    def log(self, pod_uid: str, container: str, run: int) -> WrittenLog:
        return self._logs[pod_uid, container]

    def of(self, pod: str, container: str = "main") -> WrittenLog:
        """Return the log of a container."""
        return self._logs[self._uids[pod], container]

    async def create(
        self,
        world: Cluster,
        pod: str,
        step: str,
        *,
        text: str | bytes = "",
        containers: str = "main",
        init: str = "",
        task: str = "main",
        index: int | None = None,
        flow: str = "f",
        root: str = "",
        labels: Mapping[str, str] = MappingProxyType({}),
        started: bool = True,
    ) -> None:
        """Create a pod of a step, by default with running containers, whose first one has written
        `text`. `root`: the outermost flow, if `flow` is a child. `labels`: further
        ones."""
        all_labels = {CREATED_BY_FLOW: f"{NAMESPACE}.{flow}", STEP: step, TASK: task}
        if index is not None:
            all_labels[INDEX] = str(index)
        if root:
            all_labels[ROOT] = root
        spec = {
            "nodeName": "n",
            "containers": [{"name": name} for name in containers.split()],
            "initContainers": [{"name": name} for name in init.split()],
        }
        manifest = {"metadata": {"name": pod, "labels": all_labels | dict(labels)}, "spec": spec}
        body = await world.client.create(PODS, NAMESPACE, json.dumps(manifest).encode())
        self._uids[pod] = json.loads(body)["metadata"]["uid"]
        first = containers.split()[0]
        self.of(pod, first).text = text.encode() if isinstance(text, str) else text
        if started:
            await self.start(world, pod, containers, init)

    async def start(
        self, world: Cluster, pod: str, containers: str = "main", init: str = ""
    ) -> None:
        """Write that the containers run. Pods start one second after another."""
        self._started += 1
        begun = f"{NOON + timedelta(seconds=self._started):%Y-%m-%dT%H:%M:%SZ}"
        running = {"running": {"startedAt": begun}}
        ended = {"terminated": {"exitCode": 0}}
        await self.set_status(
            world,
            pod,
            phase="Running",
            startTime=begun,
            containerStatuses=_statuses(containers, running),
            initContainerStatuses=_statuses(init, ended),
        )

    async def end(self, world: Cluster, pod: str, **exit_codes: int) -> None:
        """End containers, by default `main`, with exit codes, and their pod."""
        codes = exit_codes or {"main": 0}
        for container in codes:
            self.of(pod, container).ended = True
        statuses = [
            {"name": name, "state": {"terminated": {"exitCode": code}}}
            for name, code in codes.items()
        ]
        phase = "Failed" if any(codes.values()) else "Succeeded"
        await self.set_status(world, pod, phase=phase, containerStatuses=statuses)

    async def set_status(self, world: Cluster, pod: str, **status: Any) -> None:
        await write_status(world.client, PODS, pod, status)


def _statuses(names: str, state: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "state": state} for name in names.split()]


@asynccontextmanager
async def running_flow(pods: LoggedPods) -> AsyncIterator[Cluster]:
    """A server with the running flow f of the step a, b after a, and the forEach c."""
    async with cluster(logs=pods) as world:
        manifest = flow("f", {"a": "", "b": "a"})
        loop = {"name": "c", "template": "c", "forEach": {"items": [1, 2, 3]}}
        manifest["spec"]["flows"].append(loop)
        await world.apply(manifest)
        running = {"state": {"phase": "Running"}, "conditions": {"f-a": {"phase": "Running"}}}
        await write_status(world.client, JOBFLOWS, "f", running)
        yield world
