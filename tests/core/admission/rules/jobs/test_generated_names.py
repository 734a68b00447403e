"""Names of vcjobs and pods, and the size of the status."""

from datetime import UTC, datetime

import msgspec
import pytest

from jobflow.api.flow.status import (
    FlowState,
    JobFlowStatus,
    JobRecord,
    JobRunningHistory,
    StepCondition,
)
from jobflow.core.admission.rules.size_limits import MAX_STATUS
from jobflow.core.names import format_job_name
from jobflow.core.planning.status.size_limit import fitted
from support.admission.reviewed import faults, flow_of, knowing, template_of

TAIL = "shorten the name of the step or of the flow by"


def test_a_very_long_name_is_not_repeated_in_full():
    (fault,) = faults(flow_of("b" * 200))
    assert "would have 202 characters" in fault
    assert len(fault) < 300


def test_a_generated_flow_name_counts_with_its_suffix():
    flow = flow_of("b" * 41)
    fits = msgspec.structs.replace(flow.metadata, name="", generate_name="a" * 15 + "-")
    assert faults(msgspec.structs.replace(flow, metadata=fits)) == []
    longer = msgspec.structs.replace(fits, generate_name="a" * 16 + "-")
    assert faults(msgspec.structs.replace(flow, metadata=longer)) == [
        f'spec.flows[0].name: Too long: its vcjob "{"a" * 16}-xxxxx-{"b" * 41}" would have 64 '
        f"characters, and Volcano accepts at most 63; {TAIL} 1"
    ]


@pytest.mark.parametrize(
    ("template", "longest"),
    [
        (template_of("a"), "-main-0"),
        (template_of("a", "x", "worker"), "-worker-1"),
        # Volcano's admission appends the position of the task, not that of its last pod.
        (template_of("a", "x", replicas=1000), "-x-0"),
        # A name that becomes a hostname must also fit for the last pod.
        (template_of("a", "x", replicas=1000, plugins={"svc": []}), "-x-999"),
        (template_of("a", "x", replicas=11, plugins={"env": [], "mpi": None}), "-x-10"),
        (
            template_of(
                "a",
                tasks=[{"name": "x", "replicas": 99, "template": {"spec": {"hostname": "h"}}}],
                plugins={"svc": []},
            ),
            "-x-0",
        ),
        (template_of("a", tasks=[{"replicas": 1}]), "-default0-0"),
        (template_of("a", tasks=[{"name": "none"}]), "-none-0"),
        (template_of("a", tasks=[{"name": "none", "template": "odd", "replicas": 3}]), "-none-0"),
        (template_of("a", tasks=["odd", {"name": 7, "replicas": "x"}], plugins=["svc"]),
         "-default1-1"),
        (template_of("a", tasks={"main": {}}), ""),
    ],
)  # fmt: skip
def test_pod_names_of_a_known_template_must_fit(template, longest):
    flow_name = "f" * (63 - len("-a") - len(longest))
    assert faults(flow_of("a", name=flow_name), knowing(template)) == []
    pod = f"f{flow_name}-a{longest}"
    subject = f'its pod "{pod}"' if longest else f'its vcjob "{pod}"'
    assert faults(flow_of("a", name=f"f{flow_name}"), knowing(template)) == [
        f"spec.flows[0].name: Too long: {subject} would have 64 characters, and Volcano "
        f"accepts at most 63; {TAIL} 1"
    ]


def test_the_names_of_a_step_are_checked_with_its_patch():
    step = {
        "name": "a",
        "template": "t",
        "patch": {
            "jobSpec": {"tasks": [{"name": "main", "replicas": 100}], "plugins": {"svc": []}}
        },
    }
    flow = flow_of({"name": "b", "template": "t"}, step, name="f" * 54)
    assert [line.partition(" would")[0] for line in faults(flow, knowing(template_of("t")))] == [
        f'spec.flows[1].name: Too long: its pod "{"f" * 54}-a-main-99"'
    ]


