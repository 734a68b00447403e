"""The reference, the code and the worlds below have the same reasons, and each one appears."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Approval, Concurrency, ForEach, Patch, Repeat
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowState, JobFlowStatus
from jobflow.api.flow.step import DependsOn, Step
from jobflow.core.planning.observed.child_flow import observe
from jobflow.core.planning.observed.view import PodsRead
from jobflow.core.reasons import FlowReason, StepReason
from support.paths import ROOT
from support.plan.foreign_jobs import foreign
from support.plan.loop_worlds import end_jobs, finish, repeated, retried, two_steps
from support.plan.plan_world import Planned, World, after, flow, world_of
from support.plan.probing_worlds import SUCCEEDED, plan_after_reads, serving, workers
from support.plan.reusing_worlds import reusing
from support.plan.steps import step

REFERENCE = ROOT / "docs" / "reference.md"
NONE = "(none)"
RUNS = "its job's phase"


def started() -> World:
    """Return a running step a, on which b depends."""
    return flow("a", b="a").with_jobs(a="Running").settled()


def given_up() -> World:
    return started().with_command("CancelStep", text="a")


def skipped() -> World:
    return started().with_command("SkipStep", text="a")


def rerun() -> World:
    """Return a flow whose step b runs, and whose step a is to run again."""
    world = end_jobs(end_jobs(started(), "Completed", "f-a"), "Running", "f-b")
    return world.with_command("RetrySteps", text="a")


def lost() -> World:
    return started().without_jobs("a").with_missing("f-a")


def without_outputs() -> World:
    """Return a flow in which b reads an output that a does not have."""
    patch = Patch(job_spec={"queue": "$(steps.a.outputs.queue)"})
    steps = [Step(name="a"), Step(name="b", depends_on=DependsOn(targets=["a"]), patch=patch)]
    return world_of(steps).with_jobs(a="Running").settled()


def without_a_pod() -> World:
    """Complete the vcjob; its pod, whose outputs b reads, was never observed."""
    world = without_outputs().with_jobs(a="Completed")
    return replace(world, read={"uid-f-a": PodsRead()})


def unread() -> World:
    """Complete the vcjob; its pod, whose outputs b reads, is unreadable for some time."""
    world = without_a_pod()
    answer = PodsRead(trouble="503", retry_at=world.now + timedelta(seconds=2))
    return replace(world, read={"uid-f-a": answer})


def child_failed() -> World:
    """Return a flow whose step runs a child flow, which has failed."""
    world = world_of([Step(name="a", flow={"flows": [{"name": "x"}]})]).settled()
    failed = FlowState(phase="Failed", message="why")
    child = JobFlow(metadata=world.jobs["f-a"].metadata, status=JobFlowStatus(state=failed))
    return world.with_job(observe(child))


def with_output(text: str) -> World:
    return flow("a").with_spec(outputs={"x": text}).with_jobs(a="Completed")


def timed_out() -> World:
    return end_jobs(two_steps(timeout="1m").settled(), "Running", "f-a").later(61)


def queued_too_long() -> World:
    return end_jobs(two_steps(queue_timeout="1m").settled(), "Pending", "f-a").later(61)


def blocked() -> World:
    """Return an invalid flow that has started, so it continues as far as possible."""
    return flow("a", b="x").with_status(flow("a", b="a").stored().flow.status)


def two_branches() -> World:
    """Let c fail while d waits for b, which runs."""
    world = flow("a", "c", b="a", d="b").with_jobs(a="Completed", c="Running", b="Running")
    return world.settled().with_jobs(c="Failed")


def aborting() -> World:
    """Let a fail, so b is aborted."""
    world = flow("a", "b").with_spec(failure_policy="Abort").with_jobs(a="Running", b="Running")
    return world.settled().with_jobs(a="Failed")


def pausing() -> World:
    return two_steps(repeat=Repeat(until="false", max=2, pause="1h")).settled()


def asking() -> World:
    return flow(ok=step(approval=Approval()))


def served() -> World:
    """Complete b, so the daemon a is ended."""
    world = flow("b", a=step(daemon=True)).with_jobs(a="Running", b="Running").settled()
    return world.with_jobs(b="Completed")


def matching(own: ForEach | None = None) -> World:
    """Let each of a's three items be followed by an item of b."""
    b = Step(depends_on=DependsOn(targets=["a"], items="Matching"), for_each=own)
    a = step(for_each=ForEach(count=3))
    return flow(a=a, b=b).settled().settled()


def tolerant(phase: str, **each: Any) -> World:
    """End one of two items."""
    world = flow(a=step(for_each=ForEach(count=2, **each))).settled()
    return end_jobs(world, phase, "f-a-0")


def queued() -> World:
    return flow("a").with_spec(concurrency=Concurrency(group="g")).with_group("other")


