"""Which steps, items and repeats a retry of a flow runs again."""

import msgspec
import pytest

from jobflow.api.flow.control import Approval, Concurrency, ForEach, Param, Repeat
from jobflow.api.flow.status import FlowState
from jobflow.api.flow.step import DependsOn, Step
from support.plan.loop_worlds import end_jobs, finish
from support.plan.plan_world import World, flow
from support.plan.steps import after, step

TWO = ForEach(items=["x", "y"])


def retried(world: World, action: str = "RestartJob") -> World:
    assert world.flow.final
    return world.with_command(action, name="again").settled()


def end_with(world: World, **phases: str) -> World:
    """Run the flow to its end; the job of a step ends Completed, or as `phases` say."""
    return world.run(lambda name: phases.get(name, "Completed"))


def new_jobs(before: World, after_: World) -> list[str]:
    return sorted(after_.jobs.keys() - before.jobs.keys())


def run_again(world: World, action: str = "RestartJob") -> list[str]:
    """Return the jobs of a retry after which everything completes."""
    return new_jobs(world, retried(world, action).run())


@pytest.mark.parametrize("condition", ["Completed", "Failed", "Finished", "Running"])
def test_a_step_runs_again_whose_target_does_under_any_condition(condition: str) -> None:
    world = flow("x", "y", a=after("x y", condition=condition, strategy="any"), b="a")
    planned = end_with(world, x="Failed").with_command("RestartJob").plan()
    assert planned.phases == {"x": "Waiting", "y": "Completed", "a": "Waiting", "b": "Waiting"}


def test_the_alarm_is_sent_and_the_clean_up_runs_for_each_failure() -> None:
    alarm, clean = after("train", condition="Failed"), after("train", condition="Finished")
    world = end_with(flow("train", alarm=alarm, clean=clean), train="Failed")
    again = end_with(retried(world), train="Failed")
    assert new_jobs(world, again) == ["f-alarm-r1", "f-clean-r1", "f-train-r1"]
    condition = again.plan().conditions["clean"]
    assert (condition.phase, condition.attempts, condition.job) == ("Completed", 2, "f-clean-r1")


def test_items_stay_unless_a_step_before_them_runs_again() -> None:
    """b repeats its failed item by itself, and all of them behind a."""
    loop = step("a", condition="Finished", for_each=ForEach(from_="params.l"))
    world = flow("a", b=loop).with_spec(params=[Param(name="l", value=["i", "j"])])
    world = world.settled().ended("f-a", "Completed").settled()
    world = end_jobs(world.ended("f-b-1", "Failed"), "Completed", "f-b-0")
    assert run_again(world) == ["f-b-1-r1"]
    world = flow("a", b=loop).with_spec(params=[Param(name="l", value=["i", "j"])])
    world = end_with(world, a="Failed")
    assert run_again(world) == ["f-a-r1", "f-b-0-r1", "f-b-1-r1"]
    assert world.with_command("RestartJob").plan().conditions["b"].decisions is None


def matching(targets: str, **fields: object) -> Step:
    depends_on = DependsOn(targets=targets.split(), condition="Finished", items="Matching")
    return Step(depends_on=depends_on, **fields)  # type: ignore[arg-type]


def test_with_matching_only_the_same_items_run_again() -> None:
    world = flow(a=step(for_each=TWO), b=matching("a"), c=matching("b"), d="c")
    world = world.with_spec(failure_policy="Continue").settled()
    world = end_jobs(world.ended("f-a-1", "Failed"), "Completed", "f-a-0")
    world = world.run()
    assert run_again(world) == ["f-a-1-r1", "f-b-1-r1", "f-c-1-r1", "f-d-r1"]


def test_all_items_run_again_if_another_target_does() -> None:
    world = flow("x", a=step(for_each=TWO), b=matching("a x"))
    world = end_with(world, x="Failed")
    assert run_again(world) == ["f-b-0-r1", "f-b-1-r1", "f-x-r1"]


def repeated(targets: str = "") -> Step:
    return step(targets, condition="Finished", repeat=Repeat(until="outputs.done", max=3))


def end_runs(world: World, name: str, *done: str) -> World:
    """End the jobs of repeats with these outputs, one after another."""
    for index, text in enumerate(done):
        world = finish(world, name.format(index), f'{{"done": {text}}}').settled()
    return world


