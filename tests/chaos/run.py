"""One run of the chaos: the disturbances, the rest after them, and the verdict."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from chaos import control_plane, invariants, replicas, users
from chaos.schedule import Disturbance, Lane, draw
from chaos.world import USERS, World, world
from jobflow.api.volcano.command import Action
from support.cluster.real_cluster import RealCluster

LANES = {
    "control plane": control_plane.LANE,
    **dict.fromkeys(USERS, replicas.LANE),
    "users": users.STEERING,
    "flows": users.SUBMITTING,
}
SETTLED_SECONDS = 300.0
"""Within which all flows finish once nothing disturbs them."""
AGREED_SECONDS = 120.0
"""Within which statuses agree with jobs after that: the garbage collector takes its time."""


async def chaos(real: RealCluster, home: Path, seed: int, seconds: float) -> list[str]:
    """Return the violations of the invariants. Prints what happens."""
    print(f"seed {seed}, {seconds:g} s")
    schedule = draw(seed, seconds, LANES)
    async with world(real, home) as made:
        await users.create_templates(made)
        async with asyncio.TaskGroup() as lanes:
            for name, lane in LANES.items():
                events = [event for event in schedule if event.lane == name]
                lanes.create_task(disturb(made, lane, events))
        print("no more disturbances")
        found = await settle(made)
        print(*found, f"seed {seed}: {len(found)} violations", sep="\n")
        for replica in made.replicas.values():
            await replica.stop(hard=False)
    return found


async def disturb(made: World, lane: Lane, events: Iterable[Disturbance]) -> None:
    """Cause the disturbances of a lane, each at its time, or later if the one before took long."""
    began = time.monotonic()
    for event in events:
        late = time.monotonic() - began - event.at
        await asyncio.sleep(max(-late, lane.pauses[0]))
        print(event, flush=True)
        await event.kind.cause(made, event)


async def settle(made: World) -> list[str]:
    """Wait until all flows have finished, and return what is wrong then."""
    await users.create_templates(made)
    unfinished = await until_empty(lambda: unfinished_flows(made), SETTLED_SECONDS)
    if unfinished:
        return unfinished
    disagreeing = await until_empty(lambda: disagreements(made), AGREED_SECONDS)
    asked = [
        call
        for call in await asyncio.to_thread(made.real.audit.asked, made.api.namespace)
        if call.user in USERS
    ]
    phases = Counter(flow.status.state.phase for flow in made.volcano.flows)
    print(f"{dict(phases)} flows, {len(made.records.attempts)} jobs")
    return [
        *disagreeing,
        *invariants.no_run_twice(made.records),
        *invariants.no_completed_step_again(made.records),
        *invariants.one_leader_writes(asked),
    ]


async def until_empty(found: Callable[[], Awaitable[list[str]]], seconds: float) -> list[str]:
    """Ask until nothing is found any more; return what is found after these seconds."""
    deadline = time.monotonic() + seconds
    while (left := await found()) and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(1.0)
    return left


async def unfinished_flows(made: World) -> list[str]:
    """Return the flows that have not finished, and resume those that are still suspended."""
    flows, found = made.volcano.flows, []
    if flows.failing or not flows.synced:
        found.append("the API server does not answer")
    for flow in [each for each in flows if not each.final]:
        found.append(f"{flow.metadata.name} has not finished: {flow.status.state}")
        if flow.status.suspended_at is not None and not flow.is_child:
            name = f"resume-{flow.metadata.name}-{time.time_ns()}"
            await users.command(made, flow, Action.RESUME_JOB, name)
    return found


async def disagreements(made: World) -> list[str]:
    """Return what is wrong with the stored objects after all flows have finished."""
    flows = list(made.volcano.flows)
    jobs = {job.metadata.name: job for job in made.volcano.jobs}
    return [
        *invariants.flows_succeed(flows, jobs.values(), made.records),
        *invariants.statuses_agree(flows, jobs),
    ]
