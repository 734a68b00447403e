"""One interface to the sandbox's API server and a real kube-apiserver."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from jobflow.api.resources import (
    EVENTS,
    JOBFLOWS,
    JOBS,
    JOBTEMPLATES,
    NAMESPACES,
    PODS,
    VALIDATING_WEBHOOKS,
)
from jobflow.kube.client import Client
from support.cluster.control_plane import token
from support.cluster.kubectl import Kubectl
from support.cluster.real_cluster import RealCluster
from support.network.anonymous import anonymous
from support.network.webhook_server import Hook, configuration
from support.sandbox.api_server import ApiServer
from support.sandbox.rest_client import Rest, flow

WITHIN_SECONDS = 30.0
COLLECTED_SECONDS = 90.0
"""In which the garbage collector deletes what has lost its owner: kube-controller-manager looks for
new kinds every 30 seconds."""


class Server(Rest):
    """A client of one server, with its own namespace."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        namespace: str,
        client: Client,
        kubectl: Kubectl,
        expire: Callable[[], Awaitable[None]],
        *,
        real: bool,
    ) -> None:
        self._session = session
        self.real = real
        """Whether this is a kube-apiserver. Only for features that the sandbox omits by design."""
        self.namespace = namespace
        self.client = client
        """The product's client."""
        self.kubectl = kubectl
        self.expire = expire
        """Makes the server forget all but the newest versions of flows."""
        self.flows = JOBFLOWS.path(namespace)
        self.templates = JOBTEMPLATES.path(namespace)
        self.vcjobs = JOBS.path(namespace)
        self.pods = PODS.path(namespace)
        self.events = EVENTS.path(namespace)

    @property
    def home(self) -> str:
        """Path of the namespace."""
        return NAMESPACES.path(name=self.namespace)

    async def version(self) -> str:
        """Return the current version of a list of flows."""
        return str((await self.get(self.flows)).meta["resourceVersion"])

    async def until(
        self, path: str, holds: Callable[[Any], bool], *, within: float = WITHIN_SECONDS
    ) -> Any:
        """Return the object at this path, or None if it is missing, once the condition holds."""
        async with asyncio.timeout(within):
            while True:
                answer = await self.get(path)
                found = None if answer.code == 404 else answer.json
                if holds(found):
                    return found
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def with_webhooks(self, *webhooks: dict[str, Any], hook: Hook) -> AsyncIterator[None]:
        """Register validating webhooks for this namespace, and wait until the server calls them,
        which a real API server does after a moment. It calls `hook` first."""
        manifest = configuration(*webhooks)
        manifest["metadata"]["name"] = self.namespace
        selector = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        for webhook in manifest["webhooks"]:
            webhook["namespaceSelector"] = selector
        path = VALIDATING_WEBHOOKS.path()
        await self.create(path, manifest)
        try:
            async with asyncio.timeout(WITHIN_SECONDS):
                while not hook.requests:
                    await self.post(self.flows, flow("first"), dryRun="All")
                    await asyncio.sleep(0.02)
            hook.requests.clear()
            yield
        finally:
            await self.delete(f"{path}/{self.namespace}")


@asynccontextmanager
async def sandbox_server(namespace: str, home: Path) -> AsyncIterator[Server]:
    """A new sandbox server."""
    async with (
        ApiServer(bookmark_seconds=1) as server,
        Client(anonymous(server.url), namespace=namespace) as client,
    ):
        async with aiohttp.ClientSession(server.url) as session:
            server.write_kubeconfig(home / "kubeconfig")

            async def expire() -> None:
                server.expire_history()

            kubectl = Kubectl(home / "kubeconfig", home)
            api = Server(session, namespace, client, kubectl, expire, real=False)
            await api.create(NAMESPACES.path(), {"metadata": {"name": namespace}})
            yield api


@asynccontextmanager
async def real_server(real: RealCluster, prefix: str, home: Path) -> AsyncIterator[Server]:
    """The kube-apiserver of the test session."""
    head = {"Authorization": f"Bearer {token('admin')}"}
    connector = aiohttp.TCPConnector(ssl=real.plane.trust())
    namespace = real.new_namespace(prefix)
    async with (
        await Client.from_kubeconfig(str(real.plane.kubeconfig("admin"))) as client,
        aiohttp.ClientSession(real.plane.url, headers=head, connector=connector) as session,
    ):

        async def expire() -> None:
            await asyncio.to_thread(real.plane.compact)

        kubectl = Kubectl(real.plane.kubeconfig("admin"), home)
        api = Server(session, namespace, client, kubectl, expire, real=True)
        yield api
        await api.delete(api.home)
