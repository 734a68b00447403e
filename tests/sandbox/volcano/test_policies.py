"""Effects of policies, counts and commands on a vcjob, without a server."""

from datetime import timedelta
from typing import Any

import pytest

from jobflow.sandbox.jobs.objects import with_defaults
from jobflow.sandbox.jobs.policies import policy_faults
from support.sandbox.vcjobs import START, PlayedJob, job_spec, task


def running(*tasks: dict[str, Any], **spec: Any) -> PlayedJob:
    """Return a vcjob whose pods all run."""
    return PlayedJob(job_spec(*tasks, **spec)).begin().all_pods("Running")


def on(event: str, action: str, **more: Any) -> dict[str, Any]:
    return {"event": event, "action": action, **more}


ENDS = {
    "AbortJob": ["Aborting", "Aborted"],
    "TerminateJob": ["Terminating", "Terminated"],
    "CompleteJob": ["Completing", "Completed"],
    "RestartJob": ["Restarting", "Pending"],
    "RestartTask": ["Restarting", "Pending"],
    "RestartPod": ["Restarting", "Pending"],
}


@pytest.mark.parametrize("action", ENDS)
def test_a_failed_pod_triggers_an_action(action: str) -> None:
    job = running(task(replicas=2), minAvailable=2, policies=[on("PodFailed", action)])
    job.pod("j-t-0", "Failed").collect_pods()
    assert job.phases == ["Pending", "Running", *ENDS[action]]


@pytest.mark.parametrize(
    ("action", "pods"),
    [
        ("AbortJob", {"j-t-0": "Failed", "j-u-0": "Succeeded"}),
        ("TerminateJob", {"j-t-0": "Failed", "j-u-0": "Succeeded"}),
        ("CompleteJob", {"j-t-0": "Failed", "j-u-0": "Succeeded"}),
        ("RestartJob", {"j-t-0": "Pending", "j-t-1": "Pending", "j-u-0": "Pending"}),
        ("RestartTask", {"j-t-0": "Pending", "j-t-1": "Pending", "j-u-0": "Succeeded"}),
        ("RestartPod", {"j-t-0": "Pending", "j-t-1": "Running", "j-u-0": "Succeeded"}),
    ],
)
def test_an_action_restarts_or_keeps_pods(action: str, pods: dict[str, str]) -> None:
    job = running(task(replicas=2), task("u"), minAvailable=1, policies=[on("PodFailed", action)])
    job.pod("j-u-0", "Succeeded").pod("j-t-0", "Failed").collect_pods()
    assert {pod.name: pod.phase for pod in job.pods.values()} == pods


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        ({"exitCode": 3, "action": "CompleteJob"}, 3, "Completed"),
        ({"exitCode": 3, "action": "CompleteJob"}, 4, "Failed"),
        ({"events": ["PodEvicted", "PodFailed"], "action": "AbortJob"}, 1, "Aborted"),
        (on("*", "TerminateJob"), 1, "Terminated"),
        (on("PodEvicted", "TerminateJob"), 1, "Failed"),
        (on("TaskCompleted", "TerminateJob"), 1, "Failed"),
    ],
)
def test_a_policy_matches_a_failure(policy: dict[str, Any], code: int, phase: str) -> None:
    job = (
        running(policies=[policy], minAvailable=1).pod("j-t-0", "Failed", code=code).collect_pods()
    )
    assert job.phase == phase


def test_a_policy_of_the_task_precedes_that_of_the_job() -> None:
    own = task(policies=[on("PodFailed", "CompleteJob")])
    job = running(own, minAvailable=1, policies=[on("PodFailed", "AbortJob")])
    assert job.pod("j-t-0", "Failed").phase == "Completed"


def test_a_policy_of_another_task_does_not_match() -> None:
    other = task("u", policies=[on("PodFailed", "AbortJob")])
    job = running(task(), other, minAvailable=1).pod("j-t-0", "Failed")
    assert job.phase == "Running"


def test_a_running_pod_triggers_no_policy() -> None:
    assert running(policies=[on("*", "AbortJob", timeout="1h")], minAvailable=1).phase == "Running"


def test_a_task_is_completed_with_its_last_pod() -> None:
    worker = task("w", 2, policies=[on("TaskCompleted", "CompleteJob")])
    job = running(task("ps"), worker, minAvailable=3).pod("j-w-0", "Succeeded")
    assert job.phase == "Running"
    job.pod("j-w-1", "Succeeded")
    assert (job.phase, job.status.terminating) == ("Completing", 1)
    job.collect_pods()
    assert (job.phase, sorted(job.pods)) == ("Completed", ["j-w-0", "j-w-1"])


