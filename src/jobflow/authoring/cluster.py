"""Flows and schedules sent to a cluster, as `jobflow submit` and `trigger` do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.authoring.handle import Run, run_of, with_client
from jobflow.authoring.manifests import check_objects, param_nodes, show_warnings
from jobflow.authoring.objects.faults import ClusterError, InvalidFlow, from_manifest
from jobflow.authoring.objects.flows import NamedCron, NamedFlow
from jobflow.authoring.results import Result
from jobflow.client.errors import CommandError
from jobflow.client.flows.find_cron import find_cron
from jobflow.client.flows.find_flow import NoSuchFlow, find_flow
from jobflow.client.manifests.flag_values import set_reuse
from jobflow.client.manifests.sources import ManifestFault
from jobflow.client.options import Connection
from jobflow.client.verbs.copy import check_flow, create_checked, manual_flow
from jobflow.client.verbs.reuse import choice_of, free_name
from jobflow.client.verbs.send_manifests import Sent, send
from jobflow.kube.client import Client


def submit(
    flow: NamedFlow,
    target: Connection,
    params: Mapping[str, Any],
    *,
    name: str | None = None,
    reuse: Run | Result | str | None = None,
    rerun: str | Iterable[str] | None = None,
    lenient: bool = False,
) -> Run:
    """Apply the templates of a flow and create it, under another `name` if one is given, and to
    reuse another flow if one or its name is given, but for the steps of `rerun`. Raises ValueError
    for these, InvalidFlow and ClusterError."""
    if rerun is not None and reuse is None:
        raise ValueError("rerun needs reuse: without it, every step runs")
    steps = [rerun] if isinstance(rerun, str) else [*(rerun or ())]
    sent = _send(flow, target, params, name=name, reuse=reuse, rerun=steps, lenient=lenient)
    [created] = sent.created
    return run_of(created, target)


def schedule(cron: NamedCron, target: Connection, *, lenient: bool = False) -> Connection:
    """Apply a schedule, and return where it is. Raises InvalidFlow and ClusterError."""
    stored = _send(cron, target, {}, lenient=lenient).applied[-1].object
    return replace(target, namespace=stored["metadata"]["namespace"])


def trigger(name: str, target: Connection, params: Mapping[str, Any]) -> Run:
    """Create a flow of a schedule now, as `jobflow trigger` does. Raises ClusterError."""

    async def create(client: Client) -> Run:
        found = await find_cron(client, name)
        report = check_flow(manual_flow(found), param_nodes(params), name)
        return run_of(await create_checked(client, report), target)

    return with_client(target, create)


def _send(
    obj: NamedFlow | NamedCron,
    target: Connection,
    params: Mapping[str, Any],
    *,
    name: str | None = None,
    reuse: Run | Result | str | None = None,
    rerun: Sequence[str] = (),
    lenient: bool,
) -> Sent:
    async def sent_to(client: Client) -> Sent:
        report = check_objects(
            [obj], namespace=client.namespace, name=name, params=params, lenient=lenient
        )
        report.warnings = [each for each in report.warnings if each.path]
        show_warnings(report, [obj])
        if reuse is not None:
            [manifest] = report.flows
            source = await _find_source(client, reuse, manifest.namespace)
            try:
                set_reuse(choice_of(source, rerun), manifest)
            except CommandError as error:
                # The message names a flag of the command line.
                raise ValueError(str(error).replace("--rerun", "rerun")) from None
            if name is None:
                await free_name(client, manifest)
        sent = await send(client, report)
        if sent.missing_rights:
            raise ClusterError("\n".join(sent.missing_rights.values()))
        if sent.faults:
            raise InvalidFlow([from_manifest(_in_python(each), report) for each in sent.faults])
        return sent

    return with_client(target, sent_to)


async def _find_source(client: Client, reuse: Run | Result | str, namespace: str) -> JobFlow:
    """Return the flow to reuse as it is on the cluster. Raises ClusterError and CommandError."""
    if isinstance(reuse, str):
        return await find_flow(client, reuse, namespace)
    uid = reuse.uid if isinstance(reuse, Run) else reuse.flow.metadata.uid
    with suppress(NoSuchFlow):
        found = await find_flow(client, reuse.name, namespace)
        if found.metadata.uid == uid:
            return found
    missing = f'reuse: this flow {reuse.name} is not in namespace "{namespace}" of the cluster'
    if isinstance(reuse, Run):
        raise ClusterError(f"{missing}: it was deleted, or is in another namespace")
    here = "the result is that of run() on this machine, or its flow was deleted"
    raise ClusterError(f"{missing}: {here}; without reuse, every step runs")


def _in_python(fault: ManifestFault) -> ManifestFault:
    """Return the fault; that a flow exists also names what Python can do about it."""
    if fault.reason != "AlreadyExists":
        return fault
    flow = f'get("{fault.name}")'
    ways = (
        f'in Python: submit(reuse="{fault.name}") if it has ended, submit(name="NAME"), '
        f"{flow}.retry() or {flow}.delete()"
    )
    return replace(fault, message=f"{fault.message}; {ways}")
