"""`plan` and `dependsOn.probe`: targets that have ended, and probes that can never pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.core.planning.view import PodsRead
from support.plan.plan_world import flow
from support.plan.probing_worlds import (
    HEALTHY,
    SERVE,
    SUCCEEDED,
    counted,
    known,
    probed,
    serving,
    workers,
)


def test_the_first_users_case() -> None:
    """The workers succeed, the ps pods are ended by policy, and the vcjob completes."""
    world = workers(serving(SUCCEEDED), "Succeeded Running Running").settled()
    world = workers(world.with_jobs(serve="Completed"), "Succeeded Running Running")
    world = world.with_pods("serve", watched=False, worker="Succeeded Succeeded Succeeded")
    planned = world.plan()
    assert (planned.reads, planned.creates) == (["f-serve"], [])
    assert known(world).creates == ["f-next"]


def test_nothing_is_read_where_what_was_watched_will_do() -> None:
    three = "Succeeded Succeeded Succeeded"
    world = serving(SUCCEEDED).with_pods("serve", ps="Succeeded", worker=three)
    planned = world.with_jobs(serve="Completed").plan()
    assert (planned.reads, planned.creates) == ([], ["f-next"])


def test_what_was_counted_last_is_remembered_over_the_end() -> None:
    world = counted(serving(SUCCEEDED).without_template("next"), worker={"Succeeded": 2}).settled()
    assert world.plan().conditions["serve"].task_status_count is not None
    world = counted(world, worker={"Succeeded": 3}).settled().with_jobs(serve="Completed")
    assert world.with_template("next").plan().creates == ["f-next"]


def test_phases_that_did_not_come_about_fail_the_step() -> None:
    world = workers(serving(SUCCEEDED).with_jobs(serve="Completed"), "Succeeded Failed Running")
    planned = known(world)
    assert planned.failed == {"next": "ProbeUnsatisfiable"}
    assert planned.conditions["next"].message == (
        "the probe cannot pass any more on serve: the job f-serve ended Completed with "
        "1 of 3 pods of task worker Succeeded"
    )
    assert (planned.phase, planned.reason) == ("Failed", "StepFailed")
    assert "StepFailed" in planned.events


def test_pods_that_could_not_be_read_are_said() -> None:
    world = serving(SUCCEEDED).with_jobs(serve="Completed")
    world = replace(world, read={"uid-f-serve": PodsRead(trouble="503 Service Unavailable")})
    planned = world.plan()
    assert planned.failed == {"next": "ProbeUnsatisfiable"}
    assert planned.conditions["next"].message.endswith("could not be read: 503 Service Unavailable")


def test_a_probe_waits_for_pods_that_cannot_be_read_for_now() -> None:
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
    ("said", "message"),
    [
        ("", "task ps has not answered at port 8080 yet"),
        ("10.0.0.7:8080/healthz of pod f-serve-ps-0 answers 503",) * 2,
    ],
)
def test_requests_that_were_not_answered_in_time_fail_the_step(said: str, message: str) -> None:
    world = serving(HEALTHY).with_probe("next", "serve", said).with_jobs(serve="Completed")
    planned = world.plan()
    assert (planned.failed, planned.reads) == ({"next": "ProbeUnsatisfiable"}, [])
    assert planned.conditions["next"].message == (
        "the probe cannot pass any more on serve: the job f-serve ended Completed before "
        f"the probe passed: {message}"
    )


def test_requests_that_were_answered_just_before_the_end_count() -> None:
    world = serving(HEALTHY).with_probe("next", "serve", passed=True)
    assert world.with_jobs(serve="Completed").plan().creates == ["f-next"]


def test_what_was_answered_is_kept_while_pods_are_read() -> None:
    world = serving(HEALTHY | SUCCEEDED).with_probe("next", "serve", passed=True)
    world = world.with_jobs(serve="Completed")
    world = workers(world, "Succeeded Succeeded Succeeded", watched=False)
    planned = world.plan()
    assert (planned.reads, planned.probes) == (["f-serve"], [("next", "f-serve")])
    assert known(world).creates == ["f-next"]


def test_a_target_whose_job_is_gone_is_judged_by_what_is_remembered() -> None:
    entry = {"taskName": "worker", "phase": "Succeeded", "count": 2}
    world = serving({"taskStatusList": [entry]}).without_template("next")
    world = counted(world, worker={"Succeeded": 2}).settled().with_jobs(serve="Completed").settled()
    conditions = {
        key: msgspec.structs.replace(condition, passed_targets=None)
        for key, condition in (world.flow.status.conditions or {}).items()
    }
    world = world.with_status(msgspec.structs.replace(world.flow.status, conditions=conditions))
    assert world.without_jobs("serve").with_template("next").plan().creates == ["f-next"]


def test_a_target_whose_job_is_gone_can_no_longer_be_asked() -> None:
    for probe in (HEALTHY, SUCCEEDED):
        world = flow("serve", next=probed("serve", probe)).with_jobs(serve="Completed")
        stored = flow("serve", "next").with_jobs(serve="Completed").without_template("next")
        world = world.with_status(stored.settled().flow.status).without_jobs("serve")
        planned = world.plan()
        assert planned.failed == {"next": "ProbeUnsatisfiable"}
        assert "the job f-serve is gone" in planned.conditions["next"].message


def test_a_target_whose_job_was_resumed_has_ended_all_the_same() -> None:
    """Nothing is read again and again, for what it does now is not its step's doing."""
    stored = flow("serve", "other").with_jobs(serve="Aborted", other="Running").settled()
    world = serving(SUCCEEDED).with_status(stored.flow.status).with_jobs(serve="Running")
    planned = world.plan()
    assert (planned.failed["next"], planned.reads) == ("ProbeUnsatisfiable", [])


def test_a_target_that_never_had_a_job_cannot_be_looked_into() -> None:
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
def test_a_probe_that_can_never_pass_is_not_waited_for(probe: dict[str, Any], flaw: str) -> None:
    """Past admission, or of a template that has changed since."""
    spec = {"tasks": [*SERVE["tasks"], {"name": "none", "replicas": 0}]}
    world = serving(probe, spec=spec)
    planned = world.plan()
    assert planned.failed == {"next": "ProbeUnsatisfiable"}
    message = f"the probe cannot pass any more on serve: {flaw}"
    assert (planned.conditions["next"].message, planned.probes) == (message, [])


def test_every_pod_of_a_task_without_pods_has_any_phase() -> None:
    spec = {"tasks": [{"name": "ps", "replicas": 1}, {"name": "worker"}]}
    assert "f-next" in serving(SUCCEEDED, spec=spec).jobs


def test_a_task_without_a_name_has_the_one_that_volcano_gives_it() -> None:
    entry = {"taskName": "default1", "phase": "Running"}
    spec = {"tasks": [SERVE["tasks"][0], {"replicas": 3}]}
    world = serving({"taskStatusList": [entry]}, spec=spec)
    assert world.plan().creates == []
    world = world.with_pods("serve", default1="Running Running Running")
    assert world.plan().creates == ["f-next"]
