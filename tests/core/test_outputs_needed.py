"""Outputs that an expression or a reference names are read before the end that they belong to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobflow.api.control import Patch
from jobflow.api.jobflow import DependsOn, Step
from jobflow.core.actions import PodsRead
from looped import leaves, repeated, stepped
from worlds import World, world_of

NAMED = {"when": "steps['a'].outputs.n > 1"}
PATCHED = {"patch": Patch(job_spec={"queue": "$(steps.a.outputs.q)"})}


def needing(**fields: object) -> World:
    """b looks at what a leaves; a runs."""
    b = Step(name="b", depends_on=DependsOn(targets=["a"]), **fields)  # type: ignore[arg-type]
    return world_of([Step(name="a"), b]).settled()


@pytest.mark.parametrize("fields", [NAMED, PATCHED], ids=["in an expression", "in a patch"])
def test_they_are_read_where_nothing_was_watched(fields: dict[str, object]) -> None:
    world = leaves(needing(**fields), "f-a", '{"n": 2, "q": "x"}', watched=False)
    planned = world.plan()
    assert planned.reads == ["f-a"]
    assert planned.phases["a"] == "Pending"
    world = world.settled()
    assert world.plan().conditions["a"].outputs == {"n": 2, "q": "x"}
    assert world.plan().conditions["a"].reason == ""
    assert "f-b" in world.jobs


def test_nothing_is_read_where_nobody_asks() -> None:
    world = leaves(stepped().settled(), "f-a", '{"n": 2}', watched=False)
    assert world.plan().reads == []
    assert world.plan().phases["a"] == "Completed"
    assert world.plan().conditions["a"].reason == ""


def test_a_pod_that_is_gone_leaves_nothing() -> None:
    world = needing(**NAMED).later(1).ended("f-a", "Completed")
    assert world.plan().reads == ["f-a"]
    condition = world.settled().plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Completed", "OutputsMissing")
    assert condition.message == "its outputs could not be read: its pod is gone"
    assert condition.outputs is None


def test_pods_that_cannot_be_read_leave_nothing() -> None:
    world = needing(**NAMED).later(1).ended("f-a", "Completed")
    world = replace(world, read={"uid-f-a": PodsRead(trouble="503 from the API server")})
    condition = world.plan().conditions["a"]
    assert (condition.phase, condition.reason) == ("Completed", "OutputsMissing")
    assert condition.message.endswith("503 from the API server")


def test_a_pod_that_said_nothing_misses_nothing() -> None:
    world = leaves(needing(**NAMED), "f-a", "", watched=False)
    condition = world.settled().plan().conditions["a"]
    assert (condition.phase, condition.reason, condition.outputs) == ("Completed", "", None)


def test_the_event_of_missing_outputs_is_a_warning() -> None:
    world = needing(**NAMED).later(1).ended("f-a", "Completed").carried_out()
    events = [(event.type, event.reason) for event in world.plan().plan.events]
    assert ("Warning", "OutputsMissing") in events


def test_until_counts_as_well() -> None:
    world = leaves(repeated().settled(), "f-a-0", '{"done": true}', watched=False)
    assert world.plan().reads == ["f-a-0"]
    assert world.settled().plan().phases["a"] == "Completed"
