"""Rules of probes: valid probes, and the messages of faults."""

from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.rules.probes import MAX_ENTRIES
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.violations import Verdict
from support.admission.reviewed import faults, flow_of, knowing, probing, template_of

GET = {"taskName": "ps", "path": "/healthz", "port": 8080}
CONNECT = {"taskName": "ps", "port": 2222}
STATUS = {"taskName": "worker", "phase": "Succeeded"}
HERE = "spec.flows[1].dependsOn.probe"


def status(**fields: Any) -> JobFlow:
    return probing(taskStatusList=[STATUS | fields])


@pytest.mark.parametrize(
    "probe",
    [
        {"httpGetList": [GET], "tcpSocketList": [CONNECT], "taskStatusList": [STATUS]},
        {"httpGetList": [GET, GET | {"port": 8081}, GET | {"taskName": "worker"}]},
        {"httpGetList": [GET | {"path": "/"}]},
        {"httpGetList": [GET | {"path": "//a/b%20c;d=e?f=g&h[0]=~'i'"}]},
        {"httpGetList": [GET | {"httpHeader": {"name": "Host", "value": "model.example.com"}}]},
        {"httpGetList": [GET | {"httpHeader": {"name": "X-A", "value": ""}}]},
        {"httpGetList": [GET | {"httpHeader": {"name": "x!#$%&'*+-.^_`|~1", "value": "a\tb c"}}]},
        {"tcpSocketList": [CONNECT | {"port": 1}, CONNECT | {"port": 65535}]},
        {"taskStatusList": [STATUS | {"phase": phase} for phase in ("Pending", "Running")]},
        {"taskStatusList": [STATUS | {"count": 3}, {"taskName": "ps", "phase": "Failed"}]},
        {"taskStatusList": [STATUS | {"count": 1}, STATUS | {"phase": "Failed", "count": 2}]},
    ],
)
def test_valid_probes_are_admitted(probe):
    known = knowing(template_of("train", "ps", "worker", replicas=3), template_of("evaluate"))
    assert validate_flow(probing(**probe), known) == Verdict()


@pytest.mark.parametrize(
    "probe",
    [
        None,
        {},
        {"httpGetList": None, "tcpSocketList": [], "taskStatusList": []},
        {"httpGetList": [GET | {"httpHeader": {}}]},
        {"httpGetList": [GET | {"httpHeader": {"name": "", "value": ""}}]},
    ],
)
def test_empty_probes_of_go_clients_count_as_unset(probe):
    flow = flow_of("train", {"name": "b", "dependsOn": {"targets": ["train"], "probe": probe}})
    assert validate_flow(flow, Known()) == Verdict()


def test_an_empty_probe_needs_no_target():
    assert faults(flow_of({"name": "b", "dependsOn": {"probe": {"httpGetList": []}}})) == []


def test_the_number_of_entries_is_limited():
    many = [CONNECT | {"port": 8000 + i} for i in range(MAX_ENTRIES - 1)]
    assert faults(probing(httpGetList=[GET], tcpSocketList=many)) == []
    assert faults(probing(httpGetList=[GET], tcpSocketList=many, taskStatusList=[STATUS])) == [
        f"{HERE}: Too many: 33 entries in its lists, but a probe has at most 32; remove "
        "entries that follow from others"
    ]


def test_two_steps_may_have_equal_probes():
    step = {"dependsOn": {"targets": ["a"], "probe": {"tcpSocketList": [CONNECT]}}}
    assert faults(flow_of("a", {"name": "b", **step}, {"name": "c", **step})) == []


@pytest.mark.parametrize("field", ["httpGetList", "tcpSocketList", "taskStatusList"])
@pytest.mark.parametrize("name", [None, ""])
def test_an_entry_without_a_task_is_refused(field, name):
    entry = {"httpGetList": GET, "tcpSocketList": CONNECT, "taskStatusList": STATUS}[field]
    assert faults(probing(**{field: [entry | {"taskName": name}]})) == [
        f"{HERE}.{field}[0].taskName: Required value: name the task of the targets' jobs"
    ]


