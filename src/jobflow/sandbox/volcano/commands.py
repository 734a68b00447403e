"""Commands on vcjobs, one after the other: each is deleted, then acted on, as in Volcano.

What an action does to a vcjob is `machine`'s business. Source: Volcano's pkg/controllers/job,
addCommand and processNextCommand: the first DELETE wins, so that no Command acts twice; the target
is found by its name; Commands on anything else are passed over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from jobflow.api.command import Command, targets
from jobflow.api.resources import COMMANDS, JOBS
from jobflow.kube.cache import Cache, Key
from jobflow.kube.client import Client
from jobflow.kube.reflector import Reflector
from jobflow.sandbox.api_writes import Gone, Refused, Writes
from jobflow.sandbox.jobs.policies import BusAction, BusEvent, Request

log = structlog.get_logger(__name__)

Act = Callable[[Key, Request], None]
"""Takes the namespace and name of a vcjob and what is asked of it."""


class Commands:
    """Follows the Commands of an API server; where it serves none, there are none."""

    def __init__(self, client: Client, writes: Writes, act: Act) -> None:
        self._writes = writes
        self._act = act
        self._cache = Cache[Command](self._changed)
        self._reflector = Reflector(client, COMMANDS, Command, self._cache)
        self._new: deque[Command] = deque()
        self._news = asyncio.Event()

    async def follow(self) -> None:
        """Take Commands in until cancelled."""
        await self._reflector.run()

    async def run(self) -> None:
        """Act on what was taken in until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._new:
                await self._carry_out(self._new.popleft())

    def _changed(self, old: Command | None, new: Command | None) -> None:
        if old is None and new is not None and targets(new, JOBS.api_version, JOBS.kind):
            self._new.append(new)
            self._news.set()

    async def _carry_out(self, command: Command) -> None:
        meta, target = command.metadata, command.target
        assert target is not None
        try:
            await self._writes.delete_command(command)
        except Gone:
            return
        except Refused as error:
            log.warning("command cannot be deleted", command=meta.name, error=str(error))
            return
        action = BusAction(command.action) if command.action in set(BusAction) else BusAction.SYNC
        request = Request(event=BusEvent.COMMAND_ISSUED, action=action)
        self._act((meta.namespace, target.name), request)
