"""Rules of switch, loops, retries, timeouts, failurePolicy and finally: bounds and combinations.

examples/refused contains the messages, one file per rule.
"""

from typing import Any

import pytest

from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.violations import Verdict
from support.admission.reviewed import faults, flow_of, knowing, template_of

UNTIL = {"until": "phase == 'Completed'"}


def places(*steps: dict[str, Any] | str, **spec: Any) -> list[str]:
    return [
        f"{v.path} {v.reason.removeprefix('FieldValue')}"
        for v in validate_flow(flow_of(*steps, **spec), Known()).violations
    ]


def step(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


@pytest.mark.parametrize(
    "fields",
    [
        {"switch": [{}]},
        {"switch": [{"when": "true"}, {"when": "false", "template": "t"}, {"template": "u"}]},
        {"switch": [{"when": "true"}] * 100},
        {"switch": None, "forEach": None, "repeat": None, "retry": None, "timeout": None},
        {"switch": [{}], "forEach": {"count": 2}, "retry": {"limit": 1}, "timeout": "1m"},
        {"switch": [{}], "repeat": {**UNTIL, "max": 2}},
        {"forEach": {"items": []}},
        {"forEach": {"items": [None, 1, "x", {"a": None}, []], "parallelism": 1}},
        {"forEach": {"items": [0] * 1000}},
        {"forEach": {"count": 0}},
        {"forEach": {"count": 1000, "parallelism": 2000}},
        {"forEach": {"from": "[1, 2]"}},
        {"forEach": {"items": None, "from": None, "count": 3}},
        {"forEach": {"count": 9, "maxFailed": 0, "until": "items.size() > 2"}},
        {"forEach": {"count": 0, "maxFailed": "100%"}},
        {"forEach": {"from": "[1]", "minSuccess": 9}},
        {"forEach": {"count": 9, "until": "items.maxBy('outputs.x').outputs.x > 0.9"}},
        {"forEach": {"count": 3}, "template": "t"},
        {"repeat": {**UNTIL, "max": 1}},
        {"repeat": {**UNTIL, "max": 1000}},
        {"retry": {"limit": 0}},
        {"retry": {"limit": 100, "backoff": {}, "avoidNodes": True}},
        {"retry": {"limit": 3, "backoff": {"duration": "0s", "factor": 1, "max": "0s"}}},
        {"retry": {"limit": 3, "backoff": {"duration": "5m", "factor": 100}}},
        {"retry": {"limit": 3, "backoff": {"duration": "1h", "max": "1h"}}},
        {"retry": {"limit": 3, "backoff": {"duration": "500ms", "factor": 1.5, "max": "1.5h"}}},
        {"timeout": "1ns"},
        {"timeout": "1h30m"},
        {"daemon": True, "retry": {"limit": 2}, "timeout": "1h", "continueOnFailure": True},
        {"daemon": False, "forEach": {"count": 2}},
    ],
    ids=str,
)
def test_valid_steps_are_admitted(fields: dict[str, Any]) -> None:
    assert places(step(**fields), "b") == []
    if not fields.get("daemon"):
        assert places("b", **{"finally": [step(**fields)]}) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"switch": []}, ["switch Required"]),
        ({"switch": [{"when": "true"}] * 101}, ["switch TooMany"]),
        ({"switch": [{}], "template": "t"}, ["template Forbidden"]),
        ({"switch": [], "template": "t"}, ["template Forbidden", "switch Required"]),
        ({"switch": [{}, {"when": "true"}, {}, {}]}, ["switch[1] Forbidden"]),
        ({"switch": [{"when": "true"}, {}, {}]}, ["switch[2] Forbidden"]),
        ({"switch": [{"patch": {"spec": {}, "jobSpec": {}}, "template": "A b"}]},
         ["switch[0].template Invalid", "switch[0].patch.spec Forbidden"]),
        ({"forEach": {}}, ["forEach Required"]),
        ({"forEach": {"items": [], "count": 0}}, ["forEach.count Forbidden"]),
        ({"forEach": {"items": [1], "from": "[1]", "count": 1}},
         ["forEach.from Forbidden", "forEach.count Forbidden"]),
        ({"forEach": {"items": [0] * 1001}}, ["forEach.items TooMany"]),
        ({"forEach": {"count": -1}}, ["forEach.count Invalid"]),
        ({"forEach": {"count": 1001}}, ["forEach.count Invalid"]),
        ({"forEach": {"count": 1, "parallelism": 0}}, ["forEach.parallelism Invalid"]),
        ({"forEach": {"count": 9, "maxFailed": -1}}, ["forEach.maxFailed Invalid"]),
        ({"forEach": {"count": 9, "maxFailed": "101%"}}, ["forEach.maxFailed Invalid"]),
        ({"forEach": {"count": 9, "maxFailed": "-1%"}}, ["forEach.maxFailed Invalid"]),
        ({"forEach": {"count": 9, "maxFailed": 1, "minSuccess": 1}},
         ["forEach.maxFailed Forbidden"]),
        ({"forEach": {"count": 9, "minSuccess": 0}}, ["forEach.minSuccess Invalid"]),
        ({"forEach": {"count": 9, "minSuccess": "0%"}}, ["forEach.minSuccess Invalid"]),
        ({"forEach": {"count": 9, "minSuccess": 10}}, ["forEach.minSuccess Invalid"]),
        ({"forEach": {"count": 9, "until": "true"}, "continueOnFailure": True},
         ["continueOnFailure Forbidden"]),
        ({"forEach": {"count": 9, "until": "items.size()"}}, ["forEach.until Invalid"]),
        ({"forEach": {"count": 1}, "repeat": {**UNTIL, "max": 3}}, ["repeat Forbidden"]),
        ({"repeat": {}}, ["repeat.until Required", "repeat.max Required"]),
        ({"repeat": {**UNTIL, "max": 0}}, ["repeat.max Invalid"]),
        ({"repeat": {**UNTIL, "max": 1001}}, ["repeat.max Invalid"]),
        ({"retry": {}}, ["retry.limit Required"]),
        ({"retry": {"limit": -1}}, ["retry.limit Invalid"]),
        ({"retry": {"limit": 101}}, ["retry.limit Invalid"]),
        ({"retry": {"limit": 1, "disruptions": -1}}, ["retry.disruptions Invalid"]),
        ({"retry": {"limit": 1, "disruptions": 101}}, ["retry.disruptions Invalid"]),
        ({"retry": {"limit": 1, "backoff": {"duration": "", "max": "-1s", "factor": 0.99}}},
         [f"retry.backoff.{field} Invalid" for field in ("duration", "factor", "max")]),
        ({"retry": {"limit": 1, "backoff": {"factor": 101}}}, ["retry.backoff.factor Invalid"]),
        ({"retry": {"limit": 1, "backoff": {"factor": 1e308}}}, ["retry.backoff.factor Invalid"]),
        ({"retry": {"limit": 1, "backoff": {"max": "999ms"}}}, ["retry.backoff.max Invalid"]),
        ({"retry": {"limit": 1, "backoff": {"duration": "301s"}}},
         ["retry.backoff.duration Invalid"]),
        ({"timeout": ""}, ["timeout Invalid"]),
        ({"timeout": "0"}, ["timeout Invalid"]),
        ({"timeout": "1d"}, ["timeout Invalid"]),
        ({"timeout": "3"}, ["timeout Invalid"]),
        ({"timeout": "2000000h"}, ["timeout Invalid"]),
        ({"daemon": True, "forEach": {"count": 1}}, ["daemon Forbidden"]),
        ({"daemon": True, "repeat": {**UNTIL, "max": 3}}, ["daemon Forbidden"]),
        ({"daemon": True, "forEach": {"count": 1}, "repeat": {**UNTIL, "max": 3}},
         ["repeat Forbidden", "daemon Forbidden", "daemon Forbidden"]),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_steps_are_refused(fields: dict[str, Any], expected: list[str]) -> None:
    assert places("b", step(**fields)) == [f"spec.flows[1].{each}" for each in expected]
    if not fields.get("daemon"):
        found = places("b", **{"finally": [step("c"), step(**fields)]})
        assert found == [f"spec.finally[1].{each}" for each in expected]


