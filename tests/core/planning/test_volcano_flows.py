"""Flows of Volcano run the same jobs in the same order, also if its controller started them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import yaml

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.flow.status import JobFlowStatus, StepCondition
from jobflow.api.flow.step import Step
from jobflow.api.volcano.job import Job
from jobflow.core.admission.validate import validate_flow
from jobflow.core.manifests.crd_schema import schema_violations, without_nulls
from support.admission.reviewed import knowing, template_of
from support.paths import ROOT
from support.plan.plan_world import World, after, flow, template, world_of
from support.plan.steps import step
from support.plan.world_state import NOW

CORPUS: list[dict[str, Any]] = yaml.safe_load(
    (ROOT / "tests" / "data" / "volcano-flows.yaml").read_text()
)
ACCEPTED = [case for case in CORPUS if "order" in case]
REFUSED = [case for case in CORPUS if "refused" in case]


def name_of(case: dict[str, Any]) -> str:
    return str(case["what"])


def stored(case: dict[str, Any]) -> JobFlow:
    """The flow as the API server stores it: without unknown fields and without a status."""
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow"} | case["flow"]
    assert schema_violations("JobFlow", flow, strict=False) == []
    flow = {key: value for key, value in flow.items() if key != "status"}
    return msgspec.convert(without_nulls("JobFlow", flow), JobFlow)


def test_the_corpus_is_complete() -> None:
    assert len(ACCEPTED) + len(REFUSED) == len(CORPUS) >= 30
    assert len({name_of(case) for case in CORPUS}) == len(CORPUS)


@pytest.mark.parametrize("case", ACCEPTED, ids=name_of)
def test_flows_that_volcano_runs_are_admitted_without_warnings(case: dict[str, Any]) -> None:
    flow = stored(case)
    verdict = validate_flow(flow, knowing(*(template_of(step.name, "w") for step in flow.steps)))
    assert (verdict.violations, verdict.warnings) == ((), ())


@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_flows_that_volcano_never_ends_are_refused(case: dict[str, Any]) -> None:
    flow = stored(case)
    known = knowing(*(template_of(step.name) for step in flow.steps))
    assert [v.path for v in validate_flow(flow, known).violations] == case["refused"]


@pytest.mark.parametrize("case", ACCEPTED, ids=name_of)
def test_flows_run_the_jobs_of_volcano_in_its_order(case: dict[str, Any]) -> None:
    flow, fails = stored(case), case.get("fails", {})
    name = flow.metadata.name
    world = world_of(flow.steps, name=name, retain=flow.spec.job_retain_policy)
    waves = []
    for _ in range(len(flow.steps) + 1):
        before = set(world.jobs)
        world = world.settled()
        created = [job for job in world.jobs if job not in before]
        if not created:
            break
        waves.append([job.removeprefix(f"{name}-") for job in created])
        for job in created:
            world = world.ended(job, fails.get(job.removeprefix(f"{name}-"), "Completed"))
    assert waves == case["order"]
    assert world.flow.status.state.phase == case["end"]
    assert sorted(jobs_in(world)) == sorted(case.get("left", all_jobs(case, name)))
    assert replace(world).plan().creates == []


def jobs_in(world: World) -> set[str]:
    return set(world.jobs) - world.deleted


def all_jobs(case: dict[str, Any], name: str) -> list[str]:
    return [f"{name}-{step}" for wave in case["order"] for step in wave]


MIDFLIGHT = ROOT / "tests" / "data" / "volcano-jobflow-midflight.yaml"


def midflight() -> World:
    """A flow that Volcano's controller started: a, b and d have completed, c runs."""
    text = MIDFLIGHT.read_text()
    items = yaml.safe_load(text)["items"]
    jobflow = msgspec.convert(next(i for i in items if i["kind"] == "JobFlow"), JobFlow)
    templates = [msgspec.convert(i, JobTemplate) for i in items if i["kind"] == "JobTemplate"]
    jobs = [msgspec.convert(i, Job) for i in items if i["kind"] == "Job"]
    world = World(jobflow, {t.metadata.name: t for t in templates})
    at = jobflow.metadata.creation_timestamp
    assert at is not None
    return replace(world, jobs={j.metadata.name: j for j in jobs}, now=at + timedelta(seconds=20))


