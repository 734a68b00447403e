"""Flows and schedules on a cluster, as `jobflow submit`, `wait` and `trigger` do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from jobflow.api.flow.jobflow import JobFlow
from jobflow.authoring.manifests import check_objects, param_nodes, show_warnings
from jobflow.authoring.objects.faults import ClusterError, InvalidFlow, from_manifest
from jobflow.authoring.objects.flows import NamedCron, NamedFlow
from jobflow.authoring.results import Result
from jobflow.client.errors import CommandError, unreachable
from jobflow.client.flows.find_cron import find_cron
from jobflow.client.flows.find_flow import connect, find_flow
from jobflow.client.flows.follow import FlowFollower, following
from jobflow.client.manifests.flag_values import ReuseChoice, set_reuse
from jobflow.client.options import Connection
from jobflow.client.verbs.copy import create_flow, manual_flow
from jobflow.client.verbs.reuse import choice_of, free_name
from jobflow.client.verbs.send_manifests import Sent, send
from jobflow.kube.answers import NetworkError
from jobflow.kube.cache import key_of
from jobflow.kube.client import Client
from jobflow.kube.credentials import ConfigError
from jobflow.runtime import logs
from jobflow.runtime.event_loop import run_beside

T = TypeVar("T")
_CLOSING_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Submitted:
    """A flow on a cluster."""

    name: str
    namespace: str
    target: Connection

    def status(self) -> Result:
        """Return the flow as it is now. Raises ClusterError."""

        async def read(client: Client) -> JobFlow:
            return await find_flow(client, self.name)

        return Result(_with_client(self.target, read))

    def wait(self, timeout: float | None = None) -> Result:
        """Return the flow when it has ended. Raises TimeoutError after `timeout` seconds, and
        ClusterError, also if the flow was deleted."""

        async def until_end(client: Client) -> JobFlow:
            flow = await find_flow(client, self.name)
            key = key_of(flow)

            def has_ended(follower: FlowFollower) -> bool:
                return follower.flows[key].final or key in follower.deleted

            async with asyncio.timeout(timeout), following(client, [flow]) as follower:
                await follower.until(has_ended)
            # The TLS connection of a watch needs time to close before its event loop does
            # (aiohttp, Graceful Shutdown).
            await asyncio.sleep(_CLOSING_SECONDS)
            if not follower.flows[key].final:
                raise ClusterError(f"flow {self.name} was deleted before it had ended")
            return follower.flows[key]

        try:
            return Result(_with_client(self.target, until_end))
        except TimeoutError:
            raise TimeoutError(f"flow {self.name} has not ended after {timeout} s") from None


def submit(
    flow: NamedFlow,
    target: Connection,
    params: Mapping[str, Any],
    *,
    reuse: Submitted | Result | str | None = None,
    lenient: bool = False,
) -> Submitted:
    """Apply the templates of a flow and create it, to reuse another one or its name if one is
    given. Raises InvalidFlow and ClusterError."""
    sent = _send(flow, target, params, reuse=reuse, lenient=lenient)
    [meta] = [each.metadata for each in sent.created]
    return Submitted(meta.name, meta.namespace, replace(target, namespace=meta.namespace))


def schedule(cron: NamedCron, target: Connection, *, lenient: bool = False) -> Connection:
    """Apply a schedule, and return where it is. Raises InvalidFlow and ClusterError."""
    stored = _send(cron, target, {}, lenient=lenient).applied[-1].object
    return replace(target, namespace=stored["metadata"]["namespace"])


def trigger(name: str, target: Connection, params: Mapping[str, Any]) -> Submitted:
    """Create a flow of a schedule now, as `jobflow trigger` does. Raises ClusterError."""

    async def create(client: Client) -> Submitted:
        found = await find_cron(client, name)
        flow = await create_flow(client, manual_flow(found), param_nodes(params), name)
        meta = flow.metadata
        return Submitted(meta.name, meta.namespace, replace(target, namespace=meta.namespace))

    return _with_client(target, create)


def _send(
    obj: NamedFlow | NamedCron,
    target: Connection,
    params: Mapping[str, Any],
    *,
    reuse: Submitted | Result | str | None = None,
    lenient: bool,
) -> Sent:
    async def sent_to(client: Client) -> Sent:
        report = check_objects([obj], namespace=client.namespace, params=params, lenient=lenient)
        report.warnings = [each for each in report.warnings if each.path]
        show_warnings(report, [obj])
        if reuse is not None:
            set_reuse(await _choice(client, reuse), report.flows)
            await free_name(client, report.flows)
        sent = await send(client, report)
        if sent.missing_rights:
            raise ClusterError("\n".join(sent.missing_rights.values()))
        if sent.faults:
            raise InvalidFlow([from_manifest(each, report) for each in sent.faults])
        return sent

    return _with_client(target, sent_to)


async def _choice(client: Client, reuse: Submitted | Result | str) -> ReuseChoice:
    if isinstance(reuse, Result):
        return choice_of(reuse.flow)
    return choice_of(await find_flow(client, reuse if isinstance(reuse, str) else reuse.name))


def _with_client(target: Connection, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    async def connected() -> T:
        async with await connect(target) as client:
            return await work(client)

    try:
        with logs.silenced():
            return run_beside(connected)
    except (CommandError, ConfigError) as error:
        raise ClusterError(str(error)) from None
    except NetworkError as error:
        raise ClusterError(unreachable(error)) from None
