"""Approvals: steps without a vcjob that wait for an answer, by a Command or by their timeout."""

import json
from datetime import timedelta

import pytest

from jobflow.api import labels
from jobflow.api.flow.control import Approval, ForEach, Param
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.pods.outputs import OutputsTooLarge
from support.plan.plan_world import World, flow
from support.plan.steps import after, step
from support.plan.world_state import NOW


def asking(**approval: str) -> World:
    """a -> ok (an approval) -> b; ok is asked."""
    world = flow("a", ok=step("a", approval=Approval(**approval)), b="ok")
    return world.with_jobs(a="Running").settled().ended("f-a", "Completed").settled()


def approved(world: World, text: str = "ok", **annotations: str) -> World:
    return world.with_command("ApproveStep", text=text, annotations=annotations)


def rejected(world: World, text: str = "ok") -> World:
    return world.with_command("RejectStep", text=text)


def by(user: str) -> dict[str, str]:
    return {labels.BY: user}


def outputs(**values: object) -> dict[str, str]:
    return {labels.OUTPUTS: json.dumps(values)}


# ------------------------------------------------------------------ asking


def test_an_approval_asks_once_its_targets_have_completed() -> None:
    world = flow("a", ok=step("a", approval=Approval(message="Deploy?")), b="ok")
    world = world.with_jobs(a="Running").settled()
    assert world.plan().waiting["ok"] == "waits for a (Running)"
    planned = world.ended("f-a", "Completed").plan()
    condition = planned.conditions["ok"]
    assert (condition.phase, condition.reason) == ("Waiting", "WaitingForApproval")
    assert (condition.message, condition.attempts, condition.job) == ("Deploy?", 1, "")
    assert (planned.creates, planned.waiting["b"]) == ([], "waits for ok (Waiting)")


def test_the_flow_says_that_it_waits_for_approval() -> None:
    world = asking(message="Deploy?")
    assert world.end == ("Running", "WaitingForApproval")
    assert world.flow.status.state.message == "step ok: Deploy?"


def test_an_approval_without_items_has_no_answer_to_store() -> None:
    """So a step behind it is decided in the plan in which another step fails."""
    matching = DependsOn(targets=["ok"], items="Matching")
    world = flow(
        ok=step(approval=Approval(), for_each=ForEach(from_="[]")),
        f=Step(for_each=ForEach(count=2), depends_on=matching),
        d="ok",
    )
    planned = world.apply(world.plan()).plan()
    assert planned.phases == {"ok": "Completed", "f": "Failed", "d": "Skipped"}


def test_asking_is_an_event() -> None:
    world = flow(ok=step(approval=Approval(message="Deploy?")))
    events = [(event.reason, event.message) for event in world.plan().plan.events]
    assert events == [("ApprovalRequested", "step ok: Deploy?")]


def test_the_message_may_have_references() -> None:
    approval = Approval(message="Deploy $(params.model) to $(item)?")
    world = flow(ok=step(approval=approval, for_each=ForEach(items=["eu", "us"])))
    world = world.with_spec(params=[Param(name="model", value="m1")]).settled()
    runs = world.plan().conditions["ok"].runs or []
    assert [run.message for run in runs] == ["Deploy m1 to eu?", "Deploy m1 to us?"]


def test_a_reference_without_value_fails_the_step() -> None:
    approval = Approval(message="$(steps.a.outputs.model)?")
    world = flow("a", ok=step("a", approval=approval)).with_jobs(a="Running").settled()
    world = world.ended("f-a", "Completed").with_pods("a", t="Succeeded").settled()
    assert world.plan().failed == {"ok": "ExpressionError"}


def test_a_stored_question_stays() -> None:
    assert asking().later(1_000_000).plan().nothing


def test_an_approval_takes_no_room() -> None:
    world = flow("a", "b", ok=step(approval=Approval())).with_spec(parallelism=1).settled()
    planned = world.plan()
    assert planned.held_up == {"ok": "WaitingForApproval", "b": "Parallelism"}


