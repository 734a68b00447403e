"""Flows and schedules sent to a cluster, as `jobflow submit` and `trigger` do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobflow.authoring.handle import Run, run_of, with_client
from jobflow.authoring.manifests import check_objects, param_nodes, show_warnings
from jobflow.authoring.objects.faults import ClusterError, InvalidFlow, from_manifest
from jobflow.authoring.objects.flows import NamedCron, NamedFlow
from jobflow.authoring.results import Result
from jobflow.client.flows.find_cron import find_cron
from jobflow.client.flows.find_flow import find_flow
from jobflow.client.manifests.flag_values import ReuseChoice, set_reuse
from jobflow.client.options import Connection
from jobflow.client.verbs.copy import create_flow, manual_flow
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
    lenient: bool = False,
) -> Run:
    """Apply the templates of a flow and create it, under another `name` if one is given, and to
    reuse another flow if one or its name is given. Raises InvalidFlow and ClusterError."""
    sent = _send(flow, target, params, name=name, reuse=reuse, lenient=lenient)
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
        flow = await create_flow(client, manual_flow(found), param_nodes(params), name)
        return run_of(flow, target)

    return with_client(target, create)


def _send(
    obj: NamedFlow | NamedCron,
    target: Connection,
    params: Mapping[str, Any],
    *,
    name: str | None = None,
    reuse: Run | Result | str | None = None,
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
            set_reuse(await _choice(client, reuse, manifest.namespace), manifest)
            if name is None:
                await free_name(client, manifest)
        sent = await send(client, report)
        if sent.missing_rights:
            raise ClusterError("\n".join(sent.missing_rights.values()))
        if sent.faults:
            raise InvalidFlow([from_manifest(each, report) for each in sent.faults])
        return sent

    return with_client(target, sent_to)


async def _choice(client: Client, reuse: Run | Result | str, namespace: str) -> ReuseChoice:
    if isinstance(reuse, Run):
        return ReuseChoice(reuse.name, reuse.uid)
    if isinstance(reuse, Result):
        return choice_of(reuse.flow)
    return choice_of(await find_flow(client, reuse, namespace))
