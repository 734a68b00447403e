"""The controller is killed at each of its API requests, then started again on the same server."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from jobflow.api.resources import JOBS
from jobflow.api.volcano.job import Job
from support.sandbox.crashing_requests import Point, first_life, points
from support.sandbox.job_pods import PodEnds
from support.sandbox.running_controller import DIAMOND, Cluster, Ends, cluster, flow, template


@dataclass
class Story:
    steps: Mapping[str, str]
    jobs: Mapping[str, str]
    """The phases of each job that has to be created."""
    phase: str = "Succeed"
    spec: Mapping[str, Any] | None = None
    requests: int = 0
    """Minimum number of requests to crash at."""
    jobs_exist: bool = True
    """Whether the jobs exist at the end."""
    driver: type[Ends] = Ends
    says: Mapping[str, str] = field(default_factory=dict)
    """Words in the message of each step at the end."""


async def run_story(world: Cluster, story: Story, point: Point) -> bool:
    """Run the story; vcjobs continue while the controller is down. Return whether the crash point
    was reached before the end of the flow."""
    await world.apply(*(template(name) for name in story.steps))
    await world.apply(flow("f", story.steps, **(story.spec or {})))
    async with world.ends(story.jobs, otherwise="", driver=story.driver):
        reached = await first_life(world, point)
        await _restart(world, story, point)
    return reached


async def _restart(world: Cluster, story: Story, point: Point) -> None:
    async with world.controller():
        done = await world.ended("f")
        assert done.status.state.phase == story.phase, point
        conditions = done.status.conditions or {}
        assert all(entry.attempts <= 1 for entry in conditions.values()), point
        for step, words in story.says.items():
            assert words in str(conditions[f"f-{step}"]), point
        if not story.jobs_exist:
            await world.seen(JOBS, Job, lambda jobs: not jobs)
    created = world.count("POST", JOBS)
    assert created == len(story.jobs), f"{created} vcjobs made, {point}"
    if story.jobs_exist:
        assert (await world.jobs()).keys() == story.jobs.keys(), point


def jobs(**outcomes: str) -> dict[str, str]:
    return {f"f-{step}": outcome for step, outcome in outcomes.items()}


DONE = dict.fromkeys("abcde", "Completed")
FAILED = jobs(a="Completed", b="Completed", c="Completed", d="Failed")
SUCCEEDED = {"taskStatusList": [{"taskName": "main", "phase": "Succeeded"}]}
PROBED = [{"name": "a"}, {"name": "b", "dependsOn": {"targets": ["a"], "probe": SUCCEEDED}}]
STORIES = {
    "diamond": Story(DIAMOND, jobs(**DONE), requests=20),
    "phases": Story(DIAMOND, jobs(**dict.fromkeys("abcde", "Pending Running Completed"))),
    "failure": Story(DIAMOND, FAILED, phase="Failed", requests=18),
    "delete": Story(
        DIAMOND, jobs(**DONE), spec={"jobRetainPolicy": "delete"}, requests=25, jobs_exist=False
    ),
    "probe that passes, outputs": Story(
        {"a": "", "b": "a"},
        jobs(a="Running Completed", b="Completed"),
        spec={"flows": PROBED},
        requests=10,
        driver=PodEnds,
        says={"a": "from f-a", "b": "from f-b"},
    ),
    "probe that cannot pass": Story(
        {"a": "", "b": "a"},
        jobs(a="Completed"),
        spec={"flows": PROBED},
        phase="Failed",
        requests=10,
        says={"b": "ProbeUnsatisfiable"},
    ),
    "why it failed": Story(
        {"a": ""},
        jobs(a="Failed"),
        phase="Failed",
        requests=8,
        driver=PodEnds,
        says={"a": "exit code 3"},
    ),
}


@pytest.mark.usefixtures("events_at_once")
@pytest.mark.sampled(6)
@pytest.mark.law
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", STORIES, ids=lambda name: name.replace(" ", "-"))
async def test_each_job_is_created_once_wherever_the_controller_crashes(
    name: str, after: bool
) -> None:
    for point in points(list(STORIES).index(name) + after, after=after):
        async with cluster() as world:
            if not await run_story(world, STORIES[name], point):
                break
    assert point.number >= STORIES[name].requests, "the crash points ran out early"
