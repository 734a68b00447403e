"""Suggestions are accepted where they are made: each is applied and checked again."""

import json
import re
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.manifests.crd_schema import schema_violations
from support.admission.reviewed import flow_of

FOREIGN = """
$(tasks.build.results.sha) $(tasks.build.status) $(tasks.none.results.x) $(params.none)
$(param.rev) $(params['rev']) $(inputs.params.rev) $(workspaces.src.path)
$(context.pipelineRun.name) $(context.pipelineRun.uid) $(context.taskRun.name)
$(context.task.retry-count) $(steps.build.results.sha.path) $(steps) $(params) $(vars) $(flow)
$(failure) $(item) $(index) $(attempt) $(retries) $(retryCount) $(outputs.sha)
$(results.sha.path) $(var.x) $(variables.x) $(task.name) $(workflow.uid) {{workflow.name}}
{{workflow.uid}} {{workflow.namespace}} {{workflow.parameters.rev}} {{workflow.status}}
{{workflow.creationTimestamp}} {{inputs.parameters.rev}} {{inputs.artifacts.a.path}} {{item}}
{{item.name}} {{steps.build.outputs.result}} {{steps.build.outputs.parameters.sha}}
{{steps.build.status}} {{steps.build.ip}} {{steps.build.exitCode}}
{{tasks.build.outputs.parameters.sha}} {{tasks.none.outputs.result}} {{pod.name}} {{retries}}
{{lastRetry.exitCode}} {{params.rev}} {{ds}} {{outputs.parameters.x.path}} ${params.rev}
${params.none} ${inputs.rev} ${workflow.name} ${item.x} ${{matrix.os}} ${steps.build.outputs.sha}
${tasks.build.outputs.x} ${flow.scheduledTime} ${attempts} ${var.x}
""".split()


def flow_with(text: str) -> JobFlow:
    build: dict[str, Any] = {"name": "build", "container": {"image": "x"}}
    use: dict[str, Any] = {"name": "use", "dependsOn": {"targets": ["build"]}, "args": [text]}
    use["container"] = {"image": "x"}
    return flow_of(build, use, params=[{"name": "rev", "value": "main"}])


@pytest.mark.parametrize("text", FOREIGN)
def test_a_suggested_reference_is_accepted(text: str) -> None:
    for warning in validate_flow(flow_with(text), Known()).all_warnings:
        if (suggested := re.search(r"\(write (\$\(.+?\))\)", warning)) is not None:
            again = validate_flow(flow_with(suggested[1]), Known())
            assert again.violations == ()
            assert again.all_warnings == ()


A = {"name": "a", "container": {"image": "x"}}
OF_THE_FLOW = {
    **dict.fromkeys(("steps", "tasks", "jobs", "stages", "flow"), [A]),
    **dict.fromkeys(("timeoutSeconds", "activeDeadlineSeconds"), 60),
    **dict.fromkeys(("param", "parameters", "inputs"), [{"name": "p", "value": "v"}]),
    "arguments": {"parameters": [{"name": "p", "value": "v"}]},
    "output": {"x": "1"},
    "target": ["a"],
    "exitHandler": [A | {"name": "z"}],
    "queue": "q",
}
OF_A_STEP = {
    **dict.fromkeys(("timeoutSeconds", "activeDeadlineSeconds"), 60),
    **dict.fromkeys(("retries", "backoffLimit"), 3),
    "retryStrategy": {"limit": 3},
    **dict.fromkeys(("depends", "needs"), "a"),
    **dict.fromkeys(("dependencies", "runAfter", "needs"), ["a"]),
    **dict.fromkeys(("templateRef", "taskRef"), {"name": "t"}),
    **dict.fromkeys(("jobTemplate", "jobTemplateName", "templateName"), "t"),
    **dict.fromkeys(("allowFailure", "ignoreErrors"), True),
    "continueOn": {"failed": True},
    "withItems": [1],
    "withSequence": {"count": 3},
    "withParam": "[1]",
    "if": "true",
    "dependOn": {"targets": ["a"]},
}


@pytest.mark.parametrize("name", OF_THE_FLOW)
def test_a_suggested_field_of_a_flow_is_accepted(name: str) -> None:
    value = OF_THE_FLOW[name]
    spec = {} if name in ("steps", "tasks", "jobs", "stages", "flow") else {"flows": [A]}
    accepted = applied({"metadata": {"name": "f"}, "spec": spec}, f"spec.{name}", value)
    assert_accepted(accepted)


@pytest.mark.parametrize("name", OF_A_STEP)
def test_a_suggested_field_of_a_step_is_accepted(name: str) -> None:
    is_template = "emplate" in name or name == "taskRef"
    own = {"name": "b"} | ({} if is_template else {"container": {"image": "x"}})
    flow = {"metadata": {"name": "f"}, "spec": {"flows": [A, own]}}
    assert_accepted(applied(flow, f"spec.flows[1].{name}", OF_A_STEP[name]))


SUGGESTED = re.compile(r'; (?:here that is|did you mean|it belongs in) "?([\w.]+)"?(?:: (.+))?')


def applied(flow: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a flow in which the field of a path is replaced by the suggested one."""
    flow = json.loads(json.dumps({"apiVersion": JOBFLOWS.api_version, "kind": "JobFlow"} | flow))
    around = flow["spec"]["flows"][1] if "[1]" in path else flow["spec"]
    name = path.rpartition(".")[2]
    [fault] = schema_violations("JobFlow", _with(flow, around, name, value), strict=True)
    assert fault.path == path
    del around[name]
    found = SUGGESTED.search(fault.detail)
    assert found is not None, fault.detail
    keys = found[1].removeprefix("spec.").split(".")
    for key in keys[:-1]:
        around = around.setdefault(key, {})
    around[keys[-1]] = value if found[2] is None else json.loads(found[2])
    return flow


def _with(flow: dict[str, Any], around: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    around[name] = value
    return flow


def assert_accepted(flow: dict[str, Any]) -> None:
    assert schema_violations("JobFlow", flow, strict=True) == []
    assert validate_flow(msgspec.convert(flow, JobFlow), Known()).violations == ()