def test_an_approval_and_what_is_behind_it_are_no_next_jobs() -> None:
    world = flow("a", ok=step("a", approval=Approval()), b="ok", c="a")
    world = world.with_jobs(a="Running").settled()
    assert world.flow.status.next_jobs == ["f-c"]


# ------------------------------------------------------------------ answers


def test_the_answer_is_stored_before_dependants_start() -> None:
    world = approved(asking(), "ok looks good", **by("alice"))
    planned = world.plan()
    assert (planned.phases["ok"], planned.creates, planned.plan.urgent) == ("Completed", [], True)
    world = world.apply()
    assert world.plan().creates == ["f-b"]


RUNNING = after("ok", condition="Running")
MATCHING = DependsOn(targets=["ok"], items="Matching")


@pytest.mark.parametrize(
    ("for_each", "depends_on"),
    [(None, RUNNING), (ForEach(count=1), RUNNING), (ForEach(count=1), MATCHING)],
)
@pytest.mark.parametrize("seconds", [1, 60])
def test_the_answer_is_stored_before_steps_with_other_dependencies_start(
    for_each: ForEach | None, depends_on: DependsOn, seconds: int
) -> None:
    """The answer comes by a Command, or after a minute by the timeout."""
    asks = step(approval=Approval(timeout="1m", default="Approve"), for_each=for_each)
    world = flow(ok=asks, b=Step(depends_on=depends_on)).settled().later(seconds)
    world = world if seconds == 60 else approved(world, "ok/0" if for_each else "ok")
    assert world.plan().creates == []
    assert len(world.apply().settled().jobs) == 1


def test_an_approved_step_is_completed_and_says_by_whom_and_when() -> None:
    world = approved(asking().later(7), "ok looks good", **by("alice")).stored()
    condition = world.plan().conditions["ok"]
    assert (condition.phase, condition.reason) == ("Completed", "")
    assert condition.message == "approved by alice: looks good"
    assert condition.approval is not None
    assert (condition.approval.answer, condition.approval.by) == ("Approve", "alice")
    assert condition.approval.time == NOW + timedelta(seconds=7)


def test_a_rejected_step_is_failed() -> None:
    world = rejected(asking(), "ok too early").settled()
    assert (world.plan().failed, world.plan().skipped) == (
        {"ok": "Rejected"},
        {"b": "UpstreamFailed"},
    )
    assert world.end == ("Failed", "StepFailed")
    assert world.flow.status.state.message == "step ok failed: rejected: too early"


def test_an_approval_has_the_outputs_of_the_answer() -> None:
    world = asking().with_spec(finally_=[])
    world = approved(world, **outputs(percent=10, region="eu", nothing=None)).stored()
    assert world.plan().conditions["ok"].outputs == {"percent": 10, "region": "eu"}


def test_expressions_see_the_outputs() -> None:
    chosen = 'steps["ok"].outputs.percent > 5'
    world = flow(ok=step(approval=Approval()), b=step("ok", when=chosen)).settled()
    assert approved(world, **outputs(percent=3)).settled().plan().skipped == {"b": "NotTaken"}
    assert approved(world, **outputs(percent=7)).settled().jobs.keys() == {"f-b"}


@pytest.mark.parametrize(
    ("action", "text", "annotations", "why"),
    [
        (
            "ApproveStep",
            "",
            {},
            "its message names no step: write the step or step/index, a space, and a comment",
        ),
        ("ApproveStep", "x", {}, 'the flow has no step "x"'),
        ("ApproveStep", "a", {}, "step a has no approval"),
        ("ApproveStep", "ok/1", {}, "step ok/1 does not wait for approval"),
        (
            "RejectStep",
            "ok",
            outputs(x=1),
            "a step that is rejected has no outputs; remove the annotation flow.volcano.sh/outputs",
        ),
        (
            "ApproveStep",
            "ok",
            {labels.OUTPUTS: "[1]"},
            "its annotation flow.volcano.sh/outputs is not a JSON object",
        ),
        (
            "ApproveStep",
            "ok",
            {labels.OUTPUTS: "{"},
            "its annotation flow.volcano.sh/outputs is not a JSON object",
        ),
        (
            "ApproveStep",
            "ok",
            outputs(x="x" * 4096),
            "its outputs have 4104 bytes as JSON, and a step has room for 4096",
        ),
    ],
)
def test_answers_that_are_refused(
    action: str, text: str, annotations: dict[str, str], why: str
) -> None:
    planned = asking().with_command(action, text=text, annotations=annotations).plan()
    assert planned.refused_commands == [why]
    assert planned.held_up == {"ok": "WaitingForApproval"}


