"""Child flows of flows on a cluster, followed while their flows run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.client.errors import CommandError, print_error
from jobflow.client.flows.children import may_have_children
from jobflow.client.flows.follow import FlowFollower, Scope, Show, follow_scope
from jobflow.core.manifests.owner import root_label
from jobflow.kube.client import Client
from jobflow.kube.errors import NETWORK_ERRORS

_MOST_ROOTS = 20
"""Outermost flows that a label selector names; with more, it selects all child flows."""


@asynccontextmanager
async def following_children(
    client: Client, flows: Sequence[JobFlow], show: Show
) -> AsyncIterator[Sequence[FlowFollower]]:
    """Follow the child flows below these flows, at any level, while the body runs: those that exist
    and those that are created later. `show` gets each as it is now, then at each change. Yield a
    follower for each namespace; none if no step runs a flow, or, with a warning, if the child flows
    cannot be listed."""
    roots: dict[str, set[str]] = {}
    for flow in filter(may_have_children, flows):
        roots.setdefault(flow.metadata.namespace, set()).add(root_label(flow))
    async with AsyncExitStack() as stack:
        followers: list[FlowFollower] = []
        for namespace, names in roots.items():
            scope = _scope(namespace, names)
            try:
                follower = follow_scope(client, scope, show)
                followers.append(await stack.enter_async_context(follower))
            except (CommandError, *NETWORK_ERRORS) as error:
                print_error(f"child flows cannot be followed: {error}", severity="warning")
        yield followers


def _scope(namespace: str, roots: set[str]) -> Scope:
    selector = labels.ROOT
    if len(roots) <= _MOST_ROOTS:
        selector += f" in ({','.join(sorted(roots))})"
    return Scope(namespace, [("labelSelector", selector)], lambda flow: root_label(flow) in roots)
