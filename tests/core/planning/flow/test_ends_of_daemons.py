"""Steps that wait for the end of a daemon: when it is ended, and which of several are."""

import pytest

from jobflow.api.flow.control import Approval, ForEach, Retry
from jobflow.api.flow.step import DependsOn, Step
from support.plan.plan_world import World, flow
from support.plan.steps import after, step

DAEMON = step(daemon=True)


def awaits(daemons: str, others: str = "", condition: str = "Completed") -> Step:
    """A step that waits for the ends of these daemons, and for other targets."""
    conditions = dict.fromkeys(daemons.split(), condition)
    return step(f"{daemons} {others}", conditions=conditions)


def ending(world: World) -> str:
    """Return the names of the daemons that the next plan ends."""
    conditions = world.plan().conditions.items()
    return " ".join(n for n, c in conditions if (c.phase, c.reason) == ("Running", "DaemonEnded"))


def with_daemons_running(**steps: object) -> World:
    """Return a flow whose daemons run, but those that a step starts that is no daemon."""
    world = flow(**steps)
    names = {each.name for each in world.flow.steps if each.daemon}
    daemons = [s.name for s in world.flow.steps if s.daemon and names.issuperset(s.targets)]
    return world.with_jobs(**dict.fromkeys(daemons, "Running")).settled()


@pytest.mark.parametrize("condition", ["Completed", "Finished", "NotFailed", "Always"])
@pytest.mark.parametrize("field", ["condition", "conditions"])
def test_a_step_with_an_explicit_condition_waits_for_the_end_of_its_daemon(
    condition: str, field: str
) -> None:
    b = step("a", condition=condition) if field == "condition" else awaits("a", "", condition)
    world = flow("x", a=DAEMON, b=b, c="b").with_jobs(a="Running", x="Running").settled()
    assert (ending(world), set(world.plan().waiting)) == ("", {"b", "c"})
    world = world.ended("f-x", "Completed").settled()
    assert ending(world) == "a"
    world = world.ended("f-a", "Aborted").settled()
    assert (world.plan().phases["a"], world.plan().phases["b"]) == ("Completed", "Pending")


def test_a_daemon_is_not_ended_while_a_tolerated_rejection_is_stored_that_starts_a_step() -> None:
    asks = Step(approval=Approval(), continue_on_failure=True)
    b = step("a asks", strategy="any", conditions={"a": "Completed"})
    world = with_daemons_running(a=DAEMON, asks=asks, b=b, c=awaits("a", "b"))
    world = world.with_command("RejectStep", text="asks")
    assert ending(world) == ""
    assert (ending(world.settled()), "f-b" in world.settled().jobs) == ("", True)


@pytest.mark.parametrize(("end", "h"), [("Failed", "Pending"), ("Aborted", "Skipped")])
def test_a_step_that_handles_the_failure_of_a_daemon_runs_only_if_it_fails(
    end: str, h: str
) -> None:
    world = with_daemons_running(a=DAEMON, x=step(), h=awaits("a", condition="Failed"))
    if end == "Aborted":
        world = world.ended("f-x", "Completed").settled()
    assert world.ended("f-a", end).settled().plan().phases["h"] == h


ENDING: dict[str, tuple[dict[str, object], str]] = {
    "several are awaited": ({"a": DAEMON, "d": DAEMON, "x": awaits("a d")}, "a d"),
    "one is still needed": ({"a": DAEMON, "d": DAEMON, "x": awaits("a"), "y": "x d"}, "a"),
    "one is needed by the daemon of a later step": (
        {"a": DAEMON, "d": step("a", daemon=True), "e": DAEMON, "x": awaits("e"), "y": "x d"},
        "e",
    ),
    "one that is needed is awaited later": (
        {"a": DAEMON, "d": DAEMON, "x": awaits("a"), "y": "x d", "z": awaits("d", "y")},
        "a",
    ),
    "with the daemons that need it": (
        {"a": DAEMON, "d": step("a", daemon=True), "e": DAEMON, "x": awaits("a")},
        "a d",
    ),
    "through other steps": (
        {
            "a": DAEMON,
            "w": awaits("a"),
            "x": "w",
            "y": after("x a", strategy="any", condition="Failed"),
        },
        "a",
    ),
    "before a daemon that starts after it": (
        {"a": DAEMON, "x": awaits("a"), "d": step("x", daemon=True), "y": "d"},
        "a",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "ends"), ENDING.values(), ids=ENDING.keys())
