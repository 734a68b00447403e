"""`RestartJob`: a failed flow runs its failed and skipped steps again."""

from collections.abc import Callable

import pytest

from jobflow.api.flow.control import ForEach, Param
from jobflow.api.flow.dependencies import DependsOn
from jobflow.api.flow.step import Step
from support.plan.plan_world import World, flow
from support.plan.steps import after, step

Outcome = Callable[[str], str]


def fails(*names: str) -> Outcome:
    return lambda name: "Failed" if name in names else "Completed"


def diamond() -> World:
    """a -> b, c -> d -> e; b has failed."""
    return flow("a", b="a", c="a", d="b c", e="d").run(fails("b")).later(100)


def retried(world: World) -> World:
    return world.with_command("RestartJob", name="again").settled()


def confirmed(world: World) -> World:
    """The world after a read of the job of the next attempt, which found none."""
    return world.with_missing("f-b-r1")


def test_a_retry_is_stored_before_jobs_are_created() -> None:
    world = diamond().with_command("RestartJob")
    planned = world.plan()
    assert planned.plan.actions == ()
    assert planned.plan.urgent
    assert planned.phases == {
        "a": "Completed",
        "b": "Waiting",
        "c": "Completed",
        "d": "Waiting",
        "e": "Waiting",
    }
    assert (planned.phase, planned.reason, planned.status.progress) == ("Running", "", "2/5")
    assert planned.events == ["FlowRetried"]
    assert planned.status.completion_time is None
    assert planned.status.start_time == world.now
    assert planned.status.handled_commands == ["uid-c"]
    planned = world.stored().plan()
    assert (planned.creates, planned.must_not_exist) == (["f-b-r1"], [""])
    assert planned.command_deletes == ["c"]


def test_a_retried_flow_completes() -> None:
    world = retried(diamond())
    assert world.plan().conditions["b"].attempts == 2
    end = world.run()
    assert end.flow.status.state.phase == "Succeed"
    assert sorted(end.jobs) == ["f-a", "f-b", "f-b-r1", "f-c", "f-d", "f-e"]
    assert end.flow.status.progress == "5/5"
    assert list(end.records) == sorted(end.jobs)


def test_every_retry_increases_the_attempts() -> None:
    world = diamond()
    for attempt in (2, 3, 4):
        world = retried(world)
        assert world.plan().conditions["b"].job == f"f-b-r{attempt - 1}"
        assert world.plan().conditions["b"].attempts == attempt
        world = world.run(fails("b"))
        assert world.flow.status.state.phase == "Failed"


def test_a_retry_runs_stopped_steps() -> None:
    world = flow("a", "x", y="x").with_jobs(a="Failed", x="Completed").settled()
    assert world.plan().skipped == {"y": "Stopped"}
    world = retried(world)
    assert world.plan().phases == {"a": "Pending", "x": "Completed", "y": "Pending"}
    assert world.plan().conditions["y"].job == "f-y"


def test_a_cancelled_flow_can_be_retried() -> None:
    world = flow("a", b="a").with_jobs(a="Running").cancelled().ended("f-a", "Aborted").settled()
    assert world.flow.status.state.reason == "Cancelled"
    world = retried(world)
    assert (world.plan().phase, world.plan().reason) == ("Running", "")
    assert world.run().flow.status.state.phase == "Succeed"


def test_a_retried_flow_that_never_ran_a_step_is_pending_again() -> None:
    world = flow("a").without_template("a").settled().with_command().settled()
    world = world.with_command("RestartJob", name="again")
    assert (world.plan().phase, world.plan().phases) == ("Pending", {"a": "Waiting"})
    assert world.settled().plan().held_up == {"a": "WaitingForTemplate"}


