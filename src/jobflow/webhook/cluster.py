"""What the webhook knows of the cluster: this process's copies, and live reads of namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

import structlog

from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.meta import Object
from jobflow.api.resources import NAMESPACES
from jobflow.core.admission.changes import Need, need_of
from jobflow.kube.client import Client, decoder
from jobflow.kube.errors import NETWORK_ERRORS, ApiError
from jobflow.store import Store
from jobflow.webhook.dry_run.api_server import DryRuns, Observe
from jobflow.webhook.dry_run.template_pods import DryRun

NAMESPACE_SECONDS = 3.0
"""How long a refused delete waits for the state of its namespace; a review has 10 s."""

STEPS_AT_A_TIME = 10_000
"""Steps of flows that are looked at before others have their turn."""

log = structlog.get_logger(__name__)


def _unobserved(result: str) -> None:
    """For dry runs that nobody counts."""


class StoreCluster:
    """`judges.Cluster` over a store. `only` is the one namespace that is followed, or empty;
    `unfit` says why nothing may be judged; `observe` is told of dry runs."""

    def __init__(
        self,
        store: Store,
        client: Client,
        *,
        only: str = "",
        unfit: Callable[[], str] = lambda: "",
        observe: Observe = _unobserved,
    ) -> None:
        self._store = store
        self._client = client
        self._only = only
        self._unfit = unfit
        self._dry_runs = DryRuns(client, observe)

    def unfit(self) -> str:
        """Why nothing may be judged at present; empty where it may."""
        return self._unfit()

    def knows(self, namespace: str) -> bool:
        """Whether the namespace is followed and has been read."""
        return self._store.synced and self.follows(namespace)

    def follows(self, namespace: str) -> bool:
        """Whether it is one of those that this process is to look after."""
        return self._only in ("", namespace)

    def templates(self, namespace: str) -> Mapping[str, JobTemplate]:
        """The templates of a namespace by name."""
        return self._store.templates(namespace)

    def queues(self) -> Mapping[str, str] | None:
        """Queue name to state; None where the kind is not served."""
        return self._store.queues()

    async def needed_by(self, namespace: str, template: str) -> Sequence[Need]:
        """The flows of a namespace that still need this template. Others have their turn after
        every STEPS_AT_A_TIME steps, because a template may be in use a million times."""
        needs, walked = [], 0
        for flow in self._store.flows_using(namespace, template):
            if (need := need_of(flow, template)) is not None:
                needs.append(need)
            walked += len(flow.steps)
            if walked >= STEPS_AT_A_TIME:
                walked = 0
                await asyncio.sleep(0)
        return needs

    async def namespace_terminating(self, name: str) -> bool:
        """Read live, for a store of namespaces would only serve this rare question."""
        path = NAMESPACES.path("", name)
        try:
            body = await self._client.request("GET", path, timeout=NAMESPACE_SECONDS)
        except (ApiError, *NETWORK_ERRORS) as error:
            log.warning("namespace cannot be read", namespace=name, error=str(error))
            return False
        return decoder(Object).decode(body).metadata.deletion_timestamp is not None

    async def dry_run(self, namespace: str, templates: Sequence[bytes]) -> Sequence[DryRun | None]:
        """By the API server, which knows what its own pods may be."""
        return await self._dry_runs.of(namespace, templates)