def test_a_task_fails_after_too_many_container_restarts() -> None:
    policies = [on("TaskFailed", "TerminateJob")]
    job = running(task(replicas=2, maxRetry=3), minAvailable=1, policies=policies)
    job.pod("j-t-0", "Running", restarts=2)
    assert job.phase == "Running"
    job.pod("j-t-1", "Running", restarts=1).collect_pods()
    assert job.phase == "Terminated"


@pytest.mark.parametrize(
    ("spec", "outcomes", "phase"),
    [
        ({"minAvailable": 2}, "SSF", "Completed"),
        ({"minAvailable": 3}, "SSF", "Failed"),
        ({"minAvailable": 1}, "FFF", "Failed"),
        ({"minAvailable": 3, "minSuccess": 1}, "FSF", "Completed"),
        ({"minAvailable": 1, "minSuccess": 2}, "FSF", "Failed"),
        ({"minAvailable": 3, "minSuccess": 2}, "SS", "Completed"),
        ({"minAvailable": 2}, "SS", "Running"),
        ({"minAvailable": 2}, "FF", "Running"),
    ],
)
def test_a_job_without_policies_ends_by_its_counts(
    spec: dict[str, Any], outcomes: str, phase: str
) -> None:
    job = running(task(replicas=3), **spec)
    for index, letter in enumerate(outcomes):
        job.pod(f"j-t-{index}", {"S": "Succeeded", "F": "Failed"}[letter])
    assert job.phase == phase


def test_a_task_that_misses_its_own_minimum_fails_the_job() -> None:
    first, second = task("a", 2, minAvailable=1), task("b", 2, minAvailable=2)
    job = running(first, second, minAvailable=3)
    for name, phase in {"j-a-0": "Succeeded", "j-a-1": "Succeeded", "j-b-0": "Succeeded"}.items():
        job.pod(name, phase)
    assert job.pod("j-b-1", "Failed").phase == "Failed"


def test_a_job_fails_after_max_retry_and_keeps_the_last_pods() -> None:
    job = running(minAvailable=1, maxRetry=2, policies=[on("PodFailed", "RestartJob")])
    job.pod("j-t-0", "Failed").collect_pods().all_pods("Running").pod("j-t-0", "Failed")
    assert job.phases[-2:] == ["Restarting", "Failed"]
    assert (job.status.retry_count, job.created[-1]) == (2, ("j-t-0", 1, 1))
    assert job.pods["j-t-0"].phase == "Failed"


def test_a_pod_that_fails_while_its_job_restarts_is_replaced_too() -> None:
    policies = [on("PodFailed", "RestartJob")]
    job = running(task(replicas=2), minAvailable=2, maxRetry=2, policies=policies)
    job.pod("j-t-0", "Failed").delete_pod("j-t-0")  # and j-t-1 still terminates
    job.pod("j-t-0", "Failed").collect_pods()
    assert (job.phase, job.status.retry_count) == ("Pending", 1)
    assert [pod.phase for pod in job.pods.values()] == ["Pending", "Pending"]


def test_pods_of_an_earlier_version_trigger_no_policy() -> None:
    policies = [on("PodFailed", "RestartJob"), on("PodEvicted", "AbortJob")]
    job = running(task(replicas=2), minAvailable=2, maxRetry=5, policies=policies)
    job.pod("j-t-0", "Failed").pod("j-t-1", "Failed")
    assert (job.phase, job.status.retry_count) == ("Pending", 1) or job.phase == "Restarting"
    assert job.collect_pods().status.retry_count == 1


def test_a_finished_job_does_not_change() -> None:
    job = running(minAvailable=1).pod("j-t-0", "Succeeded")
    written = len(job.history)
    for action in (*ENDS, "ResumeJob"):
        job.command(action)
    assert (job.phase, len(job.history)) == ("Completed", written)


def test_a_job_that_is_being_deleted_does_not_change() -> None:
    job = running(minAvailable=1)
    job.deleting = True
    written = len(job.history)
    job.delete_pod("j-t-0").command("AbortJob")
    assert (job.phase, job.pods, len(job.history)) == ("Running", {}, written)