@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": 1},
        {"timeout": "12h", "ttlSecondsAfterFinished": 0, "suspend": True},
        {"failurePolicy": "Stop", "jobRetainPolicy": "retain"},
        {"jobRetainPolicy": "delete"},
        {"failurePolicy": "Abort", "parallelism": None, "finally": None},
        {"failurePolicy": "Continue", "finally": []},
    ],
    ids=str,
)
def test_valid_flows_are_admitted(spec: dict[str, Any]) -> None:
    assert validate_flow(flow_of("a", **spec), Known()) == Verdict()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"flows": [], "finally": [{"name": "a"}]}, ["spec.flows Required"]),
        ({"parallelism": 0}, ["spec.parallelism Invalid"]),
        ({"timeout": "soon"}, ["spec.timeout Invalid"]),
        ({"timeout": "0h"}, ["spec.timeout Invalid"]),
        ({"failurePolicy": ""}, ["spec.failurePolicy NotSupported"]),
        ({"failurePolicy": "continue"}, ["spec.failurePolicy NotSupported"]),
        ({"ttlSecondsAfterFinished": -1}, ["spec.ttlSecondsAfterFinished Invalid"]),
        ({"ttlSecondsAfterFinished": 2**31 - 1}, []),
        ({"ttlSecondsAfterFinished": 2**31}, ["spec.ttlSecondsAfterFinished Invalid"]),
        ({"ttlSecondsAfterSucceeded": -1}, ["spec.ttlSecondsAfterSucceeded Invalid"]),
        ({"ttlSecondsAfterFailed": 2**31}, ["spec.ttlSecondsAfterFailed Invalid"]),
        ({"ttlSecondsAfterSucceeded": 0, "ttlSecondsAfterFailed": 2**31 - 1}, []),
        (
            {"timeout": "x", "parallelism": -1, "failurePolicy": "x", "jobRetainPolicy": "x",
             "ttlSecondsAfterFinished": -1, "finally": [{"name": "A"}]},
            [
                "spec.jobRetainPolicy NotSupported", "spec.parallelism Invalid",
                "spec.timeout Invalid", "spec.failurePolicy NotSupported",
                "spec.finally[0].name Invalid", "spec.ttlSecondsAfterFinished Invalid",
            ],
        ),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_flows_are_refused(spec: dict[str, Any], expected: list[str]) -> None:
    assert places("a", **spec) == expected