@pytest.mark.parametrize("name", ["Worker", "a.b", "-a", "a" * 64, "a\n", "工"])
def test_an_invalid_task_name_is_refused(name):
    (fault,) = faults(status(taskName=name))
    assert fault.startswith(f"{HERE}.taskStatusList[0].taskName: Invalid value: ")
    assert fault.endswith(
        'a task\'s name has at most 63 lower-case letters, digits and "-", and begins '
        "and ends with a letter or digit"
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("worker-0", '; did you mean "worker"?'),
        ("Worker", '; did you mean "worker"?'),
        ("zzz", '; there is "ps" and "worker"'),
    ],
)
def test_a_task_missing_from_the_targets_template_is_refused(name, hint):
    assert faults(status(taskName=name), knowing(template_of("train", "ps", "worker"))) == [
        f'{HERE}.taskStatusList[0].taskName: Invalid value: "{name}": target "train" has no such '
        f"task{hint}"
    ]


def test_tasks_of_an_unknown_template_are_not_checked():
    assert faults(status(taskName="zzz"), knowing(template_of("other"))) == []
    assert faults(status(taskName="zzz"), Known(templates={})) == []


def test_a_task_without_a_name_has_the_name_that_volcano_gives():
    template = template_of("train", tasks=[{"replicas": 1, "template": POD}])
    assert faults(status(taskName="default0"), knowing(template)) == []


