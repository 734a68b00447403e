"""Child flows: created, observed, ended, aborted and retried as the runs of a step."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from jobflow.api import labels
from jobflow.api.flow.control import Backoff, ForEach, Param, Repeat, Retry
from jobflow.api.flow.status import (
    FlowState,
    JobFlowStatus,
    RequestedHours,
    RunCondition,
    StepCondition,
    StepFailure,
)
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.planning.actions import CreateJob, outdated
from jobflow.core.planning.observed.child_flow import ChildFlow, observe
from support.plan.child_worlds import INNER, child_of, commands, failed, parent, running, with_child
from support.plan.plan_world import World, after, world_of


def test_a_child_flow_is_created_as_its_job_would_be() -> None:
    flow = {"params": {"n": "$(params.n)", "text": "n=$(params.n)"}, **INNER}
    world = parent(flow).with_spec(params=[Param(name="n", value=3)], job_retain_policy="delete")
    (create,) = world.plan().plan.actions
    assert isinstance(create, CreateJob)
    manifest = create.manifest
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("JobFlow", "f-a")
    assert manifest["spec"] == {
        "jobRetainPolicy": "delete",
        "flows": [{"name": "x"}],
        "params": [{"name": "n", "value": 3}, {"name": "text", "value": "n=3"}],
    }
    (owner,) = manifest["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("uid-f", True, True)
    own = manifest["metadata"]["labels"]
    assert (own[labels.PARENT], own[labels.ROOT]) == ("f", "f")


def test_a_child_flow_is_in_the_condition_and_in_no_list_of_jobs() -> None:
    status = running().flow.status
    condition = (status.conditions or {})["f-a"]
    assert (condition.phase, condition.flow, condition.job) == ("Running", "f-a", "")
    assert status.state.phase == "Running"
    assert (status.running_jobs, status.job_status_list) == (None, None)


def test_the_outputs_and_hours_of_a_child_flow_are_those_of_its_step() -> None:
    hours = StepCondition(phase="Completed", requested_hours=RequestedHours(cpu="1.5"))
    ended = with_child(
        running(),
        "f-a",
        "Succeed",
        outputs={"n": 3},
        conditions={"f-a-x": hours, "f-a-y": hours},
    ).settled()
    condition = (ended.flow.status.conditions or {})["f-a"]
    assert (condition.phase, condition.outputs) == ("Completed", {"n": 3})
    assert condition.requested_hours == RequestedHours(cpu="3")
    assert "f-b" in ended.jobs


def test_a_failed_child_flow_fails_its_step() -> None:
    condition = (failed().flow.status.conditions or {})["f-a"]
    assert (condition.phase, condition.reason) == ("Failed", "FlowFailed")
    assert condition.message == "the flow f-a ended Failed: why"


def test_the_failure_of_a_child_flow_is_that_of_its_first_failed_step() -> None:
    world = running()
    child = child_of(world, "f-a", "Failed")
    steps = [Step(name="x"), Step(name="y")]
    inner = StepFailure(step="z", exit_code=3)
    conditions = {
        "f-a-x": StepCondition(phase="Completed"),
        "f-a-y": StepCondition(phase="Failed", failure=inner),
    }
    spec = msgspec.structs.replace(child.spec, flows=steps)
    status = msgspec.structs.replace(child.status, conditions=conditions)
    child = msgspec.structs.replace(child, spec=spec, status=status)
    condition = (world.with_job(observe(child)).settled().flow.status.conditions or {})["f-a"]
    assert condition.failure == StepFailure(step="y/z", exit_code=3)


def with_failed_step(
    condition: StepCondition, message: str, world: World | None = None, name: str = "f-a"
) -> World:
    """Return a parent whose child has failed with this message, because of its step x."""
    world = world or running()
    child = child_of(world, name, "Failed", "StepFailed")
    condition = msgspec.structs.replace(condition, flow="")
    state = FlowState(phase="Failed", reason="StepFailed", message=message)
    status = msgspec.structs.replace(child.status, state=state, conditions={f"{name}-x": condition})
    spec = msgspec.structs.replace(child.spec, flows=[Step(name="x")])
    return world.with_job(
        observe(msgspec.structs.replace(child, spec=spec, status=status))
    ).settled()


def test_the_error_of_a_pod_is_in_the_messages_of_all_flows_above() -> None:
    error = "ValueError: no rows in s3://archive/measurements/2026-11-28.parquet"
    pod = "nightly-train-fold-3-fit-main-0"
    condition = StepCondition(
        phase="Failed",
        failure=StepFailure(
            task="main", pod=pod, exit_code=1, reason="Error", node="worker-17", message=error
        ),
        message=f"the job {pod[:-7]} ended Failed: pod {pod} (task main): exit code 1 (Error) on "
        f"node worker-17: {error}",
    )
    message = f"step x failed: {condition.message}"
    assert len(message) < 256
    for levels in range(1, 5):
        flow = with_failed_step(condition, message).flow
        condition, message = (flow.status.conditions or {})["f-a"], flow.status.state.message
        assert condition.failure is not None
        assert condition.failure.step == "/".join("x" * levels)
        for text in (condition.message, message):
            assert text.endswith(f"exit code 1 (Error) on node worker-17: {error}")
            assert len(text) <= 256
        assert condition.message.startswith("the flow f-a ended Failed: step ")
        assert message.startswith("step a failed: ")


def test_the_error_of_a_pod_is_in_the_message_of_a_step_with_child_flows_as_items() -> None:
    failure = StepFailure(pod="p" * 63, exit_code=1, node="n" * 40, message="ValueError: no rows")
    condition = StepCondition(phase="Failed", failure=failure)
    world = parent(for_each=ForEach(count=1)).settled()
    world = with_child(world, "f-a-0", "Running").settled()
    flow = with_failed_step(condition, "m" * 256, world, "f-a-0").flow
    message = (flow.status.conditions or {})["f-a"].message
    assert message.startswith("item 0: ") and message.endswith(": ValueError: no rows")


@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ('steps.a.failure.step == ""', "Pending"),
        ('steps.a.failure.step == "y"', "Skipped"),
        ('get(steps.a.failure, "step", "none") == ""', "Pending"),
    ],
)
def test_the_failed_step_of_a_child_flow_is_empty_if_it_is_not_known(text: str, phase: str) -> None:
    last = Step(name="b", depends_on=DependsOn(targets=["a"], condition="Failed"), when=text)
    world = failed(world_of([Step(name="a", flow=INNER), last]))
    assert (world.flow.status.conditions or {})["f-b"].phase == phase


@pytest.mark.parametrize(
    ("text", "reason"),
    [('failure.step == ""', "Retrying"), ('failure.step != ""', "FlowFailed")],
)
def test_retry_when_sees_the_failed_step_of_a_child_flow(text: str, reason: str) -> None:
    world = failed(parent(retry=Retry(limit=1, when=text, backoff=Backoff(duration="1m"))))
    assert (world.flow.status.conditions or {})["f-a"].reason == reason


def test_all_failures_of_a_flow_have_the_same_keys() -> None:
    text = 'flow.failures.map(f, f.failure.step) == ["", ""]'
    world = world_of([Step(name="a", flow=INNER), Step(name="c")])
    world = world.with_spec(finally_=[Step(name="z", when=text)]).settled()
    assert "f-z" in failed(world.with_jobs(c="Failed")).jobs


def test_the_failures_of_a_flow_name_the_step_that_failed_in_a_child_flow() -> None:
    last = Step(name="z", when='flow.failures[0].step == "a/x"')
    condition = StepCondition(phase="Failed", failure=StepFailure(exit_code=1))
    world = with_failed_step(condition, "", running(parent()).with_spec(finally_=[last]))
    assert "f-z" in world.settled().jobs


def test_a_child_flow_that_a_user_cancels_fails_its_step_for_good() -> None:
    world = running(parent(retry=Retry(limit=3)))
    world = with_child(world, "f-a", "Failed", "Cancelled").settled()
    condition = (world.flow.status.conditions or {})["f-a"]
    assert (condition.phase, condition.reason) == ("Failed", "Cancelled")


def with_cancelled_child(**fields: Any) -> World:
    """Return a flow whose child flow a user has cancelled, with a dependant for each condition."""
    handlers = [
        Step(name=f"on-{each.lower()}", depends_on=after("a", condition=each))
        for each in ("Failed", "Finished")
    ]
    steps = [Step(name="a", flow=INNER, **fields), *handlers, Step(name="b", depends_on=after("a"))]
    world = with_child(world_of(steps).settled(), "f-a", "Running").settled()
    return with_child(world, "f-a", "Failed", "Cancelled")


def test_a_child_flow_that_a_user_cancels_is_a_failure_for_dependants() -> None:
    plan = with_cancelled_child().settled().plan()
    assert plan.phases == {
        "a": "Failed",
        "on-failed": "Pending",
        "on-finished": "Pending",
        "b": "Skipped",
    }
    assert plan.skipped == {"b": "UpstreamFailed"}
    assert {"f-on-failed", "f-on-finished"} <= with_cancelled_child().settled().jobs.keys()


def test_a_cancelled_child_flow_with_continue_on_failure_meets_every_condition() -> None:
    world = with_cancelled_child(continue_on_failure=True).settled()
    assert {"f-on-failed", "f-on-finished", "f-b"} <= world.jobs.keys()


FAILED = StepCondition(phase="Failed", reason="JobFailed")
ERROR = StepCondition(phase="Failed", reason="ExpressionError")
BELOW = StepCondition(phase="Failed", reason="FlowFailed", flow="f-a-x", flow_error=True)
ITEMS = [RunCondition(phase="Failed", reason=reason) for reason in ("JobFailed", "Refused")]
ENDS: list[tuple[str, list[StepCondition], bool]] = [
    ("StepFailed", [FAILED], False),
    ("StepFailed", [FAILED, ERROR], True),
    ("StepFailed", [FAILED, BELOW], True),
    ("StepFailed", [msgspec.structs.replace(FAILED, runs=ITEMS)], True),
    ("Invalid", [], True),
    ("ExpressionError", [], True),
    ("OutputsTooLarge", [], True),
    ("Timeout", [FAILED], False),
]
"""The end of a child flow, its steps, and whether it is an error of the flow itself."""


@pytest.mark.parametrize(("reason", "steps", "is_error"), ENDS)
def test_an_error_of_a_child_flow_itself_is_not_tolerated(
    reason: str, steps: list[StepCondition], is_error: bool
) -> None:
    conditions = {f"f-a-{i}": each for i, each in enumerate(steps)}
    world = running(parent(continue_on_failure=True))
    world = with_child(world, "f-a", "Failed", reason, conditions=conditions).settled()
    assert (world.flow.status.conditions or {})["f-a"].flow_error == is_error
    assert ("f-b" in world.jobs) == (not is_error)


def test_an_error_of_a_child_flow_that_an_earlier_version_recorded_is_not_tolerated() -> None:
    a = Step(name="a", flow=INNER, continue_on_failure=True)
    world = running(world_of([a, Step(name="x"), Step(name="b", depends_on=after("a x"))]))
    world = with_child(world, "f-a", "Failed", "Invalid").settled()
    world = world.with_condition("a", flow_error=False).ended("f-x", "Completed").settled()
    assert (world.flow.status.conditions or {})["f-a"].flow_error
    assert "f-b" not in world.jobs


def test_dependants_of_a_child_flow_that_is_cancelled_with_its_parent_are_stopped() -> None:
    world = with_child(running(), "f-a", "Running").settled().with_command().settled()
    world = with_child(world, "f-a", "Failed", "Cancelled").settled()
    assert world.plan().skipped == {"b": "Stopped"}


def test_a_retry_of_the_step_makes_a_new_child_flow() -> None:
    world = failed(parent(retry=Retry(limit=1))).later(1).settled()
    assert isinstance(world.jobs["f-a-r1"], ChildFlow)


@pytest.mark.parametrize(
    ("pause", "message"),
    [
        (None, "the flow f-a-0 has ended, and the next one follows"),
        ("10s", "runs again after a pause of 10s: the flow f-a-0 has completed"),
    ],
)
def test_a_repeat_of_child_flows_names_flows(pause: str | None, message: str) -> None:
    world = parent(repeat=Repeat(until="index > 5", max=9, pause=pause)).settled()
    world = with_child(with_child(world, "f-a-0", "Running").settled(), "f-a-0", "Succeed")
    assert world.plan().conditions["a"].message == message


def test_a_child_flow_whose_end_only_a_later_step_recorded_is_called_a_flow() -> None:
    world = with_child(running(), "f-a", "Succeed").settled()
    lost = replace(world, jobs={"f-b": world.jobs["f-b"]}).with_status(JobFlowStatus())
    message = "the flow f-a is gone; a step that started after it recorded its end"
    assert lost.plan().conditions["a"].message == message


def test_a_cancel_waits_for_the_finally_of_the_child_flow() -> None:
    world = running().with_command().stored()
    assert commands(world) == [("f-a", "TerminateJob")]
    world = world.settled()
    assert commands(world.later(11)) == [("f-a", "TerminateJob")]
    world = with_child(world, "f-a", "Running", "Cancelled")
    world = world.later(3600).settled()
    assert not world.plan().plan.actions, "it is not deleted"
    world = with_child(world, "f-a", "Failed", "Cancelled").settled()
    assert world.end == ("Failed", "Cancelled")


def test_the_cancel_of_finally_reaches_a_child_flow_that_ends_already() -> None:
    world = running().with_command().settled()
    world = with_child(world, "f-a", "Running", "Cancelled").settled()
    world = world.with_command("TerminateNow", name="now").stored()
    assert commands(world) == [("f-a", "TerminateNow")]


def test_a_suspension_leaves_child_flows_alone() -> None:
    world = running().with_command("AbortJob").settled()
    assert commands(world.later(60)) == []
    assert (world.flow.status.conditions or {})["f-a"].phase == "Running"


def test_the_timeout_of_a_step_cancels_its_child_flow() -> None:
    world = running(parent(timeout="1m")).later(59)
    assert commands(world) == []
    assert commands(world.later(60).stored()) == [("f-a", "TerminateJob")]


def test_child_flows_count_as_one_each_in_the_parallelism() -> None:
    world = parent(for_each=ForEach(count=3)).with_spec(parallelism=2).settled()
    assert sorted(world.jobs) == ["f-a-0", "f-a-1"]


# ------------------------------------------------------------------ as a child


def as_child(outer: World) -> World:
    """Return the world of a child flow of this flow."""
    world = world_of([Step(name="x")], name="f-a")
    reference = outer.jobs["f-a"].metadata.owner_references
    metadata = msgspec.structs.replace(
        world.flow.metadata,
        uid="uid-f",
        owner_references=reference,
        labels={labels.PARENT: "f", labels.ROOT: "f"},
    )
    flow = msgspec.structs.replace(world.flow, metadata=metadata)
    return replace(world, flow=flow, parent=outer.flow)


def test_the_jobs_of_a_child_flow_have_its_labels() -> None:
    (create,) = as_child(running()).plan().plan.actions
    assert isinstance(create, CreateJob)
    found = create.manifest["metadata"]["labels"]
    assert (found[labels.PARENT], found[labels.ROOT]) == ("f", "f")


def test_a_child_flow_is_suspended_and_resumed_with_its_parent() -> None:
    outer = running()
    world = as_child(outer.with_command("SuspendFlow").settled()).settled()
    assert not world.jobs
    assert (world.end, world.flow.status.suspended_by) == (
        ("Pending", "Suspended"),
        "parent/SuspendFlow",
    )
    refused = world.with_command("ResumeJob").settled()
    assert refused.flow.status.suspended_at is not None
    world = replace(world.later(30), parent=outer.flow).settled()
    assert (sorted(world.jobs), world.flow.status.suspended_seconds) == (["f-a-x"], 30)


def test_a_child_flow_that_a_user_suspends_stays_so_when_its_parent_is_resumed() -> None:
    outer = running()
    world = as_child(outer.with_command("SuspendFlow").settled()).settled()
    world = world.with_command("SuspendFlow", name="mine").settled()
    world = replace(world, parent=outer.flow).settled()
    assert world.flow.status.suspended_by == "SuspendFlow"


@pytest.mark.parametrize("action", ["RestartJob", "RetryTolerated"])
def test_only_the_parent_retries_a_child_flow(action: str) -> None:
    outer = failed()
    world = as_child(outer).settled().ended("f-a-x", "Failed").settled()
    refused = world.with_command(action)
    assert refused.settled().flow.final
    retried = replace(refused, parent=outer.with_command(action).stored().flow).settled()
    assert (retried.flow.status.retries, sorted(retried.jobs)) == (1, ["f-a-x", "f-a-x-r1"])


@pytest.mark.parametrize(
    ("phase", "counting"),
    [("Running", {"TerminateJob"}), ("Failed", {"RestartJob", "RetryTolerated"})],
)
def test_a_command_counts_until_the_child_flow_shows_its_effect(
    phase: str, counting: set[str]
) -> None:
    child = observe(child_of(running(), "f-a", phase))
    keys = {f"uid-f-a {action}" for action in ("TerminateJob", "RestartJob", "RetryTolerated")}
    assert keys - set(outdated(keys, [child])) == {f"uid-f-a {action}" for action in counting}