def test_awaited_daemons_end_once_all_that_is_left_waits_for_them(
    steps: dict[str, object], ends: str
) -> None:
    assert ending(with_daemons_running(**steps)) == ends


UNDER_WAY: dict[str, dict[str, object]] = {
    "runs": {"x": step()},
    "asks for approval": {"x": step(approval=Approval())},
    "waits for its template": {"x": step(template="other")},
    "may start with another target": {"x": step(), "y": after("x a", strategy="any")},
}


@pytest.mark.parametrize("steps", UNDER_WAY.values(), ids=UNDER_WAY.keys())
def test_an_awaited_daemon_runs_while_another_step_goes_on(steps: dict[str, object]) -> None:
    world = flow(a=DAEMON, b=awaits("a"), **steps).without_template("other")
    assert ending(world.with_jobs(a="Running").settled()) == ""


def test_an_awaited_daemon_runs_while_another_step_is_retried() -> None:
    world = with_daemons_running(a=DAEMON, b=awaits("a"), x=step(retry=Retry(limit=1)))
    assert ending(world.ended("f-x", "Failed").settled()) == ""


def test_an_awaited_daemon_runs_while_another_daemon_starts_for_a_step() -> None:
    world = flow(a=DAEMON, d=DAEMON, x="d", b=awaits("a")).with_jobs(a="Running", d="Pending")
    assert ending(world.settled()) == ""


def test_an_awaited_daemon_ends_although_a_step_that_waits_for_more_uses_one_that_starts() -> None:
    world = flow(a=DAEMON, d=DAEMON, b=awaits("a"), x="d b").with_jobs(a="Running", d="Pending")
    assert ending(world.settled()) == "a"


def test_an_awaited_daemon_runs_while_the_flow_is_suspended() -> None:
    world = with_daemons_running(a=DAEMON, x=step(), b=awaits("a"))
    world = world.with_command("SuspendFlow").settled().ended("f-x", "Completed").settled()
    assert ending(world) == ""
    assert ending(world.with_command("ResumeJob")) == "a"


def test_an_awaited_daemon_ends_in_a_stopped_flow() -> None:
    world = with_daemons_running(a=DAEMON, d=DAEMON, x=step(), b=awaits("a", "d"))
    world = world.ended("f-x", "Failed").settled()
    assert ending(world) == "a"
    world = world.ended("f-a", "Aborted").settled()
    assert (world.plan().skipped, ending(world)) == ({"b": "Stopped"}, "d")


def test_an_item_waits_for_the_end_of_a_daemon() -> None:
    """Item 1 of b may start once item 1 of x has failed, or a has ended."""
    b = DependsOn(
        targets=["x", "a"],
        strategy="any",
        items="Matching",
        conditions={"x": "Failed", "a": "Completed"},
    )
    world = with_daemons_running(a=DAEMON, x=step(for_each=ForEach(count=2)), b=b)
    world = world.with_spec(failure_policy="Continue").settled()
    world = world.ended("f-x-0", "Failed").settled().ended("f-x-1", "Completed").settled()
    assert ending(world) == ""
    world = world.ended("f-b-0", "Completed").settled()
    assert ending(world) == "a"
    assert "f-b-1" in world.ended("f-a", "Aborted").settled().jobs


def test_a_daemon_that_an_earlier_version_has_passed_because_it_ran_ends() -> None:
    world = with_daemons_running(a=DAEMON, x=step(), b=awaits("a", "x"))
    world = world.with_condition("b", passed_targets=["a"]).ended("f-x", "Completed").settled()
    assert ending(world) == "a"


def test_a_flow_of_an_earlier_version_whose_daemon_is_needed_to_its_end_goes_on() -> None:
    """Admission refuses it now: y needs a to run, and also its end."""
    world = with_daemons_running(a=DAEMON, x=awaits("a"), y="x a")
    assert ending(world) == "a"
    assert world.ended("f-a", "Aborted").settled().plan().phases["x"] == "Pending"