def test_an_approval_is_answered_once() -> None:
    world = approved(asking()).with_command("RejectStep", name="d", text="ok")
    assert world.plan().refused_commands == ["step ok has been approved already"]
    world = world.stored().with_command("RejectStep", name="e", text="ok")
    assert world.plan().refused_commands == ["step ok does not wait for approval"]


def test_an_approval_that_has_not_asked_yet_is_not_answered() -> None:
    world = flow("a", ok=step("a", approval=Approval())).with_jobs(a="Running").settled()
    assert approved(world).plan().refused_commands == ["step ok does not wait for approval"]


def test_outputs_beyond_the_room_of_a_flow_fail_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(outputs: object) -> None:
        raise OutputsTooLarge("have 9 bytes as JSON, and 0 are left")

    monkeypatch.setattr("jobflow.core.pods.outputs.OutputsRoom.take", lambda self, o: full(o))
    assert approved(asking(), **outputs(x=1)).plan().failed == {"ok": "OutputsTooLarge"}


# ------------------------------------------------------------------ timeout


@pytest.mark.parametrize(
    ("default", "phase", "reason"),
    [("Approve", "Completed", ""), ("Reject", "Failed", "Rejected"), (None, "Failed", "Rejected")],
)
def test_the_timeout_answers_by_default(default: str | None, phase: str, reason: str) -> None:
    world = asking(timeout="1h", **({"default": default} if default else {}))
    assert world.plan().plan.requeue_after == timedelta(hours=1)
    condition = world.later(3600).plan().conditions["ok"]
    assert (condition.phase, condition.reason) == (phase, reason)
    assert condition.message.endswith("by default, because nobody answered within 1h")
    assert condition.approval is not None
    assert condition.approval.answer == (default or "Reject")


def test_the_time_of_a_suspension_does_not_count() -> None:
    world = asking(timeout="1h").later(600).with_command("SuspendFlow").settled().later(36000)
    assert world.plan().held_up == {"ok": "WaitingForApproval"}
    world = world.with_command("ResumeJob", name="r").settled()
    assert world.plan().plan.requeue_after == timedelta(minutes=50)
    assert world.later(3001).plan().failed == {"ok": "Rejected"}


def test_a_command_comes_before_a_timeout_that_is_not_stored() -> None:
    world = approved(asking(timeout="1h")).later(7200)
    assert (world.plan().phases["ok"], world.plan().refused_commands) == ("Completed", [])


def test_an_approval_may_be_given_while_the_flow_is_suspended() -> None:
    world = asking().with_command("SuspendFlow", name="s").settled()
    world = approved(world).settled()
    assert (world.plan().phases["ok"], world.plan().creates) == ("Completed", [])
    assert world.with_command("ResumeJob", name="r").stored().plan().creates == ["f-b"]


# ------------------------------------------------------------------ ends of the flow


def test_a_cancel_skips_an_approval() -> None:
    world = asking().cancelled()
    assert world.plan().skipped == {"ok": "Stopped", "b": "Stopped"}
    assert world.end == ("Failed", "Cancelled")


def test_abort_skips_an_approval_and_stop_leaves_it_asking() -> None:
    world = flow("a", ok=step(approval=Approval())).with_jobs(a="Running").settled()
    stop = world.ended("f-a", "Failed").settled()
    assert stop.plan().held_up == {"ok": "WaitingForApproval"}
    abort = world.with_spec(failure_policy="Abort").ended("f-a", "Failed").settled()
    assert (abort.plan().skipped, abort.end) == ({"ok": "Stopped"}, ("Failed", "StepFailed"))


