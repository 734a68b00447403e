"""Runs CronJobFlows: from events and times to flows that are created, cancelled and deleted.

`plan_cron` decides; this module sends what it decides, and keeps nothing but the warnings that it
has recorded. A plan that creates a flow is sent only if the CronJobFlow, read live, is as the plan
saw it: a copy that is too old must not start a flow of a suspended schedule.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
import structlog

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import SKIP
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS
from jobflow.controller.apply.api_answers import is_refusal
from jobflow.controller.apply.creates import create_command, replacing_command
from jobflow.controller.apply.events import Recorder
from jobflow.controller.apply.requests import difference, guarded_patch
from jobflow.controller.queue import WorkQueue
from jobflow.core.cron import belongs_to
from jobflow.core.planning.actions import Event, EventType
from jobflow.core.planning.cron import (
    CreateFlow,
    CronPlan,
    ForgetSkip,
    RemoveFlow,
    ReplaceFlow,
    plan_cron,
)
from jobflow.kube.cache import Key, full_name, key_of
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, decoder
from jobflow.store import Listener, Store, reused_flow

log = structlog.get_logger(__name__)

UNKNOWN_SECONDS = 5.0
"""Time until a CronJobFlow is looked at again if its copy may be older than what was written."""


@dataclass(eq=False)
class Crons(Listener):
    """Reconciles the CronJobFlows of a store. A few workers run `work` at once."""

    client: Client
    store: Store
    recorder: Recorder
    queue: WorkQueue[Key]
    now: Callable[[], datetime]
    _noted: dict[Key, frozenset[Event]] = field(default_factory=dict)
    """The notices of the last plan of each CronJobFlow, which are not recorded again."""

    def cron_changed(self, old: CronJobFlow | None, new: CronJobFlow | None) -> None:
        cron = new or old
        assert cron is not None
        self.queue.add(key_of(cron))

    def flow_changed(self, old: JobFlow | None, new: JobFlow | None) -> None:
        if old is not None and new is not None and old.status.state == new.status.state:
            return  # a plan of its schedule reads nothing else
        # a flow that is no longer reused may exceed the history limits of its schedule
        before, after = reused_flow(old), reused_flow(new)
        source = None if before is None or after is not None else self.store.flows.get(*before)
        for flow in (old, new, source):
            owner = flow.metadata.controller if flow is not None else None
            if flow is not None and owner is not None and owner.kind == CRONJOBFLOWS.kind:
                self.queue.add((flow.metadata.namespace, owner.name))

    def all_crons(self) -> None:
        """Queue every CronJobFlow: earlier events are not known to this process."""
        for cron in self.store.crons:
            self.queue.add(key_of(cron))

    async def work(self) -> None:
        """Reconcile one CronJobFlow after another until the queue is closed. An error puts one in
        backoff; no other place handles errors."""
        while (key := await self.queue.get()) is not None:
            try:
                await self.reconcile(key)
                self.queue.forget(key)
            except Exception as failure:
                error = str(failure)
                if not isinstance(failure, (ApiError, NameInUseError)):
                    error = f"{type(failure).__name__}: {failure}"
                    if not isinstance(failure, NETWORK_ERRORS):
                        log.exception("reconcile failed", cronjobflow="/".join(key))
                at_least = isinstance(failure, ApiError) and failure.retry_after or 0.0
                wait = round(self.queue.retry(key, at_least=at_least), 3)
                log.warning("retrying", cronjobflow="/".join(key), error=error, seconds=wait)
            finally:
                self.queue.done(key)

    def stop(self) -> None:
        self.queue.close()

    async def reconcile(self, key: Key) -> None:
        cron = self.store.crons.get(*key)
        if cron is None:
            self._noted.pop(key, None)
            return
        if not self.store.crons.synced:  # the copy may be older than what was written
            self.queue.add_after(key, UNKNOWN_SECONDS)
            return
        plan = plan_cron(cron, self.store.flows_of(cron), self.now(), self.store.reused_by)
        noted = self._noted.get(key, frozenset())
        for event in plan.notices:
            if event not in noted:
                self.recorder.record(cron, event)
        self._noted[key] = frozenset(plan.notices)
        if plan.requeue_after is not None:  # before requests: these may fail
            self.queue.add_after(key, plan.requeue_after.total_seconds())
        if plan.status != cron.status:
            written = await self._write_status(cron, plan)
            if written is None:
                return
            cron = written  # the actions belong to the stored status
        for action in plan.actions:
            match action:
                case CreateFlow():
                    await self._create(cron, action)
                case ReplaceFlow():
                    message = f"replaced by the CronJobFlow {cron.metadata.name}"
                    command = replacing_command(cron, action.name, action.uid, message)
                    if await create_command(self.client, command):
                        told = {"cronjobflow": full_name(cron), "flow": action.name}
                        log.info("flow to be replaced", **told)
                case RemoveFlow():
                    await self._remove(cron, action)
                case ForgetSkip():
                    changes = {"metadata": {"annotations": {SKIP: None}}}
                    await self._patch(cron, guarded_patch(cron.metadata, changes))

    async def _write_status(self, cron: CronJobFlow, plan: CronPlan) -> CronJobFlow | None:
        """Write the status and return the CronJobFlow as stored; None if it had changed."""
        before, after = (msgspec.to_builtins(each) for each in (cron.status, plan.status))
        body = guarded_patch(cron.metadata, {"status": difference(before, after)})
        stored = await self._patch(cron, body, "status")
        for event in plan.events if stored is not None else ():
            self.recorder.record(cron, event)
        return stored

    async def _patch(
        self, cron: CronJobFlow, body: bytes, subresource: str = ""
    ) -> CronJobFlow | None:
        """Return the CronJobFlow as stored; None if it had changed."""
        try:
            answer = await self.client.patch(
                CRONJOBFLOWS, *key_of(cron), body, subresource=subresource
            )
        except ApiError as error:
            if not (error.not_found or error.conflict):
                raise
            await self._is_current(cron)  # learns what it is now, for the next plan
            return None
        stored = decoder(CronJobFlow).decode(answer)
        self.store.crons.learn(stored)
        return stored

    async def _create(self, cron: CronJobFlow, action: CreateFlow) -> None:
        """Create the flow. If its name is in use, the copy gets the flow that has it."""
        if not await self._is_current(cron):  # it may be suspended by now
            return
        namespace = cron.metadata.namespace
        try:
            body = msgspec.json.encode(action.manifest)
            answer = await self.client.create(JOBFLOWS, namespace, body)
        except ApiError as error:
            if error.already_exists:
                flow = await self.client.get(JOBFLOWS, namespace, action.name, JobFlow)
                self.store.flows.learn(flow)
                if belongs_to(flow, cron.metadata):
                    return
                message = f"flow {action.name} does not start: another flow has its name"
                self.recorder.record(cron, Event(EventType.WARNING, "NameInUse", message))
                raise NameInUseError(message) from None  # only its deletion makes room
            if is_refusal(error):
                message = f"flow {action.name} was refused: {error.message}"
                self.recorder.record(cron, Event(EventType.WARNING, "CreateRefused", message))
            raise
        self.store.flows.learn(decoder(JobFlow).decode(answer))  # the next plan must see it
        log.info("flow created", cronjobflow=full_name(cron), flow=action.name)

    async def _remove(self, cron: CronJobFlow, action: RemoveFlow) -> None:
        """Delete the flow unless it has changed since the plan."""
        try:
            target, version = (cron.metadata.namespace, action.name), action.resource_version
            await self.client.delete(JOBFLOWS, *target, uid=action.uid, resource_version=version)
        except ApiError as error:
            if not error.conflict:  # it was retried meanwhile
                raise
        else:
            log.info("flow deleted", cronjobflow=full_name(cron), flow=action.name)

    async def _is_current(self, cron: CronJobFlow) -> bool:
        """Read the CronJobFlow live, and learn it if it differs from the copy."""
        try:
            live = await self.client.get(CRONJOBFLOWS, *key_of(cron), CronJobFlow)
        except ApiError as error:
            if error.not_found:
                return False
            raise
        if live.metadata.resource_version == cron.metadata.resource_version:
            return True
        self.store.crons.learn(live)
        return False


class NameInUseError(Exception):
    """Another flow has the name of a flow that should start."""
