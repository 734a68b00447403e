"""The sentences on a job that waits for Volcano, for objects as Volcano's scheduler writes them.

Messages are those of volcano.sh v1.15 (pkg/scheduler/api job_info.go and unschedule_info.go).
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.pod import Pod
from jobflow.api.volcano.scheduling import PodGroup, Queue
from jobflow.core.explain.explain import explain, explain_step, list_queued_jobs
from jobflow.core.explain.scheduling import (
    QueuedJob,
    Scheduling,
    SchedulingFacts,
    describe_scheduling,
    select_own,
)
from support.plan.plan_world import flow

JOB = QueuedJob("fit", "train-fit", None)
OWNER = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "name": "train-fit",
    "uid": "00dc6549-1cee-43de-ad43-8f90fcc34d99",
    "controller": True,
}
NO_NODE = "0/3 nodes are unavailable: 3 Insufficient nvidia.com/gpu."
NOT_READY = "pod group is not ready, 2 Allocated, 2 Pending, 4 minAvailable"
GANG = f"2/4 tasks in gang unschedulable: {NOT_READY}; Pending: 2 Unschedulable"
PULL = ("ImagePullBackOff", 'Back-off pulling image "registry.example.com/fit:v7"')

Json = dict[str, Any]


def group(phase: str, *conditions: Json, **spec: Any) -> PodGroup:
    """Return the PodGroup of a job that asks for four GPUs in queue research."""
    wants = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4"}
    return msgspec.convert(
        {
            "metadata": {"name": f"train-fit-{OWNER['uid']}", "ownerReferences": [OWNER]},
            "spec": {"minMember": 4, "queue": "research", "minResources": wants, **spec},
            "status": {"phase": phase, "conditions": list(conditions)},
        },
        PodGroup,
    )


def unschedulable(message: str, reason: str = "NotEnoughResources", second: int = 5) -> Json:
    return {
        "type": "Unschedulable",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": f"2026-11-21T02:52:{second:02}Z",
        "transitionID": "8a41",
    }


def queue(state: str = "Open", pending: int = 0, allocated: Any = None, **spec: Any) -> Queue:
    status = {"state": state, "pending": pending, "allocated": allocated, "reservation": {}}
    return msgspec.convert(
        {"metadata": {"name": "research"}, "spec": {"weight": 1, **spec}, "status": status}, Queue
    )


def pod(index: int, message: str | None = None, reason: str = "Unschedulable", **more: Any) -> Pod:
    """Return a pending pod; a message is the scheduler's about why it has no node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    status = {"phase": "Pending", "conditions": [] if message is None else [condition]}
    return msgspec.convert(
        {
            "metadata": {"name": f"train-fit-worker-{index}", "ownerReferences": [OWNER]},
            "spec": {"nodeName": more.pop("node", "")},
            "status": {**status, **more},
        },
        Pod,
    )


def waiting(index: int, reason: str, message: str = "") -> Pod:
    """Return a pod with a node and a container that waits."""
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(index, node="n1", containerStatuses=[{"name": "main", "state": state}])


def reserved(index: int) -> Pod:
    """Return a pod for which the scheduler has a place."""
    message = f"Pod team/train-fit-worker-{index} can possibly be assigned to n1, once minAvailable"
    return pod(index, f"{message} is satisfied", "Schedulable")


def running(index: int) -> Pod:
    return pod(index, node="n1", phase="Running")


def describe(
    groups: Sequence[PodGroup] | None,
    queues: Sequence[Queue] | None = None,
    pods: Sequence[Pod] | None = None,
) -> list[str]:
    found = Scheduling(groups, queues, pods)
    return list(describe_scheduling(JOB, found, look="`kubectl describe vcjob -n team train-fit`"))


