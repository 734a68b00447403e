"""The end of a flow: deleted, or cancelled first."""

from __future__ import annotations

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.client.errors import FAILED, CommandError
from jobflow.client.flows.state import state_of
from jobflow.client.verbs.command import create_command
from jobflow.client.verbs.lifecycle import CANCEL
from jobflow.core.admission.changes import flow_has_ended
from jobflow.core.text import format_command
from jobflow.kube.client import ApiError, Client


def refuse_delete(flow: JobFlow) -> str:
    """Return why a flow that has not ended cannot be deleted, or ""."""
    if not any(flow_has_ended(flow, namespace_terminating=False)):
        return ""
    meta = flow.metadata
    cancel = format_command("jobflow delete --cancel", meta)
    return f"JobFlow {meta.name} has not ended; {cancel} cancels it first: {state_of(flow)}"


async def cancel_first(client: Client, flow: JobFlow) -> str:
    """Cancel the flow, unless it is already coming to its end; return the name of the Command, or
    "". Raises CommandError if that is refused."""
    return "" if CANCEL.refusal(flow) else await create_command(client, flow, CANCEL)


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
