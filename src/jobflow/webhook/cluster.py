"""The webhook's knowledge of the cluster: this process's store, and live reads of namespaces."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from jobflow.api.meta import Object
from jobflow.api.resources import JOBFLOWS, NAMESPACES
from jobflow.core.admission.changes import Need, need_of
from jobflow.kube.client import Client, decoder
from jobflow.kube.errors import NETWORK_ERRORS, ApiError
from jobflow.store import Store
from jobflow.webhook.dry_run.api_server import DryRuns, Observe
from jobflow.webhook.dry_run.template_pods import DryRun

NAMESPACE_SECONDS = 3.0
"""Timeout of the read of a namespace; a review has 10 s."""
STEPS_AT_A_TIME = 10_000
"""Steps of flows that are searched before other tasks of the event loop run."""

log = structlog.get_logger(__name__)


class StoreCluster:
    """`judges.Cluster` over a store. `only` is the one namespace that is followed, or "". `unfit`
    returns why nothing may be judged now, `outdated` why the store may not be relied on, None if
    all is well. `observe` gets the result of every dry run."""

    def __init__(
        self,
        store: Store,
        client: Client,
        *,
        only: str = "",
        unfit: Callable[[], str | None] = lambda: None,
        outdated: Callable[[], str | None] = lambda: None,
        observe: Observe = lambda result: None,
    ) -> None:
        self._store = store
        self._client = client
        self._only = only
        self._dry_runs = DryRuns(client, observe)
        self.unfit = unfit
        self.outdated = outdated
        # methods of the store are the protocol's as they are
        self.templates = store.templates_in
        self.queues = store.queue_states

    def knows(self, namespace: str) -> bool:
        return self._store.synced.is_set() and self.follows(namespace)

    def follows(self, namespace: str) -> bool:
        return self._only in ("", namespace)

    async def needed_by(self, namespace: str, template: str) -> Sequence[Need]:
        """The search yields to other tasks, because a template may be in use a million times."""
        needs, searched = [], 0
        for flow in self._store.flows_using(namespace, template):
            if (need := need_of(flow, template)) is not None:
                needs.append(need)
            searched += len(flow.steps)
            # other reviews and the Lease wait for this loop
            if searched >= STEPS_AT_A_TIME:
                searched = 0
                await asyncio.sleep(0)
        return needs

    async def namespace_terminating(self, name: str) -> bool:
        """The namespace is read live: this question is too rare for a watch of all namespaces."""
        path = NAMESPACES.path("", name)
        try:
            body = await self._client.request("GET", path, timeout=NAMESPACE_SECONDS)
        except (ApiError, *NETWORK_ERRORS) as error:
            log.warning("namespace cannot be read", namespace=name, error=str(error))
            return False
        return decoder(Object).decode(body).metadata.deletion_timestamp is not None

    async def flow_is_gone(self, namespace: str, name: str, uid: str) -> bool:
        """The flow is read live: the garbage collector, which deletes its child flows, does not
        wait for our copy."""
        path = JOBFLOWS.path(namespace, name)
        try:
            body = await self._client.request("GET", path, timeout=NAMESPACE_SECONDS)
        except (ApiError, *NETWORK_ERRORS) as error:
            if isinstance(error, ApiError) and error.not_found:
                return True
            log.warning("flow cannot be read", flow=f"{namespace}/{name}", error=str(error))
            return False
        found = decoder(Object).decode(body).metadata
        return found.uid != uid or found.deletion_timestamp is not None

    async def dry_run(self, namespace: str, templates: Sequence[bytes]) -> Sequence[DryRun | None]:
        return await self._dry_runs.of(namespace, templates)