def test_an_answer_after_a_cancel_is_refused_and_one_before_it_counts() -> None:
    cancelled = asking().with_command(name="a").later(1)
    late = approved(cancelled).plan()
    assert late.refused_commands == ["step ok does not wait for approval"]
    early = approved(asking()).later(1).with_command(name="d").plan()
    assert (early.phases["ok"], early.skipped) == ("Completed", {"b": "Stopped"})


def test_a_retry_of_the_flow_asks_again() -> None:
    world = rejected(asking()).settled().with_command("RestartJob", name="r").settled()
    condition = world.plan().conditions["ok"]
    assert (condition.reason, condition.attempts, condition.job) == ("WaitingForApproval", 2, "")
    assert (condition.approval, condition.past_attempts) == (None, 1)
    assert approved(world).settled().jobs.keys() == {"f-a", "f-b"}


def test_an_approval_in_finally_is_asked_after_a_cancel() -> None:
    approval = Approval(timeout="1h", default="Approve")
    world = flow("a").with_finally(ok=step(approval=approval)).with_jobs(a="Running").settled()
    world = world.cancelled().ended("f-a", "Aborted").settled()
    assert world.plan().held_up == {"ok": "WaitingForApproval"}
    assert approved(world).settled().end == ("Failed", "Cancelled")
    assert world.with_command("TerminateNow", name="n").settled().plan().skipped["ok"] == "Stopped"


def test_a_flow_that_is_being_deleted_answers_nothing() -> None:
    world = approved(asking(timeout="1h").being_deleted().later(7200))
    assert world.plan().refused_commands == ["the flow is being deleted"]
    assert world.plan().phases["ok"] == "Waiting"


# ------------------------------------------------------------------ items


def items(**spec: object) -> World:
    world = flow(ok=step(approval=Approval(), for_each=ForEach(count=3)), b="ok")
    return world.with_spec(**spec).settled()


def item_phases(world: World) -> list[str]:
    return [run.phase for run in world.plan().conditions["ok"].runs or ()]


def test_each_item_is_answered_by_itself() -> None:
    world = items()
    assert world.plan().held_up == {"ok": "WaitingForApproval"}
    assert world.with_command("ApproveStep", text="ok").plan().refused_commands == [
        "step ok has items: name one of them, such as ok/0"
    ]
    for index in range(3):
        assert world.plan().phases["b"] == "Waiting"
        world = approved(world, f"ok/{index}").settled()
    assert (item_phases(world), world.jobs.keys()) == (["Completed"] * 3, {"f-b"})


def test_a_rejected_item_fails_the_step_once_the_others_are_answered() -> None:
    world = rejected(items(), "ok/1").settled()
    assert world.plan().held_up == {"ok": "WaitingForApproval"}
    world = approved(approved(world, "ok/0").settled(), "ok/2").settled()
    assert world.plan().failed == {"ok": "Rejected"}


def test_a_cancel_skips_a_step_whose_items_ask() -> None:
    world = approved(items(), "ok/0").settled().cancelled()
    assert item_phases(world) == ["Completed", "Skipped", "Skipped"]
    assert world.plan().skipped == {"ok": "Stopped", "b": "Stopped"}


def test_a_limit_of_items_asks_for_as_many_at_once() -> None:
    each = ForEach(count=3, parallelism=1)
    world = flow(ok=step(approval=Approval(), for_each=each)).settled()
    assert item_phases(world) == ["Waiting"]
    assert item_phases(approved(world, "ok/0").settled()) == ["Completed", "Waiting"]
    assert world.cancelled().plan().skipped == {"ok": "Stopped"}


# ------------------------------------------------------------------ forged ends


def test_an_annotation_of_a_job_is_no_approval() -> None:
    world = asking()
    forged = json.dumps({"ok": {"phase": "Completed", "attempts": 9}})
    world = world.with_job(world.job("b", "Pending", **{labels.TARGET_ENDS: forged}))
    assert world.plan().held_up["ok"] == "WaitingForApproval"


def test_a_job_of_the_name_is_no_approval() -> None:
    world = asking().with_jobs(ok="Completed")
    assert world.plan().held_up["ok"] == "WaitingForApproval"