def test_a_retry_decides_steps_after_a_failure_again() -> None:
    failed = 'steps["a"].phase == "Failed"'
    world = flow(
        "a",
        mend=step("a", condition="Finished", when=failed),
        on=step("a", condition="Finished", when=f"!({failed})"),
        after="on",
        other=after("x", condition="Failed"),
        x=step(),
    ).run(fails("a"))
    assert world.plan().skipped == {"on": "NotTaken", "after": "NotTaken", "other": "NotTaken"}
    planned = world.with_command("RestartJob").plan()
    assert planned.phases == {
        "a": "Waiting",
        "mend": "Completed",
        "on": "Waiting",
        "after": "Waiting",
        "other": "Skipped",
        "x": "Completed",
    }
    assert planned.conditions["on"].decisions is None
    end = retried(world).run()
    assert end.plan().phases["after"] == "Completed"
    assert end.flow.status.state.phase == "Succeed"


def test_a_failed_step_waits_for_a_retried_target() -> None:
    """Both have failed, and the second depends on the end of the first."""
    world = flow("a", b=after("a", condition="Finished")).run(fails("a", "b"))
    world = retried(world)
    assert world.plan().phases == {"a": "Pending", "b": "Waiting"}
    assert world.plan().waiting == {"b": "waits for a (Pending) to finish"}
    world = world.ended("f-a-r1", "Completed").settled()
    assert world.plan().conditions["b"].job == "f-b-r1"


def test_a_step_that_is_not_reached_again_keeps_its_attempts() -> None:
    world = flow("a", b=after("a", condition="Failed")).run(fails("a", "b"))
    end = retried(world).run()
    condition = end.plan().conditions["b"]
    assert (condition.phase, condition.reason, condition.attempts) == ("Skipped", "NotTaken", 1)
    assert end.flow.status.state.phase == "Succeed"


def test_a_failed_step_with_continue_on_failure_runs_again() -> None:
    world = flow("x", a=step(continue_on_failure=True), b="a").run(fails("a", "x"))
    assert retried(world).plan().phases["a"] == "Pending"


def test_finally_runs_again_even_if_it_completed() -> None:
    world = flow("a").with_finally("z").run(fails("a"))
    world = retried(world)
    assert world.plan().phases == {"a": "Pending", "z": "Waiting"}
    world = world.ended("f-a-r1", "Completed").settled()
    assert world.plan().conditions["z"].job == "f-z-r1"
    assert world.run().flow.status.state.phase == "Succeed"


def test_all_items_of_finally_run_again() -> None:
    last = step(for_each=ForEach(items=["x", "y"]))
    world = retried(flow("a").with_finally(z=last).run(fails("a")))
    end = world.run()
    assert {"f-z-0-r1", "f-z-1-r1"} <= set(end.jobs)
    assert end.flow.status.state.phase == "Succeed"


def test_a_retry_runs_only_finally_if_nothing_else_failed() -> None:
    world = flow("a").with_finally("z").run(fails("z"))
    assert retried(world).plan().phases == {"a": "Completed", "z": "Pending"}


def test_the_daemon_of_a_retried_step_runs_again() -> None:
    world = flow(a=step(daemon=True), d=step(daemon=True), b="a", c="d")
    world = world.with_jobs(a="Running", d="Running", b="Running", c="Running").settled()
    world = world.ended("f-b", "Failed").ended("f-c", "Completed").settled()
    world = world.ended("f-a", "Aborted").ended("f-d", "Aborted").settled()
    assert world.flow.status.state.phase == "Failed"
    planned = world.with_command("RestartJob").plan()
    assert planned.phases == {"a": "Waiting", "d": "Completed", "b": "Waiting", "c": "Completed"}
    world = retried(world)
    assert world.plan().conditions["a"].job == "f-a-r1"
    assert world.plan().waiting == {"b": "waits for a (Pending) to run"}


