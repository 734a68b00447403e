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
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from jobflow.api.volcano.pod import Pod
from jobflow.controller.hooks import Hooks
from jobflow.controller.probes import pod_check
from jobflow.controller.probes.fair_slots import FairSlots
from jobflow.controller.probes.keeper import Keeper, Kept
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


class Prober(Keeper[JobProbe, "_RunningProbe"]):
    """Runs probes."""

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
        """`pods_of` returns the known pods of the job with this UID, by name."""
        super().__init__(changed)
        self._pods_of = pods_of
        self._hooks = hooks or Hooks()
        self._check = check
        self._slots = slots or FairSlots()
        self._dice = dice
        self._waiting: set[_RunningProbe] = set()
        """Probes that have not passed."""

    def __len__(self) -> int:
        return len(self._waiting)

    def want(self, flow: Key, flow_uid: str, wants: Sequence[JobProbe]) -> None:
        super().want(flow, flow_uid, wants)
        states: dict[str, pod_check.PodStates] = {}
        for watch in self._kept.get(flow_uid, {}).values():
            uid = watch.want.uid
            if uid not in states:
                states[uid] = pod_check.pod_states(self._pods_of(uid))
            # each change of its pods leads to a plan of the flow; the next round starts at once
            if watch.differs(states[uid]):
                watch.pods_changed.set()
        if wants:
            self._hooks.probes(len(self))

    async def run(self) -> None:
        try:
            await super().run()
        finally:
            self._hooks.probes(0)

    def _subject(self, want: JobProbe) -> Hashable:
        # equal checks of one job run once, whichever steps want them
        return want.uid, want.checks

    def _begin(self, flow: Key, want: JobProbe) -> _RunningProbe:
        watch = _RunningProbe(flow, want, ProbeResult())
        self._waiting.add(watch)
        return watch

    def _stop(self, kept: _RunningProbe) -> None:
        super()._stop(kept)
        self._settle(kept)

    def _settle(self, watch: _RunningProbe) -> None:
        self._waiting.discard(watch)
        self._hooks.probes(len(self))

    async def _repeat(self, kept: _RunningProbe) -> None:
        uid = kept.want.uid
        while not kept.answer.passed:
            kept.pods_changed.clear()
            pods = self._pods_of(uid)
            kept.seen = pod_check.pod_states(pods)
            failure = pod_check.obstacle(kept.want, pods, kept.failure)
            if not failure:
                checks = pod_check.pod_checks(kept.want, pods)
                suspects = [check for check in checks if check.key == kept.suspect]
                others = [check for check in checks if check.key != kept.suspect]
                failure = await self._check_all(kept, suspects)
                failure = failure or await self._check_all(kept, others)
            changed = kept.differs(pod_check.pod_states(self._pods_of(uid)))
            # a round that passed proves nothing about pods that have come or gone meanwhile
            result = ProbeResult(passed=not failure, message=failure)
            if (failure or not changed) and result != kept.answer:
                kept.answer = result
                if result.passed:
                    self._settle(kept)
                    log.info("probe passed", flow="/".join(kept.flow), job=kept.want.job)
                self._changed(kept.flow)
            if changed:
                kept.rounds = 0
            elif failure:
                seconds = delay(kept.rounds, first=FIRST_WAIT, most=LONGEST_WAIT, dice=self._dice)
                kept.rounds += 1
                with suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await kept.pods_changed.wait()
                        kept.rounds = 0

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
class _RunningProbe(Kept[JobProbe]):
    """A probe that runs until it passes."""

    seen: pod_check.PodStates = field(default_factory=dict)
    """The pods when the last round began."""
    suspect: tuple[str, Check] | None = None
    """The check that failed last."""
    failure: str = ""
    """How it failed, in a sentence."""
    rounds: int = 0
    """Failed rounds since the pods last changed."""
    pods_changed: asyncio.Event = field(default_factory=asyncio.Event)

    def differs(self, now: pod_check.PodStates) -> bool:
        """Return whether the pods of the probe's tasks changed since the last round began."""
        tasks = {check.task for check in self.want.checks}
        return any(now.get(task) != self.seen.get(task) for task in tasks)
