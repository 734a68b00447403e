"""Names of objects and steps for a shell to complete, read from the cluster if it answers soon."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS, Resource
from jobflow.client.errors import CommandError
from jobflow.client.flows.find_cron import CRON_PREFIXES
from jobflow.client.flows.find_flow import PREFIXES, connect, find_flow, first_names
from jobflow.client.options import Connection
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.credentials import ConfigError
from jobflow.runtime.event_loop import run

WITHIN_SECONDS = 2.0


def complete_flow(params: Mapping[str, Any], incomplete: str) -> list[str]:
    """Return the names of flows that start like this and are not given yet."""
    # `delete a a` would be a mistake
    given = params.get("flows") or ()
    found = _complete_kind(JOBFLOWS, PREFIXES, params, incomplete)
    return [name for name in found if name.rpartition("/")[2] not in given]


def complete_step(params: Mapping[str, Any], incomplete: str) -> list[str]:
    async def read(client: Client) -> Sequence[str]:
        flow = await find_flow(client, params.get("flow") or "")
        return [step.name for step in flow.all_steps]

    return [name for name in _answer(read, params) if name.startswith(incomplete)]


def complete_cron(params: Mapping[str, Any], incomplete: str) -> list[str]:
    return _complete_kind(CRONJOBFLOWS, CRON_PREFIXES, params, incomplete)


COMPLETERS = {"FLOW": complete_flow, "STEP": complete_step, "CJF": complete_cron}
"""By the word in the usage of a command."""


def _complete_kind(
    resource: Resource, prefixes: Collection[str], params: Mapping[str, Any], incomplete: str
) -> list[str]:
    """Return the names that start like this, with the prefix of the kind if it is written."""
    prefix, slash, start = incomplete.rpartition("/")
    if slash and prefix not in prefixes:
        return []
    # one page: nobody chooses among more names, and a shell waits for each
    names = _answer(partial(first_names, resource=resource), params)
    return [prefix + slash + name for name in names if name.startswith(start)]


def _answer(
    read: Callable[[Client], Awaitable[Sequence[str]]], params: Mapping[str, Any]
) -> Sequence[str]:
    """Return no names if they cannot be read: the user is typing, and cannot be told why."""

    async def answer() -> Sequence[str]:
        connection = Connection(**{each.name: params.get(each.name) for each in fields(Connection)})
        async with await connect(connection) as client, asyncio.timeout(WITHIN_SECONDS):
            return await read(client)

    logging.getLogger().setLevel(logging.CRITICAL)  # the line that is typed stays whole
    try:
        return run(answer(), is_brief=True)
    except (ApiError, CommandError, ConfigError, *NETWORK_ERRORS):
        return []
