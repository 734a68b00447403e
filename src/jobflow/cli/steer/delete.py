"""`jobflow delete`: deletes flows that have ended, or cancels them first."""

from collections.abc import Sequence

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import CANCELLED
from jobflow.api.resources import FLOW_GROUP
from jobflow.cli.flags import DeleteOptions
from jobflow.cli.steer.until_end import View, follow_to_end
from jobflow.client.errors import FAILED, INTERRUPTED, CommandError, Errors, print_error
from jobflow.client.flows.find_flow import connect, find_each
from jobflow.client.flows.follow import following
from jobflow.client.options import Connection, Selection
from jobflow.client.signals import interruption, run_unless
from jobflow.client.verbs.command import (
    cancel_first,
    delete_flow,
    note_on_cancel,
    note_on_delete,
    refuse_delete,
)
from jobflow.display.objects import print_flow_objects
from jobflow.kube.client import Client


async def delete_flows(
    names: Sequence[str], selection: Selection, connection: Connection, options: DeleteOptions
) -> int:
    """Delete flows and return the worst exit code. Raises CommandError if none can be found."""
    errors = Errors()
    async with await connect(connection) as client:
        flows = await find_each(client, names, selection, errors)
        ready = await _ended(client, flows, errors, options)
        if ready is None:
            return INTERRUPTED
        deleted = []
        for flow in ready:
            try:
                await delete_flow(client, flow)  # by UID: another flow may have the name now
            except CommandError as error:
                errors.add(error)
                continue
            deleted.append(flow)
            if options.output is None:
                print(f'jobflow.{FLOW_GROUP} "{flow.metadata.name}" deleted', flush=True)
            if note := note_on_delete(flow):
                print_error(note, severity="info")
        if options.output is not None:
            print_flow_objects(deleted, options.output, single=len(names) == 1)
        if options.wait and deleted:
            # a finalizer, such as that of a deletion in the foreground, may keep them
            with interruption() as stop:
                async with following(client, deleted) as follower:
                    gone = follower.until(lambda each: each.deleted >= each.flows.keys())
                    if not await run_unless(stop, gone):
                        return INTERRUPTED
    return errors.code


async def _ended(
    client: Client, flows: Sequence[JobFlow], errors: Errors, options: DeleteOptions
) -> list[JobFlow] | None:
    """Return the flows that may be deleted, cancelled if asked to; None: interrupted."""
    ready, cancelled = [], []
    for flow in flows:
        why = refuse_delete(flow)
        if not why:
            ready.append(flow)
            continue
        try:
            # the webhook refuses it as well; this says what to do
            if not options.cancel:
                raise CommandError(FAILED, why)
            command = await cancel_first(client, flow)
            if command and options.output is None:
                requested = f"cancel requested (Command {command})"
                print(f"JobFlow {flow.metadata.name}: {requested}", flush=True)
            print_error(note_on_cancel(flow), severity="info")
            cancelled.append(flow)
        except CommandError as error:
            errors.add(error)
    if not cancelled:
        return ready
    followed = await follow_to_end(
        client,
        cancelled,
        View.PROGRESS if options.output is None else View.NOTHING,
        is_handled=lambda flow: flow.final or flow.status.state.reason == CANCELLED,
    )
    if followed.interrupted:
        print_error("nothing was deleted; the flows are being cancelled", severity="info")
        return None
    # somebody else has deleted them while they were waited for
    gone = {flow.metadata.uid for flow in followed.lost}
    return ready + [flow for flow in followed.flows if flow.metadata.uid not in gone]
