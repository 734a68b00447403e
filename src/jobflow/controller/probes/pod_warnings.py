"""Asks for the Events of pods that do not start and do not say why, and asks again until a pod is
no longer wanted: its warning may come late, and it may come further after one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from jobflow.api.resources import PODS
from jobflow.controller.probes.fair_slots import FairSlots
from jobflow.core.planning.actions import PodWarning, WantKey
from jobflow.kube.cache import Key
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.clock import delay
from jobflow.kube.events import find_warning, list_events

log = structlog.get_logger(__name__)

PER_SECOND = 10
AT_ONCE = 4
"""An API server reads all Events of the namespace for each list."""
FIRST_WAIT = 5.0
LONGEST_WAIT = 300.0
"""Seconds between two lists about a pod. A random part, up to half, is subtracted."""


class PodWarnings:
    """Answers PodWarning while `run` runs. Wants from before are kept."""

    def __init__(
        self,
        client: Client,
        changed: Callable[[Key], object],
        *,
        dice: Callable[[], float] = random.random,
    ) -> None:
        """`changed` is called with a flow if an answer about one of its pods has changed."""
        self._client = client
        self._changed = changed
        self._dice = dice
        self._slots: FairSlots[Key] = FairSlots(most=PER_SECOND, seconds=1.0, at_once=AT_ONCE)
        self._flows: dict[Key, str] = {}
        """The UIDs of the flows that have wants."""
        self._by_uid: dict[str, dict[WantKey, _Ask]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def want(self, flow: Key, flow_uid: str, wants: Sequence[PodWarning]) -> None:
        if not wants or self._flows.get(flow) != flow_uid:
            self.forget(flow)
        if not wants:
            return
        self._flows[flow] = flow_uid
        known = self._by_uid.setdefault(flow_uid, {})
        wanted = {want.key: want for want in wants}
        for key in known.keys() - wanted.keys():
            known.pop(key).stop()
        for key, want in wanted.items():
            if key not in known:
                known[key] = _Ask(flow, want)
                self._start(known[key])

    def results(self, flow_uid: str) -> Mapping[WantKey, str]:
        known = self._by_uid.get(flow_uid, {})
        return {key: ask.answer for key, ask in known.items() if ask.answer is not None}

    def forget(self, flow: Key) -> None:
        for ask in self._by_uid.pop(self._flows.pop(flow, ""), {}).values():
            ask.stop()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for known in self._by_uid.values():
                    for ask in known.values():
                        self._start(ask)
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    def _start(self, ask: _Ask) -> None:
        if self._tasks is not None:
            ask.task = self._tasks.create_task(self._repeat(ask))

    async def _repeat(self, ask: _Ask) -> None:
        tries = 0
        while (answer := await self._read(ask)) is not None:
            if answer != ask.answer:
                ask.answer = answer
                self._changed(ask.flow)
            wait = delay(tries, first=FIRST_WAIT, most=LONGEST_WAIT, dice=self._dice)
            await asyncio.sleep(wait)
            tries += 1

    async def _read(self, ask: _Ask) -> str | None:
        """Return the last warning, or "" if there is none or it is not known; None if this account
        may not read Events."""
        try:
            async with self._slots.slot(ask.flow):
                events = await list_events(self._client, ask.flow[0], PODS.kind, ask.want.pod)
        except (ApiError, *NETWORK_ERRORS) as error:
            told = {"flow": "/".join(ask.flow), "pod": ask.want.pod, "error": str(error)}
            log.warning("events of a pod cannot be read", **told)
            is_final = isinstance(error, ApiError) and error.code == 403
            return None if is_final else ask.answer or ""
        return find_warning(each for each in events if each.involved_object.uid == ask.want.uid)


@dataclass(slots=True, eq=False)
class _Ask:
    flow: Key
    want: PodWarning
    answer: str | None = None
    task: asyncio.Task[None] | None = None

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
