"""`plan` and `dependsOn.probe`: what is looked at inside targets, and what comes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobflow.api.jobflow import Step
from jobflow.api.pod import Pod
from jobflow.core.planning.actions import Check
from support.plan.plan_pods import going
from support.plan.plan_world import World, flow, world_of
from support.plan.probing_worlds import (
    HEALTHY,
    OPEN,
    PORT,
    SUCCEEDED,
    counted,
    probed,
    serving,
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
def test_how_far_pods_are(phase: str, pods: str, count: int | None, holds: bool) -> None:
    entry = {"taskName": "worker", "phase": phase, "count": count}
    planned = workers(serving({"taskStatusList": [entry]}), pods).plan()
    assert planned.creates == (["f-next"] if holds else [])
    assert planned.conditions["next"].reason == ("Starting" if holds else "WaitingForProbe")


def test_volcanos_count_is_as_good_as_pods() -> None:
    world = serving(SUCCEEDED)
    assert counted(world, worker={"Succeeded": 3}).plan().creates == ["f-next"]
    world = counted(world, worker={"Succeeded": 2, "Running": 1}, ps={"Succeeded": 3})
    assert world.plan().waiting_for_probe == {
        "next": "waits for serve: 2 of 3 pods of task worker Succeeded"
    }


def test_what_two_have_seen_is_not_added_up() -> None:
    world = counted(
        workers(serving(SUCCEEDED), "Succeeded Running Running"), worker={"Succeeded": 2}
    )
    assert world.plan().creates == []


def test_a_pod_that_is_being_deleted_does_not_run_but_has_succeeded() -> None:
    def deleting(pods: str, phase: str) -> World:
        entry = {"taskName": "worker", "phase": phase}
        world = workers(serving({"taskStatusList": [entry]}), pods)
        seen = {n: _going(world, pod) for n, pod in world.pods["uid-f-serve"].items()}
        return replace(world, pods={"uid-f-serve": seen})

    assert deleting("Running Running Running", "Running").plan().creates == []
    assert deleting("Succeeded Succeeded Succeeded", "Succeeded").plan().creates == ["f-next"]


def _going(world: World, pod: Pod) -> Pod:
    return going(pod, world.now)


def test_a_task_that_loses_a_pod_between_two_looks_has_to_have_it_again() -> None:
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


def test_all_entries_have_to_hold() -> None:
    both = SUCCEEDED["taskStatusList"] + [{"taskName": "ps", "phase": "Running"}]
    world = serving({"taskStatusList": both})
    world = world.with_pods("serve", ps="Pending", worker="Succeeded Succeeded Succeeded")
    assert world.plan().waiting_for_probe == {
        "next": "waits for serve: 0 of 1 pod of task ps Running"
    }
    assert workers(world, "Succeeded Succeeded Succeeded").plan().creates == ["f-next"]


def test_a_probe_with_nothing_in_it_is_none() -> None:
    world = serving({"taskStatusList": []}, condition="Running")
    assert world.plan().waiting == {}
    assert "f-next" in world.jobs


def test_requests_are_asked_for_while_the_job_is_there() -> None:
    world = serving(HEALTHY | OPEN)
    (asked,) = world.plan().plan.probes
    assert (asked.step, asked.job, asked.uid) == ("next", "f-serve", "uid-f-serve")
    assert asked.checks == (Check("ps", 1, 8080, "/healthz"), Check("worker", 3, 2222))
    assert world.plan().plan.actions == ()


def test_a_header_is_sent_along() -> None:
    get = HEALTHY["httpGetList"][0] | {"httpHeader": {"name": "X-Who", "value": "me"}}
    (asked,) = serving({"httpGetList": [get]}).plan().plan.probes
    assert asked.checks[0].header == ("X-Who", "me")


def test_nothing_is_asked_before_there_is_a_job() -> None:
    world = flow("serve", next=probed("serve", HEALTHY)).without_template("serve")
    planned = world.plan()
    assert (planned.probes, planned.waiting) == ([], {"next": "waits for serve (Waiting)"})


def test_what_stands_in_the_way_is_said() -> None:
    world = serving(HEALTHY)
    assert world.plan().waiting_for_probe == {
        "next": "waits for serve: task ps has not answered at port 8080 yet"
    }
    said = "10.0.0.7:8080/healthz of pod f-serve-ps-0 answers 503"
    planned = world.with_probe("next", "serve", said).plan()
    assert planned.waiting_for_probe == {"next": f"waits for serve: {said}"}
    assert (planned.reason, planned.phase) == ("", "Running")


def test_a_step_starts_when_its_requests_have_been_answered() -> None:
    world = serving(HEALTHY).with_probe("next", "serve", passed=True)
    planned = world.plan()
    assert (planned.creates, planned.plan.urgent) == (["f-next"], False)
    assert world.settled().plan().probes == []


def test_requests_and_phases_both_have_to_hold() -> None:
    world = serving(HEALTHY | SUCCEEDED).with_probe("next", "serve", passed=True)
    planned = workers(world, "Succeeded Running Running").plan()
    assert (planned.creates, planned.probes) == ([], [("next", "f-serve")])
    assert workers(world, "Succeeded Succeeded Succeeded").plan().creates == ["f-next"]


def test_an_answer_of_an_earlier_job_does_not_count() -> None:
    world = serving(HEALTHY).with_probe("next", "serve", passed=True, run=1)
    assert world.plan().creates == []


def test_a_target_that_has_passed_is_met_for_good() -> None:
    """It is written at once, and stays in the plan until then."""
    world = serving(HEALTHY).without_template("next").with_probe("next", "serve", passed=True)
    planned = world.plan()
    assert (planned.plan.urgent, planned.probes) == (True, [("next", "f-serve")])
    assert planned.conditions["next"].passed_targets == ["serve"]
    assert planned.held_up == {"next": "WaitingForTemplate"}
    world = replace(world.with_status(planned.status), probes={}).with_jobs(serve="Completed")
    planned = world.settled().plan()
    assert (planned.plan.urgent, planned.probes) == (False, [])
    assert world.settled().with_template("next").plan().creates == ["f-next"]


def test_what_was_passed_is_forgotten_when_the_step_has_begun() -> None:
    world = serving(HEALTHY).without_template("next").with_probe("next", "serve", passed=True)
    world = world.settled().with_template("next").settled()
    assert world.plan().conditions["next"].passed_targets is None
    assert world.plan().phases["next"] == "Pending"


def test_a_target_that_starts_again_has_passed_all_the_same() -> None:
    steps = [Step(name=n) for n in ("one", "two")]
    world = world_of([*steps, Step(name="next", depends_on=probed("one two", PORT))])
    world = world.with_jobs(one="Running", two="Running").with_probe("next", "one", passed=True)
    world = replace(world.settled(), probes={}).last_seen("one").settled().later(1).settled()
    assert sorted(world.jobs) == ["f-one", "f-one-r1", "f-two"]
    assert world.plan().probes == [("next", "f-two")]
    assert world.with_probe("next", "two", passed=True).plan().creates == ["f-next"]


def test_a_new_attempt_of_a_target_is_asked_anew() -> None:
    world = world_of([Step(name="one"), Step(name="next", depends_on=probed("one", PORT))])
    world = world.with_jobs(one="Running").settled()
    assert world.plan().probes == [("next", "f-one")]
    world = world.last_seen("one")
    assert world.settled().plan().probes == []
    assert world.settled().plan().waiting == {"next": "waits for one (Waiting)"}
    world = world.settled().later(1).settled()
    assert world.plan().probes == [("next", "f-one-r1")]