GPUS = {"nvidia.com/gpu": "8"}
PENDING = group(
    "Pending",
    unschedulable("Not enough valid tasks for gang-scheduling, valid: 0, min: 4", "NotEnoughTasks"),
)
WAITS = "Job train-fit waits in queue research"
USED = "6 of 8 GPUs are in use, this job asks for 4"


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (queue(capability=GPUS, allocated={"nvidia.com/gpu": "6"}), f"{WAITS}: {USED}."),
        (
            queue(
                capability={"cpu": 20, "memory": "96Gi"},
                allocated={"cpu": "6500m", "memory": "48Gi"},
            ),
            f"{WAITS}: 6.5 of 20 cores are in use, this job asks for 16; 48 of 96 GiB of memory "
            "are in use, this job asks for 64.",
        ),
        (
            queue(capability={"nvidia.com/gpu": 2}),
            f"{WAITS}: 0 of 2 GPUs are in use, this job asks for 4; it can only start once the "
            "queue's capability is raised.",
        ),
        (
            queue(deserved=GPUS, allocated={"nvidia.com/gpu": "6"}),
            f"{WAITS}: 6 GPUs are in use of the 8 that the queue deserves, this job asks for 4.",
        ),
        (
            queue(
                capability={"nvidia.com/gpu": "10"}, allocated={"nvidia.com/gpu": "6"}, pending=3
            ),
            f"{WAITS}: Volcano has not admitted it yet; 3 jobs of the queue are not admitted.",
        ),
        (
            queue(capability={"nvidia.com/gpu": "many"}),
            f"{WAITS}: Volcano has not admitted it yet.",
        ),
        (None, f"{WAITS}: Volcano has not admitted it yet."),
    ],
)
def test_a_job_that_is_not_admitted_waits_in_its_queue(found: Queue | None, sentence: str) -> None:
    assert describe([PENDING], found and [found], []) == [sentence]


@pytest.mark.parametrize("state", ["Closed", "Closing"])
def test_a_closed_queue_is_named_first(state: str) -> None:
    closed = queue(state, capability=GPUS, allocated={"nvidia.com/gpu": "6"})
    assert describe([PENDING], [closed], []) == [
        f"{WAITS}, which is {state}: it starts no jobs until an administrator opens it.",
        f"{WAITS}: {USED}.",
    ]


def test_a_queue_that_does_not_exist_is_named() -> None:
    [sentence] = describe([PENDING], [], [])
    assert sentence == (
        f"{WAITS}, which does not exist: its jobs start once an administrator creates it."
    )


@pytest.mark.parametrize(
    ("pods", "sentences"),
    [
        (
            [running(0), running(1), pod(2, NO_NODE), pod(3, NO_NODE)],
            [f"2 of 4 pods cannot be scheduled: {NO_NODE}"],
        ),
        (
            [
                reserved(0),
                reserved(1),
                pod(2, NO_NODE),
                pod(3, "0/3 nodes are unavailable: 3 taint"),
            ],
            [
                f"1 of 4 pods cannot be scheduled: {NO_NODE}",
                "1 of 4 pods cannot be scheduled: 0/3 nodes are unavailable: 3 taint.",
                "2 of 4 pods wait for the gang: 4 must start together.",
            ],
        ),
        (
            [running(0), reserved(1), running(2)],
            ["1 of 3 pods waits for the gang: 4 must start together."],
        ),
        ([running(0), pod(1)], ["1 of 2 pods waits for the scheduler."]),
        (
            [running(0), pod(1, "", "SchedulingGated")],
            ["1 of 2 pods waits for schedulingGates to be removed."],
        ),
        (
            [
                running(0),
                pod(1, "Pod a can possibly be assigned to n1, once resource is released and …"),
            ],
            ["1 of 2 pods waits for other pods to end."],
        ),
        (
            [running(0), *(waiting(i, *PULL) for i in range(1, 3))],
            [
                "pods train-fit-worker-1 and train-fit-worker-2 cannot start: ImagePullBackOff: "
                'Back-off pulling image "registry.example.com/fit:v7".'
            ],
        ),
        (
            [waiting(0, "CreateContainerConfigError", 'secret "key" not found'), running(1)],
            [
                "pod train-fit-worker-0 cannot start: CreateContainerConfigError: secret "
                '"key" not found.'
            ],
        ),
        (
            [waiting(0, "ContainerCreating"), pod(1, node="n2"), running(2)],
            ["2 of 3 pods have a node and will start."],
        ),
        ([waiting(0, "PodInitializing"), running(1)], ["1 of 2 pods has a node and will start."]),
        ([running(0)], []),
    ],
)
def test_pods_that_do_not_run_are_counted_by_cause(pods: list[Pod], sentences: list[str]) -> None:
    inqueue = group("Inqueue", unschedulable(GANG))
    found = describe([inqueue], [queue()], pods)
    assert found == [f"In job train-fit, {sentence}" for sentence in sentences]


