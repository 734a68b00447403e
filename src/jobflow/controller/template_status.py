"""Writes `status.jobDependsOnList` of JobTemplates: which vcjobs were made from them. Best effort.

Nothing waits for it, so it is written seldom: a template rests after each write, and one whose
list is right already costs no request. It never looks at flows.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import msgspec
import structlog

from jobflow.api.command import Command
from jobflow.api.job import Job
from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.pod import Pod
from jobflow.api.resources import JOBTEMPLATES
from jobflow.controller.queue import Queue
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, decoder
from jobflow.store import Store, template_of

log = structlog.get_logger(__name__)

MOST = 100
"""Names in a list."""
SETTLE_SECONDS = 2.0
"""From a change to the write, so that a burst of vcjobs is in it."""
REST_SECONDS = 30.0
"""Between two writes to a template."""


class TemplateStatuses:
    """Keeps the lists level. A Listener of the store; `run` once, in the process that leads."""

    def __init__(
        self,
        client: Client,
        store: Store,
        *,
        clock: Callable[[], float] = time.monotonic,
        dice: Callable[[], float] = random.random,
    ) -> None:
        self._client = client
        self._store = store
        self._due: Queue[Key] = Queue(clock=clock, dice=dice)
        self._resting: set[Key] = set()
        """Templates written to a short while ago: they are due when they have rested."""

    # ------------------------------------------------------------------ events to keys

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        """Of interest where a vcjob came or went."""
        before, after = template_of(old), template_of(new)
        if before != after:
            for template in (before, after):
                self._look_at(template)

    def template_changed(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        """A template that came may have vcjobs; a status that changed, whoever wrote it, may be
        wrong."""
        if new is not None and (old is None or old.status != new.status):
            self._look_at(key_of(new))

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        """Of no interest here."""

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Of no interest here."""

    def command_changed(self, command: Command) -> None:
        """Of no interest here."""

    def all_templates(self) -> None:
        """Look at every template: what happened before this process listened is not known."""
        for template in self._store.templates_cache:
            self._look_at(key_of(template))

    def _look_at(self, template: Key | None) -> None:
        if template is not None and template not in self._resting:
            self._due.add_after(template, SETTLE_SECONDS)

    # ------------------------------------------------------------------ work

    async def run(self) -> None:
        """One template after another until `stop`."""
        while (key := await self._due.get()) is not None:
            self._resting.discard(key)
            try:
                await self.bring_level(key)
            finally:
                self._due.done(key)

    def stop(self) -> None:
        """Let `run` return once what it is writing is answered."""
        self._due.close()

    async def bring_level(self, key: Key) -> None:
        """Write the list of a template where it is wrong; after a failure again after a rest."""
        template = self._store.template(*key)
        if template is None:
            return
        names = self._store.products.newest(key, MOST)
        if names == (template.status.job_depends_on_list or []):
            return
        self._resting.add(key)
        try:
            await self._write(key, names)
        except (ApiError, *NETWORK_ERRORS) as error:
            if not (isinstance(error, ApiError) and error.not_found):
                log.warning("template status not written", template="/".join(key), error=str(error))
        self._due.add_after(key, REST_SECONDS)

    async def _write(self, key: Key, names: list[str]) -> None:
        body = msgspec.json.encode({"status": {"jobDependsOnList": names or None}})
        answer = await self._client.patch(JOBTEMPLATES, *key, body, subresource="status")
        self._store.learn_template(decoder(JobTemplate).decode(answer))
