"""Fields of Workflows, WorkflowTemplates and CronWorkflows."""

from typing import Any

import pytest
import yaml

from support.argo.migrated import (
    dag,
    echo,
    inputs,
    migrate,
    parameters,
    shell,
    step,
    steps,
    workflow,
)


def renamed(obj: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**obj, "metadata": metadata}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"activeDeadlineSeconds": 60}, {"timeout": "60s"}),
        ({"parallelism": 2}, {"parallelism": 2}),
        ({"suspend": True}, {"suspend": True}),
        (
            {"ttlStrategy": {"secondsAfterCompletion": 1, "secondsAfterSuccess": 2}},
            {"ttlSecondsAfterFinished": 1, "ttlSecondsAfterSucceeded": 2},
        ),
        ({"ttlStrategy": {"secondsAfterFailure": 3}}, {"ttlSecondsAfterFailed": 3}),
        ({"podGC": {"strategy": "OnPodSuccess"}}, {"jobRetainPolicy": "delete"}),
        ({"synchronization": {"mutexes": [{"name": "m"}]}}, {"concurrency": {"group": "m"}}),
    ],
)
def test_policies(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    found = migrate(workflow(echo(), **spec))
    assert {key: found.spec[key] for key in found.spec if key != "flows"} == expected


def test_params() -> None:
    listed = [
        {"name": "a-b", "value": 3, "description": "x"},
        {"name": "e", "value": "x", "enum": ["x", "z"]},
        {"name": "cm", "valueFrom": {"configMapKeyRef": {"name": "values", "key": "k"}}},
    ]
    main = shell("main", "{{workflow.parameters.a-b}} {{inputs.parameters.e}}", inputs=inputs("e"))
    data = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "values"},
        "data": {"k": "v"},
    }
    found = migrate(workflow(main, arguments={"parameters": listed}), data)
    flow, kept = yaml.safe_load_all(found.text.out)
    assert flow["spec"]["params"] == [
        {"name": "a_b", "value": "3"},
        {"name": "e", "value": "x", "enum": ["x", "z"]},
        {"name": "cm", "value": "v"},
    ]
    assert flow["spec"]["flows"][0]["container"]["args"] == ["$(params.a_b) $(params.e)"]
    assert kept == data


def test_the_semaphore_has_the_limit_of_its_config_map() -> None:
    lock = {"semaphores": [{"configMapKeyRef": {"name": "limits", "key": "flows"}}]}
    named = migrate(workflow(echo(), synchronization=lock))
    assert [path for path, _ in named.found()] == ["spec.synchronization.semaphores[0]"]
    data = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "limits"},
        "data": {"flows": "2"},
    }
    flow, _ = yaml.safe_load_all(migrate(workflow(echo(), synchronization=lock), data).text.out)
    assert flow["spec"]["concurrency"] == {"group": "limits-flows", "limit": 2}


def test_the_value_of_a_config_map_is_copied_into_an_input() -> None:
    source = {"configMapKeyRef": {"name": "values", "key": "k"}}
    main = shell("main", "{{inputs.parameters.a}}")
    main["inputs"] = {"parameters": [{"name": "a", "valueFrom": source}]}
    metadata = {"name": "values"}
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}
    flow, _ = yaml.safe_load_all(migrate(workflow(main), data).text.out)
    assert flow["spec"]["flows"][0]["container"]["args"] == ["v"]
    assert len(migrate(workflow(main)).found()) == 1


def test_patches_of_the_workflow_and_of_a_template_are_merged() -> None:
    first = "containers: [{name: main, resources: {limits: {cpu: '1'}}}]"
    second = '{"containers": [{"name": "main", "resources": {"limits": {"memory": "1Gi"}}}]}'
    found = migrate(workflow(shell("main", podSpecPatch=second), podSpecPatch=first))
    [task] = found.step("main")["patch"]["jobSpec"]["tasks"]
    [container] = task["template"]["spec"]["containers"]
    assert container["resources"] == {"limits": {"cpu": "1", "memory": "1Gi"}}