def test_a_pod_that_starts_has_the_last_warning_about_it() -> None:
    pods = [waiting(0, "ContainerCreating"), waiting(1, "ContainerCreating"), pod(2, node="n2")]
    mount = 'FailedMount: MountVolume.SetUp failed for volume "key": secret "key" not found'
    told = {"train-fit-worker-0": mount, "train-fit-worker-1": mount, "train-fit-worker-2": ""}
    found = Scheduling([group("Inqueue")], None, pods, told)
    assert [*describe_scheduling(JOB, found)] == [
        f"In job train-fit, pods train-fit-worker-0 and train-fit-worker-1 cannot start: {mount}.",
        "In job train-fit, 1 of 3 pods has a node and will start.",
    ]


def test_causes_beyond_the_third_are_counted() -> None:
    pods = [pod(i, f"0/3 nodes are unavailable: {i} of a kind") for i in range(5)]
    pods += [waiting(i, f"Reason{i}") for i in range(5, 10)]
    found = describe([group("Inqueue")], None, [running(10), *pods])
    assert found[3] == "In job train-fit, 2 of 11 pods cannot be scheduled for other reasons."
    assert found[7] == "In job train-fit, 2 of 11 pods cannot start for other reasons."
    assert len(found) == 8


def test_a_gang_without_a_place_names_the_queue_and_the_first_cause() -> None:
    message = (
        f"{NOT_READY}; Pending: 2 Unschedulable. Origin reason is train-fit-worker-1: {NO_NODE}"
    )
    used = queue(capability=GPUS, allocated={"nvidia.com/gpu": "6"})
    assert describe([group("Inqueue")], [used], [pod(i, message) for i in range(2)]) == [
        f"{WAITS}: {USED}.",
        "In job train-fit, 2 of 2 pods wait for the gang: 4 must start together.",
        f"The scheduler says: {NO_NODE}",
    ]


def test_the_share_that_a_queue_deserves_does_not_stop_an_admitted_job() -> None:
    used = queue(deserved=GPUS, allocated={"nvidia.com/gpu": "6"})
    found = describe([group("Inqueue")], [used], [pod(0, NO_NODE)])
    assert found == [f"In job train-fit, 1 of 1 pod cannot be scheduled: {NO_NODE}"]


def test_the_last_cycle_is_quoted_if_pods_may_not_be_read() -> None:
    older = unschedulable("older", second=1)
    message = f"{GANG}. Origin reason is train-fit-worker-2: {NO_NODE}"
    inqueue = group("Inqueue", unschedulable(message, second=9), older)
    assert describe([inqueue], [queue()]) == [
        f"The scheduler cannot place the pods of job train-fit: {NO_NODE}"
    ]
    scheduled = {
        "type": "Scheduled",
        "status": "True",
        "lastTransitionTime": "2026-11-21T03:00:00Z",
    }
    assert describe([group("Running", unschedulable(message), scheduled)], [queue()]) == []
    assert describe([PENDING], [queue()]) == [f"{WAITS}: Volcano has not admitted it yet."]


