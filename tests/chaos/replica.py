"""A replica of `jobflow serve` whose clock and connection to the API server can be wrong."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from chaos import false_clock
from support.cluster.real_cluster import RealCluster
from support.cluster.served import Served, until
from support.network.cut_connection import Hop
from support.network.faulty_proxy import FaultyProxy


class Replica:
    """A process that reaches the API server through a hop, and a proxy behind it."""

    def __init__(
        self, real: RealCluster, home: Path, namespace: str, user: str, hop: Hop, proxy: FaultyProxy
    ) -> None:
        self.user, self.hop, self.proxy = user, hop, proxy
        self._clock = home / f"clock-{user}"
        self.set_clock(0)
        self.serve = Served(
            real,
            home,
            *("--system-namespace", namespace, "--shutdown-delay=0s"),
            user=user,
            webhook=False,
            kubeconfig=real.plane.kubeconfig(user, through=f"http://127.0.0.1:{hop.port}"),
            under=(sys.executable, false_clock.__file__, str(self._clock)),
        )

    def set_clock(self, seconds: int) -> None:
        """Let its clock be ahead by these seconds from its next start on."""
        self._clock.write_text(str(seconds))

    async def start(self) -> None:
        """Start it; returns as soon as it answers, whether it is ready or not."""
        self.serve.launch()
        await until(lambda: self.serve.waiting_for() is not None, within=120.0)

    async def stop(self, *, hard: bool) -> None:
        """End it by SIGKILL, or by SIGTERM, after which it must end well."""
        await asyncio.to_thread(self.serve.kill if hard else self.serve.stop)


@asynccontextmanager
async def replica(
    real: RealCluster, home: Path, namespace: str, user: str
) -> AsyncIterator[Replica]:
    """Run a replica while the body runs. The body may end it and start it again."""
    async with FaultyProxy(real.plane) as proxy, Hop(proxy) as hop:
        made = Replica(real, home, namespace, user, hop, proxy)
        await made.start()
        try:
            yield made
        finally:
            if made.serve.is_running:
                await made.stop(hard=True)
