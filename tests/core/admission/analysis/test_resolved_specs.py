"""Specs that steps and cases may have before anything runs, with patches and references."""

from typing import Any

import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.jobs.layer_locations import open_paths
from jobflow.core.admission.validate import Known, validate_flow
from support.admission.reviewed import faults, flow_of, knowing, template_of

TRAIN = template_of("train", "ps", "worker", replicas=2, minAvailable=4, queue="default")


KNOWN = knowing(TRAIN)


def specs(*steps: dict[str, Any], known: Known = KNOWN, **spec: Any) -> list[Any]:
    """Return (step, queue, minAvailable) of each spec that the steps may have."""
    uses = FlowFacts(flow_of(*steps, **spec), known).resolved_steps
    return [
        (use.step, use.resolved.spec.get("queue"), use.resolved.spec.get("minAvailable"))
        for use in uses
    ]


def test_a_step_has_one_spec_and_a_switch_has_one_per_case() -> None:
    queue = {"patch": {"jobSpec": {"queue": "q"}}}
    least = {"patch": {"spec": {"minAvailable": 1}}}
    cases = [{"template": "train"}, {"template": "train"} | least, {"template": "other"}, {}]
    assert specs(
        {"name": "a", "template": "train"},
        {"name": "b", "switch": cases} | queue,
        {"name": "train", "switch": [least, {}]},
        **{"finally": [{"name": "c", "template": "train"} | least]},
    ) == [
        (0, "default", 4),
        (1, "q", 4),
        (1, "q", 1),
        (2, "default", 1),
        (2, "default", 4),
        (3, "default", 1),
    ]


def test_patches_override_templates_and_templates_override_defaults() -> None:
    steps = [
        {"name": "a", "template": "t"},
        {"name": "b", "template": "train"},
        {"name": "c", "template": "t", "patch": {"jobSpec": {"queue": "own"}}},
    ]
    known = knowing(TRAIN, template_of("t"))
    defaults = {"queue": "all", "plugins": {"svc": []}}
    assert [each[1] for each in specs(*steps, known=known, jobDefaults=defaults)] == [
        "all",
        "default",
        "own",
    ]
    uses = FlowFacts(flow_of(*steps, jobDefaults=defaults), known).resolved_steps
    assert {use.pods.hostname_plugin for use in uses} == {"svc"}


def patched(job_spec: Any, **spec: Any) -> list[str]:
    step = {"name": "b", "template": "train", "patch": {"jobSpec": job_spec}}
    known = knowing(TRAIN)
    return [
        f"{v.path.removeprefix('spec.flows[0].patch.jobSpec.')}: {v.message}"
        for v in validate_flow(flow_of(step, **spec), known).violations
    ]


PARAMS = [
    {"name": "n", "value": 7},
    {"name": "text", "value": "x y"},
    {"name": "tasks", "value": [{"name": "worker", "replicas": -1}]},
]


@pytest.mark.parametrize(
    ("job_spec", "reported"),
    [
        ({"minAvailable": "$(params.n)", "queue": "$(flow.name)"},
         ["minAvailable: Invalid value: 7: must not be greater than the replicas of all tasks "
          "together (4)"]),
        ({"maxRetry": "x$(params.n)"},
         ['maxRetry: Invalid value: "string": must be of type integer: "string"']),
        ({"queue": "$$(params.n)"},
         ['queue: Invalid value: "$(params.n)": a Kubernetes name cannot hold "$", "(" and ")": '
          'use lower-case letters, digits, "-" and "."']),
        ({"queue": "q-$(params.text)"},
         ['queue: Invalid value: "q-x y": a Kubernetes name cannot hold " ": use lower-case '
          'letters, digits, "-" and "."; "q-x-y" would do']),
        ({"minAvailable": 0, "tasks": "$(params.tasks)"},
         ["tasks: Invalid value: -1: must be greater than or equal to 0 (at [0].replicas of its "
          "value)"]),
    ],
)  # fmt: skip
def test_values_of_params_are_checked_in_patches(job_spec: Any, reported: list[str]) -> None:
    assert patched(job_spec, params=PARAMS) == reported


