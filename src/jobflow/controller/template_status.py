"""Writes `status.jobDependsOnList` of JobTemplates: the jobs that were created from them. Nothing
waits for it, so each template is written seldom."""

import random
import time
from collections.abc import Callable

import msgspec
import structlog

from jobflow.api.flow.jobflow import JobTemplate
from jobflow.api.resources import JOBTEMPLATES
from jobflow.api.volcano.job import Job
from jobflow.controller.queue import WorkQueue
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, decoder
from jobflow.store import Listener, Store, template_of

log = structlog.get_logger(__name__)

MAX_NAMES = 100
"""The newest jobs are listed. With all jobs of a busy template, the object would be too large."""
SETTLE_SECONDS = 2.0
"""Delay from a change to the write, so that a burst of jobs is in it."""
REST_SECONDS = 30.0
"""Pause between two writes to a template."""


class TemplateStatuses(Listener):
    """Keeps the lists up to date. Call `run` once, in the leader."""

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
        self._due: WorkQueue[Key] = WorkQueue(clock=clock, dice=dice)
        self._resting: set[Key] = set()
        """Templates that were written less than REST_SECONDS ago."""

    def job_changed(self, old: Job | None, new: Job | None) -> None:
        before, after = template_of(old), template_of(new)
        if before != after:
            for template in (before, after):
                self._check(template)

    def template_changed(self, old: JobTemplate | None, new: JobTemplate | None) -> None:
        # a changed status is that of somebody else
        if new is not None and (old is None or old.status != new.status):
            self._check(key_of(new))

    def all_templates(self) -> None:
        """Check every template: earlier events are not known to this process."""
        for template in self._store.templates:
            self._check(key_of(template))

    def _check(self, template: Key | None) -> None:
        if template is not None and template not in self._resting:
            self._due.add_after(template, SETTLE_SECONDS)

    async def run(self) -> None:
        while (key := await self._due.get()) is not None:
            self._resting.discard(key)
            try:
                await self.update(key)
            finally:
                self._due.done(key)

    def stop(self) -> None:
        self._due.close()

    async def update(self, key: Key) -> None:
        """Write the list of a template if it is wrong, and again after a pause if that fails."""
        template = self._store.templates.get(*key)
        if template is None:
            return
        names = self._store.template_jobs.newest(key, MAX_NAMES)
        if names == (template.status.job_depends_on_list or []):  # most checks end here
            return
        self._resting.add(key)
        try:
            body = msgspec.json.encode({"status": {"jobDependsOnList": names or None}})
            answer = await self._client.patch(JOBTEMPLATES, *key, body, subresource="status")
            self._store.templates.learn(decoder(JobTemplate).decode(answer))
        except (ApiError, *NETWORK_ERRORS) as error:
            if not (isinstance(error, ApiError) and error.not_found):
                log.warning("template status not written", template="/".join(key), error=str(error))
        self._due.add_after(key, REST_SECONDS)
