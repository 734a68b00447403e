"""An API server whose etcd was restored from a snapshot while the controller ran: flows go on from
what it holds now."""

from collections.abc import Callable
from copy import copy
from functools import partial

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBS
from jobflow.kube.client import Client
from jobflow.sandbox.apiserver.storage import Storage
from support.network.anonymous import anonymous
from support.sandbox.api_server import compact
from support.sandbox.following_replica import FollowingReplica
from support.sandbox.running_controller import Cluster, flow, set_phase, template
from support.time.alongside import until


def snapshot(storage: Storage) -> Callable[[], None]:
    """Return a function that restores the objects of now, at later revisions, and ends all watches:
    `etcdutl snapshot restore --bump-revision N --mark-compacted`."""
    held = {
        name: (copy(bucket.objects), copy(bucket.keys)) for name, bucket in storage._buckets.items()
    }

    def restore() -> None:
        storage.revision += 1000
        compact(storage)
        for name, bucket in storage._buckets.items():
            bucket.objects, bucket.keys = map(copy, held.get(name, ({}, [])))
        storage.close_watches()

    return restore


def is_recorded(job: str, flow: JobFlow) -> bool:
    return job in (flow.status.conditions or {})


async def test_flows_continue_from_the_restored_state(world: Cluster) -> None:
    """The end of f-a, the status that says so, f-b and f-c are lost."""
    await world.apply(*map(template, "abc"), flow("f", {"a": "", "b": "a", "c": "b"}))
    async with Client(anonymous(world.server.url)) as client:
        replica = FollowingReplica(client)
        async with replica.leading():
            await world.until_jobs(f_a="")
            await world.until("f", partial(is_recorded, "f-a"))
            restore = snapshot(world.server.storage)
            await set_phase(world.client, "f-a", "Completed")
            await world.until_jobs(f_b="")
            await set_phase(world.client, "f-b", "Completed")
            await world.until_jobs(f_c="")
            await world.until("f", partial(is_recorded, "f-c"))
            restore()
            await until(lambda: {job.metadata.name for job in replica.store.jobs} == {"f-a"})
            assert set(await world.jobs()) == {"f-a"}
            async with world.ends():
                done = await world.ended("f")
        await replica.end()
    assert done.status.state.phase == "Succeed"
    assert world.count("POST", JOBS) == 5
