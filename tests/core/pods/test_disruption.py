"""Disruptions of pods, as Kubernetes and Volcano mark them."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from jobflow.api.flow.status import StepFailure
from jobflow.api.volcano.job import Job, JobOutline, PolicyOutline, TaskOutline
from jobflow.api.volcano.pod import Pod, PodCondition
from jobflow.core.pods.failure import find_eviction_by_policy, find_first_failure
from support.plan.plan_pods import pod_of
from support.plan.plan_world import flow
from support.sandbox.containers import ended, with_containers

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(index: int = 0, phase: str = "Failed", reason: str = "") -> Pod:
    found = pod_of(flow("b").job("b", "Failed"), "worker", index, phase)
    return with_containers(found, ended(1, at=NOON), node="n1", reason=reason)


def marked(found: Pod, reason: str, kind: str = "DisruptionTarget", status: str = "True") -> Pod:
    condition = PodCondition(
        type=kind,
        status=status,
        reason=reason,
        message="make room",
        last_transition_time=NOON - timedelta(seconds=5),
    )
    changed = msgspec.structs.replace(found.status, conditions=[condition])
    return msgspec.structs.replace(found, status=changed)


def failure(*pods: Pod) -> StepFailure:
    found = find_first_failure(pods)
    assert found is not None
    return found.failure


@pytest.mark.parametrize(
    ("disrupted", "reason"),
    [
        (marked(pod(), "EvictionByEvictionAPI"), "Evicted"),
        (marked(pod(), "PreemptionByScheduler"), "Preempted"),
        (marked(pod(), "DeletionByTaintManager"), "NodeLost"),
        (marked(pod(), "DeletionByPodGC"), "NodeLost"),
        (marked(pod(reason="Evicted"), "TerminationByKubelet"), "Evicted"),
        (marked(pod(reason="Terminated"), "TerminationByKubelet"), "NodeLost"),
        (marked(pod(), "SomethingNew"), "SomethingNew"),
        (marked(pod(phase="Running"), "PreemptionByScheduler"), "Preempted"),
        (marked(pod(phase="Running"), "Evict", "Ready", "False"), "Preempted"),
        (pod(reason="Evicted"), "Evicted"),
        (pod(reason="Preempting"), "Preempted"),
        (pod(reason="NodeLost"), "NodeLost"),
        (pod(reason="NodeShutdown"), "NodeLost"),
    ],
)
def test_a_pod_that_the_cluster_ended_is_disrupted(disrupted: Pod, reason: str) -> None:
    found = failure(disrupted)
    assert (found.disruption, found.reason, found.node) == (True, reason, "n1")
    assert (found.exit_code, found.container) == (None, "")


@pytest.mark.parametrize(
    "own",
    [
        pod(),
        pod(reason="DeadlineExceeded"),
        marked(pod(), "EvictionByEvictionAPI", status="False"),
        marked(pod(), "ContainersNotReady", "Ready", "False"),
    ],
)
def test_any_other_failure_is_the_pods_own(own: Pod) -> None:
    assert not failure(own).disruption


def test_other_pods_failed_as_a_result_of_the_disruption_unless_they_failed_before_it() -> None:
    disrupted = marked(pod(1), "EvictionByEvictionAPI")
    earlier = with_containers(pod(2), ended(3, at=NOON - timedelta(seconds=9)))
    assert failure(pod(0), disrupted).pod == "f-b-worker-1"
    assert failure(pod(0), disrupted, earlier).exit_code == 3


def ended_job(phase: str, *policies: PolicyOutline, of_task: bool = False) -> Job:
    spec = JobOutline(
        tasks=[TaskOutline(name="t", policies=list(policies) if of_task else None)],
        policies=None if of_task else list(policies),
    )
    return msgspec.structs.replace(flow("b").job("b", phase), spec=spec)


TERMINATE = PolicyOutline(event="PodEvicted", action="TerminateJob")
ABORT = PolicyOutline(events=["PodFailed", "PodEvicted"], action="AbortJob")


@pytest.mark.parametrize("of_task", [False, True])
@pytest.mark.parametrize(
    ("phase", "policies", "evicted"),
    [
        ("Terminated", [TERMINATE], True),
        ("Aborted", [TERMINATE, ABORT], True),
        ("Aborted", [TERMINATE], False),
        ("Failed", [TERMINATE, ABORT], False),
        ("Terminated", [PolicyOutline(event="*", action="TerminateJob")], False),
        ("Terminated", [PolicyOutline(event="PodEvicted", action="RestartJob")], False),
        ("Terminated", [], False),
    ],
)
def test_a_policy_for_evicted_pods_ends_a_job_by_a_disruption(
    phase: str, policies: list[PolicyOutline], evicted: bool, of_task: bool
) -> None:
    found = find_eviction_by_policy(ended_job(phase, *policies, of_task=of_task))
    expected = StepFailure(reason="Evicted", disruption=True)
    assert found == (expected if evicted else None)
