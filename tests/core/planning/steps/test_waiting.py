"""Start and skip of a step by the ends of its targets, and `status.nextJobs`."""

import pytest

from jobflow.api.jobflow import DependsOn, Probe, Step, TaskStatusProbe
from support.plan.plan_world import World, after, flow, world_of

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
def test_a_step_starts_or_is_skipped_by_the_ends_of_its_targets(
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


def coming(world: World) -> list[str]:
    return [name.removeprefix("f-") for name in world.plan().status.next_jobs or []]


def probed(targets: str, strategy: str | None = None) -> DependsOn:
    probe = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])
    return DependsOn(targets=targets.split(), probe=probe, strategy=strategy)


def test_next_jobs_depend_on_the_current_jobs() -> None:
    world = flow("a", b="a", c="a", d="b c", e="d")
    assert coming(world) == ["b", "c"]
    world = world.settled()
    assert coming(world) == ["b", "c"]
    world = world.later(1).ended("f-a", "Completed")
    assert coming(world) == ["d"]
    world = world.settled().later(1).ended("f-b", "Completed")
    assert coming(world) == ["d"]
    assert coming(world.run()) == []


@pytest.mark.parametrize(
    ("depends_on", "comes"),
    [
        (after("a"), True),
        (after("a c"), False),
        (after("a c", strategy="any"), True),
        (after("a", condition="Failed"), False),
        (after("a", condition="Finished"), True),
        (after("c", condition="Running"), False),
        (after("a b", condition="Completed"), True),
        (probed("a"), True),
        (probed("a c"), False),
        (probed("a c", strategy="any"), True),
    ],
)
def test_next_jobs_by_dependency(depends_on: DependsOn, comes: bool) -> None:
    """Here a runs, b has completed, and c waits behind z, which waits for its template."""
    world = flow("a", "b", "z", c="z", x=depends_on).without_template("z")
    world = world.with_jobs(a="Running", b="Completed")
    assert ("x" in coming(world)) is comes


def test_what_is_only_skipped_then_frees_what_is_behind_it() -> None:
    world = flow("a", "b", repair=after("a", condition="Failed"), end="b repair")
    assert coming(world.with_jobs(a="Running", b="Running")) == ["end"]


def test_what_waits_for_something_else_is_not_told() -> None:
    world = flow("a", "b", c="a b").without_template("b").with_jobs(a="Running")
    assert coming(world) == []
    lost = flow("a", b="a").with_jobs(a="Running").settled().without_jobs("a")
    lost = lost.with_missing("f-a").stored()
    assert lost.plan().held_up == {"a": "JobLost"}
    assert coming(lost) == []


def test_after_a_failure_only_handlers_and_what_is_behind_them_come() -> None:
    world = flow("a", "w", h=after("a", condition="Failed"), c="h", n="w")
    world = world.with_jobs(a="Failed", w="Running")
    assert world.plan().creates == ["f-h"]
    assert coming(world) == ["c"]
    assert coming(world.settled()) == ["c"]


def test_a_flow_that_is_over_or_about_to_be_has_none() -> None:
    world = flow("a", b="a").with_jobs(a="Running").settled()
    assert coming(world) == ["b"]
    assert coming(world.being_deleted()) == []
    assert coming(world.cancelled()) == []


def test_they_are_in_the_order_of_the_spec_and_at_most_a_hundred() -> None:
    names = [f"s{n:03}" for n in range(150)]
    steps = [Step(name=name, depends_on=after("a")) for name in reversed(names)]
    world = world_of([*steps, Step(name="a")]).with_jobs(a="Running")
    assert coming(world) == names[:49:-1]


def test_a_flow_with_loops_and_strangers_has_no_next_jobs_by_them() -> None:
    world = flow("a", b="a c", c="b", d="a nobody", e="a").with_jobs(a="Running")
    assert coming(world.settled()) == ["e"]
