"""Commands on vcjobs, processed one at a time: deleted first, then executed, as in Volcano.

Source: Volcano's pkg/controllers/job, addCommand and processNextCommand: the first DELETE wins, so
that no Command acts twice; the target is found by its name; Commands on other kinds are ignored.
"""

import asyncio
from collections.abc import Callable

import structlog

from jobflow.api.resources import COMMANDS, JOBS
from jobflow.api.volcano.command import Command, targets
from jobflow.kube.cache import Cache, Key
from jobflow.kube.client import Client
from jobflow.kube.reflector import Reflector
from jobflow.sandbox.jobs.policies import BusAction, BusEvent, JobRequest
from jobflow.sandbox.volcano.writes import Gone, Refused, Writes

log = structlog.get_logger(__name__)

Act = Callable[[Key, JobRequest], None]
"""Called with the key of a vcjob and a request."""


class Commands:
    """Follows the Commands of an API server, if it serves them."""

    def __init__(self, client: Client, writes: Writes, act: Act) -> None:
        self._writes = writes
        self._act = act
        self._cache = Cache[Command](self._changed)
        self._reflector = Reflector(client, COMMANDS, Command, self._cache)
        self._new = asyncio.Queue[Command]()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run())
            while True:
                command = await self._new.get()
                meta, target, action = command.metadata, command.target, BusAction.SYNC
                assert target is not None
                try:
                    await self._writes.delete_command(command)
                except Gone:
                    continue  # somebody else executes it
                except Refused as error:
                    log.warning("command cannot be deleted", command=meta.name, error=str(error))
                    continue
                if command.action in set(BusAction):
                    action = BusAction(command.action)
                request = JobRequest(event=BusEvent.COMMAND_ISSUED, action=action)
                self._act((meta.namespace, target.name), request)

    def _changed(self, old: Command | None, new: Command | None) -> None:
        # A Command acts once, when it appears; changes of it mean nothing.
        if old is None and new is not None and targets(new, JOBS.api_version, JOBS.kind):
            self._new.put_nowait(new)