@pytest.mark.parametrize(
    "job_spec",
    [
        {"minAvailable": "$(item.n)", "queue": "q-$(index)", "maxRetry": "$(item.retries)"},
        {"tasks": [{"name": "worker", "replicas": "$(item.n)"}]},
        {"tasks": [{"name": "$(item.task)", "replicas": 9}], "minAvailable": 9},
        {"tasks": [{"name": "$(item.task)"}], "plugins": {"mpi": ["--master=$(item.task)"]}},
        {"tasks": [{"name": "$(item.task)"}], "plugins": {"mpi": ["--master=chief"]}},
        {"tasks": [{"name": "worker", "dependsOn": {"name": ["$(item.task)"]}}]},
        {"tasks": "$(item.tasks)"},
        {"tasks": [{"name": "worker", "template": "$(item.template)"}]},
        {"tasks": [{"name": "new", "template": {"spec": {"containers": "$(item.containers)"}}}]},
        {"policies": ["$(item.policy)"], "plugins": "$(item.plugins)"},
        {"policies": [{"event": "$(item.event)", "action": "$(item.action)"}]},
        {"volumes": [{"mountPath": "$(item.path)"}]},
    ],
    ids=str,
)
def test_values_known_only_to_a_run_are_not_checked(job_spec: Any) -> None:
    step = {"name": "b", "template": "train", "patch": {"jobSpec": job_spec}}
    items = [{"forEach": {"from": "steps['a'].outputs.items"}, "dependsOn": {"targets": ["a"]}}]
    first = {"name": "a", "template": "train"}
    assert faults(flow_of(first, step | items[0]), knowing(TRAIN)) == []
    assert faults(flow_of(first, step | items[0]), Known()) == []


def test_values_beside_open_references_are_checked() -> None:
    patch = {
        "minAvailable": -1,
        "queue": "$(item)",
        "plugins": {"sshd": ["$(item)"]},
        "tasks": [{"name": "worker", "replicas": "$(item)", "minAvailable": -2}],
    }
    step = {
        "name": "b",
        "template": "train",
        "patch": {"jobSpec": patch},
        "forEach": {"from": "steps.a.outputs.n"},
        "dependsOn": {"targets": ["a"]},
    }
    places = [
        line.partition(": ")[0].removeprefix("spec.flows[1].patch.jobSpec.")
        for line in faults(flow_of({"name": "a", "template": "train"}, step), knowing(TRAIN))
    ]
    assert places == ["minAvailable", "tasks[0].minAvailable", "plugins"]


def test_a_fault_of_the_steps_patch_is_reported_once_for_all_cases() -> None:
    step = {
        "name": "train",
        "patch": {"jobSpec": {"minAvailable": 9}},
        "switch": [
            {"when": "false"},
            {"when": "false", "patch": {"jobSpec": {"queue": "q"}}},
            {"when": "false", "patch": {"jobSpec": {"tasks": [{"name": "ps", "replicas": 7}]}}},
            {"patch": {"jobSpec": {"minAvailable": 10}}},
        ],
    }
    assert [line.split(": ")[:3] for line in faults(flow_of(step), knowing(TRAIN))] == [
        ["spec.flows[0].patch.jobSpec.minAvailable", "Invalid value", "9"],
        ["spec.flows[0].switch[3].patch.jobSpec.minAvailable", "Invalid value", "10"],
    ]


def test_a_case_whose_template_is_not_known_is_checked_by_itself() -> None:
    step = {
        "name": "a",
        "switch": [
            {"when": "true", "template": "none", "patch": {"jobSpec": {"maxRetry": -1}}},
            {"template": "train", "patch": {"jobSpec": {"maxRetry": -2}}},
        ],
    }
    verdict = validate_flow(flow_of(step), knowing(TRAIN))
    assert [v.path for v in verdict.violations] == [
        f"spec.flows[0].switch[{i}].patch.jobSpec.maxRetry" for i in (0, 1)
    ]
    assert verdict.warnings == (
        'JobTemplate "none" does not exist yet: its steps wait until it does',
    )


def test_missing_templates_of_cases_and_of_finally_are_warnings() -> None:
    flow = flow_of(
        {"name": "a", "switch": [{"when": "true", "template": "x"}, {}]},
        **{"finally": [{"name": "b"}, {"name": "c", "template": "train"}]},
    )
    assert validate_flow(flow, knowing(TRAIN)).warnings == (
        'JobTemplates "x", "a" and "b" do not exist yet: their steps wait until they do',
    )


def queue_warnings(flow: JobFlow, known: Known) -> list[str]:
    return [line for line in validate_flow(flow, known).warnings if "queue" in line]


