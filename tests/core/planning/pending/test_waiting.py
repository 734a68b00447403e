"""Start and skip of a step by the ends of its targets, and `status.nextJobs`."""

import pytest

from jobflow.api.flow.step import DependsOn, Probe, Step, TaskStatusProbe
from support.plan.plan_world import World, after, flow, world_of

#: How a and b end: by their own vcjob, or skipped because of their targets.
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
    """`last` depends on a and b; `broken` has failed if one of them was skipped because of it."""
    kinds = {"a": STEPS[a], "b": STEPS[b]}
    before = ["fine"] + (["broken"] if {a, b} & {"behind", "stopped"} else [])
    entries = [name for name, kind in kinds.items() if "phase" in kind]
    skipped = {name: kind["depends_on"] for name, kind in kinds.items() if "depends_on" in kind}
    last = after("a b", strategy=strategy, condition=condition)
    world = flow(*before, *entries, **skipped, last=last)
    phases = {name: str(kind["phase"]) for name, kind in kinds.items() if "phase" in kind}
    broken = {"broken": "Failed"} if "broken" in before else {}
    return world.with_jobs(fine="Completed", **broken, **phases)


def outcome(world: World) -> str:
    planned = world.plan()
    if "f-last" in planned.creates:
        return "starts"
    return planned.skipped.get("last") or planned.held_up.get("last", "waits")


@pytest.mark.parametrize(
    ("condition", "a", "b", "with_all", "with_any"),
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
        ("NotFailed", "not-taken", "not-taken", "starts", "starts"),
        ("NotFailed", "ran", "not-taken", "starts", "starts"),
        ("NotFailed", "runs", "not-taken", "waits", "starts"),
        ("NotFailed", "broke", "not-taken", "UpstreamFailed", "Stopped"),
        ("NotFailed", "behind", "not-taken", "UpstreamFailed", "Stopped"),
        ("NotFailed", "stopped", "not-taken", "Stopped", "Stopped"),
        ("Always", "not-taken", "not-taken", "starts", "starts"),
        ("Always", "runs", "not-taken", "waits", "starts"),
        ("Always", "broke", "ran", "starts", "starts"),
        ("Always", "behind", "stopped", "starts", "starts"),
        ("Always", "stopped", "not-taken", "starts", "starts"),
        ("Running", "runs", "runs", "starts", "starts"),
        ("Running", "runs", "ran", "starts", "starts"),
        ("Running", "runs", "not-taken", "starts", "starts"),
        ("Running", "not-taken", "not-taken", "NotTaken", "NotTaken"),
        ("Running", "runs", "behind", "UpstreamFailed", "Stopped"),
        ("Running", "behind", "not-taken", "UpstreamFailed", "UpstreamFailed"),
        ("Running", "stopped", "not-taken", "Stopped", "Stopped"),
    ],
)
def test_the_ends_of_its_targets_start_or_skip_a_step(
    condition: str, a: str, b: str, with_all: str, with_any: str
) -> None:
    for one, other in ((a, b), (b, a)):
        assert outcome(world_with(one, other, "all", condition)) == with_all
        assert outcome(world_with(one, other, "any", condition)) == with_any


@pytest.mark.parametrize("strategy", ["all", "any"])
def test_condition_running_is_met_by_a_failed_target_only_if_it_ran(strategy: str) -> None:
    """After the failure no step starts unless it is a handler."""
    ran = flow("a", last=after("a", strategy=strategy, condition="Running"))
    assert outcome(ran.with_jobs(a="Failed")) == "Stopped"
    assert outcome(ran.with_refusal("a", 422)) == "UpstreamFailed"


@pytest.mark.parametrize("by", ["cancel", "timeout"])
def test_always_starts_nothing_after_a_cancel_or_the_timeout_of_the_flow(by: str) -> None:
    world = flow("a", last=after("a", condition="Always")).with_spec(timeout="59s").settled()
    world = world.cancelled() if by == "cancel" else world.later(60)
    planned = world.settled().ended("f-a", "Aborted").plan()
    assert (planned.skipped, planned.phase) == ({"last": "Stopped"}, "Failed")


def next_steps(world: World) -> list[str]:
    return [name.removeprefix("f-") for name in world.plan().status.next_jobs or []]


def probed(targets: str, strategy: str | None = None) -> DependsOn:
    probe = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Succeeded")])
    return DependsOn(targets=targets.split(), probe=probe, strategy=strategy)


def test_next_jobs_depend_on_the_current_jobs() -> None:
    world = flow("a", b="a", c="a", d="b c", e="d")
    assert next_steps(world) == ["b", "c"]
    world = world.settled()
    assert next_steps(world) == ["b", "c"]
    world = world.later(1).ended("f-a", "Completed")
    assert next_steps(world) == ["d"]
    world = world.settled().later(1).ended("f-b", "Completed")
    assert next_steps(world) == ["d"]
    assert next_steps(world.run()) == []


@pytest.mark.parametrize(
    ("depends_on", "expected"),
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
def test_next_jobs_follow_the_dependencies(depends_on: DependsOn, expected: bool) -> None:
    """a runs, b has completed, and c waits for z, which waits for its template."""
    world = flow("a", "b", "z", c="z", x=depends_on).without_template("z")
    world = world.with_jobs(a="Running", b="Completed")
    assert ("x" in next_steps(world)) is expected


def test_next_jobs_include_dependants_of_a_step_that_will_be_skipped() -> None:
    world = flow("a", "b", repair=after("a", condition="Failed"), end="b repair")
    assert next_steps(world.with_jobs(a="Running", b="Running")) == ["end"]


def test_next_jobs_omit_steps_that_wait_for_something_else() -> None:
    world = flow("a", "b", c="a b").without_template("b").with_jobs(a="Running")
    assert next_steps(world) == []
    lost = flow("a", b="a").with_jobs(a="Running").settled().without_jobs("a")
    lost = lost.with_missing("f-a").stored()
    assert lost.plan().held_up == {"a": "JobLost"}
    assert next_steps(lost) == []


def test_next_jobs_after_a_failure_are_handlers_and_their_dependants() -> None:
    world = flow("a", "w", h=after("a", condition="Failed"), c="h", n="w")
    world = world.with_jobs(a="Failed", w="Running")
    assert world.plan().creates == ["f-h"]
    assert next_steps(world) == ["c"]
    assert next_steps(world.settled()) == ["c"]


def test_an_ending_flow_has_no_next_jobs() -> None:
    world = flow("a", b="a").with_jobs(a="Running").settled()
    assert next_steps(world) == ["b"]
    assert next_steps(world.being_deleted()) == []
    assert next_steps(world.cancelled()) == []


def test_next_jobs_are_at_most_a_hundred_in_the_order_of_the_spec() -> None:
    names = [f"s{n:03}" for n in range(150)]
    steps = [Step(name=name, depends_on=after("a")) for name in reversed(names)]
    world = world_of([*steps, Step(name="a")]).with_jobs(a="Running")
    assert next_steps(world) == names[:49:-1]


def test_next_jobs_omit_steps_with_cycles_or_unknown_targets() -> None:
    world = flow("a", b="a c", c="b", d="a nobody", e="a").with_jobs(a="Running")
    assert next_steps(world.settled()) == ["e"]
