"""The namespaces that a page lets the user choose from."""

from __future__ import annotations

from jobflow.api.resources import NAMESPACES
from jobflow.client.flows.find_flow import FlowObjects
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.connections import METADATA_ONLY


async def list_namespaces(client: Client, chosen: str) -> list[str]:
    """Return the names of all namespaces, if the user may list them, with the client's own and the
    chosen one ("" is none) in any case."""
    names = {client.namespace, chosen}
    try:
        async for page in client.list(NAMESPACES, FlowObjects, accept=METADATA_ONLY):
            names |= {item.metadata.name for item in page.items}
    except (ApiError, *NETWORK_ERRORS):  # the list is a convenience; others say what is wrong
        pass
    return sorted(names - {""})