def test_claims_and_their_volumes() -> None:
    claim = {"metadata": {"name": "work"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    main = shell("main")
    main["container"]["volumeMounts"] = [{"name": "work", "mountPath": "/work"}]
    found = migrate(workflow(main, volumeClaimTemplates=[claim]))
    assert found.spec["volumeClaims"] == {"work": claim["spec"]}
    assert "volumes" not in found.step("main")


def test_an_exit_handler_is_finally() -> None:
    tell = shell("tell", "echo {{workflow.name}} {{workflow.status}} {{workflow.failures}}")
    handler = steps(
        "handler", [step("tell", "tell")], [step("cry", when="{{workflow.status}} != Succeeded")]
    )
    found = migrate(workflow(shell("main", "exit 1"), handler, tell, echo(), onExit="handler"))
    assert [each["name"] for each in found.spec["finally"]] == ["tell", "cry"]
    assert found.step("cry")["when"] == 'flow.phase != "Succeed"'
    assert found.step("tell")["container"]["args"] == [
        "echo $(flow.name) $(vars.status) $(vars.failures)"
    ]
    assert found.step("tell")["vars"] == {
        "status": '(flow.phase == "Succeed" ? "Succeeded" : flow.phase)',
        "failures": "flow.failures",
    }


def test_the_exit_hook_of_a_workflow() -> None:
    hooks = {"exit": {"template": "bye"}, "running": {"template": "bye", "expression": "true"}}
    found = migrate(workflow(echo(), echo("bye"), hooks=hooks))
    assert [each["name"] for each in found.spec["finally"]] == ["bye"]
    assert [path for path, _ in found.found()] == ["spec.hooks.running"]


def test_global_outputs_also_of_nested_templates() -> None:
    out = {"name": "x", "valueFrom": {"path": "/x"}, "globalName": "g"}
    code = shell("code", outputs={"parameters": [out]})
    inner = steps("inner", [step("deep", "code")])
    last = shell("last", "echo {{workflow.outputs.parameters.g}}")
    main = steps("main", [step("a", "inner")])
    found = migrate(workflow(main, inner, code, last, onExit="last"))
    assert found.step("a")["flow"]["outputs"] == {"g": 'steps["deep"].outputs.text'}
    assert found.step("last")["container"]["args"] == ["echo $(vars.g)"]
    tag = "{{workflow.outputs.parameters.g}}"
    assert found.step("last")["vars"] == {"g": f'get(steps["a"].outputs, "g", "{tag}")'}


def test_defaults_of_templates() -> None:
    found = migrate(workflow(shell("main"), templateDefaults={"retryStrategy": {"limit": 2}}))
    assert found.step("main")["retry"] == {"limit": 2}


def test_a_workflow_template_of_the_files() -> None:
    library = renamed(
        workflow(echo("say", inputs=inputs("message")), kind="WorkflowTemplate"), name="lib"
    )
    del library["spec"]["entrypoint"]
    reference = {"name": "lib", "template": "say"}
    call = {"name": "a", "templateRef": reference, "arguments": parameters(message="hi")}
    main = workflow(steps("main", [call]))
    found = migrate(library, main)
    assert found.step("a")["container"]["args"] == ["hi"]
    assert migrate(main).found() == [
        (
            "spec.templates[0].steps[0][0].templateRef",
            "the template is in none of the files: add the file that has it",
        )
    ]


def test_a_workflow_of_a_workflow_template() -> None:
    template = renamed(
        workflow(
            shell("main", "{{workflow.parameters.a}} {{workflow.parameters.b}}"),
            kind="ClusterWorkflowTemplate",
            arguments=parameters(a="1", b="2"),
        ),
        name="lib",
    )
    reference = {"name": "lib", "clusterScope": True}
    spec = {"workflowTemplateRef": reference, "arguments": parameters(b="3")}
    run = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": "run-"},
        "spec": spec,
    }
    of_template, of_run = yaml.safe_load_all(migrate(template, run).text.out)
    assert of_template["metadata"] == {"generateName": "lib-"}
    assert of_run["metadata"] == {"generateName": "run-"}
    assert of_run["spec"]["params"] == [{"name": "a", "value": "1"}, {"name": "b", "value": "3"}]


def test_a_cron_workflow_has_a_flow_for_each_schedule() -> None:
    spec = {
        "schedules": ["0 1 * * *", "0 2 * * *"],
        "timezone": "Europe/Berlin",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 60,
        "workflowSpec": workflow(shell("main", "{{workflow.scheduledTime}}"))["spec"],
    }
    cron = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "CronWorkflow",
        "metadata": {"name": "c"},
        "spec": spec,
    }
    first, second = yaml.safe_load_all(migrate(cron).text.out)
    assert (first["metadata"]["name"], second["metadata"]["name"]) == ("c-1", "c-2")
    assert first["spec"]["schedule"] == "0 1 * * *"
    assert (first["spec"]["timeZone"], first["spec"]["concurrencyPolicy"]) == (
        "Europe/Berlin",
        "Forbid",
    )
    [found] = first["spec"]["jobFlowTemplate"]["spec"]["flows"]
    assert found["container"]["args"] == ["$(flow.scheduledTime)"]


def test_a_long_name_is_shortened() -> None:
    found = migrate(renamed(workflow(echo()), generateName="x" * 60 + "-"))
    name = found.flow["metadata"]["generateName"]
    assert name.startswith("xxx")
    assert name.endswith("-")
    assert len(name) < 50
    assert [path for path, _ in found.found("warning")] == [""]


def test_metadata_of_argo_is_left_out() -> None:
    labels = {"workflows.argoproj.io/test": "true", "team": "a"}
    found = migrate(renamed(workflow(echo()), name="flow", labels=labels, uid="1"))
    assert found.flow["metadata"] == {"name": "flow", "labels": {"team": "a"}}
    assert len(found.found("info")) == 2


def test_a_template_that_nothing_calls_is_named() -> None:
    found = migrate(workflow(dag("main", step("a")), echo(), echo("unused")))
    assert [path for path, _ in found.found("info")] == ["spec.templates[2]"]


def test_an_event_binding_has_no_equal() -> None:
    binding = {"apiVersion": "argoproj.io/v1alpha1", "kind": "WorkflowEventBinding", "spec": {}}
    found = migrate(binding)
    assert (found.text.code, found.text.out) == (1, "")
