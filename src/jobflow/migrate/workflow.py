"""The spec of a Workflow as the spec of a JobFlow."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jobflow.migrate.context import Context
from jobflow.migrate.expressions.values import json_of, whole
from jobflow.migrate.fields import Field, Severity, node_of
from jobflow.migrate.scopes import FlowScope, WorkflowInfo, identifier
from jobflow.migrate.steps.bodies import Workflow, calls_itself
from jobflow.migrate.steps.control import concurrency_of, duration
from jobflow.migrate.steps.flow import write_flow
from jobflow.migrate.steps.parameters import report_artifacts
from jobflow.migrate.steps.pods import placeholder
from jobflow.migrate.templates import Called, Library, is_flow, library_of

_WITHOUT_EFFECT = {
    "archiveLogs": "is left out: logs stay with the pods",
    "artifactGC": "is left out: there are no artifacts",
    "artifactRepositoryRef": "is left out: there are no artifacts",
    "executor": "is left out: there is no executor",
    "metrics": "is left out: metrics of flows come from the controller and Volcano",
    "priority": "is left out: set spec.jobDefaults.priorityClassName or a queue",
    "podPriority": "is left out: set spec.jobDefaults.priorityClassName",
    "volumeClaimGC": "is left out: claims are deleted with the flow",
    "workflowMetadata": "is left out: write labels and annotations of the flow in metadata",
}
_POD_DELETION = {
    "strategy": "pods are deleted with their jobs, when the flow has succeeded (jobRetainPolicy)",
    "deleteDelayDuration": "is left out: all pods are deleted at once, with their jobs",
    "labelSelector": "is left out: all pods are deleted at once, with their jobs",
}
_TIMES_TO_LIVE = {
    "secondsAfterCompletion": "ttlSecondsAfterFinished",
    "secondsAfterSuccess": "ttlSecondsAfterSucceeded",
    "secondsAfterFailure": "ttlSecondsAfterFailed",
}
_LIMITS_OF_STEPS = ("retryStrategy", "timeout", "activeDeadlineSeconds")
_NO_EQUAL = {
    "executorPlugins": "there are no executor plugins: write containers",
    "podDisruptionBudget": "there is no PodDisruptionBudget: retry.disruptions starts pods again",
    "retryStrategy": "a whole flow is not tried again by itself: set retry of its steps",
    "shutdown": "use jobflow cancel",
}


@dataclass(slots=True)
class Files:
    """The other objects in the files that a workflow can use."""

    templates: dict[tuple[str, bool], Library] = field(default_factory=dict)
    """WorkflowTemplates by name and whether they are of the cluster."""
    config_maps: dict[str, Mapping[str, Any]] = field(default_factory=dict)


def flow_spec(
    spec: Field, metadata: Mapping[str, Any], files: Files, *, scheduled: bool = False
) -> dict[str, Any]:
    """Return the spec of a JobFlow; what has no equal is reported."""
    spec = _with_template(spec, files)
    library = library_of(spec, files.templates)
    info = WorkflowInfo(metadata, is_scheduled=scheduled, config_maps=files.config_maps)
    info.entrypoint = spec.text_of("entrypoint")
    info.service_account = spec.text_of("serviceAccountName")
    claims: dict[str, Field | None] = {}
    for each in spec.listed("volumeClaimTemplates"):
        claims[each.text_of("metadata", "name")] = each.get("spec")
    info.claims = {*claims}
    found: dict[str, Any] = {}
    workflow = Workflow(spec, write_flow)
    loops = workflow.uses.params_as_lists(library, info.entrypoint)
    if params := _params(spec, info, files, loops):
        found["params"] = params
    scope = FlowScope(info)
    found |= _steps(spec, library, scope, workflow)
    if last := _finally(spec, library, scope, workflow):
        found["finally"] = last
    if claims:
        context = Context(scope)
        found["volumeClaims"] = {
            name: context.data(each) for name, each in claims.items() if each is not None
        }
    # Volcano's plugin svc gives the pods of a job names in DNS.
    if info.needs_addresses:
        found["jobDefaults"] = {"plugins": {"svc": []}}
    found |= _policies(spec, scope, found)
    spec.report_keys(Severity.NOTE, _WITHOUT_EFFECT)
    spec.report_keys(Severity.GAP, _NO_EQUAL)
    # Last, because steps and exit handlers say which templates they call.
    for template in spec.listed("templates"):
        name = template.text_of("name")
        if name not in library.used:
            template.note(f'the template "{name}" is left out: nothing calls it')
    return found


def _with_template(spec: Field, files: Files) -> Field:
    """Return a spec with what it takes from a WorkflowTemplate."""
    reference = spec.get("workflowTemplateRef")
    if reference is None:
        return spec
    library = files.templates.get((reference.text_of("name"), reference.is_true("clusterScope")))
    if library is None:
        reference.gap("the WorkflowTemplate is in none of the files: add the file that has it")
        return spec
    own = {each.text_of("name"): each for each in spec.listed("arguments", "parameters")}
    template, merged = library.spec, spec.with_defaults(library.spec)
    parameters = [
        own.pop(each.text_of("name"), each) for each in template.listed("arguments", "parameters")
    ]
    # Defaults merge maps and replace lists, but arguments are merged by their names.
    if not parameters:
        return merged
    listed = [each.node for each in (*parameters, *own.values())]
    arguments = node_of({"arguments": {"parameters": listed}}, spec.node.span)
    return replace(spec, node=arguments).with_defaults(merged)


def _params(
    spec: Field, info: WorkflowInfo, files: Files, loops: Container[str]
) -> list[dict[str, Any]]:
    """Return the params; those in `loops` are lists if they can be."""
    found = []
    for parameter in spec.listed("arguments", "parameters"):
        name = parameter.text_of("name")
        ours = info.params[name] = identifier(name)
        if ours != name:
            parameter.check(f'the param is named "{ours}"')
        param: dict[str, Any] = {"name": ours, "value": _param_value(parameter, files)}
        # Argo's parameters are texts; a list is one in JSON.
        if name in loops and isinstance(listed := json_of(param["value"]), list):
            param["value"] = listed
            info.lists.add(name)
        if (allowed := parameter.get("enum")) is not None:
            param["enum"] = [str(each) for each in allowed.data]
        for description in parameter.present("description"):
            description.note("is left out: params have no description")
        found.append(param)
    report_artifacts(spec, "arguments")
    return found


def _param_value(parameter: Field, files: Files) -> str:
    value, source = parameter.first("value", "default"), parameter.get("valueFrom")
    if value is not None:
        return value.text
    if source is not None:
        reference, default = source.get("configMapKeyRef"), source.get("default")
        if reference is not None:
            data = files.config_maps.get(reference.text_of("name"), {})
            key = reference.text_of("key")
            if key in data:
                reference.check("the value of the ConfigMap is copied into the param")
                return str(data[key])
        if default is not None:
            source.check("the default is the value: params cannot read ConfigMaps")
            return default.text
        source.gap("params cannot read ConfigMaps: add the file of the ConfigMap, or set the value")
        return ""
    parameter.check("has no value: set it here or with --param")
    return ""


def _steps(spec: Field, library: Library, scope: FlowScope, workflow: Workflow) -> dict[str, Any]:
    called = library.find(scope.workflow.entrypoint)
    if called is None:
        place = spec.get("entrypoint") or spec
        place.gap("there is no template with the name of the entrypoint")
        return {"flows": [{"name": "main"} | placeholder("the entrypoint")]}
    context, template = Context(scope, steps={}), called.template
    is_repeated = is_flow(template) and calls_itself(called)
    # Only a step can be repeated or have these limits, so the template becomes that of one.
    if not is_flow(template) or is_repeated or template.first(*_LIMITS_OF_STEPS) is not None:
        called = _around(called, scope.workflow.params)
    else:
        context.inputs = {
            name: context.resolve(("workflow", "parameters", name))
            for name in scope.workflow.params
        } | _defaults(template, context, scope.workflow)
    return write_flow(called, context, workflow, targets=True)


def _defaults(template: Field, context: Context, info: WorkflowInfo) -> dict[str, Any]:
    found = {}
    for parameter in template.listed("inputs", "parameters"):
        name = parameter.text_of("name")
        default = parameter.first("value", "default")
        if name not in info.params:
            if default is None:
                parameter.check("no value is given: it is an empty text")
            found[name] = context.text(default) if default is not None else ("",)
    return found


def _around(called: Called, params: Iterable[str]) -> Called:
    """Return a steps template with a single step that calls another template."""
    declared = {each.text_of("name") for each in called.template.listed("inputs", "parameters")}
    parameters = [
        {"name": each, "value": f"{{{{workflow.parameters.{each}}}}}"}
        for each in params
        if each in declared
    ]
    step = {"name": called.name, "template": called.name, "arguments": {"parameters": parameters}}
    # Its parts have the place of the template, so that findings about them are found there.
    outer = replace(called.template, node=node_of({"steps": [[step]]}, called.template.node.span))
    return Called("", outer, called.library)


def _finally(
    spec: Field, library: Library, scope: FlowScope, workflow: Workflow
) -> list[dict[str, Any]]:
    # A hook named exit is the newer way to write onExit.
    handler = spec.get("onExit")
    name = handler.text if handler is not None else ""
    for key, hook in spec.named("hooks"):
        test = hook.get("expression")
        if key != "exit" or test is not None or handler is not None:
            hook.gap("only one exit hook without an expression has an equal (spec.finally)")
            continue
        handler, name = hook, hook.text_of("template")
        if (arguments := hook.get("arguments")) is not None:
            arguments.gap("arguments of the hook have no equal: write them into the steps")
    if handler is None:
        return []
    called = library.find(name)
    if called is None:
        handler.gap(f'there is no template "{name}"')
        return []
    context = Context(scope, steps={}, in_finally=True)
    context.inputs = _defaults(called.template, context, scope.workflow)
    if not is_flow(called.template):
        called = _around(called, scope.workflow.params)
    flow = write_flow(called, context, workflow)
    for key in ("parallelism", "failurePolicy"):
        if key in flow:
            handler.check(f"{key} of the exit handler is left out")
    steps: list[dict[str, Any]] = flow["flows"]
    return steps


def _policies(spec: Field, scope: FlowScope, flow: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    context = Context(scope)
    if (limit := spec.get("parallelism")) is not None:
        number = whole(limit.text) or 0
        # The template of the entrypoint may have a limit too, which counts the same steps.
        found["parallelism"] = min(number, flow.get("parallelism", number))
        if any("flow" in step for step in flow["flows"]):
            limit.check("a child flow counts as one, and each can have a parallelism of its own")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and (span := duration(deadline, context)):
        found["timeout"] = span
    if spec.is_true("suspend"):
        found["suspend"] = True
    found |= concurrency_of(spec, context)
    for key, ours in _TIMES_TO_LIVE.items():
        value = spec.at("ttlStrategy", key)
        if value is not None and (seconds := whole(value.text)) is not None:
            found[ours] = seconds
    if (collected := spec.get("podGC")) is not None:
        if collected.get("strategy") is not None:
            found["jobRetainPolicy"] = "delete"
        collected.report_keys(Severity.NOTE, _POD_DELETION)
    return found