def test_rules_of_steps_apply_to_finally() -> None:
    last = [
        step("a"),
        step("b", dependsOn={}),
        step(""),
        step("c", template="T", patch={"spec": {"queue": "A"}, "jobSpec": {"queue": "A"}}),
        step("b", daemon=True),
    ]
    assert places("a", "d: b c d", **{"finally": last}) == [
        "spec.flows[1].dependsOn.targets[0] Invalid",
        "spec.flows[1].dependsOn.targets[1] Invalid",
        "spec.flows[1].dependsOn.targets[2] Invalid",
        "spec.finally[0].name Duplicate",
        "spec.finally[2].name Required",
        "spec.finally[3].template Invalid",
        "spec.finally[3].patch.jobSpec.queue Invalid",
        "spec.finally[3].patch.spec Forbidden",
        "spec.finally[4].name Duplicate",
        "spec.finally[4].daemon Forbidden",
    ]


def test_dependencies_within_finally_are_a_graph_of_their_own() -> None:
    after_x = {"targets": ["x"]}
    probe = {"tcpSocketList": [{"taskName": "t"}]}
    last = [step("x"), step("y", dependsOn=after_x), step("z", dependsOn={"targets": ["x", "y"]})]
    assert faults(flow_of("a", **{"finally": last})) == []
    last = [
        step("x", dependsOn={"targets": ["z", "X", "x"]}),
        step("y", dependsOn=after_x | {"condition": "failed", "conditions": {"a": "Running"}}),
        step("z", dependsOn=after_x | {"probe": probe}),
    ]
    assert places("a", **{"finally": last}) == [
        "spec.finally[0].dependsOn.targets[0] Invalid",
        "spec.finally[0].dependsOn.targets[1] Invalid",
        "spec.finally[0].dependsOn.targets[2] Invalid",
        "spec.finally[1].dependsOn.condition NotSupported",
        "spec.finally[1].dependsOn.conditions.a Invalid",
        "spec.finally[2].dependsOn.probe.tcpSocketList[0].port Required",
    ]


def test_a_step_of_finally_cannot_depend_on_a_step_of_flows() -> None:
    last = [step("z", dependsOn={"targets": ["a", "A"]})]
    assert faults(flow_of("a", **{"finally": last})) == [
        'spec.finally[0].dependsOn.targets[0]: Invalid value: "a": a step of flows, and finally '
        "starts when all of these have finished; remove this target; to run only if it failed: "
        'when: steps["a"].phase == "Failed"',
        'spec.finally[0].dependsOn.targets[1]: Invalid value: "A": no such step',
    ]


def test_a_target_in_finally_has_its_own_message() -> None:
    waiting = step("b", dependsOn={"targets": ["x", "c"]})
    found = faults(flow_of("a", waiting, **{"finally": [step("c")]}))
    assert [line for line in found if "finally" in line] == [
        'spec.flows[1].dependsOn.targets[1]: Invalid value: "c": a step of finally, '
        "which starts after this one; remove this target"
    ]
    assert len(found) == 2