STEPS: dict[tuple[str, str], Callable[[], World]] = {
    ("Waiting", NONE): started,
    ("Waiting", "WaitingForProbe"): lambda: workers(serving(SUCCEEDED), "Running Running Running"),
    ("Waiting", "WaitingForApproval"): asking,
    ("Failed", "Rejected"): lambda: asking().stored().with_command("RejectStep", text="ok"),
    ("Failed", "FailStep"): lambda: flow(a=step(fail="no data")),
    ("Waiting", "WaitingForTemplate"): lambda: flow("a").without_template("a"),
    ("Waiting", "Starting"): lambda: flow("a"),
    ("Waiting", "CreateRefused"): lambda: flow("a").stored().with_refusal("a", 403, retry_in=1),
    ("Waiting", "NameInUse"): lambda: flow("a").stored().with_holder("a", foreign(deleting=True)),
    ("Waiting", "JobLost"): lost,
    ("Waiting", "Stopped"): two_branches,
    ("Waiting", "Terminating"): lambda: flow("a", b="a").with_jobs(a="Completed").being_deleted(),
    ("Waiting", "Blocked"): blocked,
    ("Skipped", "Blocked"): lambda: end_jobs(blocked().settled(), "Completed", "f-a").stored(),
    ("Waiting", "Parallelism"): lambda: flow("a", "b").with_spec(parallelism=1),
    ("Waiting", "Suspended"): lambda: flow("a").with_spec(suspend=True),
    ("Waiting", "Concurrency"): queued,
    (RUNS, "Suspended"): lambda: started().with_command("AbortJob"),
    (RUNS, "FailurePolicy"): aborting,
    (RUNS, "CancelledByUser"): lambda: given_up().stored(),
    (RUNS, "SkippedByUser"): lambda: skipped().stored(),
    (RUNS, "Retrying"): lambda: rerun().stored(),
    ("Skipped", "SkippedByUser"): lambda: end_jobs(skipped().settled(), "Aborted", "f-a"),
    (RUNS, "DaemonEnded"): served,
    ("Completed", "DaemonEnded"): lambda: end_jobs(served().settled(), "Aborted", "f-a"),
    ("Failed", "CancelledByUser"): lambda: end_jobs(given_up().settled(), "Aborted", "f-a"),
    ("Failed", "FailurePolicy"): lambda: end_jobs(aborting().settled(), "Aborted", "f-b"),
    ("Waiting", "Retrying"): lambda: end_jobs(retried().settled(), "Failed", "f-a"),
    ("Waiting", "Repeating"): lambda: end_jobs(pausing(), "Completed", "f-a-0"),
    (RUNS, "Timeout"): timed_out,
    (RUNS, "QueueTimeout"): queued_too_long,
    (RUNS, "PodsUnread"): unread,
    ("Completed", "OutputsMissing"): without_a_pod,
    ("Failed", "Timeout"): lambda: end_jobs(timed_out().settled(), "Aborted", "f-a"),
    ("Failed", "QueueTimeout"): lambda: end_jobs(queued_too_long().settled(), "Aborted", "f-a"),
    ("Failed", "UntilNotReached"): lambda: end_jobs(
        repeated("false", 1).settled(), "Completed", "f-a-0"
    ),
    (RUNS, "Cancelled"): lambda: started().with_command(),
    ("Completed", "JobLost"): lambda: started().with_jobs(b="Running").without_jobs("a"),
    ("Completed", "Reused"): lambda: reusing(flow("a").run()),
    ("Failed", "JobFailed"): lambda: started().with_jobs(a="Failed"),
    ("Failed", "FlowFailed"): child_failed,
    ("Failed", "JobTerminated"): lambda: started().with_jobs(a="Terminated"),
    ("Failed", "JobAborted"): lambda: started().with_jobs(a="Aborted"),
    ("Failed", "Cancelled"): lambda: started().cancelled().with_jobs(a="Aborted"),
    ("Failed", "Refused"): lambda: flow("a").stored().with_refusal("a", 422),
    ("Failed", "NameConflict"): lambda: flow("a").stored().with_holder("a", foreign()),
    ("Failed", "ProbeUnsatisfiable"): lambda: workers(
        serving(SUCCEEDED).with_jobs(serve="Completed"), "Succeeded Succeeded Failed"
    ),
    ("Failed", "OutputsTooLarge"): lambda: finish(flow("a").settled(), "f-a", "x" * 4096),
    ("Failed", "ExpressionError"): lambda: without_outputs().with_jobs(a="Completed"),
    (RUNS, "NotNeeded"): lambda: tolerant("Completed", min_success=1),
    (RUNS, "TooManyFailed"): lambda: tolerant("Failed", max_failed=0),
    ("Failed", "TooManyFailed"): lambda: end_jobs(
        tolerant("Failed", max_failed=0), "Completed", "f-a-1"
    ),
    ("Failed", "ItemsMismatch"): lambda: matching(ForEach(count=2)),
    ("Failed", "UpstreamFailed"): lambda: (
        end_jobs(end_jobs(matching(), "Completed", "f-a-0"), "Completed", "f-b-0")
        .ended("f-a-1", "Failed")
        .ended("f-a-2", "Failed")
    ),
    ("Skipped", "NotTaken"): lambda: flow("a", b=after("a", condition="Failed")).with_jobs(
        a="Completed"
    ),
    ("Skipped", "NotTargeted"): lambda: flow("a", "b").with_spec(targets=["a"]),
    ("Skipped", "UpstreamFailed"): lambda: started().with_jobs(a="Failed"),
    ("Skipped", "Stopped"): lambda: flow("a", "c", b="a").with_jobs(a="Completed", c="Failed"),
}

