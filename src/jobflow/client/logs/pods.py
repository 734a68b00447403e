"""The pods whose logs are read, and the rights that this needs."""

from __future__ import annotations

from contextlib import aclosing

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import PODS, ListMeta, Struct
from jobflow.api.volcano.pod import Pod
from jobflow.client.errors import FAILED, CommandError
from jobflow.client.flows.children import FlowFamily, may_have_children, read_children
from jobflow.client.flows.find_flow import raise_unless_missing
from jobflow.client.logs.selection import (
    LogSelection,
    pods_queries,
)
from jobflow.kube.client import ApiError, Client, Query

ALL = LogSelection()
SILENCE_SECONDS = 60.0
"""How long an API server may take to send more of a log that it has."""


class _Pods(Struct, frozen=True, kw_only=True):
    metadata: ListMeta = ListMeta()
    items: list[Pod] = []


async def read_family(client: Client, flow: JobFlow, selection: LogSelection) -> FlowFamily:
    """Return the flow with the flows below it, if the selected step may have some. Raises
    CommandError."""
    if not may_have_children(flow, selection.step):
        return FlowFamily(flow, (), selection.above)
    return FlowFamily(flow, (await read_children(client, [flow])).values(), selection.above)


async def list_pods(client: Client, flow: JobFlow, selection: LogSelection) -> list[Pod]:
    """Return the pods that the labels select. Raises CommandError."""
    return [
        pod for query in pods_queries(flow, selection) for pod in await _list(client, flow, query)
    ]


async def _list(client: Client, flow: JobFlow, query: Query) -> list[Pod]:
    found: list[Pod] = []
    pages = client.list(PODS, _Pods, namespace=flow.metadata.namespace, query=query)
    try:
        async with aclosing(pages):
            async for page in pages:
                found += page.items
    except ApiError as error:
        check_rights(error, flow)
        raise CommandError(FAILED, error.message) from None
    return found


def check_rights(error: ApiError, flow: JobFlow) -> None:
    """Raise CommandError if the user must not read logs."""
    if error.code == 401:
        raise_unless_missing(error)
    if error.code == 403:
        needed = (
            f'the rights to list pods and get pods/log in namespace "{flow.metadata.namespace}"'
        )
        raise CommandError(FAILED, f"logs need {needed}: {error.message}") from None