def test_a_retry_keeps_the_items_of_a_step_that_is_decided_again() -> None:
    """The items stay known while the step waits, is decided, and waits for room."""
    loop = step("x", for_each=ForEach(from_='["x", "y"]'))
    world = flow("x", a=loop).with_spec(parallelism=1).run(lambda name: "Failed")
    world = retried(world).ended("f-x-r1", "Completed").settled()
    assert world.plan().conditions["a"].phase == "Running"
    world = flow(a=step(for_each=ForEach(from_='["x", "y"]'))).settled()
    world = world.ended("f-a-0", "Completed").ended("f-a-1", "Failed").settled()
    world = world.with_command("RestartJob").stored()
    for _ in range(2):
        runs = world.plan().conditions["a"].runs or []
        assert [run.phase for run in runs] == ["Completed", "Waiting"]
        world = world.apply()
    assert sorted(world.settled().jobs) == ["f-a-0", "f-a-1", "f-a-1-r1"]


@pytest.mark.parametrize(
    ("items", "again"),
    [
        ("params.l", ["f-b-1-r1"]),
        ('steps["x"].phase == "Completed" ? params.l : []', ["f-b-1-r1"]),
        ('steps["a"].phase == "Skipped" ? [] : params.l', ["f-b-0-r1", "f-b-1-r1", "f-c-0-r1"]),
    ],
)
def test_completed_items_run_again_only_if_a_step_that_their_list_uses_does(
    items: str, again: list[str]
) -> None:
    """The items of c are those of b, which handles the failure of a."""
    depends_on = after("a x", condition="Finished")
    b = Step(depends_on=depends_on, for_each=ForEach(from_=items))
    c = Step(depends_on=DependsOn(targets=["b"], items="Matching"))
    world = flow("a", "x", b=b, c=c).with_spec(params=[Param(name="l", value=["i", "j"])])
    world = world.settled().ended("f-a", "Failed").ended("f-x", "Completed").settled()
    world = world.ended("f-b-0", "Completed").ended("f-b-1", "Failed").settled()
    world = world.ended("f-c-0", "Completed").settled()
    assert world.flow.final
    before = world.jobs.keys()
    world = retried(world).run()
    assert sorted(world.jobs.keys() - before) == ["f-a-r1", *again, "f-c-1"]


def test_an_item_that_completed_before_the_retry_does_not_count_as_running() -> None:
    """b waits for a service that runs again, and e waits for b to run."""
    loop = step("a", condition="Running", for_each=ForEach(count=2))
    world = flow("a", b=loop, e=after("b", condition="Running")).with_spec(failure_policy="Abort")
    world = world.with_jobs(a="Running").settled()
    world = world.ended("f-b-0", "Completed").settled().ended("f-b-1", "Failed").settled()
    world = world.run(lambda name: "Failed")
    world = retried(world)
    assert world.plan().phases == {"a": "Pending", "b": "Waiting", "e": "Waiting"}
    world = world.ended("f-a-r1", "Running").settled()
    assert world.plan().phases["e"] == "Waiting"
    assert sorted(name for name in world.jobs if name.startswith("f-b")) == [
        "f-b-0",
        "f-b-1",
        "f-b-1-r1",
    ]
    world = world.ended("f-b-1-r1", "Running").settled()
    assert world.plan().phases["e"] == "Pending"


def test_a_retry_restarts_the_timeout() -> None:
    world = flow("a").with_spec(timeout="60s").with_jobs(a="Running").settled().later(50)
    world = retried(world.ended("f-a", "Failed").settled().later(500))
    assert world.later(59).plan().reason == ""
    assert world.later(60).plan().reason == "Timeout"


def test_a_retry_resets_the_suspended_time() -> None:
    world = flow("a").with_jobs(a="Running").settled().with_command("SuspendFlow").settled()
    world = world.later(30).ended("f-a", "Failed").settled()
    assert world.flow.status.suspended_seconds == 30
    assert retried(world).flow.status.suspended_seconds is None


def test_a_retry_does_not_suspend_the_flow_again() -> None:
    world = flow("a").with_spec(suspend=True).settled().with_command("ResumeJob").settled()
    world = retried(world.ended("f-a", "Failed").settled())
    assert (world.plan().phases, world.plan().reason) == ({"a": "Pending"}, "")


