"""The Commands and the PersistentVolumeClaims that the controller creates.

Names of Commands are fixed, so that they do not pile up while nobody executes them, and their
target owns them, so that they are deleted with it.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec
import structlog

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import (
    COMMANDS,
    JOBFLOWS,
    JOBS,
    VOLUME_CLAIMS,
    ObjectMeta,
    OwnerReference,
    Resource,
)
from jobflow.api.volcano.command import Action, Command, encoded
from jobflow.controller.apply.api_answers import Memory, is_refusal
from jobflow.controller.apply.objects import LiveReads
from jobflow.core.planning.actions import AbortJob, CancelFlow, CommandFlow, CreateClaim
from jobflow.kube.cache import full_name
from jobflow.kube.client import ApiError, Client

log = structlog.get_logger(__name__)


class CommandSender:
    """Creates Commands, and remembers when. A later plan creates one again if it has no effect."""

    def __init__(self, client: Client, memory: Memory, *, now: Callable[[], datetime]) -> None:
        self._client = client
        self._memory = memory
        self._now = now

    async def abort(self, flow: JobFlow, action: AbortJob) -> None:
        """Ask Volcano to abort a vcjob."""
        # noted also if it was refused: the vcjob is deleted after some time, so the create is not
        # repeated more often
        refused, name = await self._send(flow, abort_command(flow, action)), full_name(flow)
        self._memory.of(flow).aborts[action.uid] = self._now()
        if refused:
            log.warning("job cannot be aborted", flow=name, job=action.name, error=refused)
        else:
            log.info("job to be aborted", flow=name, job=action.name)

    async def cancel(self, flow: JobFlow, action: CancelFlow) -> None:
        """Cancel another flow, which this one replaces."""
        command = replacing_command(flow, action.name, action.uid, action.message)
        refused, name = await self._send(flow, command), full_name(flow)
        self._memory.of(flow).cancels[action.uid] = self._now()
        if refused:
            log.warning("flow cannot be replaced", flow=name, by=action.name, error=refused)
        else:
            log.info("flow to be replaced", flow=name, other=action.name)

    async def send_to_child(self, flow: JobFlow, action: CommandFlow) -> None:
        """Send a Command to a child flow, which deletes it."""
        await self._create(flow, child_command(flow, action))
        self._memory.of(flow).aborts[action.key] = self._now()
        log.info("command sent", flow=full_name(flow), child=action.name, action=action.action)

    async def _send(self, flow: JobFlow, command: Command) -> str:
        """Create a Command. Return why it was refused, or ""."""
        try:
            await self._create(flow, command)
        except ApiError as error:
            if not is_refusal(error):
                raise
            return str(error)
        return ""

    async def _create(self, flow: JobFlow, command: Command) -> None:
        """Create a Command unless it exists."""
        try:
            await self._client.create(COMMANDS, flow.metadata.namespace, encoded(command))
        except ApiError as error:
            if not error.already_exists:
                raise


def abort_command(flow: JobFlow, action: AbortJob) -> Command:
    """Return the Command `<vcjob>-abort`, by which Volcano aborts the vcjob. Volcano finds the
    target by name and deletes the Command first (pkg/controllers/job, processNextCommand)."""
    target = _target(JOBS, action.name, action.uid)
    message = f"by the JobFlow {flow.metadata.name}"
    return _command(flow, f"{action.name}-abort", Action.ABORT_JOB, target, message)


def replacing_command(by: JobFlow | CronJobFlow, flow: str, uid: str, message: str) -> Command:
    """Return the Command `<flow>-replace`, which cancels a flow that another one replaces."""
    target = _target(JOBFLOWS, flow, uid)
    return _command(by, f"{flow}-replace", Action.TERMINATE_JOB, target, message)


def child_command(flow: JobFlow, action: CommandFlow) -> Command:
    """Return the Command `<child>-<action>` on a child flow."""
    target = _target(JOBFLOWS, action.name, action.uid)
    name, message = f"{action.name}-{action.action.lower()}", f"by the JobFlow {flow.metadata.name}"
    return _command(flow, name, action.action, target, message)


def _target(resource: Resource, name: str, uid: str) -> OwnerReference:
    return OwnerReference(api_version=resource.api_version, kind=resource.kind, name=name, uid=uid)


def _command(
    by: JobFlow | CronJobFlow, name: str, action: Action, target: OwnerReference, message: str
) -> Command:
    namespace = by.metadata.namespace
    return Command(
        metadata=ObjectMeta(name=name, namespace=namespace, owner_references=[target]),
        action=action,
        target=target,
        reason="JobFlow",
        message=message,
    )


class VolumeClaims:
    """Creates the PersistentVolumeClaims of flows."""

    def __init__(
        self, client: Client, reads: LiveReads, memory: Memory, *, now: Callable[[], datetime]
    ) -> None:
        self._client = client
        self._reads = reads
        self._memory = memory
        self._now = now

    async def create(self, flow: JobFlow, action: CreateClaim) -> None:
        """Create the claim. If its name is in use, read the claim that has it."""
        name, body = action.name, msgspec.json.encode(action.manifest)
        try:
            await self._client.create(VOLUME_CLAIMS, flow.metadata.namespace, body)
        except ApiError as error:
            if error.already_exists:
                await self._read(flow, name)
            elif is_refusal(error):
                self._memory.refuse_claim(flow, name, error, self._now())
                _log("volume claim refused", flow, name, code=error.code, message=error.message)
            else:
                raise
        else:
            self._memory.of(flow).claims[name] = None
            _log("volume claim created", flow, name)

    async def _read(self, flow: JobFlow, name: str) -> None:
        if (found := await self._reads.claim(flow, name)) is None:
            return  # the next plan creates it
        owner, deleting = found.metadata.controller, found.metadata.deletion_timestamp is not None
        if found.metadata.is_owned_by(flow.metadata) and not deleting:
            self._memory.of(flow).claims[name] = None
            return
        going = deleting or not await self._reads.is_alive(flow, owner)
        self._memory.hold_claim(flow, name, owner, going=going, now=self._now())
        _log("volume claim name in use", flow, name, going=going)


def _log(event: str, flow: JobFlow, claim: str, **more: object) -> None:
    log.info(event, flow=full_name(flow), claim=claim, **more)
