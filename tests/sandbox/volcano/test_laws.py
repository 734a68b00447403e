"""Laws of the vcjob's state machine, for any spec and any events of its pods."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.job import JobSpec
from jobflow.api.pod import ENDED_POD_PHASES
from jobflow.sandbox.jobs.job import VcjobObject, read_vcjob, with_defaults
from jobflow.sandbox.jobs.pods import build_pod, template_fault
from jobflow.sandbox.jobs.policies import BusAction, policy_faults
from support.sandbox.vcjobs import Played, job_spec, task

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
    wanted = draw(st.integers(0, sum(sizes)))
    success = draw(st.none() | st.integers(1, 3))
    return with_defaults(
        job_spec(*tasks, policies=draw(POLICIES), minAvailable=wanted, minSuccess=success)
    )


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["Running", "Succeeded", "Failed", "gone", "collected", "wait", "command"]),
        st.integers(0, 8),
    ),
    max_size=25,
)


def move(job: Played, what: str, which: int) -> None:
    """Apply one event, unless it is impossible now."""
    if what == "command":
        job.command(ACTIONS[which % len(ACTIONS)])
    elif what == "collected":
        job.collected()
    elif what == "wait":
        job.wait(which * 3)
    elif job.pods:
        name = sorted(job.pods)[which % len(job.pods)]
        if what == "gone":
            job.pod_gone(name)
        elif job.pods[name].phase not in ENDED_POD_PHASES:
            job.pod(name, what)


@given(ANYTHING)
def test_no_spec_raises(spec: Any) -> None:
    body = msgspec.json.encode({"metadata": {"name": "j", "uid": "u"}, "spec": spec})
    job = read_vcjob(msgspec.json.decode(body, type=VcjobObject))
    tasks = job.spec.tasks or []
    if not policy_faults(job.spec) and not any(template_fault(task) for task in tasks):
        Played(job.spec).begin().all_pods("Running").all_pods("Failed").collected().wait(60)
        for one in tasks:
            assert build_pod(job, one, 0)["kind"] == "Pod"


@given(specs(), MOVES)
def test_whatever_happens_it_comes_to_rest(spec: JobSpec, moves: list[tuple[str, int]]) -> None:
    """Settling always ends; if all pods succeed from some point on, the job ends."""
    job = Played(spec).begin()
    for what, which in moves:
        move(job, what, which)
        assert len(job.history) < 500
    job.collected()
    for _ in range(30):
        for phase in ("Running", "Succeeded"):
            for pod in list(job.pods.values()):
                if pod.phase not in ENDED_POD_PHASES:
                    job.pod(pod.name, phase)
        job.collected().wait(60)
    total = sum(one.replicas or 0 for one in spec.tasks or ())
    assert job.phase in ("Completed", "Failed", "Terminated", "Aborted") or total == 0


@given(specs(), MOVES)
def test_a_status_is_always_whole(spec: JobSpec, moves: list[tuple[str, int]]) -> None:
    job = Played(spec).begin()
    for what, which in moves:
        move(job, what, which)
    versions = [status.version or 0 for status in job.history]
    assert versions == sorted(versions)
    for status in job.history:
        names = [entry.status for entry in status.conditions or ()]
        assert len(names) == len(set(names))
        assert names[-1] == status.state.phase
        counts = [status.pending, status.running, status.succeeded, status.failed]
        by_task = [sum((t.phase or {}).values()) for t in (status.task_status_count or {}).values()]
        assert sum(count or 0 for count in counts) == sum(by_task)