def test_a_name_that_becomes_a_hostname_holds_no_dot():
    known = knowing(template_of("a.b"), template_of("c.d", plugins={"env": [], "pytorch": []}))
    assert faults(flow_of("a.b", "c.d"), known) == [
        'spec.flows[1].name: Invalid value: "c.d": its vcjob "f-c.d" has the plugin pytorch, which '
        'makes the names of its pods their hostnames, and these cannot hold "."; write "-" instead'
    ]
    assert len(faults(flow_of("a.b", "c.d", name="f.g"), known)) == 1


def test_a_clash_is_reported_at_the_later_step():
    known = knowing(template_of("a", "x", "b-c"), template_of("a-b", "c", "x"))
    assert faults(flow_of("a-b", "a"), known) == [
        'spec.flows[1].name: Duplicate value: "f-a-b-c-0": a pod of step "a-b" (task "c") would '
        'have the same name as one of this step (task "b-c"); rename one of them'
    ]


def test_a_pod_name_of_three_steps_is_reported_twice():
    known = knowing(template_of("a", "b-c-d"), template_of("a-b", "c-d"), template_of("a-b-c", "d"))
    found = faults(flow_of("a", "a-b", "a-b-c"), known)
    assert [line.split(": ")[0] for line in found] == ["spec.flows[1].name", "spec.flows[2].name"]


@pytest.mark.parametrize(
    ("steps", "templates"),
    [
        (("a", "a-b"), (template_of("a", "b-c", replicas=0), template_of("a-b", "c"))),
        (("a", "b"), (template_of("a", "x", "x"), template_of("b"))),
    ],
    ids=["a task without pods", "two tasks of one name"],
)
def test_other_names_do_not_clash(steps, templates):
    assert faults(flow_of(*steps), knowing(*templates)) == []


NAME = "n" * 15


def test_5000_steps_fit_into_a_status_and_6000_do_not():
    assert faults(flow_of(*(f"{NAME}{i:05}" for i in range(5_000)), name="f" * 20)) == []
    assert faults(flow_of(*(f"{NAME}{i:05}" for i in range(6_000)), name="f" * 20)) == [
        "spec.flows: Too many: 6000 steps, but the status of a flow has room for about 5122 with "
        "names of this length (1 MiB); split the flow or shorten the names of the flow and its "
        "steps"
    ]


NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "condition",
    [
        StepCondition(phase="Waiting", reason="WaitingForTemplate", message="x" * 256),
        StepCondition(phase="Skipped", reason="UpstreamFailed", message="x" * 256),
        StepCondition(phase="Failed", reason="NameConflict", job="*", attempts=1),
        StepCondition(phase="Running", job="*", attempts=1, create_time=NOW, running_duration="9s"),
        StepCondition(
            phase="Waiting", reason="Retrying", job="*", attempts=1, next_attempt_time=NOW
        ),
    ],
    ids=lambda condition: f"{condition.phase} {condition.reason}",
)
def test_the_status_of_the_largest_admitted_flow_fits(condition):
    names = [f"{NAME}{i:05}" for i in range(5_002)]
    assert faults(flow_of(*names, name="f" * 20)) == []
    jobs = [format_job_name("f" * 20, name) for name in names]
    started = [job for job in jobs if condition.job]
    history = [JobRunningHistory(state="Running", start_timestamp=NOW)] * 10
    records = [
        JobRecord(name=job, state="Running", start_timestamp=NOW, running_histories=history)
        for job in started
    ]
    status = JobFlowStatus(
        state=FlowState(phase="Running", reason="StepFailed", message="x" * 256),
        conditions={
            job: msgspec.structs.replace(condition, job=job if condition.job else "")
            for job in jobs
        },
        running_jobs=started,
        job_status_list=records,
    )
    assert len(msgspec.json.encode(fitted(status, JobFlowStatus()))) < MAX_STATUS