def test_a_flow_that_volcano_started_is_continued() -> None:
    world = midflight()
    planned = world.plan()
    assert (planned.creates, planned.job_reads, planned.events) == ([], [], [])
    assert planned.phases == {
        "a": "Completed",
        "b": "Completed",
        "c": "Running",
        "d": "Completed",
        "e": "Waiting",
    }
    assert (planned.phase, planned.status.progress) == ("Running", "3/5")
    assert planned.status.start_time == world.flow.metadata.creation_timestamp

    world = world.settled().later(40).ended("test-c", "Completed")
    planned = world.plan()
    assert planned.creates == ["test-e"]
    world = world.settled().later(3).ended("test-e", "Completed").settled()
    assert world.flow.status.state.phase == "Succeed"
    assert sorted(world.jobs) == [f"test-{step}" for step in "abcde"]


def test_the_records_of_volcano_are_kept() -> None:
    world = midflight()
    assert world.plan().status.job_status_list == world.flow.status.job_status_list


def test_jobs_without_a_condition_are_known_from_the_job_status_list() -> None:
    """Volcano drops the condition of a deleted vcjob."""
    world = midflight()
    status = world.flow.status
    running = {"test-c": (status.conditions or {})["test-c"]}
    world = world.with_status(msgspec.structs.replace(status, conditions=running))
    world = replace(world, jobs={"test-c": world.jobs["test-c"]})
    planned = world.plan()
    assert (planned.creates, planned.job_reads, planned.status.progress) == ([], [], "3/5")
    assert planned.status.completed_jobs == ["test-a", "test-b", "test-d"]
    assert planned.conditions["a"].create_time == world.records["test-a"].start_timestamp


def test_a_running_job_of_volcano_that_is_lost_is_confirmed_and_run_again() -> None:
    world = replace(midflight(), jobs={})
    assert world.plan().job_reads == ["test-c"]
    world = world.with_missing("test-c").settled().later(1)
    assert world.plan().creates == ["test-c-r1"]


@pytest.mark.parametrize(
    ("phase", "then", "reason"),
    [("Terminated", "Failed", "JobTerminated"), ("Failed", "Failed", "JobFailed"), ("", "", "")],
)
def test_conditions_have_the_ends_of_deleted_jobs(phase: str, then: str, reason: str) -> None:
    conditions = {"f-a": StepCondition(phase=phase, create_time=NOW)}
    world = flow("a", "b").with_status(JobFlowStatus(conditions=conditions)).with_jobs(b="Running")
    planned = world.plan()
    assert planned.conditions["a"].reason == reason
    assert planned.job_reads == ([] if then else ["f-a"])
    assert template("a").metadata.name not in planned.creates


def taken_over(**steps: Any) -> World:
    """A flow that Volcano's controller started, whose step a runs."""
    conditions = {"f-a": StepCondition(phase="Running", create_time=NOW)}
    world = flow("a", **steps).with_status(JobFlowStatus(conditions=conditions))
    return world.with_jobs(a="Running").settled()


def test_steps_in_a_cycle_are_skipped_once_all_else_has_ended() -> None:
    world = taken_over(b="a c", c="b", d="c", e="a").later(1).ended("f-a", "Completed").settled()
    assert world.plan().held_up == {"b": "Blocked", "c": "Blocked", "d": "Blocked"}
    world = world.ended("f-e", "Completed").settled()
    assert world.plan().skipped == {"b": "Blocked", "c": "Blocked", "d": "Blocked"}
    assert world.end == ("Failed", "StepFailed")


def test_what_depends_on_a_step_that_does_not_exist_is_skipped() -> None:
    cleanup = after("b", condition="Finished")
    world = taken_over(b="a missing", c=cleanup).later(1).ended("f-a", "Completed").settled()
    assert world.plan().skipped == {"b": "Blocked", "c": "Stopped"}
    assert world.end == ("Failed", "StepFailed")


def test_finally_runs_after_a_cycle() -> None:
    world = taken_over(b="c", c="b")
    world = world.with_finally("z", x=Step(depends_on=after("y")), y=Step(depends_on=after("x")))
    world = world.later(1).ended("f-a", "Completed").settled()
    assert world.plan().phases["z"] == "Pending"
    assert world.ended("f-z", "Completed").settled().end == ("Failed", "StepFailed")


def test_a_daemon_beside_a_cycle_is_ended() -> None:
    world = taken_over(d=step(daemon=True), b="c", c="b").later(1)
    world = world.ended("f-a", "Completed").ended("f-d", "Running").settled()
    assert world.plan().conditions["d"].reason == "DaemonEnded"
    assert world.ended("f-d", "Aborted").settled().end == ("Failed", "StepFailed")
