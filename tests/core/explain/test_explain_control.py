"""The sentences of `jobflow why` about conditions, loops and retries, for handwritten statuses."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from jobflow.api.flow.control import Approval, Case, ForEach, Repeat
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import Decisions, FlowState, RunCondition, StepCondition
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.labels import ROOT
from jobflow.api.resources import OwnerReference
from jobflow.core.explain.explain import explain, explain_step
from support.plan.flow_statuses import NOW, SOON, START, items, one, repeat, retrying, run, several

A = Step(name="a")
RUNS = StepCondition(phase="Running", job="f-a", attempts=1, create_time=START)
FAILED = StepCondition(
    phase="Failed", reason="JobFailed", message="the job f-a ended Failed", job="f-a", attempts=1
)


def why(flow: JobFlow, step: str | None = None) -> list[str]:
    """Return the sentences."""
    if step is None:
        return list(explain(flow, now=NOW).sentences)
    return list(explain_step(flow, step, now=NOW).sentences)


# --------------------------------------------------------------------------------- runs


def test_items_are_counted() -> None:
    flow = items("Completed Completed Running", 40)
    assert why(flow, "a")[1:] == ["It has 2/40 items done, 1 running."]
    assert "Step a (2/40 items done, 1 running) is Running." in why(flow)


def test_a_long_goal_of_items_is_cut_in_one_line() -> None:
    until = "items.exists(i, i.outputs.loss < 0.1)\n|| " + "size(items) > 20 && " * 10 + "true"
    step = Step(name="a", for_each=ForEach(count=40, until=until))
    [_, goal] = why(one(step, StepCondition(phase="Running")), "a")
    assert "\n" not in goal
    assert goal.startswith("It completes as soon as `items.exists(i, i.outputs.loss < 0.1) || size")
    assert goal.endswith("…` holds (forEach.until).")


def test_a_step_with_items_has_no_job_of_its_own() -> None:
    step = Step(name="a", for_each=ForEach(count=40))
    condition = StepCondition(
        phase="Running", message="0 of 40 items are over, 2 under way", attempts=2
    )
    assert why(one(step, condition), "a")[0] == (
        "Step a has been Running: 0 of 40 items are over, 2 under way."
    )
    assert why(one(step, StepCondition(phase="Running")), "a")[0] == "Step a has been Running."


def test_runs_of_a_repeat_are_not_attempts() -> None:
    step = Step(name="a", repeat=Repeat(until="false", max=9))
    condition = StepCondition(phase="Running", job="f-a-1", attempts=2)
    assert why(one(step, condition), "a")[0].endswith(") as the job f-a-1.")


def test_failed_items_are_named_while_others_run() -> None:
    failed = run(1, "Failed", reason="JobFailed", message="the job f-a-1 ended Failed")
    runs = [run(0, "Running"), failed]
    step = Step(name="a", for_each=ForEach(count=3))
    flow = one(step, StepCondition(phase="Running", runs=runs, attempts=2))
    assert why(flow, "a")[1:] == [
        "It has 0/3 items done, 1 running, 1 failed.",
        "Item 1 failed (JobFailed): the job f-a-1 ended Failed.",
        "See its log, `jobflow logs f a/1`, or its job, `kubectl describe vcjob -n default f-a-1`.",
    ]


def test_at_most_three_failed_items_are_named() -> None:
    flow = items("Failed " * 1000, 1000, "Failed", reason="JobFailed", message="1000 of 1000")
    sentences = why(flow, "a")
    assert [each.partition(" failed")[0] for each in sentences if "failed (" in each][1:] == [
        "Item 0", "Item 1", "Item 2"
    ]  # fmt: skip
    assert "997 more items failed." in sentences
    assert len(" ".join(why(flow, "a"))) < 700


def test_a_repeat_shows_its_run_and_its_condition() -> None:
    assert why(repeat("Completed Running"), "a")[1:] == [
        "It is at run 2 of at most 10, until `outputs.accuracy > 0.95` is true."
    ]
    assert why(repeat("Completed Completed", "Completed"), "a")[1:] == ["It has 2 runs."]


# ----------------------------------------------------------------------------- attempts


def test_a_step_between_two_attempts_shows_the_next_one() -> None:
    assert why(one(A, retrying(avoid_nodes=["node-3", "node-7"])), "a") == [
        "Step a has been Waiting for 3s (since 12:01:12 UTC, Retrying): it runs again (1 of 3): "
        "the job f-a ended Failed: pod f-a-main-0 (task main): exit code 3 (Error).",
        "The next attempt starts in 12s (at 12:01:27 UTC) and avoids node-3 and node-7, where it "
        "failed.",
        "See its log: `jobflow logs f a`.",
    ]


def test_a_failed_step_shows_its_number_of_attempts() -> None:
    condition = StepCondition(phase="Failed", reason="JobFailed", job="f-a-r2", attempts=3)
    assert why(one(A, condition), "a")[1] == "It had 3 attempts."
    after_a_retry = StepCondition(
        phase="Failed", reason="JobFailed", job="f-a-r2", attempts=3, past_attempts=2
    )
    assert not any("attempts" in each for each in why(one(A, after_a_retry), "a"))


def test_the_timeout_of_a_running_step_is_shown() -> None:
    step = Step(name="a", timeout="2h")
    flow = one(step, StepCondition(phase="Running", job="f-a", attempts=1, deadline=SOON))
    assert "Its timeout of 2h expires in 12s (at 12:01:27 UTC)." in why(flow, "a")


@pytest.mark.parametrize("suspended", [None, SOON])
def test_the_queue_timeout_is_shown_unless_the_flow_is_suspended(
    suspended: datetime | None,
) -> None:
    step = Step(name="a", queue_timeout="2h")
    waits = StepCondition(phase="Pending", job="f-a", attempts=1, queue_deadline=SOON)
    shown = "Its queueTimeout of 2h expires in 12s (at 12:01:27 UTC)."
    flow = one(step, waits, status={"suspended_at": suspended})
    assert (shown in why(flow, "a")) == (suspended is None)


def test_the_timeout_of_vars_is_shown_as_computed() -> None:
    step = Step(name="a", timeout="$(vars.limit)", vars={"limit": "8"})
    runs = StepCondition(phase="Running", job="f-a", attempts=1, deadline=SOON, timeout="8s")
    assert "Its timeout of 8s expires in 12s (at 12:01:27 UTC)." in why(one(step, runs), "a")


# ---------------------------------------------------------------------------- decisions

DECISIONS: dict[str, tuple[Step, Decisions, str]] = {
    "when": (
        Step(name="a", when='params.env == "prod"'),
        Decisions(when=True),
        'Its condition is true: `params.env == "prod"`.',
    ),
    "switch": (
        Step(name="a", switch=[Case(), Case(when="params.n > 3", template="large")]),
        Decisions(case=1),
        "Its switch chose case 2 of 2 (`params.n > 3`): it runs the JobTemplate large.",
    ),
    "default": (
        Step(name="a", switch=[Case()]),
        Decisions(case=0),
        "Its switch chose case 1 of 1 (the default): it runs the JobTemplate a.",
    ),
    "switch of a container": (
        Step(name="a", switch=[Case(container={"image": "busybox"})]),
        Decisions(case=0),
        "Its switch chose case 1 of 1 (the default): it runs its container.",
    ),
    "items": (
        Step(name="a", for_each=ForEach(from_="params.\n  list")),
        Decisions(items=[1, 2, 3]),
        "Its 3 items come from `params. list`.",
    ),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_each_decision_is_explained(case: str) -> None:
    step, decisions, sentence = DECISIONS[case]
    condition = StepCondition(phase="Running", job="f-a", attempts=1, decisions=decisions)
    assert why(one(step, condition), "a")[1] == sentence


def test_a_branch_that_was_not_taken_shows_the_expression() -> None:
    condition = StepCondition(
        phase="Skipped",
        reason="NotTaken",
        message='`params.env == "prod"` does not hold',
        decisions=Decisions(when=False),
    )
    assert why(one(Step(name="a", when='params.env == "prod"'), condition), "a") == [
        'Step a was skipped (NotTaken): `params.env == "prod"` does not hold.'
    ]


# ----------------------------------------------------------------------------- the flow


def test_a_suspended_flow_shows_the_time_and_the_command() -> None:
    condition = StepCondition(phase="Waiting", reason="Suspended", message="the flow is suspended")
    status = {"suspended_at": NOW - timedelta(seconds=60), "suspended_by": "SuspendFlow"}
    flow = several([(A, RUNS), (Step(name="b"), condition)], status=status)
    assert why(flow)[1:] == [
        "It has been suspended for 1m (since 12:00:15 UTC): no step starts, and running jobs "
        "continue.",
        "`jobflow resume f` resumes it.",
        "Step a (for 1m15s) is Running.",
        "Step b waits for the flow to be resumed.",
    ]
    assert why(flow, "b")[-1] == "`jobflow resume f` resumes the flow."


@pytest.mark.parametrize(
    ("by", "sentence"),
    [
        ("AbortJob", "It has been suspended for 1m (since 12:00:15 UTC): no step starts, and "
         "running jobs are aborted."),
        ("spec.suspend", "It has been suspended since it was created, for 1m (since 12:00:15 UTC): "
         "no step starts, and running jobs continue."),
    ],
)  # fmt: skip
def test_the_cause_of_a_suspension_is_explained(by: str, sentence: str) -> None:
    status = {"suspended_at": NOW - timedelta(seconds=60), "suspended_by": by}
    assert why(one(A, RUNS, status=status))[1] == sentence


def test_steps_that_wait_for_parallelism_are_explained() -> None:
    message = "waits for room: the flow has at most 1 job at once"
    condition = StepCondition(phase="Waiting", reason="Parallelism", message=message)
    flow = several([(A, RUNS), *((Step(name=name), condition) for name in "bcdef")], parallelism=1)
    assert why(flow)[2:] == [
        "Steps b, c, d and 2 more wait until the flow runs fewer jobs (spec.parallelism)."
    ]
    assert why(flow, "b") == [
        f"Step b has been Waiting (Parallelism): it {message}.",
        "It starts by itself once a job of the flow has ended.",
    ]


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (None, "A step has failed, so no step starts except those that handle the failure; the "
         "flow will be Failed once it has finished."),
        ("Abort", "A step has failed, so running jobs are aborted, and no step starts except "
         "those that handle the failure; the flow will be Failed once it has finished."),
        ("Continue", "A step has failed, but steps that do not depend on it continue; the flow "
         "will be Failed once it has finished."),
    ],
)  # fmt: skip
def test_the_effect_of_a_failure_depends_on_the_policy(policy: str | None, sentence: str) -> None:
    flow = several([(A, FAILED), (Step(name="b"), RUNS)], failure_policy=policy)
    assert why(flow)[1] == sentence


def test_a_tolerated_failure_stops_no_other_step() -> None:
    flow = several([(Step(name="a", continue_on_failure=True), FAILED), (Step(name="b"), RUNS)])
    assert not any(each.startswith("A step has failed") for each in why(flow))
    assert (
        "It may fail (continueOnFailure) without failing the flow or blocking other steps."
        in why(flow, "a")
    )


def test_untaken_items_are_not_counted_as_missing() -> None:
    runs = [RunCondition(index=0, phase="Completed")]
    runs += [RunCondition(index=i, phase="Skipped", reason="NotTaken") for i in (1, 2, 3)]
    ended = StepCondition(phase="Completed", runs=runs)
    step = Step(name="a", for_each=ForEach(count=4))
    assert "It has 1/1 items, 3 not taken." in why(one(step, ended), "a")


def test_a_cause_that_was_dropped_is_said() -> None:
    runs = [
        RunCondition(index=i, phase="Failed", reason="JobFailed", job=f"f-a-{i}") for i in (0, 1)
    ]
    failed = StepCondition(phase="Failed", reason="JobFailed", message="item 0 failed", runs=runs)
    step = Step(name="a", for_each=ForEach(count=2))
    assert (
        "Item 1 failed (JobFailed): the cause was dropped, because the status of the flow is too "
        "large." in why(one(step, failed), "a")
    )


def test_an_error_of_the_flow_itself_is_not_called_tolerated() -> None:
    items = [
        RunCondition(index=i, phase="Failed", reason=r)
        for i, r in enumerate(("JobFailed", "Refused"))
    ]
    failed = StepCondition(phase="Failed", reason="JobFailed", runs=items)
    step = Step(name="a", continue_on_failure=True, for_each=ForEach(count=2))
    assert "Its continueOnFailure does not apply to an error of the flow itself in item 1." in why(
        one(step, failed), "a"
    )


def test_the_timeout_of_a_flow_is_shown() -> None:
    assert why(one(A, RUNS, timeout="1h"))[1] == "Its timeout of 1h expires at 13:00:01 UTC."
    state = FlowState(phase="Running", reason="Timeout", message="the flow took longer than 1h")
    assert why(one(A, RUNS, timeout="1h", status={"state": state}))[1] == (
        "The flow took longer than 1h; it will be Failed once all jobs have ended."
    )


def test_a_daemon_and_a_step_of_finally_are_explained() -> None:
    condition = StepCondition(phase="Waiting", message="waits until all other steps are over")
    flow = several([(Step(name="a", daemon=True), RUNS)], last=[(Step(name="z"), condition)])
    assert why(flow, "a")[1] == (
        "It is a daemon: its job is ended once no step needs it to run any more."
    )
    assert why(flow, "z") == ["Step z has been waiting for all other steps to finish."]


def test_a_step_of_finally_that_waits_for_another_one_is_explained() -> None:
    step = Step(name="z", depends_on=DependsOn(targets=["y"]))
    last = [(Step(name="y"), RUNS), (step, StepCondition(phase="Waiting"))]
    ended = [(Step(name="a"), StepCondition(phase="Completed", attempts=1))]
    assert why(several(ended, last=last), "z")[0] == (
        "Step z has been waiting for y (Running) to complete."
    )


AGAIN = [
    "`jobflow retry f` runs the failed steps and all that depends on them again, "
    "with the current templates.",
    "`jobflow resubmit f` runs all steps again, in a new flow; with a corrected file, "
    "`jobflow submit FILE --reuse f` runs only what has changed.",
]
INVALID = "Correct its file, and submit it under another name: `jobflow submit FILE --name f-2`."


@pytest.mark.parametrize(
    ("reason", "ttl", "last"),
    [
        ("StepFailed", None, AGAIN),
        (
            "StepFailed",
            60,
            [*AGAIN, "It will be deleted at 12:02:15 UTC, unless a flow reuses it then."],
        ),
        ("Invalid", None, [INVALID]),
    ],
)
def test_the_explanation_of_a_failed_flow_ends_with_commands(
    reason: str, ttl: int | None, last: list[str]
) -> None:
    status: dict[str, Any] = {
        "state": FlowState(phase="Failed", reason=reason, message="a failed"),
        "completion_time": NOW,
    }
    flow = one(A, FAILED, "Failed", status=status, ttl_seconds_after_finished=ttl)
    assert why(flow)[-len(last) :] == last


OWN = [
    "Step a has its own container or jobSpec: if that is wrong, correct the file; "
    "`jobflow submit FILE --reuse f` runs only what has changed, in a new flow.",
    "`jobflow retry f` runs the failed steps and all that depends on them again, with the same "
    "spec; `jobflow resubmit f` runs all steps again, in a new flow.",
]


@pytest.mark.parametrize(
    ("reason", "step_reason", "last"),
    [
        ("StepFailed", "JobFailed", OWN),
        ("StepFailed", "CancelledByUser", AGAIN),
        ("Cancelled", "JobAborted", AGAIN),
    ],
)
def test_a_step_whose_spec_cannot_change_is_corrected_first(
    reason: str, step_reason: str, last: list[str]
) -> None:
    step = Step(name="a", container={"image": "busybox"})
    status: dict[str, Any] = {"state": FlowState(phase="Failed", reason=reason)}
    flow = one(step, replace(FAILED, reason=step_reason), "Failed", status=status)
    assert why(flow)[-2:] == last


def test_a_completed_step_with_failed_pods_is_named_by_the_explanation_of_its_flow() -> None:
    partly = StepCondition(phase="Completed", message="1 of 4 pods failed", attempts=1)
    approved = StepCondition(phase="Completed", message="approved by ann", attempts=1)
    flow = several([(A, partly), (Step(name="b", approval=Approval()), approved)], "Succeed")
    assert [each for each in why(flow) if each.startswith("Step ")] == [
        "Step a completed: 1 of 4 pods failed."
    ]


def test_the_file_of_an_invalid_child_flow_is_that_of_its_outermost_flow() -> None:
    state = FlowState(phase="Failed", reason="Invalid", message="a fault")
    flow = one(A, FAILED, "Failed", name="f-a", status={"state": state})
    owner = OwnerReference(kind="JobFlow", name="f", controller=True)
    metadata = replace(flow.metadata, labels={ROOT: "f"}, owner_references=[owner])
    flow = replace(flow, metadata=metadata)
    assert why(flow)[-1] == INVALID


# ------------------------------------------------------------------------------- approvals


def asking(message: str = "Deploy?", **fields: Any) -> StepCondition:
    reason = "WaitingForApproval"
    return StepCondition(
        phase="Waiting",
        reason=reason,
        message=message,
        attempts=1,
        last_transition_time=START,
        **fields,
    )


APPROVE = "`jobflow approve f a` approves it, `jobflow reject f a` rejects it."


def test_an_approval_names_the_question_and_the_commands() -> None:
    flow = one(Step(name="a", approval=Approval()), asking())
    assert why(flow, "a") == [
        "Step a has been waiting for approval for 1m15s (since 12:00:00 UTC): Deploy?",
        APPROVE,
    ]
    assert why(flow, "a")[1] in why(flow)


def test_an_approval_says_what_its_timeout_does() -> None:
    step = Step(name="a", approval=Approval(timeout="1h", default="Approve"))
    assert why(one(step, asking("waits for approval", deadline=SOON)), "a")[:2] == [
        "Step a has been waiting for approval for 1m15s (since 12:00:00 UTC).",
        "Without an answer it is approved in 12s (at 12:01:27 UTC).",
    ]


def test_an_item_is_approved_by_its_index() -> None:
    runs = [run(0, "Completed"), run(1, "Waiting", reason="WaitingForApproval", message="To eu?")]
    step = Step(name="a", approval=Approval(), for_each=ForEach(count=3))
    found = why(one(step, asking("item 1: To eu?", runs=runs)), "a")
    assert found[1] == "It has 1/3 items done, 1 to approve."
    assert "`jobflow approve f a/1` approves it" in found[-1]


def test_work_without_objects_has_no_name_and_nothing_to_look_at() -> None:
    step = Step(name="a", approval=Approval())
    running = StepCondition(phase="Running", attempts=1, last_transition_time=START)
    assert why(one(step, running), "a") == [
        "Step a has been Running for 1m15s (since 12:00:00 UTC)."
    ]
    again = StepCondition(phase="Waiting", reason="Retrying", message="rejected", attempts=1)
    assert why(one(step, again), "a") == ["Step a has been Waiting (Retrying): rejected."]


def test_a_rejected_step_can_be_asked_again() -> None:
    rejected = StepCondition(
        phase="Failed", reason="Rejected", message="rejected by ann", attempts=1
    )
    found = why(one(Step(name="a", approval=Approval()), rejected), "a")
    assert found[-1] == "`jobflow retry f` asks for approval again."
