"""Runs the probes of plans: rounds of checks over a job's pods until one round passes.

- A round checks every pod of the probe's tasks. It passes if all checks pass and the pods have not
  changed by its end. Then the probe has passed.
- A round fails without a check if a pod is missing, Pending, without an IP, ended or being deleted.
- A round ends at the first pod that fails. The next round checks that pod first and alone, so a pod
  that is not ready costs one connection a round, however many pods there are.
- After a failed round, the next starts after 1 s to 15 s, increasing with each failure, with
  jitter. A change of the pods starts it at once and resets the delay.
- Every connection waits for a slot (`fair_slots`).

A probe of one flow that several steps wait for runs once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from jobflow.api.volcano.pod import Pod
from jobflow.controller.hooks import Hooks
from jobflow.controller.probes import pod_check
from jobflow.controller.probes.fair_slots import FairSlots
from jobflow.core.planning.actions import Check, JobProbe, ProbeResult
from jobflow.kube.cache import Key
from jobflow.kube.clock import delay

log = structlog.get_logger(__name__)

FIRST_WAIT = 2.0
LONGEST_WAIT = 15.0
"""Seconds between two rounds. A random part, up to half, is subtracted."""
CHECKS_AT_ONCE = 16
"""Pods of one round that are checked at the same time."""

CheckPod = Callable[[Pod, Check], Awaitable[str]]
"""Checks one pod once and returns "" if it passes, else what it did (`answers 503`)."""


class Prober:
    """Runs probes while `run` runs. Probes that are wanted before are kept."""

    def __init__(
        self,
        pods_of: Callable[[str], Mapping[str, Pod]],
        changed: Callable[[Key], object],
        hooks: Hooks | None = None,
        *,
        check: CheckPod = pod_check.check_pod,
        slots: FairSlots[Key] | None = None,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`pods_of` returns the known pods of the job with this UID, by name. `changed` is called
        with a flow if one of its results changed."""
        self._pods_of = pods_of
        self._changed = changed
        self._hooks = hooks or Hooks()
        self._check = check
        self._slots = slots or FairSlots()
        self._dice = dice
        self._flows: dict[Key, _FlowProbes] = {}
        self._by_uid: dict[str, _FlowProbes] = {}
        self._waiting: dict[_RunningProbe, None] = {}
        """Probes that have not passed, oldest first."""
        self._tasks: asyncio.TaskGroup | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def want(self, flow: Key, flow_uid: str, probes: Sequence[JobProbe]) -> None:
        """Run these probes for the flow, and no others."""
        known = self._flows.get(flow)
        if not probes or (known is not None and known.uid != flow_uid):
            self.forget(flow)
        if not probes:
            return
        known = self._flows.setdefault(flow, _FlowProbes(flow_uid))
        self._by_uid[flow_uid] = known
        # equal checks of one job run once, whichever steps want them
        known.wanted = {probe.key: _probe_key(probe) for probe in probes}
        for key in known.watches.keys() - known.wanted.values():
            self._stop(known.watches.pop(key))
        states: dict[str, pod_check.PodStates] = {}
        for watch in known.watches.values():
            uid = watch.probe.uid
            if uid not in states:
                states[uid] = pod_check.pod_states(self._pods_of(uid))
            # each change of its pods leads to a plan of the flow; the next round starts at once
            if watch.differs(states[uid]):
                watch.pods_changed.set()
        for probe in probes:
            if _probe_key(probe) not in known.watches:
                watch = known.watches[_probe_key(probe)] = _RunningProbe(flow, probe)
                self._waiting[watch] = None
                self._start(watch)
        self._hooks.probes(len(self))

    def results(self, flow_uid: str) -> Mapping[tuple[str, str], ProbeResult]:
        """Return the results for the flow, by step and UID of the target's job."""
        known = self._by_uid.get(flow_uid)
        if known is None:
            return {}
        return {wanted: known.watches[key].result for wanted, key in known.wanted.items()}

    def forget(self, flow: Key) -> None:
        if (known := self._flows.pop(flow, None)) is not None:
            del self._by_uid[known.uid]
            for watch in known.watches.values():
                self._stop(watch)
            self._hooks.probes(len(self))

    async def run(self) -> None:
        """Probe until cancelled. No task and no connection remains."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for watch in self._waiting:
                    self._start(watch)
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None
                self._hooks.probes(0)

    # ------------------------------------------------------------------ one probe

    def _start(self, watch: _RunningProbe) -> None:
        if self._tasks is not None:
            watch.task = self._tasks.create_task(self._repeat_rounds(watch))

    def _stop(self, watch: _RunningProbe) -> None:
        self._waiting.pop(watch, None)
        if watch.task is not None:
            watch.task.cancel()

    async def _repeat_rounds(self, watch: _RunningProbe) -> None:
        uid = watch.probe.uid
        while not watch.result.passed:
            watch.pods_changed.clear()
            pods = self._pods_of(uid)
            watch.seen = pod_check.pod_states(pods)
            failure = pod_check.obstacle(watch.probe, pods, watch.failure)
            if not failure:
                checks = pod_check.pod_checks(watch.probe, pods)
                suspects = [check for check in checks if check.key == watch.suspect]
                others = [check for check in checks if check.key != watch.suspect]
                failure = await self._check_all(watch, suspects)
                failure = failure or await self._check_all(watch, others)
            changed = watch.differs(pod_check.pod_states(self._pods_of(uid)))
            # a round that passed proves nothing about pods that have come or gone meanwhile
            result = ProbeResult(passed=not failure, message=failure)
            if (failure or not changed) and result != watch.result:
                watch.result = result
                if result.passed:
                    self._waiting.pop(watch, None)
                    self._hooks.probes(len(self))
                    log.info("probe passed", flow="/".join(watch.flow), job=watch.probe.job)
                self._changed(watch.flow)
            if changed:
                watch.rounds = 0
            elif failure:
                seconds = delay(watch.rounds, first=FIRST_WAIT, most=LONGEST_WAIT, dice=self._dice)
                watch.rounds += 1
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await watch.pods_changed.wait()
                        watch.rounds = 0

    async def _check_all(self, watch: _RunningProbe, checks: Sequence[pod_check.PodCheck]) -> str:
        """Return how the first pod failed, in a sentence; "" if all passed."""
        flow, remaining = watch.flow, iter(checks)
        failures: list[tuple[pod_check.PodCheck, str]] = []

        async def work() -> None:
            for check in remaining:
                async with self._slots.slot(flow):
                    try:
                        answer = await self._check(check.pod, check.check)
                    except Exception as error:
                        # an error in our code must not end the probes of other flows
                        pod = check.pod.metadata.name
                        log.exception("check failed", flow="/".join(flow), pod=pod)
                        answer = f"could not be asked ({type(error).__name__})"
                self._hooks.probed(not answer)
                if answer:
                    failures.append((check, answer))
                    # an exception would cancel them too, but hide a cancellation from outside
                    for worker in workers:
                        worker.cancel()
                    return

        async with asyncio.TaskGroup() as tasks:
            workers = [tasks.create_task(work()) for _ in range(min(CHECKS_AT_ONCE, len(checks)))]
        if not failures:
            return ""
        failed, answer = failures[0]
        watch.suspect, watch.failure = failed.key, failed.sentence(answer)
        return watch.failure


@dataclass(slots=True, eq=False)
class _RunningProbe:
    """A probe that runs until it passes."""

    flow: Key
    probe: JobProbe
    result: ProbeResult = field(default_factory=ProbeResult)
    seen: pod_check.PodStates = field(default_factory=dict)
    """The pods when the last round began."""
    suspect: tuple[str, Check] | None = None
    """The check that failed last."""
    failure: str = ""
    """How it failed, in a sentence."""
    rounds: int = 0
    """Failed rounds since the pods last changed."""
    pods_changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def differs(self, now: pod_check.PodStates) -> bool:
        """Return whether the pods of the probe's tasks changed since the last round began."""
        tasks = {check.task for check in self.probe.checks}
        return any(now.get(task) != self.seen.get(task) for task in tasks)


_ProbeKey = tuple[str, tuple[Check, ...]]
"""UID of the job, and the checks."""


def _probe_key(probe: JobProbe) -> _ProbeKey:
    return (probe.uid, probe.checks)


@dataclass(slots=True, eq=False)
class _FlowProbes:
    uid: str
    wanted: dict[tuple[str, str], _ProbeKey] = field(default_factory=dict)
    watches: dict[_ProbeKey, _RunningProbe] = field(default_factory=dict)
