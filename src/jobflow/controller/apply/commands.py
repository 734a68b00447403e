"""The Commands that the controller creates.

Their names are fixed, so that they do not pile up while nobody executes them, and their target owns
them, so that they are deleted with it.
"""

from collections.abc import Callable
from datetime import datetime

import structlog

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import COMMANDS, JOBFLOWS, JOBS, ObjectMeta, OwnerReference, Resource
from jobflow.api.volcano.command import Action, Command, encoded
from jobflow.controller.apply.api_answers import Memory, is_refusal
from jobflow.core.planning.actions import AbortJob, CancelFlow, CommandFlow
from jobflow.kube.cache import key_of
from jobflow.kube.client import ApiError, Client

log = structlog.get_logger(__name__)


class CommandSender:
    """Creates Commands, and remembers when. A later plan creates one again if it has no effect."""

    def __init__(self, client: Client, memory: Memory, *, now: Callable[[], datetime]) -> None:
        self._client = client
        self._memory = memory
        self._now = now

    async def abort(self, flow: JobFlow, action: AbortJob) -> None:
        """Ask Volcano to abort a vcjob. If the Command cannot be created, the vcjob is deleted
        after some time, so the create is not repeated more often."""
        refused = await self._send(flow, abort_command(flow, action))
        self._memory.of(flow).aborts[action.uid] = self._now()
        if refused:
            log.warning("job cannot be aborted", flow=_name(flow), job=action.name, error=refused)
        else:
            log.info("job to be aborted", flow=_name(flow), job=action.name)

    async def cancel(self, flow: JobFlow, action: CancelFlow) -> None:
        """Cancel another flow, which this one replaces."""
        refused = await self._send(flow, cancel_command(flow, action))
        self._memory.of(flow).cancels[action.uid] = self._now()
        if refused:
            log.warning("flow cannot be replaced", flow=_name(flow), by=action.name, error=refused)
        else:
            log.info("flow to be replaced", flow=_name(flow), other=action.name)

    async def send_to_child(self, flow: JobFlow, action: CommandFlow) -> None:
        """Send a Command to a child flow, which deletes it."""
        await self._create(flow, child_command(flow, action))
        self._memory.of(flow).aborts[action.key] = self._now()
        log.info("command sent", flow=_name(flow), child=action.name, action=action.action)

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


def cancel_command(flow: JobFlow, action: CancelFlow) -> Command:
    """Return the Command `<flow>-replace`, by which JobFlow cancels another flow."""
    target = _target(JOBFLOWS, action.name, action.uid)
    return _command(flow, f"{action.name}-replace", Action.TERMINATE_JOB, target, action.message)


def child_command(flow: JobFlow, action: CommandFlow) -> Command:
    """Return the Command `<child>-<action>` on a child flow."""
    target = _target(JOBFLOWS, action.name, action.uid)
    name, message = f"{action.name}-{action.action.lower()}", f"by the JobFlow {flow.metadata.name}"
    return _command(flow, name, action.action, target, message)


def _target(resource: Resource, name: str, uid: str) -> OwnerReference:
    return OwnerReference(api_version=resource.api_version, kind=resource.kind, name=name, uid=uid)


def _command(
    flow: JobFlow, name: str, action: Action, target: OwnerReference, message: str
) -> Command:
    return Command(
        metadata=ObjectMeta(
            name=name, namespace=flow.metadata.namespace, owner_references=[target]
        ),
        action=action,
        target=target,
        reason="JobFlow",
        message=message,
    )


def _name(flow: JobFlow) -> str:
    return "/".join(key_of(flow))
