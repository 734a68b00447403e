"""Applier: sends the requests of a Plan. It decides nothing. Objects in answers are in the store
before `apply` returns, so that the next plan sees its own writes; other answers are in Answers."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import structlog

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.resources import COMMANDS, JOBFLOWS, Resource
from jobflow.api.volcano.job import Job
from jobflow.controller.apply.api_answers import Memory, is_refusal, timeless
from jobflow.controller.apply.creates import CommandSender, VolumeClaims
from jobflow.controller.apply.objects import OBJECTS, LiveReads, ObjectKind
from jobflow.controller.apply.requests import STATUS, Applied, Slots, request_of, status_patch
from jobflow.core.planning import actions
from jobflow.core.planning.observed.identity import KnownJobs
from jobflow.core.planning.observed.view import PodsRead
from jobflow.core.work import WORK
from jobflow.kube.cache import full_name, key_of
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client, decoder
from jobflow.store import Store

log = structlog.get_logger(__name__)


@dataclass(eq=False)
class Applier:
    client: Client
    store: Store
    memory: Memory
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def __post_init__(self) -> None:
        self.reads = LiveReads(self.client)
        self._commands = CommandSender(self.client, self.memory, now=self.now)
        self._claims = VolumeClaims(self.client, self.reads, self.memory, self.now)

    async def apply(
        self,
        flow: JobFlow,
        plan: actions.Plan,
        *,
        write_status: bool,
        stored: JobFlow | None = None,
    ) -> Applied:
        """Send the plan's actions, and its status if `write_status`, all at once. `stored`: the
        flow as the API server has it, if the plan was made for another status.

        A plan with guarded creates is sent only if the flow has not changed since it was made.
        Returns when every request has ended, so that two plans of one flow never overlap. Errors
        are in the result; only a cancellation is raised.
        """
        applied = Applied()
        creates = (action for action in plan.actions if isinstance(action, actions.CreateJob))
        if guarded := [request_of(each) for each in creates if each.guard is not None]:
            await self._guard(self._compare(flow, applied), applied, *guarded)
            if applied.outdated:
                return applied
        slots = Slots(flow, plan)
        reading = [action for action in plan.actions if isinstance(action, actions.ReadJob)]
        work: list[Coroutine[Any, Any, None]] = [
            self._within(slots, self._act(flow, action, applied), applied, request)
            for action in plan.actions
            if (request := request_of(action)) not in applied.failed
            and not isinstance(action, actions.ReadJob)
        ]
        if reading:
            read = self._read_jobs(flow, reading, applied)
            work.append(self._guard(read, applied, *map(request_of, reading)))
        if write_status:
            writing = self._write_status(stored or flow, plan.status, applied)
            work.append(self._guard(writing, applied, STATUS))
        if len(work) == 1:  # most plans: no task is needed
            await work[0]
        else:
            async with asyncio.TaskGroup() as group:
                for each in work:
                    group.create_task(each)
        return applied

    async def _within(
        self, slots: Slots, work: Awaitable[None], applied: Applied, request: str
    ) -> None:
        async with slots:
            await self._guard(work, applied, request)
        if applied.answered:
            slots.widen()

    async def _guard(self, work: Awaitable[None], applied: Applied, *requests: str) -> None:
        """Make errors of the requests a part of the outcome; raise a cancellation of this task."""
        try:
            await work
            return
        except ApiError as error:
            applied.errors.append(str(error))
            applied.retry_after = max(applied.retry_after, error.retry_after or 0.0)
        except NETWORK_ERRORS as error:
            applied.errors.append(f"{type(error).__name__}: {error}")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # it comes from inside the request, such as from connections that are being closed
            applied.errors.append("CancelledError: the request was broken off")
        except Exception as error:
            log.exception("request failed unexpectedly", requests=requests)
            applied.errors.append(f"{type(error).__name__}: {error}")
        applied.failed.update(requests)

    async def _act(self, flow: JobFlow, action: actions.Action, applied: Applied) -> None:
        match action:
            case actions.CreateJob():
                await self._create(flow, action, applied)
            case actions.CreateClaim() | actions.MoveClaim():
                applied.again = True
                await self._claims.send(flow, action)
            case actions.DeleteJob():
                await self._delete(OBJECTS[action.kind].resource, flow, action)
                log.info("job deleted", flow=full_name(flow), job=action.name)
            case actions.CommandFlow():
                await self._commands.send_to_child(flow, action)
            case actions.AbortJob():
                await self._commands.abort(flow, action)
            case actions.CancelFlow():
                await self._commands.cancel(flow, action)
            case actions.DeleteCommand():
                await self._delete(COMMANDS, flow, action)
                log.info("command deleted", flow=full_name(flow), command=action.name)
            case actions.DeleteFlow():
                # a flow that was retried meanwhile keeps its UID, so the version must match too
                same = {"uid": action.uid, "resource_version": flow.metadata.resource_version}
                try:
                    # not in the foreground: it would stay in all lists until its last pod is gone
                    await self.client.delete(JOBFLOWS, *key_of(flow), **same)
                except ApiError as error:
                    if not error.conflict:
                        raise
                    await self._catch_up(flow, applied, error)
                else:
                    log.info("flow deleted", flow=full_name(flow), phase=flow.status.state.phase)
            case actions.ReadPods():
                applied.again = True  # an error is an answer too; it says when to try again
                try:
                    pods = await self.reads.pods(flow, action.job, action.uid)
                except (ApiError, *NETWORK_ERRORS) as error:
                    unread = self.memory.unread(flow, action.uid, error, self.now())
                    answer = {"error": unread.trouble, "again": unread.retry_at is not None}
                    log.warning(
                        "pods cannot be read", flow=full_name(flow), job=action.job, **answer
                    )
                else:
                    self.memory.of(flow).read[action.uid] = PodsRead(pods)

    async def _create(self, flow: JobFlow, action: actions.CreateJob, applied: Applied) -> None:
        if applied.held_back:  # a create before it was refused for the whole namespace
            return
        namespace, kind = flow.metadata.namespace, OBJECTS[action.kind]
        # watches may be late: the attempt before, which is said to be gone, may exist
        if action.guard is not None and action.guard.gone:
            before = await kind.read(self.reads, flow, action.guard.gone)
            if before is not None and self._owns(flow, before):
                applied.again = True
                kind.cache(self.store).learn(before)
                return
        body, sent = msgspec.json.encode(action.manifest), self.now()
        try:
            answer = await self.client.create(kind.resource, namespace, body)
        except ApiError as error:
            if error.already_exists:  # the answer to an earlier create was lost, or a stranger's
                if (found := await kind.read(self.reads, flow, action.name)) is None:
                    raise  # it was deleted in between
                await self._take_in(flow, kind, found, applied)
            elif is_refusal(error):
                self.memory.refuse(flow, action.name, error, self.now())
                applied.again = True
                applied.held_back |= bool(error.for_the_namespace)
                refusal = {"code": error.code, "message": error.message}
                _log_create("job refused", flow, action, **refusal)
            else:
                self.memory.fail_create(flow, action.name, error, sent)
                raise
        except NETWORK_ERRORS as error:
            self.memory.fail_create(flow, action.name, error, sent)
            raise
        else:
            self.memory.let_in(flow, action.name, self.now())
            kind.cache(self.store).learn(decoder(kind.type).decode(answer))
            _log_create(f"{WORK[action.kind].noun} created", flow, action)
        applied.answered = True

    async def _compare(self, flow: JobFlow, applied: Applied) -> None:
        """Read the flow live. If it is not as the plan saw it, the plan is outdated."""
        live = await self.reads.flow(flow)
        if live is not None and live.metadata.resource_version == flow.metadata.resource_version:
            return
        applied.outdated = True
        if live is None or not self.store.flows.learn(live):  # an event has brought it already
            return
        known = self.store.flows.get(live.metadata.namespace, live.metadata.name)
        applied.again = known is not None and known != flow
        if not applied.again:
            applied.errors.append("the flow that was read live is older than the known one")

    def _owns(self, flow: JobFlow, job: Job | JobFlow) -> bool:
        jobs = self.store.jobs_of(flow.metadata.uid)
        return KnownJobs(flow, jobs).owns(job)

    async def _take_in(self, flow: JobFlow, kind: ObjectKind, found: Any, applied: Applied) -> None:
        """Keep an object that was read live and has a name which the flow needs."""
        applied.again = True
        if not kind.cache(self.store).learn(found):
            return
        job = kind.observe(found)
        name = job.metadata.name
        ours = self._owns(flow, found)
        if ours and job.metadata.deletion_timestamp is None:
            self.memory.of(flow).settle(name)
            log.info("job adopted", flow=full_name(flow), job=name)
            return
        # an owner that is gone takes its vcjob with it, so the name becomes free
        alive = True if ours else await self.reads.is_alive(flow, job.metadata.controller)
        self.memory.hold(flow, job, owner_alive=alive, now=self.now())
        log.info("job name in use", flow=full_name(flow), job=name, owner_alive=alive)

    async def _delete(
        self, resource: Resource, flow: JobFlow, action: actions.DeleteJob | actions.DeleteCommand
    ) -> None:
        """Delete the object with this UID; success too if another has its name by now (409)."""
        try:
            namespace = flow.metadata.namespace
            await self.client.delete(resource, namespace, action.name, uid=action.uid)
        except ApiError as error:
            if not error.conflict:
                raise

    async def _read_jobs(
        self, flow: JobFlow, wanted: list[actions.ReadJob], applied: Applied
    ) -> None:
        # in this order no vcjob is missed that an earlier plan of the flow has created
        live = await self.reads.flow(flow)
        if live is None:
            return
        applied.again = True
        if not self.store.flows.learn(live) or live.metadata.uid != flow.metadata.uid:
            return
        for action in wanted:
            kind = OBJECTS[action.kind]
            found = await kind.read(self.reads, flow, action.name)
            if found is not None:
                await self._take_in(flow, kind, found, applied)
            else:
                self.memory.of(flow).missing.add(action.name)
                log.info("job is not there", flow=full_name(flow), job=action.name)

    async def _write_status(self, flow: JobFlow, status: JobFlowStatus, applied: Applied) -> None:
        answers = self.memory.of(flow)
        answers.tried = timeless(status)
        try:
            patch = status_patch(flow, status)
            body = await self.client.patch(JOBFLOWS, *key_of(flow), patch, subresource="status")
        except ApiError as error:
            if error.not_found:
                return
            if not error.conflict:
                raise
            await self._catch_up(flow, applied, error)
            return
        stored = decoder(JobFlow).decode(body)
        answers.sent = (timeless(status), stored.metadata.resource_version)
        applied.status_written = True
        self.store.flows.learn(stored)
        state = {"phase": status.state.phase, "reason": status.state.reason}
        log.info("status written", flow=full_name(flow), **state, progress=status.progress)

    async def _catch_up(self, flow: JobFlow, applied: Applied, conflict: ApiError) -> None:
        """Read the flow, which has changed since the plan, for the next plan."""
        live = await self.reads.flow(flow)
        if live is None:
            return
        if live.metadata.resource_version == flow.metadata.resource_version:
            raise conflict
        self.store.flows.learn(live)
        applied.again = True


def _log_create(event: str, flow: JobFlow, action: actions.CreateJob, **more: object) -> None:
    log.info(event, flow=full_name(flow), step=action.step, job=action.name, **more)
