"""`dependsOn.probe`: what a probe checks, and probes that can never pass."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.step import Step
from jobflow.api.volcano.pod import Pod
from jobflow.core.planning.actions import Check, JobProbe
from jobflow.core.planning.observed.view import PodsRead
from support.plan.plan_pods import deleting_pod
from support.plan.plan_world import World, flow, world_of
from support.plan.probing_worlds import (
    HEALTHY,
    OPEN,
    PORT,
    SERVE,
    SUCCEEDED,
    plan_after_reads,
    probed,
    serving,
    with_counts,
    workers,
)


@pytest.mark.parametrize(
    ("phase", "pods", "count", "holds"),
    [
        ("Succeeded", "Succeeded Succeeded Succeeded", None, True),
        ("Succeeded", "Succeeded Running Succeeded", None, False),
        ("Succeeded", "Succeeded Succeeded", None, False),
        ("Succeeded", "Succeeded Running Succeeded", 2, True),
        ("Succeeded", "Failed Failed Failed", None, False),
        ("Failed", "Failed Running Running", 1, True),
        ("Failed", "Succeeded Succeeded Succeeded", 1, False),
        ("Running", "Running Running Running", None, True),
        ("Running", "Running Succeeded Failed", None, True),
        ("Running", "Running Running Pending", None, False),
        ("Running", "Running Running Unknown", None, False),
        ("Running", "Running Pending Pending", 1, True),
        ("Pending", "Pending Running Succeeded", None, True),
        ("Pending", "Pending Unknown Failed", None, True),
        ("Pending", "Pending Pending", None, False),
    ],
)
def test_a_probe_checks_pod_phases(phase: str, pods: str, count: int | None, holds: bool) -> None:
    entry = {"taskName": "worker", "phase": phase, "count": count}
    planned = workers(serving({"taskStatusList": [entry]}), pods).plan()
    assert planned.creates == (["f-next"] if holds else [])
    assert planned.conditions["next"].reason == ("Starting" if holds else "WaitingForProbe")


def test_a_probe_accepts_the_counts_of_volcano() -> None:
    world = serving(SUCCEEDED)
    assert with_counts(world, worker={"Succeeded": 3}).plan().creates == ["f-next"]
    world = with_counts(world, worker={"Succeeded": 2, "Running": 1}, ps={"Succeeded": 3})
    assert world.plan().waiting_for_probe == {
        "next": "waits for serve: 2 of 3 pods of task worker Succeeded"
    }


def test_counts_of_volcano_and_of_pods_are_not_added() -> None:
    world = with_counts(
        workers(serving(SUCCEEDED), "Succeeded Running Running"), worker={"Succeeded": 2}
    )
    assert world.plan().creates == []


def test_a_pod_that_is_being_deleted_does_not_run_but_has_succeeded() -> None:
    def deleting(pods: str, phase: str) -> World:
        entry = {"taskName": "worker", "phase": phase}
        world = workers(serving({"taskStatusList": [entry]}), pods)
        seen = {n: _deleting(world, pod) for n, pod in world.pods["uid-f-serve"].items()}
        return replace(world, pods={"uid-f-serve": seen})

    assert deleting("Running Running Running", "Running").plan().creates == []
    assert deleting("Succeeded Succeeded Succeeded", "Succeeded").plan().creates == ["f-next"]


def _deleting(world: World, pod: Pod) -> Pod:
    return deleting_pod(pod, world.now)


def test_a_task_that_loses_a_pod_needs_it_again() -> None:
    world = serving({"taskStatusList": [{"taskName": "worker", "phase": "Running"}]})
    world = workers(world, "Running Running").settled()
    assert workers(world, "Running").plan().waiting_for_probe == {
        "next": "waits for serve: 1 of 3 pods of task worker Running"
    }
    assert workers(world, "Running Running Running").plan().creates == ["f-next"]


def test_pods_of_another_job_do_not_count() -> None:
    world = workers(serving(SUCCEEDED), "Succeeded Succeeded Succeeded")
    pods = {"uid-of-an-earlier-one": world.pods["uid-f-serve"]}
    assert replace(world, pods=pods).plan().creates == []


def test_all_entries_of_a_probe_must_hold() -> None:
    both = SUCCEEDED["taskStatusList"] + [{"taskName": "ps", "phase": "Running"}]
    world = serving({"taskStatusList": both})
    world = world.with_pods("serve", ps="Pending", worker="Succeeded Succeeded Succeeded")
    assert world.plan().waiting_for_probe == {
        "next": "waits for serve: 0 of 1 pod of task ps Running"
    }
    assert workers(world, "Succeeded Succeeded Succeeded").plan().creates == ["f-next"]


def test_an_empty_probe_is_ignored() -> None:
    world = serving({"taskStatusList": []}, condition="Running")
    assert world.plan().waiting == {}
    assert "f-next" in world.jobs


def test_a_probe_is_planned_while_the_job_exists() -> None:
    world = serving(HEALTHY | OPEN)
    (sent,) = world.plan().plan.wants
    assert isinstance(sent, JobProbe)
    assert (sent.step, sent.job, sent.uid) == ("next", "f-serve", "uid-f-serve")
    assert sent.checks == (Check("ps", 1, 8080, "/healthz"), Check("worker", 3, 2222))
    assert world.plan().plan.actions == ()


def test_a_probe_has_its_header() -> None:
    get = HEALTHY["httpGetList"][0] | {"httpHeader": {"name": "X-Who", "value": "me"}}
    (sent,) = serving({"httpGetList": [get]}).plan().plan.wants
    assert isinstance(sent, JobProbe)
    assert sent.checks[0].header == ("X-Who", "me")


def test_no_probe_is_planned_before_the_job_exists() -> None:
    world = flow("serve", next=probed("serve", HEALTHY)).without_template("serve")
    planned = world.plan()
    assert (planned.probes, planned.waiting) == ([], {"next": "waits for serve (Waiting)"})


def test_the_message_explains_why_a_probe_has_not_passed() -> None:
    world = serving(HEALTHY)
    assert world.plan().waiting_for_probe == {
        "next": "waits for serve: task ps has not answered at port 8080 yet"
    }
    message = "10.0.0.7:8080/healthz of pod f-serve-ps-0 answers 503"
    planned = world.with_probe("next", "serve", message).plan()
    assert planned.waiting_for_probe == {"next": f"waits for serve: {message}"}
    assert (planned.reason, planned.phase) == ("", "Running")


def test_requests_and_phases_must_both_hold() -> None:
    world = serving(HEALTHY | SUCCEEDED).with_probe("next", "serve", passed=True)
    planned = workers(world, "Succeeded Running Running").plan()
    assert (planned.creates, planned.probes) == ([], [("next", "f-serve")])
    assert workers(world, "Succeeded Succeeded Succeeded").plan().creates == ["f-next"]


def test_a_result_for_an_earlier_job_does_not_count() -> None:
    world = serving(HEALTHY).with_probe("next", "serve", passed=True, run=1)
    assert world.plan().creates == []


def test_a_target_that_has_passed_stays_passed() -> None:
    """The status is written at once, and the probe stays in the plan until then."""
    world = serving(HEALTHY).without_template("next").with_probe("next", "serve", passed=True)
    planned = world.plan()
    assert (planned.plan.urgent, planned.probes) == (True, [("next", "f-serve")])
    assert planned.conditions["next"].passed_targets == ["serve"]
    assert planned.held_up == {"next": "WaitingForTemplate"}
    world = replace(world.with_status(planned.status), probes={}).with_jobs(serve="Completed")
    planned = world.settled().plan()
    assert (planned.plan.urgent, planned.probes) == (False, [])
    assert world.settled().with_template("next").plan().creates == ["f-next"]


def test_passed_targets_are_dropped_when_the_step_has_started() -> None:
    world = serving(HEALTHY).without_template("next").with_probe("next", "serve", passed=True)
    world = world.settled().with_template("next").settled()
    assert world.plan().conditions["next"].passed_targets is None
    assert world.plan().phases["next"] == "Pending"


def test_a_target_whose_job_is_lost_stays_passed() -> None:
    steps = [Step(name=n) for n in ("one", "two")]
    world = world_of([*steps, Step(name="next", depends_on=probed("one two", PORT))])
    world = world.with_jobs(one="Running", two="Running").with_probe("next", "one", passed=True)
    world = replace(world.settled(), probes={}).with_deleted("one").settled().later(1).settled()
    assert sorted(world.jobs) == ["f-one", "f-one-r1", "f-two"]
    assert world.plan().probes == [("next", "f-two")]
    assert world.with_probe("next", "two", passed=True).plan().creates == ["f-next"]


def test_a_new_attempt_of_a_target_gets_a_new_probe() -> None:
    world = world_of([Step(name="one"), Step(name="next", depends_on=probed("one", PORT))])
    world = world.with_jobs(one="Running").settled()
    assert world.plan().probes == [("next", "f-one")]
    world = world.with_deleted("one")
    assert world.settled().plan().probes == []
    assert world.settled().plan().waiting == {"next": "waits for one (Waiting)"}
    world = world.settled().later(1).settled()
    assert world.plan().probes == [("next", "f-one-r1")]


def test_workers_succeed_before_the_job_completes() -> None:
    """The workers succeed, a policy ends the ps pods, and the vcjob completes."""
    world = workers(serving(SUCCEEDED), "Succeeded Running Running").settled()
    world = workers(world.with_jobs(serve="Completed"), "Succeeded Running Running")
    world = world.with_pods("serve", watched=False, worker="Succeeded Succeeded Succeeded")
    planned = world.plan()
    assert (planned.reads, planned.creates) == (["f-serve"], [])
    assert plan_after_reads(world).creates == ["f-next"]


def test_pods_are_not_read_if_the_watched_ones_are_enough() -> None:
    three = "Succeeded Succeeded Succeeded"
    world = serving(SUCCEEDED).with_pods("serve", ps="Succeeded", worker=three)
    planned = world.with_jobs(serve="Completed").plan()
    assert (planned.reads, planned.creates) == ([], ["f-next"])


def test_the_last_counts_are_kept_after_the_end() -> None:
    world = with_counts(
        serving(SUCCEEDED).without_template("next"), worker={"Succeeded": 2}
    ).settled()
    assert world.plan().conditions["serve"].task_status_count is not None
    world = with_counts(world, worker={"Succeeded": 3}).settled().with_jobs(serve="Completed")
    assert world.with_template("next").plan().creates == ["f-next"]


def test_phases_that_were_not_reached_fail_the_step() -> None:
    world = workers(serving(SUCCEEDED).with_jobs(serve="Completed"), "Succeeded Failed Running")
    planned = plan_after_reads(world)
    assert planned.failed == {"next": "ProbeUnsatisfiable"}
    assert planned.conditions["next"].message == (
        "the probe cannot pass any more on serve: the job f-serve ended Completed with "
        "1 of 3 pods of task worker Succeeded"
    )
    assert (planned.phase, planned.reason) == ("Failed", "StepFailed")
    assert "StepFailed" in planned.events


def test_the_message_states_that_pods_could_not_be_read() -> None:
    world = serving(SUCCEEDED).with_jobs(serve="Completed")
    world = replace(world, read={"uid-f-serve": PodsRead(trouble="503 Service Unavailable")})
    planned = world.plan()
    assert planned.failed == {"next": "ProbeUnsatisfiable"}
    assert planned.conditions["next"].message.endswith("could not be read: 503 Service Unavailable")


def test_a_probe_waits_for_pods_that_cannot_be_read_yet() -> None:
    world = serving(SUCCEEDED).with_jobs(serve="Completed")
    answer = PodsRead(trouble="503", retry_at=world.now + timedelta(seconds=2))
    world = replace(world, read={"uid-f-serve": answer})
    planned = world.plan()
    assert planned.waiting_for_probe["next"].endswith("; its pods cannot be read yet: 503")
    assert (planned.reads, planned.plan.requeue_after) == ([], timedelta(seconds=2))
    world = world.stored()
    assert world.plan().nothing
    assert world.later(3600).plan().reads == ["f-serve"]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("", "task ps has not answered at port 8080 yet"),
        ("10.0.0.7:8080/healthz of pod f-serve-ps-0 answers 503",) * 2,
    ],
)
def test_requests_that_were_not_answered_in_time_fail_the_step(result: str, message: str) -> None:
    world = serving(HEALTHY).with_probe("next", "serve", result).with_jobs(serve="Completed")
    planned = world.plan()
    assert (planned.failed, planned.reads) == ({"next": "ProbeUnsatisfiable"}, [])
    assert planned.conditions["next"].message == (
        "the probe cannot pass any more on serve: the job f-serve ended Completed before "
        f"the probe passed: {message}"
    )


def test_answers_before_the_end_count() -> None:
    world = serving(HEALTHY).with_probe("next", "serve", passed=True)
    assert world.with_jobs(serve="Completed").plan().creates == ["f-next"]


def test_answers_are_kept_while_pods_are_read() -> None:
    world = serving(HEALTHY | SUCCEEDED).with_probe("next", "serve", passed=True)
    world = world.with_jobs(serve="Completed")
    world = workers(world, "Succeeded Succeeded Succeeded", watched=False)
    planned = world.plan()
    assert (planned.reads, planned.probes) == (["f-serve"], [("next", "f-serve")])
    assert plan_after_reads(world).creates == ["f-next"]


def test_a_deleted_target_job_is_judged_by_the_status() -> None:
    entry = {"taskName": "worker", "phase": "Succeeded", "count": 2}
    world = serving({"taskStatusList": [entry]}).without_template("next")
    world = (
        with_counts(world, worker={"Succeeded": 2}).settled().with_jobs(serve="Completed").settled()
    )
    conditions = {
        key: msgspec.structs.replace(condition, passed_targets=None)
        for key, condition in (world.flow.status.conditions or {}).items()
    }
    world = world.with_status_fields(conditions=conditions)
    assert world.without_jobs("serve").with_template("next").plan().creates == ["f-next"]


def test_a_probe_fails_if_the_job_of_its_target_was_deleted() -> None:
    for probe in (HEALTHY, SUCCEEDED):
        world = flow("serve", next=probed("serve", probe)).with_jobs(serve="Completed")
        stored = flow("serve", "next").with_jobs(serve="Completed").without_template("next")
        world = world.with_status(stored.settled().flow.status).without_jobs("serve")
        planned = world.plan()
        assert planned.failed == {"next": "ProbeUnsatisfiable"}
        assert "the job f-serve is gone" in planned.conditions["next"].message


def test_a_target_whose_job_was_resumed_stays_ended() -> None:
    """No pods are read, because the job is no longer that of its step."""
    stored = flow("serve", "other").with_jobs(serve="Aborted", other="Running").settled()
    world = serving(SUCCEEDED).with_status(stored.flow.status).with_jobs(serve="Running")
    planned = world.plan()
    assert (planned.failed["next"], planned.reads) == ("ProbeUnsatisfiable", [])


def test_a_probe_fails_if_its_target_never_had_a_job() -> None:
    world = flow("serve", next=probed("serve", SUCCEEDED)).with_refusal("serve", 422)
    planned = world.plan()
    assert planned.failed == {"serve": "Refused", "next": "ProbeUnsatisfiable"}
    assert planned.conditions["next"].message == (
        "the probe cannot pass any more on serve: serve ended before it had a job"
    )


@pytest.mark.parametrize(
    ("probe", "flaw"),
    [
        ({"httpGetList": [{"taskName": "web", "port": 80}]}, "the job f-serve has no task web"),
        ({"tcpSocketList": [{"port": 80}]}, "the job f-serve has no task without a name"),
        ({"tcpSocketList": [{"taskName": "ps", "port": 0}]}, "0 is no port"),
        ({"tcpSocketList": [{"taskName": "ps", "port": 65536}]}, "65536 is no port"),
        (
            {"httpGetList": [{"taskName": "ps", "port": 80, "path": "x"}]},
            "the path x does not begin with a slash",
        ),
        (
            {"taskStatusList": [{"taskName": "ps", "phase": "Done"}]},
            "Done is no phase that a pod reaches",
        ),
        (
            {"taskStatusList": [{"taskName": "ps", "phase": "Running", "count": 2}]},
            "task ps of the job f-serve has 1 pod, not 2",
        ),
        (
            {"taskStatusList": [{"taskName": "worker", "phase": "Running", "count": 4}]},
            "task worker of the job f-serve has 3 pods, not 4",
        ),
        (
            {"tcpSocketList": [{"taskName": "none", "port": 80}]},
            "task none of the job f-serve has no pods that could answer",
        ),
    ],
)
def test_a_probe_that_can_never_pass_fails_the_step(probe: dict[str, Any], flaw: str) -> None:
    """The flow was not admitted, or the template has changed since."""
    spec = {"tasks": [*SERVE["tasks"], {"name": "none", "replicas": 0}]}
    world = serving(probe, spec=spec)
    planned = world.plan()
    assert planned.failed == {"next": "ProbeUnsatisfiable"}
    message = f"the probe cannot pass any more on serve: {flaw}"
    assert (planned.conditions["next"].message, planned.probes) == (message, [])


def test_a_task_without_pods_has_every_phase() -> None:
    spec = {"tasks": [{"name": "ps", "replicas": 1}, {"name": "worker"}]}
    assert "f-next" in serving(SUCCEEDED, spec=spec).jobs


def test_a_task_without_a_name_has_the_default_name_of_volcano() -> None:
    entry = {"taskName": "default1", "phase": "Running"}
    spec = {"tasks": [SERVE["tasks"][0], {"replicas": 3}]}
    world = serving({"taskStatusList": [entry]}, spec=spec)
    assert world.plan().creates == []
    world = world.with_pods("serve", default1="Running Running Running")
    assert world.plan().creates == ["f-next"]
