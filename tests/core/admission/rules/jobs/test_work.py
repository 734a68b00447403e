"""Admission of steps that run a jobSpec or a container, and of env, image, command and args."""

from typing import Any

import pytest

from jobflow.api.flow.jobflow import templates_of
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.validate import Known, validate_flow
from support.admission.reviewed import faults, flow_of, knowing, template_of

CONTAINER = {"image": "busybox:1.36"}
TASK = {
    "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", **CONTAINER}]}}
}


def found(step: dict[str, Any], known: Known | None = None, **spec: Any) -> list[str]:
    return faults(flow_of({"name": "a", **step}, **spec), known or Known())


def warned(step: dict[str, Any]) -> list[str]:
    return list(validate_flow(flow_of({"name": "a", **step}), Known(templates={})).all_warnings)


@pytest.mark.parametrize(
    "step",
    [
        {"container": CONTAINER},
        {"container": CONTAINER, "volumes": [{"name": "v", "emptyDir": {}}]},
        {"jobSpec": {"tasks": [TASK]}},
        {"jobSpec": {"tasks": [{"name": "w", "replicas": 2, **TASK}], "minAvailable": 2}},
        {"switch": [{"when": "true", "container": CONTAINER}, {"jobSpec": {"tasks": [TASK]}}]},
        {
            "container": {**CONTAINER, "args": ["$(item)"]},
            "forEach": {"items": [1]},
            "env": {"A": 1, "B": 0.5, "C": True, "D": None, "E": "$(index)"},
            "image": "$(item)",
            "command": ["run", 3],
            "args": "$(item)",
            "resources": {"requests": {"cpu": 1}},
        },
    ],
)
def test_a_valid_step_without_a_template_has_no_faults_and_no_warnings(step: Any) -> None:
    assert (found(step), warned(step)) == ([], [])


@pytest.mark.parametrize(
    ("step", "places"),
    [
        ({"jobSpec": {}}, ["jobSpec.tasks"]),
        ({"jobSpec": {"tasks": [{}]}}, ["jobSpec.tasks[0].template"]),
        ({"jobSpec": {"tasks": [TASK], "minAvailable": 2}}, ["jobSpec.minAvailable"]),
        ({"jobSpec": {"tasks": [TASK], "queue": 7}}, ["jobSpec.queue"]),
        ({"container": {}}, ["container.image"]),
        ({"container": {**CONTAINER, "name": "A"}}, ["container.name"]),
        ({"container": {**CONTAINER, "args": "x"}}, ["container.args"]),
        ({"container": CONTAINER, "volumes": [{"name": 3}]}, ["volumes[0].name"]),
        ({"container": CONTAINER, "image": ""}, ["image"]),
        ({"container": CONTAINER, "command": "run"}, ["command"]),
        ({"container": CONTAINER, "args": [["x"]]}, ["args[0]"]),
        ({"container": CONTAINER, "resources": {"limits": {"cpu": "x"}}}, ["resources.limits.cpu"]),
        ({"container": CONTAINER, "env": {"A.B": ["x"]}}, ["env[A.B]"]),
        (
            {"container": CONTAINER, "env": {"A": {"valueFrom": {"fieldRef": {"fieldPath": 3}}}}},
            ["env.A.valueFrom.fieldRef.fieldPath"],
        ),
        (
            {"container": CONTAINER, "patch": {"jobSpec": {"tasks": [{"replicas": -1}]}}},
            ["patch.jobSpec.tasks[0].replicas"],
        ),
        ({"switch": [{"container": {}}]}, ["switch[0].container.image"]),
        ({"env": {"A": "$(params.x)"}}, ["env.A"]),
        ({"env": {"A": {"valueFrom": {"secretKeyRef": {"name": "$(item)"}}}}}, [
            "env.A.valueFrom.secretKeyRef.name"
        ]),
        ({"args": ["x", "$(params.x)"]}, ["args[1]"]),
        ({"container": {"image": "$(params.x)"}}, ["container.image"]),
    ],
)  # fmt: skip
def test_a_fault_is_located_at_the_field_that_the_user_wrote(
    step: dict[str, Any], places: list[str]
) -> None:
    at = [fault.partition(": ")[0] for fault in found(step)]
    assert at == [f"spec.flows[0].{place}" for place in places]


