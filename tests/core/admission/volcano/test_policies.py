"""Volcano's rules for lifecycle policies."""

from typing import Any

import pytest

from support.admission.reviewed import brief, job_faults


def reported(*policies: Any) -> list[str]:
    task = {"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
    return job_faults({"tasks": [task], "policies": list(policies)})


@pytest.mark.parametrize(
    "policies",
    [
        [],
        [{"event": "PodFailed", "action": "RestartJob", "timeout": "1m30.5s"}],
        [{"events": ["PodEvicted", "PodFailed", "PodFailed"], "action": "RestartTask"}],
        [{"event": "PodFailed", "events": ["PodFailed"], "action": "RestartPod"}],
        [
            {"event": "*", "action": "AbortJob", "timeout": "0"},
            {"exitCode": 3, "action": "RestartJob"},
        ],
        [{"events": ["*", "*"], "action": "AbortJob"}],
        [{"exitCode": -1, "action": "TerminateJob"}, {"exitCode": 1, "action": "CompleteJob"}],
        [{"exitCode": 3}],
        [{"event": None, "events": None, "exitCode": 3, "action": None, "timeout": None}],
        [{"event": "PodPending", "action": "RestartPartition"}],
        [{"event": "JobUpdated", "action": "ResumeJob"}],
    ],
)
def test_valid_policies_are_accepted(policies: list[Any]):
    assert reported(*policies) == []


P0 = "spec.policies[0]"
P1 = "spec.policies[1]"


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ([{"event": "PodFailed", "exitCode": 1, "action": "AbortJob"}], ["[0].exitCode Forbidden"]),
        ([{"action": "AbortJob"}], ["[0].event Required"]),
        ([{"exitCode": 0, "action": "AbortJob"}], ["[0].exitCode Invalid"]),
        ([{"event": "TaskCompleted", "action": "CompletedJob"}],
         ['[0].action Unsupported; did you mean "CompleteJob"?']),
        ([{"exitCode": 3, "action": "restartjob"}],
         ['[0].action Unsupported; did you mean "RestartJob"?']),
        ([{"event": "PodFailed", "action": "SyncJob"}], ["[0].action Unsupported"]),
        ([{"event": "PodFailed"}], ["[0].action Required"]),
        ([{"events": ["PodFail"], "action": "AbortJob"}],
         ['[0].events[0] Unsupported; did you mean "PodFailed"?']),
        ([{"event": "PodRunning", "action": "AbortJob"}], ["[0].event Unsupported"]),
        ([{"events": [""], "action": "AbortJob"}], ["[0].events[0] Unsupported"]),
        (
            [
                {"event": "PodFailed", "action": "AbortJob"},
                {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"},
            ],
            ["[1].events[1] Duplicate"],
        ),
        ([{"exitCode": 3, "action": "AbortJob"}, {"exitCode": 3, "action": "RestartJob"}],
         ["[1].exitCode Duplicate"]),
        ([{"event": "PodFailed", "action": "AbortJob"}, {"event": "*", "action": "RestartJob"}],
         ["[1].event Invalid"]),
        ([{"event": "PodFailed", "action": "AbortJob", "timeout": "30"}], ["[0].timeout Invalid"]),
        ([{"event": "PodFailed", "action": "AbortJob", "timeout": ""}], ["[0].timeout Invalid"]),
        ([{"event": 3, "action": 4}], ["[0].event Invalid", "[0].action Invalid"]),
    ],
)  # fmt: skip
def test_invalid_policies_are_refused(policies: list[Any], words: list[str]):
    assert sorted(brief(reported(*policies))) == sorted(f"spec.policies{word}" for word in words)


def test_all_faults_of_all_policies_are_reported():
    faults = reported(
        {"event": "x", "exitCode": 0, "action": "y"}, {}, {"event": "x", "action": "y"}
    )
    assert [fault.partition(": ")[0] for fault in faults] == [
        f"{P0}.exitCode",
        f"{P0}.event",
        f"{P0}.exitCode",
        f"{P0}.action",
        f"{P1}.event",
        "spec.policies[2].event",
        "spec.policies[2].action",
        "spec.policies[2].event",
    ]


def test_policies_of_a_task_are_checked_separately():
    policy = {"event": "PodFailed", "action": "AbortJob"}
    task = {
        "replicas": 1,
        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
        "policies": [policy, policy],
    }
    assert job_faults({"tasks": [task], "policies": [policy]}) == [
        'spec.tasks[0].policies[1].event: Duplicate value: "PodFailed": '
        "spec.tasks[0].policies[0] already has this event"
    ]