def test_queues_of_cases_defaults_and_finally_are_checked() -> None:
    def queue(name: str) -> dict[str, Any]:
        return {"patch": {"jobSpec": {"queue": name}}}

    flow = flow_of(
        {"name": "train", "switch": [queue("q1"), {"when": "true"} | queue("$(item)")]},
        {"name": "t"},
        jobDefaults={"queue": "q3"},
        **{"finally": [{"name": "b", "template": "none"} | queue("q2")]},
    )
    known = knowing(TRAIN, template_of("t"), queues={"default": "Open"})
    assert queue_warnings(flow, known) == [
        'queues "q1", "q3" and "q2" do not exist: Volcano refuses jobs for a queue that does not '
        "exist"
    ]
    flow = flow_of("t", jobDefaults={"queue": "q3"})
    assert queue_warnings(flow, knowing(queues={"default": "Open"})) == [
        'queue "q3" does not exist: Volcano refuses jobs for a queue that does not exist'
    ]
    assert queue_warnings(flow, knowing(queues={"default": "Open", "q3": "Open"})) == []


@pytest.mark.parametrize(
    ("cases", "task", "fits"),
    [
        ([{}, {"template": "t"}], "worker", True),
        ([{}, {"template": "t"}], "main", True),
        ([{}, {"template": "t"}], "wroker", False),
        ([{}, {"template": "none"}], "wroker", True),
    ],
)
def test_a_probe_may_name_a_task_of_any_case(
    cases: list[dict[str, Any]], task: str, fits: bool
) -> None:
    probe = {"taskStatusList": [{"taskName": task, "phase": "Running", "count": 2}]}
    flow = flow_of(
        {"name": "train", "switch": [{"when": "true"} | cases[0], cases[1]]},
        {"name": "t", "dependsOn": {"targets": ["train"], "probe": probe}},
    )
    known = knowing(TRAIN, template_of("t", replicas=3))
    assert (faults(flow, known) == []) is fits


def test_open_paths_of_a_spec_are_found() -> None:
    spec = {
        "queue": "q-$(item)",
        "minAvailable": 1,
        "plugins": {"a.b/c": ["x", "$(index)", "$(POD_NAME)", "$$(item)"]},
        "tasks": [
            {"name": "a", "template": {"spec": {"containers": [{"name": "$(item)", "x": 1}]}}},
            {"name": "$(item.name)", "replicas": "$(item.n)"},
            "$(item)",
        ],
    }
    assert sorted(open_paths(spec)) == [
        "plugins[a.b/c][1]",
        "queue",
        "tasks[0].template.spec.containers[0]",
        "tasks[1]",
        "tasks[2]",
    ]


def test_patches_beyond_the_limit_are_checked_without_their_templates() -> None:
    big = template_of("big", "main", annotation="x" * (5 << 19))
    case = {"when": "true", "template": "big", "patch": {"jobSpec": {"minAvailable": 9}}}
    invalid = {**case, "patch": {"jobSpec": {"minAvailable": -1}}}
    flow = flow_of({"name": "a", "switch": [case, case, case, case, invalid]})
    assert [line.split(": ")[:3] for line in faults(flow, knowing(big))] == [
        *(
            [f"spec.flows[0].switch[{at}].patch.jobSpec.minAvailable", "Invalid value", "9"]
            for at in range(3)
        ),
        ["spec.flows[0].switch[4].patch.jobSpec.minAvailable", "Invalid value", "-1"],
    ]


def test_half_surrogate_pairs_are_faults() -> None:
    half = "\ud800"
    flow = flow_of(
        {"name": "a", "forEach": {"from": "params.x"}, "patch": {"jobSpec": {"queue": half}}},
        params=[{"name": "x", "value": [half]}],
    )
    reported = faults(flow, knowing(template_of("a")))
    assert any("spec.flows[0].patch.jobSpec.queue" in each for each in reported)


def test_the_number_of_tried_items_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    def reported() -> list[str]:
        items = [{"n": 1}, {"n": 1}, {}]
        patch = {"jobSpec": {"queue": "$(item.n)"}}
        return faults(flow_of({"name": "a", "forEach": {"items": items}, "patch": patch}))

    monkeypatch.setattr("jobflow.core.admission.analysis.tree_budget.MAX_TRIED_ITEMS", 3)
    assert [line.rpartition(": ")[2] for line in reported()] == ['items[2] has no "n"']
    monkeypatch.setattr("jobflow.core.admission.analysis.tree_budget.MAX_TRIED_ITEMS", 2)
    assert reported() == []