FLOWS: dict[str, Callable[[], World]] = {
    NONE: started,
    "StepFailed": lambda: started().with_jobs(a="Failed"),
    "NameConflict": STEPS["Failed", "NameConflict"],
    "Cancelled": lambda: started().with_command(),
    "Timeout": lambda: started().with_spec(timeout="60s").later(61),
    "Suspended": STEPS["Waiting", "Suspended"],
    "Concurrency": queued,
    "Invalid": lambda: flow("a", b="x"),
    "WaitingForApproval": asking,
    "ExpressionError": lambda: with_output('steps["a"].outputs.x'),
    "OutputsTooLarge": lambda: with_output(f'["{"x" * 900}"].map(x, x + x + x + x + x)'),
    "WaitingForTemplate": STEPS["Waiting", "WaitingForTemplate"],
    "CreateRefused": STEPS["Waiting", "CreateRefused"],
    "NameInUse": STEPS["Waiting", "NameInUse"],
    "JobLost": lost,
    "Blocked": blocked,
    "ReuseNotFound": lambda: replace(reusing(flow("a").run()), source=None),
}


def rows() -> tuple[list[tuple[str, str]], list[str]]:
    """Return the reference's (phase, reason) of steps, and its reasons of flows."""
    section = REFERENCE.read_text(encoding="utf-8").split("\n## Reasons\n")[1].split("\n## ")[0]
    of_steps, of_flows = section.split("\nReasons of a flow ")
    steps = [(cells[0], reason) for cells in _cells(of_steps) for reason in _names(cells[1])]
    return steps, [reason for cells in _cells(of_flows) for reason in _names(cells[0])]


def _cells(table: str) -> Iterator[list[str]]:
    lines = [line for line in table.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert all(cells), f"it says too little: {line}"
        yield cells


def _names(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell) or [cell]


def test_the_reference_lists_each_reason_of_these_worlds_once() -> None:
    of_steps, of_flows = rows()
    assert sorted(of_steps) == sorted(STEPS)
    assert sorted(of_flows) == sorted(FLOWS)


def test_the_reasons_in_the_code_are_those_of_the_reference() -> None:
    of_steps, of_flows = rows()
    assert {reason for _, reason in of_steps} == {NONE, *StepReason}
    assert set(FlowReason) <= set(of_flows) <= {NONE, *FlowReason, *StepReason}


def phases_and_reasons(planned: Planned) -> set[tuple[str, str]]:
    """Return the phases and reasons of all steps in the status."""
    status = msgspec.json.decode(msgspec.json.encode(planned.status))
    conditions = (status.get("conditions") or {}).values()
    return {(each["phase"], each.get("reason") or NONE) for each in conditions}


@pytest.mark.parametrize(("phase", "reason"), STEPS)
def test_a_reason_of_a_step_appears_and_is_explained(phase: str, reason: str) -> None:
    planned = plan_after_reads(STEPS[phase, reason]())
    phases = {at for at, why in phases_and_reasons(planned) if why == reason}
    assert phases
    if phase == RUNS:
        assert phases <= {"Pending", "Running", "Aborting"}
    else:
        assert phase in phases
    for condition in planned.conditions.values():
        if condition.reason:
            assert condition.message, f"{condition.reason} says nothing"


@pytest.mark.parametrize("reason", FLOWS)
def test_a_reason_of_a_flow_appears_and_is_explained(reason: str) -> None:
    planned = plan_after_reads(FLOWS[reason]())
    assert (planned.reason or NONE) == reason
    assert bool(planned.message) == (reason != NONE)


def test_the_architecture_says_where_each_reason_of_a_waiting_step_is_decided() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = {*re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)}
    reasons = [*StepReason]
    waiting = {*reasons[: reasons.index(StepReason.PARALLELISM) + 1], StepReason.STOPPED}
    assert listed == waiting
