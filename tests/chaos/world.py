"""The world of the chaos: a control plane, two replicas, Volcano and the flows of a namespace."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.records import Records
from chaos.replica import Replica, replica
from chaos.volcano import Volcano
from support.cluster.control_plane import ControlPlane
from support.cluster.real_cluster import RealCluster
from support.sandbox.servers import Server, real_server
from support.time.alongside import alongside

USERS = ("jobflow", "jobflow-2")
"""The users of the replicas."""


@dataclass(frozen=True)
class World:
    """What disturbances act on."""

    real: RealCluster
    api: Server
    """Requests as an administrator, without anything in between."""
    volcano: Volcano
    replicas: dict[str, Replica]
    """By the names of their users."""
    records: Records

    @property
    def plane(self) -> ControlPlane:
        return self.real.plane


@asynccontextmanager
async def world(real: RealCluster, home: Path) -> AsyncIterator[World]:
    """Run everything while the body runs."""
    records = Records()
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(real_server(real, "chaos", home))
        volcano = Volcano(api.client, api.namespace, records)
        await stack.enter_async_context(alongside(volcano.run()))
        replicas = {
            user: await stack.enter_async_context(replica(real, home, api.namespace, user))
            for user in USERS
        }
        yield World(real, api, volcano, replicas, records)