def test_a_repeat_behind_what_runs_again_starts_at_its_first_run() -> None:
    """After the retry it needs fewer runs, and has the outputs of its last one."""
    last = step("b", vars={"done": 'steps["b"].outputs.done'}, args=["$(vars.done)"])
    world = flow("a", b=repeated("a"), c=last).settled().ended("f-a", "Failed").settled()
    world = end_runs(world, "f-b-{}", "false", "true").run()
    world = retried(world).ended("f-a-r1", "Completed").settled()
    world = end_runs(world, "f-b-{}-r1", "true")
    planned = world.plan()
    assert [(run.phase, run.attempts) for run in planned.conditions["b"].runs or ()] == [
        ("Completed", 2),
        ("Skipped", 1),
    ]
    assert (planned.conditions["b"].job, planned.phases["c"]) == ("f-b-0-r1", "Pending")


def test_a_repeat_that_failed_by_itself_goes_on_with_that_run() -> None:
    world = end_runs(flow(b=repeated()).settled(), "f-b-{}", "false")
    world = world.ended("f-b-1", "Failed").settled()
    assert new_jobs(world, retried(world)) == ["f-b-1-r1"]


def test_an_approval_that_was_given_stays_unless_a_step_before_it_runs_again() -> None:
    def asked(targets: str) -> World:
        ask = step(targets, condition="Finished", approval=Approval())
        world = flow("a", "x", ok=ask).with_jobs(a="Failed", x="Completed").settled()
        return world.with_command("ApproveStep", name="yes", text="ok").settled()

    assert retried(asked("x")).plan().phases["ok"] == "Completed"
    assert retried(asked("a")).ended("f-a-r1", "Completed").settled().plan().held_up == {
        "ok": "WaitingForApproval"
    }


def test_a_rejection_that_is_tolerated_asks_again() -> None:
    ask = step(approval=Approval(), continue_on_failure=True)
    world = flow("a", ok=ask).with_jobs(a="Failed").settled()
    world = world.with_command("RejectStep", name="no", text="ok").settled()
    assert retried(world).plan().held_up == {"ok": "WaitingForApproval"}


def test_a_daemon_runs_again_for_a_step_that_needs_it_and_makes_no_other_run_again() -> None:
    world = flow(a=step(daemon=True), d=step(daemon=True), b="a", c="a d")
    world = world.with_jobs(a="Running", d="Running", b="Running", c="Running").settled()
    world = world.ended("f-b", "Failed").ended("f-c", "Completed").settled()
    world = world.ended("f-a", "Aborted").ended("f-d", "Aborted").settled()
    planned = world.with_command("RestartJob").plan()
    assert planned.phases == {"a": "Waiting", "d": "Completed", "b": "Waiting", "c": "Completed"}
    assert retried(world).plan().waiting == {"b": "waits for a (Pending) to run"}


def test_a_branch_is_chosen_again() -> None:
    when = 'steps["a"].phase == "Completed"'
    well, ill = (step("a", condition="Finished", when=each) for each in (when, f"!({when})"))
    world = end_with(flow("a", well=well, ill=ill), a="Failed")
    assert (world.plan().skipped, world.plan().phases["ill"]) == ({"well": "NotTaken"}, "Completed")
    end = retried(world).run()
    assert (end.plan().skipped, end.plan().phases["well"]) == ({"ill": "NotTaken"}, "Completed")


# ------------------------------------------------------------- tolerated failures


def tolerated(**fields: object) -> Step:
    return step(continue_on_failure=True, **fields)


def with_tolerated_item() -> World:
    """Item 1 of a has failed, b has run on both, and x has failed."""
    world = flow("x", a=tolerated(for_each=TWO), b="a").settled()
    world = end_jobs(world.ended("f-a-1", "Failed").ended("f-x", "Running"), "Completed", "f-a-0")
    return world.ended("f-b", "Completed").settled().ended("f-x", "Failed").settled()


def test_a_tolerated_failure_stays_with_all_that_was_made_of_it() -> None:
    world = with_tolerated_item()
    assert run_again(world) == ["f-x-r1"]


def test_a_tolerated_failure_runs_again_behind_a_step_that_does() -> None:
    world = flow("x", a=step("x", condition="Finished", continue_on_failure=True))
    assert run_again(end_with(world, x="Failed", a="Failed")) == ["f-a-r1", "f-x-r1"]


