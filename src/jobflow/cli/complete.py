"""Names of objects and steps for a shell to complete, read from the cluster if it answers soon."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from jobflow.api.resources import JOBFLOWS
from jobflow.client.errors import CommandError
from jobflow.client.flows.find_cron import CRON_PREFIXES, cron_names
from jobflow.client.flows.find_flow import PREFIXES, FlowObjects, connect, find_flow
from jobflow.client.options import Connection
from jobflow.kube.client import NETWORK_ERRORS, ApiError
from jobflow.kube.connections import METADATA_ONLY
from jobflow.kube.credentials import ConfigError
from jobflow.runtime.event_loop import run

WITHIN_SECONDS = 2.0


def complete_flow_names(params: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the names of flows that start like this; of very many, those of the first page."""
    prefix, slash, _ = incomplete.rpartition("/")
    if slash and prefix not in PREFIXES:
        return []
    given = params.get("flows") or ()
    names = [name for name in _answer(_flow_names(_connection(params))) if name not in given]
    return [
        name for name in (prefix + slash + each for each in names) if name.startswith(incomplete)
    ]


def complete_step_names(params: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the steps of the flow before it that start like this."""
    names = _answer(_step_names(_connection(params), params.get("flow") or ""))
    return [name for name in names if name.startswith(incomplete)]


def complete_cron_names(params: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the names of CronJobFlows that start like this."""
    prefix, slash, _ = incomplete.rpartition("/")
    if slash and prefix not in CRON_PREFIXES:
        return []
    names = _answer(_cron_names(_connection(params)))
    return [
        name for name in (prefix + slash + each for each in names) if name.startswith(incomplete)
    ]


def _connection(params: Mapping[str, Any]) -> Connection:
    fields = ("namespace", "kubeconfig", "context", "impersonate")
    return Connection(*(params.get(field) for field in fields))


def _answer(names: Coroutine[Any, Any, list[str]]) -> list[str]:
    """Return no names if they cannot be read: the user is typing, and cannot be told why."""
    logging.getLogger().setLevel(logging.CRITICAL)
    try:
        return run(names, is_brief=True)
    except (ApiError, CommandError, ConfigError, *NETWORK_ERRORS):
        return []


async def _flow_names(connection: Connection) -> list[str]:
    async with await connect(connection) as client, asyncio.timeout(WITHIN_SECONDS):
        pages = client.list(JOBFLOWS, FlowObjects, namespace=client.namespace, accept=METADATA_ONLY)
        try:
            async for page in pages:
                return [item.metadata.name for item in page.items]
        finally:
            await pages.aclose()
    return []


async def _cron_names(connection: Connection) -> list[str]:
    async with await connect(connection) as client, asyncio.timeout(WITHIN_SECONDS):
        return await cron_names(client)


async def _step_names(connection: Connection, name: str) -> list[str]:
    async with await connect(connection) as client, asyncio.timeout(WITHIN_SECONDS):
        return [step.name for step in (await find_flow(client, name)).all_steps]