@pytest.mark.parametrize(
    ("daemons", "others", "parallelism", "fits"),
    [(1, 1, 2, True), (1, 1, 1, False), (2, 1, 2, False), (2, 1, 3, True), (2, 0, 2, False)],
)
def test_daemons_leave_room_for_other_steps(
    daemons: int, others: int, parallelism: int, fits: bool
) -> None:
    steps = [step(f"d{i}", daemon=True) for i in range(daemons)]
    steps += [step(f"s{i}") for i in range(others)]
    expected = [] if fits else ["spec.parallelism Invalid"]
    assert places(*steps, parallelism=parallelism) == expected


def test_a_flow_with_only_daemons_has_a_warning() -> None:
    both = [step(daemon=True), step("b", daemon=True)]
    assert validate_flow(flow_of(*both), Known()).warnings == (
        "every step is a daemon, and daemons are aborted when all other steps have finished: this "
        "flow has no other step",
    )
    assert validate_flow(flow_of(*both, "c"), Known()).warnings == ()


def test_a_probe_of_a_step_with_items_is_refused() -> None:
    probe = {"tcpSocketList": [{"taskName": "main", "port": 80}]}
    flow = [step(forEach={"count": 2}), step("b", repeat={**UNTIL, "max": 3}), "c"]
    assert places(*flow, step("d", dependsOn={"targets": ["b", "c", "a"], "probe": probe})) == [
        "spec.flows[3].dependsOn.targets[2] Invalid"
    ]


@pytest.mark.parametrize(
    ("defaults", "expected"),
    [
        ({}, []),
        ({"queue": "", "priorityClassName": "", "schedulerName": ""}, []),
        ({"queue": "a.b", "priorityClassName": "high", "schedulerName": "volcano"}, []),
        ({"plugins": {"svc": [], "ssh": ["--no-root"]}}, []),
        ({"labels": {"a": "", "x.io/B_c.d": "E_f.1"}, "annotations": {"a.b/c": "any\ntext"}}, []),
        ({"annotations": {"sandbox.jobflow.volcano.sh/duration": "2s"}}, []),
        ({"queue": "A"}, ["queue Invalid"]),
        ({"queue": "q" * 254}, ["queue TooLong"]),
        ({"priorityClassName": "a_b"}, ["priorityClassName Invalid"]),
        ({"schedulerName": "x" * 64}, ["schedulerName TooLong"]),
        ({"plugins": {"nfs": []}}, ["plugins NotSupported"]),
        ({"labels": {"": "x"}}, ["labels[] Invalid"]),
        ({"labels": {"a": "x" * 64, "b": "-"}}, ["labels.a TooLong", "labels.b Invalid"]),
        ({"labels": {"a" * 64: "x"}}, [f"labels.{'a' * 64} Invalid"]),
        ({"labels": {"A.io/b": "x", "/b": "x"}}, ["labels[A.io/b] Invalid", "labels[/b] Invalid"]),
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}},
         ["labels[app.kubernetes.io/managed-by] Forbidden"]),
        ({"annotations": {"flow.volcano.sh/step": "x", "meta.helm.sh/release-name": "x"}},
         ["annotations[flow.volcano.sh/step] Forbidden",
          "annotations[meta.helm.sh/release-name] Forbidden"]),
        ({"annotations": {"a": "x" * 262_144}}, ["annotations TooLong"]),
    ],
    ids=lambda it: str(it)[:60],
)  # fmt: skip
def test_job_defaults_are_validated(defaults: dict[str, Any], expected: list[str]) -> None:
    assert places("a", jobDefaults=defaults) == [f"spec.jobDefaults.{each}" for each in expected]
    known = knowing(template_of("a"), template_of("b"))
    flow = flow_of("a", step("b", patch={"jobSpec": {"maxRetry": 2}}), jobDefaults=defaults)
    found = validate_flow(flow, known).violations
    assert [v.path for v in found] == [f"spec.jobDefaults.{e.split()[0]}" for e in expected]


def test_defaults_must_fit_each_template() -> None:
    mpi = {"plugins": {"mpi": []}}
    known = knowing(template_of("a"), template_of("b", "master", "worker"))
    patch = {"jobSpec": {"tasks": [{"name": "main", "replicas": 2}]}}
    flow = flow_of("a", "b", step("c", template="a", patch=patch), step("d"), jobDefaults=mpi)
    assert faults(flow, known) == [
        'spec.jobDefaults.plugins.mpi: Invalid value: "master": the mpi plugin\'s '
        'master task is no task of this job; set --master=TASK (with template "a")'
    ]


def test_fields_of_a_template_override_defaults() -> None:
    known = knowing(template_of("a", plugins={"mpi": ["--master=main"]}))
    assert faults(flow_of("a", jobDefaults={"plugins": {"mpi": []}}), known) == []
    broken = knowing(template_of("a", queue="A"))
    assert faults(flow_of("a", jobDefaults={"queue": "b"}), broken) == []