def test_tolerated_failures_run_again_if_asked_for() -> None:
    assert run_again(with_tolerated_item(), "RetryTolerated") == ["f-a-1-r1", "f-b-r1", "f-x-r1"]


def test_an_error_of_the_flow_itself_runs_again_although_the_step_is_tolerated() -> None:
    world = flow(a=tolerated(for_each=TWO)).with_spec(failure_policy="Continue")
    world = world.settled().ended("f-a-0", "Failed").ended("f-a-1", "Failed").settled()
    world = world.with_condition("a", reason="Refused")
    runs = [*(world.plan().conditions["a"].runs or ())]
    runs[1] = msgspec.structs.replace(runs[1], reason="Refused")
    state = FlowState(phase="Failed", reason="StepFailed")
    world = world.with_condition("a", runs=runs).with_status_fields(state=state)
    assert run_again(world) == ["f-a-1-r1"]


def end_by(how: str) -> World:
    """a and b are tolerated; a has failed by itself when the flow is ended `how`, b by that."""
    world = flow("slow", a=tolerated(), b=tolerated()).with_spec(timeout="1h")
    world = world.with_jobs(a="Running", b="Running", slow="Running").settled()
    world = world.later(60).ended("f-a", "Failed").settled()
    if how == "cancel":
        world = world.with_command().settled()
    elif how == "timeout":
        world = world.later(3600).settled()
    else:
        world = world.with_spec(failure_policy="Abort").ended("f-slow", "Failed").settled()
    return world.ended("f-b", "Aborted").ended("f-slow", "Aborted").settled()


@pytest.mark.parametrize("how", ["cancel", "timeout", "abort"])
def test_a_tolerated_step_that_ended_with_the_flow_runs_again(how: str) -> None:
    planned = end_by(how).with_command("RestartJob").plan()
    assert planned.phases == {"a": "Failed", "b": "Waiting", "slow": "Waiting"}


def test_a_timeout_of_a_tolerated_step_before_that_of_the_flow_is_its_own() -> None:
    world = flow("slow", a=tolerated(timeout="10s"), b=tolerated(timeout="2h"))
    world = world.with_spec(timeout="1h")
    world = world.with_jobs(a="Running", b="Running", slow="Running").settled()
    world = world.later(20).settled().ended("f-a", "Aborted").settled().later(3600).settled()
    world = world.ended("f-b", "Aborted").ended("f-slow", "Aborted").settled()
    assert world.plan().failed == {"a": "Timeout", "b": "Timeout", "slow": "Timeout"}
    assert retried(world).plan().phases == {"a": "Failed", "b": "Pending", "slow": "Pending"}


def test_items_of_a_tolerated_step_that_never_started_run_again() -> None:
    loop = tolerated(for_each=ForEach(count=3, parallelism=1))
    world = flow(a=loop).settled().ended("f-a-0", "Failed").settled()
    world = world.with_command().settled().ended("f-a-1", "Aborted").settled()
    assert run_again(world) == ["f-a-1-r1", "f-a-2"]


def test_a_flow_that_succeeded_runs_tolerated_failures_again() -> None:
    world = flow(a=tolerated(), b="a", c=step()).with_finally("z").with_spec(timeout="1h")
    world = end_with(world, a="Failed").later(100)
    planned = world.with_command("RetryTolerated").plan()
    assert (planned.phase, planned.events) == ("Running", ["FlowRetried"])
    assert planned.status.start_time == world.now
    assert run_again(world, "RetryTolerated") == ["f-a-r1", "f-b-r1", "f-z-r1"]


def test_a_retry_of_tolerated_failures_waits_in_the_line_of_its_group() -> None:
    world = flow(a=tolerated()).with_spec(concurrency=Concurrency(group="g"))
    world = end_with(world, a="Failed").with_group("other").with_command("RetryTolerated")
    assert world.settled().end == ("Pending", "Concurrency")


def test_a_retry_of_tolerated_failures_is_refused_if_there_are_none() -> None:
    world = flow("a").run().with_command("RetryTolerated")
    assert world.plan().refused_commands == [
        "the flow has succeeded without a failure that continueOnFailure tolerates"
    ]
    world = flow("a").with_jobs(a="Running").settled().with_command("RetryTolerated")
    assert world.plan().refused_commands == [
        "only a flow that has ended can be retried, and this one is Running"
    ]