def test_faults_of_arguments_are_found_in_the_job_of_a_template() -> None:
    template = template_of("a")
    assert found({"image": ""}, knowing(template)) == [
        "spec.flows[0].image: Required value: a container has an image"
    ]


def test_an_env_that_makes_too_many_variables_is_refused() -> None:
    pod = {"containers": [{"name": f"c{i}", **CONTAINER} for i in range(300)]}
    template = template_of("a", tasks=[{"name": "t", "replicas": 1, "template": {"spec": pod}}])
    assert found({"env": {f"A{i}": i for i in range(300)}}, knowing(template)) == [
        "spec.flows[0].env: Too many: env makes 90,000 variables in this job; at most 65,536 fit"
    ]


def test_an_env_that_makes_a_job_too_large_for_an_api_server_is_refused() -> None:
    pod = {"containers": [{"name": f"c{i}", **CONTAINER} for i in range(100)]}
    template = template_of("a", tasks=[{"name": "t", "replicas": 1, "template": {"spec": pod}}])
    (fault,) = found({"env": {"A": "x" * 40_000}}, knowing(template))
    assert fault == (
        "spec.flows[0].env: Too many: env makes 4,002,500 bytes in this job; at most 3,145,728 fit"
    )


def test_a_value_of_a_reference_is_judged_at_the_reference() -> None:
    params = [{"name": "cpu", "value": "2 GB"}]
    [fault] = found(
        {"container": CONTAINER, "resources": {"limits": {"cpu": "$(params.cpu)"}}}, params=params
    )
    assert fault.startswith("spec.flows[0].resources.limits.cpu: Invalid value")


@pytest.mark.parametrize(
    ("step", "warning"),
    [
        (
            {"container": {**CONTAINER, "imagePullpolicy": "Always"}},
            "spec.flows[0].container.imagePullpolicy: unknown field; did you mean "
            '"imagePullPolicy"?',
        ),
        (
            {"jobSpec": {"tasks": [{"replica": 2, **TASK}]}},
            'spec.flows[0].jobSpec.tasks[0].replica: unknown field; did you mean "replicas"?',
        ),
        (
            {"jobSpec": {"tasks": [{"$patch": "replace", **TASK}]}},
            "spec.flows[0].jobSpec.tasks[0].$patch: unknown field",
        ),
        (
            {"jobSpec": {"tasks": [{"name": "a", "replicas": 1, **TASK}, {"name": "b", **TASK}]}},
            "spec.flows[0].jobSpec.tasks[1].replicas: without replicas this task has no pod, and a "
            "job without pods never ends",
        ),
        (
            {"container": CONTAINER, "env": {"A": "${item}"}, "args": ["{{workflow.name}}"]},
            'spec.flows[0].args[0]: "{{workflow.name}}" looks like a reference but is not one, so '
            "it is left as it is (write $(flow.name))",
        ),
    ],
)
def test_suspicious_fields_are_warned_of(step: dict[str, Any], warning: str) -> None:
    assert warning in warned(step)


def test_steps_without_a_template_use_none() -> None:
    flow = flow_of({"name": "a", "container": CONTAINER}, "b")
    facts = FlowFacts(flow, Known(templates={}))
    assert (facts.templates, flow.templates, templates_of(flow.steps[0])) == (["b"], ["b"], [])


def test_the_tasks_of_a_container_and_a_job_spec_are_known_to_probes_and_expressions() -> None:
    probe = {"taskStatusList": [{"taskName": "mian", "phase": "Running"}]}
    flow = flow_of(
        {"name": "a", "container": CONTAINER},
        {"name": "b", "container": CONTAINER, "dependsOn": {"targets": ["a"], "probe": probe}},
    )
    [fault] = faults(flow)
    assert 'did you mean "main"' in fault


def test_the_names_of_pods_without_a_template_are_checked() -> None:
    [fault] = faults(flow_of({"name": "a" * 55, "container": CONTAINER}))
    assert fault.startswith("spec.flows[0].name: Too long: its pod ")
