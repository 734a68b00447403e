"""`jobflow suspend`, `resume` and `delete` of CronJobFlows."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

import typer

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.resources import CRONJOBFLOWS, FLOW_GROUP
from jobflow.cli.run_command import run_command
from jobflow.client.errors import FAILED, CommandError, Errors
from jobflow.client.flows.find_cron import find_cron, split_names
from jobflow.client.flows.find_flow import connect
from jobflow.client.options import Connection, Selection
from jobflow.core.admission.changes import cron_is_idle
from jobflow.kube.client import ApiError, Client

Change = Callable[[Client, CronJobFlow], Awaitable[str]]
"""Changes a CronJobFlow and returns the line to print. Raises CommandError or ApiError."""


def only_crons(
    names: Sequence[str] | None, selection: Selection, has_flow_flags: bool
) -> list[str]:
    """Return the names of CronJobFlows if names are given as cjf/NAME. Raises BadParameter if flows
    are meant too, or flags that only flows have are given."""
    flows, crons = split_names(names or ())
    if crons and (flows or selection != Selection()):
        raise typer.BadParameter("write names of flows or cjf/NAME, not both")
    if crons and has_flow_flags:
        raise typer.BadParameter("cjf/NAME takes no flags but those of the connection")
    return crons


def suspend_crons(names: Sequence[str], connection: Connection, suspend: bool) -> int:
    """Suspend or resume CronJobFlows and return the worst exit code."""
    return run_command(change_crons(names, connection, set_suspended(suspend)))


async def change_crons(names: Sequence[str], connection: Connection, change: Change) -> int:
    """Change each CronJobFlow and return the worst exit code. An error about one does not stop the
    others."""
    errors = Errors()
    async with await connect(connection) as client:
        for name in names:
            try:
                cron = (await find_cron(client, name)).cron
                print(await change(client, cron), flush=True)
            except CommandError as error:
                errors.add(error)
            except ApiError as error:
                errors.add(CommandError(FAILED, f"CronJobFlow {name}: {error.message}"))
    return errors.code


def set_suspended(suspend: bool) -> Change:
    """Return the change that suspends or resumes."""
    word = "suspended" if suspend else "resumed"

    async def change(client: Client, cron: CronJobFlow) -> str:
        meta = cron.metadata
        if cron.suspended == suspend:
            already = "is already suspended" if suspend else "is not suspended"
            raise CommandError(FAILED, f"CronJobFlow {meta.name} {already}")
        body = {"metadata": {"uid": meta.uid}, "spec": {"suspend": suspend}}
        await client.patch(CRONJOBFLOWS, meta.namespace, meta.name, json.dumps(body).encode())
        return f"CronJobFlow {meta.name}: {word}"

    return change


async def delete_cron(client: Client, cron: CronJobFlow) -> str:
    """Delete a CronJobFlow without active flows; its flows are deleted with it."""
    meta = cron.metadata
    for violation in cron_is_idle(cron, namespace_terminating=False):
        raise CommandError(FAILED, violation.detail)
    await client.delete(CRONJOBFLOWS, meta.namespace, meta.name, uid=meta.uid)
    return f'cronjobflow.{FLOW_GROUP} "{meta.name}" deleted'
