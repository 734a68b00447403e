"""What happens to the API server, etcd and kube-controller-manager.

A stopped process keeps the requests that were sent to it, and executes them when it continues. No
client can withdraw them, so a stop is shorter than the time between two terms of leaders.
"""

import asyncio
import signal
import time

from chaos.schedule import Disturbance, Kind, Lane
from chaos.world import World
from support.cluster.control_plane import API_SERVER, CONTROLLERS, ETCD

RESTORE_OPTIONS = ((), ("--bump-revision=1000000", "--mark-compacted"))


async def kill_api_server(world: World, event: Disturbance) -> None:
    await asyncio.to_thread(world.plane.end, API_SERVER, hard=event.pick < 0.7)
    await asyncio.sleep(event.seconds)
    await asyncio.to_thread(world.plane.start_api_server)


async def kill_etcd(world: World, event: Disturbance) -> None:
    await asyncio.to_thread(world.plane.end, ETCD, hard=True)
    await asyncio.sleep(event.seconds)
    await asyncio.to_thread(world.plane.start_etcd)


async def kill_controllers(world: World, event: Disturbance) -> None:
    await asyncio.to_thread(world.plane.end, CONTROLLERS, hard=True)
    await asyncio.sleep(event.seconds)
    await asyncio.to_thread(world.plane.start_controllers)


async def stop_process(world: World, event: Disturbance) -> None:
    process = world.plane.processes[event.choose((API_SERVER, ETCD))]
    process.send_signal(signal.SIGSTOP)
    await asyncio.sleep(event.seconds)
    process.send_signal(signal.SIGCONT)


async def compact(world: World, event: Disturbance) -> None:
    await asyncio.to_thread(world.plane.compact)


async def restore(world: World, event: Disturbance) -> None:
    """Take a snapshot, wait, and restore it."""
    before = time.monotonic()
    snapshot = await asyncio.to_thread(world.plane.snapshot)
    await asyncio.sleep(event.seconds)
    await asyncio.to_thread(world.plane.restore, snapshot, *event.choose(RESTORE_OPTIONS))
    world.records.go_back_to(before)


LANE = Lane(
    (
        Kind("the API server is killed", kill_api_server, (1.0, 15.0)),
        Kind("etcd is killed", kill_etcd, (0.5, 8.0)),
        Kind("kube-controller-manager is killed", kill_controllers, (1.0, 5.0)),
        Kind("the API server or etcd is stopped", stop_process, (0.5, 3.0)),
        Kind("etcd is compacted", compact),
        Kind("etcd is restored from a snapshot", restore, (2.0, 8.0)),
    ),
    pauses=(2.0, 8.0),
)
