"""Asks for the Events of pods that do not start and do not say why, and asks again until a pod is
no longer wanted: its warning may come late, and it may come further after one."""

import asyncio
import random
from collections.abc import Callable

import structlog

from jobflow.api.resources import PODS
from jobflow.controller.probes.fair_slots import FairSlots
from jobflow.controller.probes.keeper import Keeper, Kept
from jobflow.core.planning.actions import PodWarning
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


class PodWarnings(Keeper[PodWarning, Kept[PodWarning]]):
    """Answers PodWarning."""

    def __init__(
        self,
        client: Client,
        changed: Callable[[Key], object],
        *,
        dice: Callable[[], float] = random.random,
    ) -> None:
        super().__init__(changed)
        self._client = client
        self._dice = dice
        self._slots: FairSlots[Key] = FairSlots(most=PER_SECOND, seconds=1.0, at_once=AT_ONCE)

    def _begin(self, flow: Key, want: PodWarning) -> Kept[PodWarning]:
        return Kept(flow, want)

    async def _repeat(self, kept: Kept[PodWarning]) -> None:
        tries = 0
        while (answer := await self._read(kept)) is not None:
            if answer != kept.answer:
                kept.answer = answer
                self._changed(kept.flow)
            wait = delay(tries, first=FIRST_WAIT, most=LONGEST_WAIT, dice=self._dice)
            await asyncio.sleep(wait)
            tries += 1

    async def _read(self, ask: Kept[PodWarning]) -> str | None:
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
