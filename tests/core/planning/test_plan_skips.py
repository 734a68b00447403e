"""`plan` and the three kinds of Skipped: what comes of a step by how its two targets ended."""

from __future__ import annotations

import pytest

from support.plan.plan_world import World, after, flow

#: a and b end so: by their own vcjob, or skipped by what is before them.
STEPS = {
    "ran": {"phase": "Completed"},
    "broke": {"phase": "Failed"},
    "runs": {"phase": "Running"},
    "aborted": {"phase": "Aborted"},
    "not-taken": {"depends_on": after("fine", condition="Failed")},
    "behind": {"depends_on": after("broken")},
    "stopped": {"depends_on": after("fine")},
}


def world_with(a: str, b: str, strategy: str, condition: str) -> World:
    """`last` depends on a and b; `broken` has failed where one of them was skipped for it."""
    kinds = {"a": STEPS[a], "b": STEPS[b]}
    before = ["fine"] + (["broken"] if {a, b} & {"behind", "stopped"} else [])
    entries = [name for name, kind in kinds.items() if "phase" in kind]
    skipped = {name: kind["depends_on"] for name, kind in kinds.items() if "depends_on" in kind}
    last = after("a b", strategy=strategy, condition=condition)
    world = flow(*before, *entries, **skipped, last=last)
    phases = {name: str(kind["phase"]) for name, kind in kinds.items() if "phase" in kind}
    broken = {"broken": "Failed"} if "broken" in before else {}
    return world.with_jobs(fine="Completed", **broken, **phases)


def fate(world: World) -> str:
    planned = world.plan()
    if "f-last" in planned.creates:
        return "starts"
    return planned.skipped.get("last") or planned.held_up.get("last", "waits")


@pytest.mark.parametrize(
    ("condition", "a", "b", "of_all", "of_any"),
    [
        ("Completed", "ran", "ran", "starts", "starts"),
        ("Completed", "ran", "runs", "waits", "starts"),
        ("Completed", "ran", "not-taken", "starts", "starts"),
        ("Completed", "runs", "not-taken", "waits", "waits"),
        ("Completed", "not-taken", "not-taken", "NotTaken", "NotTaken"),
        ("Completed", "broke", "broke", "UpstreamFailed", "UpstreamFailed"),
        ("Completed", "aborted", "not-taken", "UpstreamFailed", "UpstreamFailed"),
        ("Completed", "broke", "runs", "UpstreamFailed", "Stopped"),
        ("Completed", "broke", "ran", "UpstreamFailed", "Stopped"),
        ("Completed", "behind", "not-taken", "UpstreamFailed", "UpstreamFailed"),
        ("Completed", "stopped", "not-taken", "Stopped", "Stopped"),
        ("Completed", "stopped", "behind", "UpstreamFailed", "UpstreamFailed"),
        ("Failed", "broke", "broke", "starts", "starts"),
        ("Failed", "broke", "aborted", "starts", "starts"),
        ("Failed", "broke", "runs", "waits", "starts"),
        ("Failed", "broke", "ran", "NotTaken", "starts"),
        ("Failed", "broke", "not-taken", "starts", "starts"),
        ("Failed", "ran", "ran", "NotTaken", "NotTaken"),
        ("Failed", "ran", "runs", "waits", "waits"),
        ("Failed", "ran", "not-taken", "NotTaken", "NotTaken"),
        ("Failed", "ran", "behind", "UpstreamFailed", "UpstreamFailed"),
        ("Failed", "broke", "behind", "UpstreamFailed", "starts"),
        ("Failed", "ran", "stopped", "Stopped", "Stopped"),
        ("Failed", "broke", "stopped", "Stopped", "starts"),
        ("Finished", "ran", "broke", "starts", "starts"),
        ("Finished", "runs", "broke", "waits", "starts"),
        ("Finished", "behind", "ran", "starts", "starts"),
        ("Finished", "behind", "not-taken", "starts", "starts"),
        ("Finished", "stopped", "ran", "Stopped", "starts"),
        ("Finished", "stopped", "behind", "Stopped", "starts"),
        ("Finished", "not-taken", "not-taken", "NotTaken", "NotTaken"),
        ("Running", "runs", "runs", "starts", "starts"),
        ("Running", "runs", "ran", "starts", "starts"),
        ("Running", "runs", "not-taken", "starts", "starts"),
        ("Running", "not-taken", "not-taken", "NotTaken", "NotTaken"),
        ("Running", "runs", "behind", "UpstreamFailed", "Stopped"),
        ("Running", "behind", "not-taken", "UpstreamFailed", "UpstreamFailed"),
        ("Running", "stopped", "not-taken", "Stopped", "Stopped"),
    ],
)
def test_what_comes_of_a_step_by_the_ends_of_its_targets(
    condition: str, a: str, b: str, of_all: str, of_any: str
) -> None:
    for one, other in ((a, b), (b, a)):
        assert fate(world_with(one, other, "all", condition)) == of_all
        assert fate(world_with(one, other, "any", condition)) == of_any


@pytest.mark.parametrize("strategy", ["all", "any"])
def test_a_failed_target_that_once_ran_is_met_and_one_that_never_did_is_not(strategy: str) -> None:
    """It was Running before it failed; after the failure nothing that handles none starts."""
    ran = flow("a", last=after("a", strategy=strategy, condition="Running"))
    assert fate(ran.with_jobs(a="Failed")) == "Stopped"
    assert fate(ran.with_refusal("a", 422)) == "UpstreamFailed"
