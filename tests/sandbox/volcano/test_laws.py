"""Laws of the vcjob's state machine, for any spec and any events of its pods."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.volcano.job import JobSpec
from jobflow.api.volcano.pod import ENDED_POD_PHASES
from jobflow.sandbox.jobs.objects import (
    VcjobObject,
    build_pod,
    read_vcjob,
    template_faults,
    with_defaults,
)
from jobflow.sandbox.jobs.policies import BusAction, policy_faults
from support.sandbox.vcjobs import PlayedJob, job_spec, task

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "PodFailed", "1s"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["tasks", "policies", "template", "metadata", "spec", "labels", "name", "replicas",
             "event", "action", "timeout", "containers", "dependsOn", "minAvailable"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
ACTIONS = [action for action in BusAction if action is not BusAction.SYNC]
EVENTS = ["PodFailed", "PodEvicted", "PodPending", "TaskCompleted", "TaskFailed", "*"]
POLICIES = st.lists(
    st.builds(
        lambda event, action, timeout: {"event": event, "action": action, "timeout": timeout},
        st.sampled_from(EVENTS),
        st.sampled_from(ACTIONS),
        st.none() | st.just("10s"),
    ),
    max_size=3,
)


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    tasks = [task(f"t{n}", size, policies=draw(POLICIES)) for n, size in enumerate(sizes)]
    minimum = draw(st.integers(0, sum(sizes)))
    success = draw(st.none() | st.integers(1, 3))
    return with_defaults(
        job_spec(*tasks, policies=draw(POLICIES), minAvailable=minimum, minSuccess=success)
    )


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["Running", "Succeeded", "Failed", "gone", "collected", "wait", "command"]),
        st.integers(0, 8),
    ),
    max_size=25,
)


def apply_event(job: PlayedJob, event: str, number: int) -> None:
    """Apply one event, unless it is impossible now."""
    if event == "command":
        job.command(ACTIONS[number % len(ACTIONS)])
    elif event == "collected":
        job.collect_pods()
    elif event == "wait":
        job.wait(number * 3)
    elif job.pods:
        name = sorted(job.pods)[number % len(job.pods)]
        if event == "gone":
            job.delete_pod(name)
        elif job.pods[name].phase not in ENDED_POD_PHASES:
            job.pod(name, event)


@given(ANYTHING)
def test_no_spec_raises_an_exception(spec: Any) -> None:
    body = msgspec.json.encode({"metadata": {"name": "j", "uid": "u"}, "spec": spec})
    job = read_vcjob(msgspec.json.decode(body, type=VcjobObject))
    tasks = job.spec.tasks or []
    if not policy_faults(job.spec) and not any(template_faults(job.spec)):
        PlayedJob(job.spec).begin().all_pods("Running").all_pods("Failed").collect_pods().wait(60)
        for each in tasks:
            assert build_pod(job, each, 0)["kind"] == "Pod"


@given(specs(), MOVES)
def test_a_job_ends_after_any_events(spec: JobSpec, moves: list[tuple[str, int]]) -> None:
    """Settling always ends; if all pods succeed from some point on, the job ends."""
    job = PlayedJob(spec).begin()
    for event, number in moves:
        apply_event(job, event, number)
        assert len(job.history) < 500
    job.collect_pods()
    for _ in range(30):
        for phase in ("Running", "Succeeded"):
            for pod in list(job.pods.values()):
                if pod.phase not in ENDED_POD_PHASES:
                    job.pod(pod.name, phase)
        job.collect_pods().wait(60)
    total = sum(each.replicas or 0 for each in spec.tasks or ())
    assert job.phase in ("Completed", "Failed", "Terminated", "Aborted") or total == 0


@given(specs(), MOVES)
def test_a_status_is_always_consistent(spec: JobSpec, moves: list[tuple[str, int]]) -> None:
    job = PlayedJob(spec).begin()
    for event, number in moves:
        apply_event(job, event, number)
    versions = [status.version or 0 for status in job.history]
    assert versions == sorted(versions)
    for status in job.history:
        names = [entry.status for entry in status.conditions or ()]
        assert len(names) == len(set(names))
        assert names[-1] == status.state.phase
        counts = [status.pending, status.running, status.succeeded, status.failed]
        by_task = [sum((t.phase or {}).values()) for t in (status.task_status_count or {}).values()]
        assert sum(count or 0 for count in counts) == sum(by_task)