def test_jobs_of_earlier_attempts_are_ignored_after_a_retry() -> None:
    """The job of the failed attempt still exists, and the new one is not in the cache yet."""
    world = diamond().with_command("RestartJob").stored()
    assert world.plan().phases["b"] == "Waiting"
    assert confirmed(world).plan().creates == ["f-b-r1"]
    assert confirmed(world.without_jobs("b")).plan().creates == ["f-b-r1"]


def test_a_retry_waits_for_the_end_of_a_resumed_job() -> None:
    world = diamond().ended("f-b", "Running").with_command("RestartJob").stored()
    assert (world.plan().creates, world.plan().held_up["b"]) == ([], "NameInUse")
    assert confirmed(world.ended("f-b", "Completed")).plan().creates == ["f-b-r1"]


def test_a_flow_that_volcano_started_can_be_retried() -> None:
    world = flow("a", b="a").with_jobs(a="Failed").settled()
    status = world.flow.status
    bare = {"f-a": type(status.conditions["f-a"])(phase="Failed")}  # type: ignore[index]
    world = world.with_status(type(status)(state=status.state, conditions=bare))
    assert retried(world).plan().conditions["a"].job == "f-a-r1"


def test_only_a_failed_flow_can_be_retried() -> None:
    running = flow("a").with_jobs(a="Running").settled()
    only = "only a flow that has failed can be retried, and this one is"
    assert running.with_command("RestartJob").plan().refused_commands == [f"{only} Running"]
    assert flow("a").with_command("RestartJob").plan().refused_commands == [f"{only} Pending"]
    finished = flow("a").run()
    assert finished.with_command("RestartJob").plan().refused_commands == [f"{only} Succeed"]
    assert retried(finished).flow.status == finished.flow.status


def test_a_suspended_flow_has_not_failed_yet() -> None:
    """Its step has failed, but the flow fails, and can be retried, only after it is resumed."""
    world = flow("a", b="a").with_finally("z").with_jobs(a="Running")
    world = world.with_command("SuspendFlow", name="s").settled().ended("f-a", "Failed").settled()
    again = world.with_command("RestartJob")
    assert again.plan().refused_commands == [
        "only a flow that has failed can be retried, and this one is suspended: resume it first"
    ]
    assert again.settled().flow.status == world.flow.status
    world = world.with_command("ResumeJob", name="r").settled().ended("f-z", "Completed").settled()
    assert world.flow.status.state.phase == "Failed"
    assert retried(world).plan().phases == {"a": "Pending", "b": "Waiting", "z": "Waiting"}


def test_a_cancel_after_a_retry_stops_the_retried_steps() -> None:
    world = diamond().with_command("RestartJob", name="one").later(1)
    world = world.with_command("TerminateJob", name="two").settled()
    assert (world.flow.status.state.reason, world.commands) == ("Cancelled", {})
    assert world.plan().phases == {
        "a": "Completed",
        "b": "Skipped",
        "c": "Completed",
        "d": "Skipped",
        "e": "Skipped",
    }
    assert "f-b-r1" not in world.jobs
    assert retried(world).plan().phases["b"] == "Pending"


def test_an_invalid_flow_is_not_retried() -> None:
    world = flow("a", b="x").settled()
    assert world.flow.status.state.reason == "Invalid"
    world = world.with_command("RestartJob")
    assert world.plan().refused_commands == [
        "the flow is invalid: delete it, correct it and apply it again"
    ]


def test_the_second_of_two_retries_is_refused_and_later_commands_apply() -> None:
    world = diamond().with_command("RestartJob", name="one").later(1)
    world = world.with_command("RestartJob", name="two").later(1)
    world = world.with_command("SuspendFlow", name="x")
    assert world.plan().status.handled_commands == ["uid-one"]
    planned = world.apply().plan()
    assert planned.events.count("CommandRefused") == 1
    assert (planned.creates, planned.reason) == ([], "Suspended")
    assert world.settled().commands == {}