class TestTimeouts:
    """A policy's timeout delays its action."""

    def test_an_action_waits_for_the_timeout(self) -> None:
        delayed = on("PodFailed", "AbortJob", timeout="10s")
        job = running(task(replicas=2), minAvailable=1, policies=[delayed]).pod("j-t-0", "Failed")
        assert job.inbox.next_due == START + timedelta(seconds=10)
        assert job.wait(9).phase == "Running"
        assert job.wait(1).collect_pods().phase == "Aborted"

    def test_a_policy_for_pending_pods_needs_a_timeout(self) -> None:
        job = PlayedJob(job_spec(minAvailable=1, policies=[on("PodPending", "AbortJob")])).begin()
        assert job.inbox.next_due is None
        assert job.wait(3600).phase == "Pending"

    def test_a_pod_that_runs_in_time_cancels_the_action(self) -> None:
        delayed = on("PodPending", "AbortJob", timeout="1m")
        job = PlayedJob(job_spec(minAvailable=1, policies=[delayed])).begin().wait(30)
        assert job.all_pods("Running").wait(3600).phase == "Running"

    def test_a_running_successor_cancels_the_action(self) -> None:
        delayed = on("PodEvicted", "AbortJob", timeout="1m")
        job = running(minAvailable=1, policies=[delayed]).delete_pod("j-t-0").wait(30)
        assert job.all_pods("Running").wait(3600).phase == "Running"

    def test_an_action_on_the_job_cancels_delayed_actions(self) -> None:
        delayed = [
            on("PodFailed", "AbortJob", timeout="1m"),
            on("PodEvicted", "RestartJob"),
        ]
        job = running(task(replicas=3), minAvailable=1, policies=delayed).pod("j-t-0", "Failed")
        job.delete_pod("j-t-1").collect_pods()
        assert job.inbox.next_due is None


class TestDependsOn:
    """Tasks that wait for tasks of the same job."""

    def test_a_pod_that_is_not_ready_does_not_count(self) -> None:
        worker = task("w", dependsOn={"name": ["ps"]})
        job = PlayedJob(with_defaults(job_spec(task("ps"), worker))).begin()
        job.pod("j-ps-0", "Running", ready=False)
        assert "j-w-0" not in job.pods

    @pytest.mark.parametrize(("iteration", "started"), [("any", True), ("all", False)])
    def test_a_task_can_wait_for_any_or_all_dependencies(
        self, iteration: str, started: bool
    ) -> None:
        last = task("c", dependsOn={"name": ["a", "b"], "iteration": iteration})
        job = PlayedJob(with_defaults(job_spec(task("a"), task("b"), last))).begin()
        assert ("j-c-0" in job.pod("j-b-0", "Running").pods) is started


def test_a_change_of_replicas_scales_a_job() -> None:
    job = running(task(replicas=2), minAvailable=1)
    job.spec = job_spec(task(replicas=1), minAvailable=1)
    job.begin()
    assert (job.pods["j-t-1"].deleting, job.status.terminating) == (True, 1)
    job.collect_pods()
    job.spec = job_spec(task(replicas=3), minAvailable=1)
    assert sorted(job.begin().pods) == ["j-t-0", "j-t-1", "j-t-2"]


def test_only_the_failed_partition_is_restarted() -> None:
    job = running(task(replicas=4), minAvailable=1, policies=[on("PodFailed", "RestartPartition")])
    for index in range(4):
        job.pod(f"j-t-{index}", "Running", partition=str(index // 2))
    job.pod("j-t-0", "Failed")
    assert [name for name, pod in job.pods.items() if pod.deleting] == ["j-t-0", "j-t-1"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {"queue": "default", "scheduler_name": "volcano", "max_retry": 3, "min_available": 5}),
        ({"minAvailable": 2, "queue": "q"}, {"min_available": 2, "queue": "q"}),
        ({"maxRetry": 0, "minAvailable": 0}, {"max_retry": 3, "min_available": 5}),
    ],
)
def test_defaults_match_the_webhook_of_volcano(
    fields: dict[str, Any], expected: dict[str, Any]
) -> None:
    tasks = [task("", 2), task("b", 4, minAvailable=3)]
    spec = with_defaults(job_spec(*tasks, **fields))
    assert {name: getattr(spec, name) for name in expected} == expected
    first, second = spec.tasks or []
    assert (first.name, first.min_available, first.max_retry) == ("default0", 2, 3)
    assert (second.name, second.min_available) == ("b", 3)


def test_a_partition_policy_sets_the_minimum_of_a_task() -> None:
    partitions = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
    [only] = with_defaults(job_spec(task(replicas=8, partitionPolicy=partitions))).tasks or []
    assert only.min_available == 6


def test_invalid_policies_are_faults() -> None:
    policies = [
        on("PodFailed", "CompletedJob"),
        on("PodPending", "AbortJob", timeout="5"),
    ]
    assert policy_faults(job_spec(policies=policies)) == [
        "spec.policies[0].action: 'CompletedJob' is not an action",
        "spec.policies[1].timeout: '5' is not a duration: write it like 2s, 500ms or 1m30s",
    ]
