"""Carries out the probes of plans: rounds of checks over a vcjob's pods until one passes.

What is probed is the plan's to decide, how a pod is checked `pod_check`'s. Here it is decided when:

- A round is every check of a probe on every pod of its tasks, as the pods stand at its begin. It
  passes when all pass and the pods are still the same at its end. Then the probe is over.
- A pod that is missing, Pending, without an IP, ended or on its way out fails a round before
  anything is asked.
- A round ends at the first pod that fails, and that pod is asked first and alone in the next: what
  is not ready costs one connection a round, however many pods it has.
- After a failed round the next waits from 1 s to 15 s, longer each time, with jitter. What happens
  to the pods makes it due at once and the waits short again.
- Every connection waits for its turn (`turns`), whatever made it due.

A probe of one flow that several steps wait for is carried out once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from jobflow.api.pod import Pod
from jobflow.controller.hooks import Hooks
from jobflow.controller.probes.fair_slots import Turns
from jobflow.controller.probes.pod_check import check_pod
from jobflow.controller.probes.round import Ask, Standing, asks, obstacle, standing
from jobflow.core.planning.actions import Check, Probe
from jobflow.core.planning.view import ProbeResult
from jobflow.kube.backoff import delay
from jobflow.kube.cache import Key

log = structlog.get_logger(__name__)

FIRST_WAIT = 2.0
LONGEST_WAIT = 15.0
"""Seconds; of which a random half is taken off."""
ASKED_AT_ONCE = 16
"""Pods of one round."""

CheckPod = Callable[[Pod, Check], Awaitable[str]]
"""Checks one pod, once: empty if it passed, else what was seen (`answers 503`), without counts or
times."""


class Prober:
    """Probes for as long as `run` runs; what is wanted before or after is kept."""

    def __init__(
        self,
        pods_of: Callable[[str], Mapping[str, Pod]],
        changed: Callable[[Key], None],
        hooks: Hooks | None = None,
        *,
        check: CheckPod = check_pod,
        turns: Turns[Key] | None = None,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`pods_of`: the pods of the vcjob with this UID, by name, as they are known now.
        `changed`: told the flow when one of its results has changed."""
        self._pods_of = pods_of
        self._changed = changed
        self._hooks = hooks or Hooks()
        self._check = check
        self._turns = turns or Turns()
        self._dice = dice
        self._flows: dict[Key, _Flow] = {}
        self._by_uid: dict[str, _Flow] = {}
        self._waiting: dict[_Watch, None] = {}
        """In the order in which they were first wanted."""
        self._tasks: asyncio.TaskGroup | None = None

    def __len__(self) -> int:
        """How many probes wait to pass."""
        return len(self._waiting)

    def want(self, flow: Key, flow_uid: str, probes: Sequence[Probe]) -> None:
        """Probe these for the flow, and no others. To be called after each of its plans, which is
        also how it is heard that something happened to pods."""
        known = self._flows.get(flow)
        if known is not None and known.uid != flow_uid:
            self.forget(flow)
        if not probes:
            self.forget(flow)
            return
        known = self._flows.setdefault(flow, _Flow(flow_uid))
        self._by_uid[flow_uid] = known
        known.wanted = {(probe.step, probe.uid): _matter(probe) for probe in probes}
        for matter in known.watches.keys() - known.wanted.values():
            self._stop(known.watches.pop(matter))
        self._look(known)
        for probe in probes:
            if _matter(probe) not in known.watches:
                watch = known.watches[_matter(probe)] = _Watch(flow, probe)
                self._waiting[watch] = None
                self._begin(watch)
        self._hooks.probes(len(self))

    def results(self, flow_uid: str) -> Mapping[tuple[str, str], ProbeResult]:
        """How what the flow wants stands, by step and the target's vcjob UID."""
        known = self._by_uid.get(flow_uid)
        if known is None:
            return {}
        return {key: known.watches[matter].result for key, matter in known.wanted.items()}

    def forget(self, flow: Key) -> None:
        """The flow wants nothing any more."""
        if (known := self._flows.pop(flow, None)) is not None:
            del self._by_uid[known.uid]
            for watch in known.watches.values():
                self._stop(watch)
            self._hooks.probes(len(self))

    async def run(self) -> None:
        """Probe until cancelled. Leaves no task and no connection behind."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for watch in self._waiting:
                    self._begin(watch)
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None
                self._hooks.probes(0)

    # ------------------------------------------------------------------ a probe's life

    def _begin(self, watch: _Watch) -> None:
        if self._tasks is not None:
            watch.task = self._tasks.create_task(self._follow(watch))

    def _stop(self, watch: _Watch) -> None:
        self._waiting.pop(watch, None)
        if watch.task is not None:
            watch.task.cancel()

    def _look(self, known: _Flow) -> None:
        """Whatever waits for its next round while something has happened to its pods waits no
        longer."""
        stands: dict[str, Standing] = {}
        for watch in known.watches.values():
            uid = watch.probe.uid
            if uid not in stands:
                stands[uid] = standing(self._pods_of(uid))
            if watch.differs(stands[uid]):
                watch.news.set()

    async def _follow(self, watch: _Watch) -> None:
        """One round after another until one has passed."""
        uid = watch.probe.uid
        while not watch.result.passed:
            watch.news.clear()
            pods = self._pods_of(uid)
            watch.seen = standing(pods)
            said = obstacle(watch.probe, pods, watch.answered) or await self._round(watch, pods)
            changed = watch.differs(standing(self._pods_of(uid)))
            if said or not changed:
                self._settle(watch, ProbeResult(passed=not said, message=said))
            if said and not changed:
                await self._rest(watch)
            elif changed:
                watch.rounds = 0

    def _settle(self, watch: _Watch, result: ProbeResult) -> None:
        if result == watch.result:
            return
        watch.result = result
        if result.passed:
            self._waiting.pop(watch, None)
            self._hooks.probes(len(self))
            log.info("probe passed", flow="/".join(watch.flow), job=watch.probe.job)
        self._changed(watch.flow)

    async def _rest(self, watch: _Watch) -> None:
        seconds = delay(watch.rounds, first=FIRST_WAIT, most=LONGEST_WAIT, dice=self._dice)
        watch.rounds += 1
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await watch.news.wait()
                watch.rounds = 0

    # ------------------------------------------------------------------ a round

    async def _round(self, watch: _Watch, pods: Mapping[str, Pod]) -> str:
        """What the first pod that failed was seen to do, in a sentence; empty: all passed."""
        wanted = asks(watch.probe, pods)
        first = [ask for ask in wanted if ask.key == watch.suspect]
        rest = [ask for ask in wanted if ask.key != watch.suspect]
        for some in (first, rest):
            if failure := await self._ask_all(watch.flow, some):
                failed, said = failure
                watch.suspect = failed.key
                watch.answered = failed.sentence(said)
                return watch.answered
        return ""

    async def _ask_all(self, flow: Key, wanted: Sequence[Ask]) -> tuple[Ask, str] | None:
        """The first that failed and what was seen; the others are broken off. None: all passed."""
        left = iter(wanted)
        failures: list[tuple[Ask, str]] = []

        async def work() -> None:
            for ask in left:
                if said := await self._ask(flow, ask):
                    failures.append((ask, said))
                    # an exception would do that too, and a cancel from outside would be lost in it
                    for worker in workers:
                        worker.cancel()
                    return

        async with asyncio.TaskGroup() as tasks:
            workers = [tasks.create_task(work()) for _ in range(min(ASKED_AT_ONCE, len(wanted)))]
        return failures[0] if failures else None

    async def _ask(self, flow: Key, ask: Ask) -> str:
        async with self._turns.turn(flow):
            try:
                said = await self._check(ask.pod, ask.check)
            except Exception as error:
                # a fault of ours: it must not take the other flows' probes with it
                log.exception("check failed", flow="/".join(flow), pod=ask.pod.metadata.name)
                said = f"could not be asked ({type(error).__name__})"
        self._hooks.probed(not said)
        return said


@dataclass(slots=True, eq=False)
class _Watch:
    """A probe under way."""

    flow: Key
    probe: Probe
    result: ProbeResult = field(default_factory=ProbeResult)
    seen: Standing = field(default_factory=dict)
    """How the pods stood when the last round began."""
    suspect: tuple[str, Check] | None = None
    """What failed last."""
    answered: str = ""
    """What was seen of it, in a sentence."""
    rounds: int = 0
    """That failed since something happened to the pods."""
    news: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    def differs(self, now: Standing) -> bool:
        """Whether something has happened to the pods of its tasks since the last round began."""
        tasks = {check.task for check in self.probe.checks}
        return any(now.get(task) != self.seen.get(task) for task in tasks)


_Matter = tuple[str, tuple[Check, ...]]


def _matter(probe: Probe) -> _Matter:
    """What is probed, whichever step wants to know."""
    return (probe.uid, probe.checks)


@dataclass(slots=True, eq=False)
class _Flow:
    """What a flow wants."""

    uid: str
    wanted: dict[tuple[str, str], _Matter] = field(default_factory=dict)
    watches: dict[_Matter, _Watch] = field(default_factory=dict)