def test_a_job_without_pods_or_podgroup_points_to_volcanos_controllers() -> None:
    assert describe([group("Inqueue")], [queue()], []) == [
        "Volcano has admitted job train-fit to queue research, but it has no pods yet; if this "
        "lasts, `kubectl describe vcjob -n team train-fit` says why they are not created."
    ]
    assert describe([], None, []) == [
        "Volcano has no PodGroup for job train-fit yet; if this lasts, check that Volcano's "
        "controllers run."
    ]


def test_nothing_is_said_of_what_may_not_be_read() -> None:
    assert describe(None, None, None) == []


def test_a_message_of_any_length_is_cut() -> None:
    [sentence] = describe(None, None, [pod(0, "x\n" * 10_000)])
    assert len(sentence) < 400 and sentence.endswith("….")


def test_pods_of_other_jobs_and_pods_that_are_deleted_are_left_out() -> None:
    foreign = Pod(metadata=ObjectMeta(name="x", labels={"volcano.sh/job-name": "train-fit"}))
    deleted = msgspec.structs.replace(pod(0).metadata, deletion_timestamp=datetime.now(UTC))
    assert select_own(JOB, [foreign, pod(1), Pod(metadata=deleted)]) == [pod(1)]


def test_a_job_that_runs_does_not_wait_in_its_queue() -> None:
    used = queue(capability=GPUS, allocated={"nvidia.com/gpu": "8"})
    assert describe([group("Running")], [used], [running(0), pod(1, NO_NODE)]) == [
        f"In job train-fit, 1 of 2 pods cannot be scheduled: {NO_NODE}"
    ]
    assert describe([group("Running")], [used], None) == []


# ------------------------------------------------------------------ in an explanation


def test_facts_about_a_waiting_job_are_said_of_its_step_and_of_steps_that_wait_for_it() -> None:
    world = flow("a", b="a").settled().with_jobs(a="Pending").settled().later(75)
    assert list_queued_jobs(world.flow, "b", now=world.now) == [QueuedJob("a", "f-a", None)]
    facts = SchedulingFacts({"a": ["Job f-a waits in queue q."]}, ["Pods are left out."])
    told = explain_step(world.flow, "b", now=world.now, facts=facts).sentences
    assert told[1].endswith("as the job f-a: Volcano has not started it yet.")
    assert told[2:] == ("Job f-a waits in queue q.", "Pods are left out.")
    told = explain(world.flow, now=world.now, facts=facts).sentences
    assert told[2] == "Job f-a waits in queue q."
    assert told[-1] == "Pods are left out."


def test_a_job_that_waits_is_described_by_kubectl_if_nothing_is_known() -> None:
    world = flow("a").settled().with_jobs(a="Pending").settled().later(75)
    [sentence] = explain_step(world.flow, "a", now=world.now).sentences
    assert sentence.endswith(
        "Volcano has not started it yet; see `kubectl describe vcjob -n ns f-a`."
    )


def test_no_job_waits_for_volcano_in_a_flow_that_runs_or_has_finished() -> None:
    world = flow("a", b="a").settled().with_jobs(a="Running").settled()
    assert list_queued_jobs(world.flow, None, now=world.now) == []
    ended = world.with_jobs(a="Completed").settled().with_jobs(b="Completed").settled()
    assert ended.flow.final
    assert list_queued_jobs(ended.flow, None, now=ended.now) == []


def test_a_pod_that_cannot_start_is_named_once() -> None:
    message = "cannot start pod f-a-0: FailedMount: x"
    world = flow("a").settled().with_condition("a", message=message)
    same, other = "In job f-a, pod f-a-0 cannot start: FailedMount: x.", "Another sentence."
    facts = SchedulingFacts({"a": [same, other]})
    for told in (
        explain(world.flow, now=world.now, facts=facts).sentences,
        explain_step(world.flow, "a", now=world.now, facts=facts).sentences,
    ):
        assert sum("FailedMount" in sentence for sentence in told) == 1
        assert other in told
