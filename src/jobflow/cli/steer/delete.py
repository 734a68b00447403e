"""`jobflow delete`: deletes flows that have ended, or cancels them first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import CANCELLED
from jobflow.api.resources import FLOW_GROUP, JOBFLOWS
from jobflow.cli.display.objects import print_flows
from jobflow.cli.errors import FAILED, INTERRUPTED, CommandError, Errors, print_error
from jobflow.cli.flags import Connection, ObjectOutput, Selection
from jobflow.cli.flows.find_flow import connect, find_each
from jobflow.cli.flows.follow import following
from jobflow.cli.flows.wait import state_of
from jobflow.cli.signals import interruption, run_unless
from jobflow.cli.steer.send_command import create_command
from jobflow.cli.steer.until_end import View, follow_to_end
from jobflow.cli.steer.verbs import CANCEL
from jobflow.core.admission.changes import flow_has_ended
from jobflow.core.text import format_command
from jobflow.kube.client import ApiError, Client


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Flags of `jobflow delete` beside those of a connection and a selection."""

    cancel: bool = False
    wait: bool = False
    output: ObjectOutput | None = None

    @property
    def quiet(self) -> bool:
        """Whether only the deleted flows are printed, at the end."""
        return self.output is not None


async def delete_flows(
    names: Sequence[str], selection: Selection, connection: Connection, options: DeleteOptions
) -> int:
    """Delete flows and return the worst exit code. An error about one flow does not stop the
    others. Raises CommandError if no flow can be found at all."""
    errors = Errors()
    async with await connect(connection) as client:
        flows = await find_each(client, names, selection, errors)
        ready = await _ended(client, flows, errors, options)
        if ready is None:
            return INTERRUPTED
        deleted = [flow for flow in ready if await _delete(client, flow, errors, options)]
        if options.output is not None:
            print_flows(deleted, options.output, single=len(names) == 1)
        if options.wait and deleted and not await _until_gone(client, deleted):
            return INTERRUPTED
    return errors.code


async def _ended(
    client: Client, flows: Sequence[JobFlow], errors: Errors, options: DeleteOptions
) -> list[JobFlow] | None:
    """Return the flows that may be deleted, after they were cancelled if asked to; None: the wait
    for that was interrupted."""
    ready, cancelled = [], []
    for flow in flows:
        why = refuse_delete(flow)
        if not why:
            ready.append(flow)
            continue
        try:
            if not options.cancel:
                raise CommandError(FAILED, why)
            await _cancel(client, flow, options)
            cancelled.append(flow)
        except CommandError as error:
            errors.add(error)
    if not cancelled:
        return ready
    followed = await follow_to_end(
        client,
        cancelled,
        View.NOTHING if options.quiet else View.PROGRESS,
        is_handled=lambda flow: flow.final or flow.status.state.reason == CANCELLED,
    )
    if followed.interrupted:
        print_error("nothing was deleted; the flows are being cancelled", severity="info")
        return None
    gone = {flow.metadata.uid for flow in followed.lost}
    return ready + [flow for flow in followed.flows if flow.metadata.uid not in gone]


def refuse_delete(flow: JobFlow) -> str:
    """Return why a flow that has not ended cannot be deleted, or ""."""
    if not any(flow_has_ended(flow, namespace_terminating=False)):
        return ""
    meta = flow.metadata
    cancel = format_command("jobflow delete --cancel", meta)
    return f"JobFlow {meta.name} has not ended; {cancel} cancels it first: {state_of(flow)}"


async def _cancel(client: Client, flow: JobFlow, options: DeleteOptions) -> None:
    command = await cancel_first(client, flow)
    if command and not options.quiet:
        requested = f"cancel requested (Command {command})"
        print(f"JobFlow {flow.metadata.name}: {requested}", flush=True)


async def cancel_first(client: Client, flow: JobFlow) -> str:
    """Cancel the flow, unless it is already coming to its end; return the name of the Command, or
    "". Raises CommandError if that is refused."""
    return "" if CANCEL.refusal(flow) else await create_command(client, flow, CANCEL)


async def _delete(client: Client, flow: JobFlow, errors: Errors, options: DeleteOptions) -> bool:
    """Delete the flow, unless another one has its name now; return whether that was done."""
    try:
        await delete_flow(client, flow)
    except CommandError as error:
        errors.add(error)
        return False
    if not options.quiet:
        print(f'jobflow.{FLOW_GROUP} "{flow.metadata.name}" deleted', flush=True)
    return True


async def delete_flow(client: Client, flow: JobFlow) -> None:
    """Delete the flow. Raises CommandError if it is refused, or another one has its name now."""
    meta = flow.metadata
    try:
        await client.delete(JOBFLOWS, meta.namespace, meta.name, uid=meta.uid)
    except ApiError as error:
        raise CommandError(FAILED, _explained(error, flow)) from None


def _explained(error: ApiError, flow: JobFlow) -> str:
    if error.conflict:
        replaced = f"JobFlow {flow.metadata.name} was replaced by another of the same name"
        return f"{replaced}: it was not deleted"
    return f"JobFlow {flow.metadata.name} was not deleted: {error.message}"


async def _until_gone(client: Client, flows: Sequence[JobFlow]) -> bool:
    """Wait until the flows are gone; return False if that is interrupted."""
    with interruption() as stop:
        async with following(client, flows) as follower:
            return await run_unless(
                stop, follower.until(lambda each: each.deleted >= each.flows.keys())
            )
