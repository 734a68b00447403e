"""Pods for a Prober, and a network whose answers a test sets."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from jobflow.api.resources import JOBS, ObjectMeta, OwnerReference
from jobflow.api.volcano import pod as names
from jobflow.api.volcano.pod import Pod, PodStatus
from jobflow.controller.hooks import Hooks
from jobflow.controller.probes.fair_slots import FairSlots
from jobflow.controller.probes.prober import Prober
from jobflow.core.planning.actions import Check, JobProbe, ProbeResult
from jobflow.kube.cache import Key
from support.time.virtual_time import in_virtual_time

PORT = 8080
FLOW: Key = ("ns", "f")
UID = "uid-f"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(
    name: str, *, phase: str = "Running", ip: str = "10.0.0.7", job: str = "f-serve", uid: str = ""
) -> Pod:
    """Return the pod `name`, such as web-0, of a vcjob whose UID is uid-<job>."""
    task, _, index = name.rpartition("-")
    owner = OwnerReference(
        api_version=JOBS.api_version,
        kind=JOBS.kind,
        name=job,
        uid=f"uid-{job}",
        controller=True,
    )
    metadata = ObjectMeta(
        name=f"{job}-{name}",
        namespace="ns",
        uid=uid or f"uid-{job}-{name}",
        labels={names.JOB_NAME: job, names.TASK: task, names.TASK_INDEX: index},
        owner_references=[owner],
    )
    return Pod(metadata=metadata, status=PodStatus(phase=phase, pod_ip=ip))


def leaving(running: Pod) -> Pod:
    """Return the pod as it is during its deletion."""
    metadata = msgspec.structs.replace(running.metadata, deletion_timestamp=NOON)
    return msgspec.structs.replace(running, metadata=metadata)


def web(pods: int = 1, *, path: str | None = "/healthz", port: int = PORT) -> Check:
    """Return a check of the pods of the task web."""
    return Check(task="web", pods=pods, port=port, path=path)


def probe(*checks: Check, step: str = "client", job: str = "f-serve") -> JobProbe:
    """Return a step's probe of a job, by default of the only pod of the task web."""
    return JobProbe(step=step, job=job, uid=f"uid-{job}", checks=checks or (web(),))


class Counting(Hooks):
    """Calls of the prober's hooks."""

    def __init__(self) -> None:
        self.waiting: list[int] = []
        self.verdicts: list[bool] = []

    def probes(self, waiting: int) -> None:
        self.waiting.append(waiting)

    def probed(self, passed: bool) -> None:
        self.verdicts.append(passed)


@dataclass
class Lab:
    """A Prober, the pods it sees, and how they answer."""

    pods: dict[str, dict[str, Pod]] = field(default_factory=dict)
    answers: Callable[[str], str] = lambda pod: ""
    """Returns the answer of a pod by its name. "" passes."""
    takes: float = 0.0
    """Duration of a check in seconds."""
    roll: float = 0.0
    """Value of the dice: 0 subtracts nothing from a wait, 1 subtracts half of it."""
    asked: list[tuple[float, str]] = field(default_factory=list)
    """Times and pod names of the checks."""
    calls: list[Key] = field(default_factory=list)
    counting: Counting = field(default_factory=Counting)
    open: int = 0

    def __post_init__(self) -> None:
        self.prober = Prober(
            lambda uid: self.pods.get(uid, {}),
            self.calls.append,
            self.counting,
            check=self._check,
            slots=FairSlots(),
            dice=lambda: self.roll,
        )

    def have(self, *pods: Pod) -> Lab:
        """Replace the pods of the same names."""
        for each in pods:
            self.pods.setdefault(each.owner, {})[each.metadata.name] = each
        return self

    def want(self, *probes: JobProbe, flow: Key = FLOW, uid: str = UID) -> None:
        self.prober.want(flow, uid, probes)

    def result(self, step: str = "client", job: str = "f-serve", uid: str = UID) -> ProbeResult:
        result: ProbeResult = self.prober.results(uid)[step, f"uid-{job}"]
        return result

    @property
    def count(self) -> Counter[str]:
        """Number of checks by pod."""
        return Counter(name for _, name in self.asked)

    @property
    def times(self) -> list[float]:
        """Times of the checks, rounded to tenths of a second."""
        return [round(time, 1) for time, _ in self.asked]

    def run(self, seconds: float = 0.5, *later: tuple[float, Callable[[], object]]) -> Lab:
        """Run the prober for some seconds of virtual time. `later` has calls and their times."""

        async def main() -> None:
            for at, call in later:
                asyncio.get_running_loop().call_later(at, call)
            running = asyncio.create_task(self.prober.run())
            await asyncio.wait([running], timeout=seconds)
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled():
                running.result()

        in_virtual_time(main())
        return self

    async def _check(self, pod: Pod, check: Check) -> str:
        self.asked.append((asyncio.get_running_loop().time(), pod.metadata.name))
        self.open += 1
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.open -= 1
        return self.answers(pod.metadata.name)