POD = {"spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]}}


def patched(patch: dict[str, Any]) -> JobFlow:
    probe = {"taskStatusList": [STATUS | {"count": 3}]}
    return flow_of(
        {"name": "train", "patch": {"jobSpec": patch}},
        {"name": "evaluate", "dependsOn": {"targets": ["train"], "probe": probe}},
    )


def test_a_task_added_by_the_targets_patch_counts():
    task = {"name": "worker", "replicas": 3, "template": POD}
    assert faults(patched({"tasks": [task]}), knowing(template_of("train", "ps"))) == []


def test_replicas_set_by_the_targets_patch_count():
    known = knowing(template_of("train", "worker", replicas=2))
    assert faults(patched({"tasks": [{"name": "worker", "replicas": 3}]}), known) == []
    assert faults(patched({"tasks": [{"name": "worker", "replicas": 1}]}), known) == [
        f'{HERE}.taskStatusList[0].count: Invalid value: 3: task "worker" of target "train" has '
        "1 pod; leave count out to check all of them"
    ]


def test_a_task_without_pods_cannot_be_probed():
    known = knowing(template_of("train", "ps", "worker", replicas=0))
    flow = probing(httpGetList=[GET], taskStatusList=[STATUS, STATUS | {"count": 1}])
    assert faults(flow, known) == [
        f'{HERE}.httpGetList[0].taskName: Invalid value: "ps": task "ps" of target "train" has no '
        "pods, so no pod can answer",
        f'{HERE}.taskStatusList[1].count: Invalid value: 1: task "worker" of target "train" has no '
        "pods; leave count out to check all of them",
    ]


def test_targets_of_one_template_have_one_fault():
    depends_on = {"targets": list("abcde"), "probe": {"tcpSocketList": [CONNECT]}}
    steps = [{"name": name, "template": "t"} for name in "abcde"]
    flow = flow_of(*steps, {"name": "f", "dependsOn": depends_on})
    assert faults(flow, knowing(template_of("t"))) == [
        'spec.flows[5].dependsOn.probe.tcpSocketList[0].taskName: Invalid value: "ps": targets '
        '"a", "b", "c" and 2 more have no such task; there is "main"'
    ]


def test_with_strategy_all_every_target_needs_the_task():
    known = knowing(template_of("a", "worker"), template_of("b", "main"))
    assert faults(probing("a b c", taskStatusList=[STATUS]), known) == [
        f'{HERE}.taskStatusList[0].taskName: Invalid value: "worker": target "b" has no such task; '
        'there is "main"'
    ]


def test_with_strategy_any_one_complete_target_is_enough():
    flow = probing("a b", strategy="any", tcpSocketList=[CONNECT], taskStatusList=[STATUS])
    assert faults(flow, knowing(template_of("a", "ps", "worker"), template_of("b"))) == []
    halves = knowing(template_of("a", "ps"), template_of("b", "worker"))
    assert faults(flow, halves) == [
        f'{HERE}.tcpSocketList[0].taskName: Invalid value: "ps": target "b" has no such task; '
        'there is "worker"',
        f'{HERE}.taskStatusList[0].taskName: Invalid value: "worker": target "a" has no such task; '
        'there is "ps"',
    ]


def test_with_strategy_any_one_unknown_template_is_enough():
    flow = probing("a b", strategy="any", taskStatusList=[STATUS])
    assert faults(flow, knowing(template_of("a"))) == []


def test_faults_of_targets_are_not_repeated_for_the_probe():
    flow = flow_of({"name": "a", "dependsOn": {"targets": ["b", "a"], "probe": {
        "taskStatusList": [STATUS]}}})  # fmt: skip
    assert [fault.split(": ")[0] for fault in faults(flow, knowing(template_of("a")))] == [
        "spec.flows[0].dependsOn.targets[0]",
        "spec.flows[0].dependsOn.targets[1]",
    ]


LISTED = 'supported values: "Pending", "Running", "Succeeded", "Failed"'


@pytest.mark.parametrize(
    ("phase", "hint"),
    [
        ("succeeded", '; did you mean "Succeeded"?'),
        ("Succeed", '; did you mean "Succeeded"?'),
        ("Completed", '; did you mean "Succeeded"?'),
        ("Aborted", ""),
        ("Unknown", ("; a pod is Unknown while its node is lost, so it is no phase to wait for")),
    ],
)
def test_an_unsupported_phase_is_refused(phase, hint):
    assert faults(status(phase=phase)) == [
        f'{HERE}.taskStatusList[0].phase: Unsupported value: "{phase}": {LISTED}{hint}'
    ]


@pytest.mark.parametrize("phase", [None, ""])
def test_a_missing_phase_is_refused(phase):
    assert faults(status(phase=phase)) == [
        f"{HERE}.taskStatusList[0].phase: Required value: set the phase to wait for: "
        '"Pending", "Running", "Succeeded", "Failed"'
    ]


@pytest.mark.parametrize("counts", [(None, None), (1, None), (None, 1)])
def test_pods_cannot_both_succeed_and_fail(counts):
    first, second = counts
    flow = probing(
        taskStatusList=[
            STATUS | {"count": first},
            STATUS | {"phase": "Failed", "count": second},
            {"taskName": "ps", "phase": "Failed"},
        ]
    )
    assert faults(flow) == [
        f'{HERE}.taskStatusList[1].phase: Invalid value: "Failed": taskStatusList[0] asks for '
        "Succeeded of the same pods, and a pod ends only once; set count to the number of pods "
        "for each phase"
    ]


def test_faults_are_in_the_order_of_the_probe():
    flow = probing(
        taskStatusList=[{"count": 0}, STATUS],
        tcpSocketList=[CONNECT, {"port": 0}],
        httpGetList=[GET | {"httpHeader": {"value": "x"}}, {"path": "a", "port": 0}],
    )
    assert [fault.split(": ")[0].removeprefix(f"{HERE}.") for fault in faults(flow)] == [
        "httpGetList[0].httpHeader.name",
        "httpGetList[1].taskName",
        "httpGetList[1].path",
        "httpGetList[1].port",
        "tcpSocketList[1].taskName",
        "tcpSocketList[1].port",
        "taskStatusList[0].taskName",
        "taskStatusList[0].phase",
        "taskStatusList[0].count",
    ]


def test_each_misspelt_task_gets_a_suggestion():
    tasks = [{"taskName": name, "phase": "Failed"} for name in ("workr", "psx", "zzzzzz")]
    known = knowing(template_of("train", "worker", "ps"))
    found = faults(probing(taskStatusList=tasks), known)
    assert [line.partition("no such task; ")[2] for line in found] == [
        'did you mean "worker"?',
        'did you mean "ps"?',
        'there is "worker" and "ps"',
    ]


def test_a_malformed_task_name_is_a_fault_of_the_template():
    known = knowing(template_of("train", tasks=[{"name": 7}, {"name": "worker", "replicas": 1}]))
    probe = probing(taskStatusList=[{"taskName": "7", "phase": "Failed"}])
    (reported,) = faults(probe, known)
    assert reported.endswith('target "train" has no such task; there is "worker"')


def test_the_number_of_suggestions_is_limited():
    names = [f"t{i}" for i in range(50)]
    probe = {"taskStatusList": [{"taskName": "workr", "phase": "Failed"}]}
    steps = [
        {"name": f"after-{name}", "dependsOn": {"targets": [name], "probe": probe}}
        for name in names
    ]
    known = knowing(*(template_of(name, "worker") for name in names))
    violations = validate_flow(flow_of(*names, *steps), known).violations
    assert len(violations) == 50
    assert sum("did you mean" in violation.detail for violation in violations) == 10
    assert violations[-1].detail == 'target "t49" has no such task; there is "worker"'
