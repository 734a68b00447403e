"""The Commands and the PersistentVolumeClaims that the controller creates.

Names of Commands are fixed, so that they do not pile up while nobody executes them, and their
target owns them, so that they are deleted with it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import structlog

from jobflow.api import resources
from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.volcano.command import Action, Command, encoded
from jobflow.controller.apply.api_answers import Memory, is_refusal
from jobflow.controller.apply.objects import LiveReads
from jobflow.core.planning import actions
from jobflow.kube.cache import full_name
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client

log = structlog.get_logger(__name__)


class CommandSender:
    """Creates Commands, and remembers when. A later plan creates one again if it has no effect."""

    def __init__(self, client: Client, memory: Memory, *, now: Callable[[], datetime]) -> None:
        self._client = client
        self._memory = memory
        self._now = now

    async def abort(self, flow: JobFlow, action: actions.AbortJob) -> None:
        message = f"by the JobFlow {flow.metadata.name}"
        target = resources.JOBS, action.name, action.uid
        # Volcano finds the target by name and deletes the Command first (pkg/controllers/job,
        # processNextCommand)
        command = make_command(flow, Action.ABORT_JOB, *target, suffix="abort", message=message)
        # noted also if it was refused: the vcjob is deleted after some time, so the create is not
        # repeated more often
        refused, name = await self._send(command), full_name(flow)
        self._memory.of(flow).aborts[action.uid] = self._now()
        if refused:
            log.warning("job cannot be aborted", flow=name, job=action.name, error=refused)
        else:
            log.info("job to be aborted", flow=name, job=action.name)

    async def cancel(self, flow: JobFlow, action: actions.CancelFlow) -> None:
        command = replacing_command(flow, action.name, action.uid, action.message)
        refused, name = await self._send(command), full_name(flow)
        self._memory.of(flow).cancels[action.uid] = self._now()
        if refused:
            log.warning("flow cannot be replaced", flow=name, by=action.name, error=refused)
        else:
            log.info("flow to be replaced", flow=name, other=action.name)

    async def send_to_child(self, flow: JobFlow, action: actions.CommandFlow) -> None:
        """Send a Command to a child flow, which deletes it."""
        message = f"by the JobFlow {flow.metadata.name}"
        target, suffix = (resources.JOBFLOWS, action.name, action.uid), action.action.lower()
        command = make_command(flow, action.action, *target, suffix=suffix, message=message)
        await create_command(self._client, command)
        self._memory.of(flow).aborts[action.key] = self._now()
        log.info("command sent", flow=full_name(flow), child=action.name, action=action.action)

    async def _send(self, command: Command) -> str:
        """Create a Command. Return why it was refused, or ""."""
        try:
            await create_command(self._client, command)
        except ApiError as error:
            if not is_refusal(error):
                raise
            return str(error)
        return ""


async def create_command(client: Client, command: Command) -> bool:
    """Create a Command; return False if there is one of its name already. Raises ApiError."""
    try:
        await client.create(resources.COMMANDS, command.metadata.namespace, encoded(command))
    except ApiError as error:
        if not error.already_exists:
            raise
        return False
    return True


def replacing_command(by: JobFlow | CronJobFlow, flow: str, uid: str, message: str) -> Command:
    """Return the Command that cancels a flow which another one replaces."""
    target = resources.JOBFLOWS, flow, uid
    return make_command(by, Action.TERMINATE_JOB, *target, suffix="replace", message=message)


def make_command(
    by: JobFlow | CronJobFlow,
    action: Action,
    kind: resources.Resource,
    name: str,
    uid: str,
    *,
    suffix: str,
    message: str,
) -> Command:
    """Return the Command `<name>-<suffix>` on the object with this name and UID."""
    target = resources.OwnerReference(
        api_version=kind.api_version, kind=kind.kind, name=name, uid=uid
    )
    metadata = resources.ObjectMeta(
        name=f"{name}-{suffix}", namespace=by.metadata.namespace, owner_references=[target]
    )
    return Command(
        metadata=metadata, action=action, target=target, reason="JobFlow", message=message
    )


@dataclass(eq=False)
class VolumeClaims:
    client: Client
    reads: LiveReads
    memory: Memory
    now: Callable[[], datetime]

    async def send(self, flow: JobFlow, action: actions.CreateClaim | actions.MoveClaim) -> None:
        """Create or move a claim, and remember the answer."""
        sent = self.now()
        try:
            if isinstance(action, actions.CreateClaim):
                await self._create(flow, action)
            else:
                await self._move(flow, action)
        except (ApiError, *NETWORK_ERRORS) as error:
            if not (isinstance(error, ApiError) and is_refusal(error)):
                self.memory.fail_claim(flow, action.name, error, sent)
                raise
            self.memory.refuse_claim(flow, action.name, error, self.now())
            answer = {"code": error.code, "message": error.message}
            _log("volume claim refused", flow, action.name, **answer)

    async def _create(self, flow: JobFlow, action: actions.CreateClaim) -> None:
        """Create the claim. If its name is in use, read the claim that has it."""
        name, body = action.name, msgspec.json.encode(action.manifest)
        try:
            await self.client.create(resources.VOLUME_CLAIMS, flow.metadata.namespace, body)
        except ApiError as error:
            if not error.already_exists:
                raise
            await self._read(flow, name)
        else:
            self.memory.of(flow).claims[name] = None
            _log("volume claim created", flow, name)

    async def _move(self, flow: JobFlow, action: actions.MoveClaim) -> None:
        """Make the flow the owner of the claim, unless it is gone or somebody else's."""
        name, uid = action.name, action.uid
        found = await self.reads.get(flow, resources.VOLUME_CLAIMS, name, dict[str, Any])
        meta = msgspec.convert((found or {}).get("metadata") or {}, resources.ObjectMeta)
        owner, going = meta.controller, found is None or meta.deletion_timestamp is not None
        is_ours = meta.is_owned_by(flow.metadata)  # the answer to an earlier move was lost
        if found is None or going or owner is None or not (is_ours or owner.uid == uid):
            self.memory.hold_claim(flow, name, owner, going=going, now=self.now())
            _log("volume claim stays", flow, name, going=going)
            return
        if not is_ours:
            owners = [ref for ref in found["metadata"]["ownerReferences"] if ref["uid"] != uid]
            owners.append(resources.JOBFLOWS.owner_reference(flow.metadata))
            body = {**found, "metadata": {**found["metadata"], "ownerReferences": owners}}
            # with its resource version: of two flows that reuse the same one, one gets it
            claim = resources.VOLUME_CLAIMS, flow.metadata.namespace, name
            await self.client.replace(*claim, msgspec.json.encode(body))
        self.memory.of(flow).claims[name] = None
        _log("volume claim moved", flow, name, before=owner.name)

    async def _read(self, flow: JobFlow, name: str) -> None:
        claim = resources.VOLUME_CLAIMS, name, resources.Object
        if (found := await self.reads.get(flow, *claim)) is None:
            return  # the next plan creates it
        owner, deleting = found.metadata.controller, found.metadata.deletion_timestamp is not None
        if found.metadata.is_owned_by(flow.metadata) and not deleting:
            self.memory.of(flow).claims[name] = None
            return
        going = deleting or not await self.reads.is_alive(flow, owner)
        self.memory.hold_claim(flow, name, owner, going=going, now=self.now())
        _log("volume claim name in use", flow, name, going=going)


def _log(event: str, flow: JobFlow, claim: str, **more: object) -> None:
    log.info(event, flow=full_name(flow), claim=claim, **more)
