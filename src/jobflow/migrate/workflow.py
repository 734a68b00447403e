"""The spec of a Workflow as the spec of a JobFlow."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobflow.client.manifests.yaml_errors import Span
from jobflow.client.manifests.yaml_nodes import (
    ListNode,
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
)
from jobflow.migrate.context import Context
from jobflow.migrate.expressions.values import json_of, whole
from jobflow.migrate.fields import Field
from jobflow.migrate.scopes import FlowScope, WorkflowInfo, identifier
from jobflow.migrate.steps.bodies import Workflow, calls_itself
from jobflow.migrate.steps.control import duration
from jobflow.migrate.steps.flow import FlowWriter
from jobflow.migrate.steps.parameters import report_artifacts
from jobflow.migrate.steps.pods import placeholder
from jobflow.migrate.templates import Called, Library, library_of, parameters_of

_WITHOUT_EFFECT = {
    "archiveLogs": "is left out: logs stay with the pods",
    "artifactGC": "is left out: there are no artifacts",
    "artifactRepositoryRef": "is left out: there are no artifacts",
    "executor": "is left out: there is no executor",
    "metrics": "is left out: metrics of flows come from the controller and Volcano",
    "priority": "is left out: set spec.jobDefaults.priorityClassName or a queue",
    "podPriority": "is left out: set spec.jobDefaults.priorityClassName",
    "workflowMetadata": "is left out: write labels and annotations of the flow in metadata",
}
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
    specs: dict[tuple[str, bool], Field] = field(default_factory=dict)
    """The specs of WorkflowTemplates, by name and whether they are of the cluster."""
    config_maps: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """The data of ConfigMaps by name."""


def flow_spec(
    spec: Field, metadata: Mapping[str, Any], files: Files, *, scheduled: bool = False
) -> dict[str, Any]:
    """Return the spec of a JobFlow; what has no equal is reported."""
    spec = _with_template(spec, files)
    library = library_of(spec, files.templates)
    info = WorkflowInfo(metadata, is_scheduled=scheduled, config_maps=files.config_maps)
    info.entrypoint = spec.text_of("entrypoint")
    info.service_account = spec.text_of("serviceAccountName")
    claims = _volume_claims(spec)
    info.claims = {*claims}
    found: dict[str, Any] = {}
    workflow = Workflow(spec)
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
    if info.needs_addresses:
        found["jobDefaults"] = {"plugins": {"svc": []}}
    found |= _policies(spec, scope, found, files)
    for key, message in _WITHOUT_EFFECT.items():
        if (ignored := spec.get(key)) is not None:
            ignored.note(message)
    for key, message in _NO_EQUAL.items():
        if (ignored := spec.get(key)) is not None:
            ignored.gap(message)
    _report_unused(spec, library)
    return found


def _with_template(spec: Field, files: Files) -> Field:
    """Return a spec with what it takes from a WorkflowTemplate."""
    reference = spec.get("workflowTemplateRef")
    if reference is None:
        return spec
    key = (reference.text_of("name"), reference.is_true("clusterScope"))
    template = files.specs.get(key)
    if template is None:
        reference.gap("the WorkflowTemplate is in none of the files: add the file that has it")
        return spec
    own = {each.text_of("name"): each for each in parameters_of(spec, "arguments")}
    merged = spec.with_defaults(template)
    parameters = [
        own.pop(each.text_of("name"), each) for each in parameters_of(template, "arguments")
    ]
    listed = ListNode(spec.node.span, items=[each.node for each in (*parameters, *own.values())])
    if parameters and isinstance(merged.node, MappingNode):
        span = spec.node.span
        arguments = MappingNode(span, entries={"parameters": MappingEntry(span, listed)})
        merged.node.entries["arguments"] = MappingEntry(span, arguments)
    return merged


def _params(
    spec: Field, info: WorkflowInfo, files: Files, loops: Container[str]
) -> list[dict[str, Any]]:
    """Return the params; those in `loops` are lists if they can be."""
    found = []
    for parameter in parameters_of(spec, "arguments"):
        name = parameter.text_of("name")
        ours = info.params[name] = identifier(name)
        if ours != name:
            parameter.check(f'the param is named "{ours}"')
        param: dict[str, Any] = {"name": ours, "value": _param_value(parameter, files)}
        if name in loops and isinstance(listed := json_of(param["value"]), list):
            param["value"] = listed
            info.lists.add(name)
        if (allowed := parameter.get("enum")) is not None:
            param["enum"] = [str(each) for each in allowed.data]
        if (described := parameter.get("description")) is not None:
            described.note("is left out: params have no description")
        found.append(param)
    report_artifacts(spec, "arguments")
    return found


def _param_value(parameter: Field, files: Files) -> str:
    value, source = parameter.get("value") or parameter.get("default"), parameter.get("valueFrom")
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
    template = library.templates.get(scope.workflow.entrypoint)
    if template is None:
        place = spec.get("entrypoint") or spec
        place.gap("there is no template with the name of the entrypoint")
        return {"flows": [{"name": "main"} | placeholder("the entrypoint")]}
    library.used.add(scope.workflow.entrypoint)
    called = Called(scope.workflow.entrypoint, template, library)
    context = Context(scope, steps={})
    is_flow = template.get("dag") is not None or template.get("steps") is not None
    if not is_flow or calls_itself(called) or _needs_own_flow(template):
        called = _around(called, [*scope.workflow.params])
    else:
        context.inputs = {
            name: context.resolve(("workflow", "parameters", name))
            for name in scope.workflow.params
        } | _defaults(template, context, scope.workflow)
    return FlowWriter(workflow).write(called, context, targets=True)


def _needs_own_flow(template: Field) -> bool:
    return any(template.get(key) for key in ("retryStrategy", "timeout", "activeDeadlineSeconds"))


def _defaults(template: Field, context: Context, info: WorkflowInfo) -> dict[str, Any]:
    found = {}
    for parameter in parameters_of(template, "inputs"):
        name = parameter.text_of("name")
        default = parameter.get("value") or parameter.get("default")
        if name not in info.params:
            if default is None:
                parameter.check("no value is given: it is an empty text")
            found[name] = context.text(default) if default is not None else ("",)
    return found


def _around(called: Called, params: Sequence[str], name: str = "") -> Called:
    """Return a steps template with a single step that calls another template."""
    declared = {each.text_of("name") for each in parameters_of(called.template, "inputs")}
    parameters = [
        {"name": each, "value": f"{{{{workflow.parameters.{each}}}}}"}
        for each in params
        if each in declared
    ]
    step = {"name": name or called.name, "template": called.name}
    data = {"steps": [[step | {"arguments": {"parameters": parameters}}]]}
    template = called.template
    node = _node_of(data, template.node.span)
    outer = Field(node, template.path, template.key, template.source, template.findings)
    return Called("", outer, called.library)


def _node_of(data: Any, span: Span) -> Node:
    if isinstance(data, dict):
        entries = {key: MappingEntry(span, _node_of(each, span)) for key, each in data.items()}
        return MappingNode(span, entries=entries)
    if isinstance(data, list):
        return ListNode(span, items=[_node_of(each, span) for each in data])
    return ScalarNode(span, data)


def _finally(
    spec: Field, library: Library, scope: FlowScope, workflow: Workflow
) -> list[dict[str, Any]]:
    """Return the steps of the exit handler."""
    handler, test = spec.get("onExit"), None
    hooks = spec.get("hooks")
    name = handler.text if handler is not None else ""
    for key, _ in hooks.entries() if hooks is not None else ():
        hook = hooks.get(key) if hooks is not None else None
        if hook is None:
            continue
        test = hook.get("expression")
        if key != "exit" or test is not None or handler is not None:
            hook.gap("only one exit hook without an expression has an equal (spec.finally)")
            continue
        handler, name = hook, hook.text_of("template")
        if (arguments := hook.get("arguments")) is not None:
            arguments.gap("arguments of the hook have no equal: write them into the steps")
    if handler is None:
        return []
    template = library.templates.get(name)
    if template is None:
        handler.gap(f'there is no template "{name}"')
        return []
    library.used.add(name)
    called = Called(name, template, library)
    if template.get("steps") is None and template.get("dag") is None:
        called = _around(called, [*scope.workflow.params])
    context = Context(scope, steps={}, in_finally=True)
    context.inputs = _defaults(template, context, scope.workflow)
    flow = FlowWriter(workflow).write(called, context)
    for key in ("parallelism", "failurePolicy"):
        if key in flow:
            handler.check(f"{key} of the exit handler is left out")
    steps: list[dict[str, Any]] = flow["flows"]
    return steps


def _volume_claims(spec: Field) -> dict[str, Field | None]:
    listed = spec.get("volumeClaimTemplates")
    found: dict[str, Field | None] = {}
    for each in listed.items() if listed is not None else ():
        metadata = each.get("metadata")
        found[metadata.text_of("name") if metadata is not None else ""] = each.get("spec")
    if (collected := spec.get("volumeClaimGC")) is not None:
        collected.note("is left out: claims are deleted with the flow")
    return found


def _policies(
    spec: Field, scope: FlowScope, flow: Mapping[str, Any], files: Files
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    context = Context(scope)
    if (limit := spec.get("parallelism")) is not None:
        number = whole(limit.text) or 0
        found["parallelism"] = min(number, flow.get("parallelism", number))
        if any("flow" in step for step in flow["flows"]):
            limit.check("a child flow counts as one, and each can have a parallelism of its own")
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and (span := duration(deadline, context)):
        found["timeout"] = span
    if spec.is_true("suspend"):
        found["suspend"] = True
    if (lock := spec.get("synchronization")) is not None:
        found |= _concurrency(lock, context, files)
    return found | _retention(spec)


def _concurrency(lock: Field, context: Context, files: Files) -> dict[str, Any]:
    mutexes, semaphores = lock.get("mutexes"), lock.get("semaphores")
    single = (lock.get("mutex"), lock.get("semaphore"))
    listed = [*(mutexes.items() if mutexes is not None else ())]
    limited = [*(semaphores.items() if semaphores is not None else ())]
    listed += [single[0]] if single[0] is not None else []
    limited += [single[1]] if single[1] is not None else []
    for further in [*listed, *limited][1:]:
        further.gap("a flow belongs to one group only: choose one lock")
    for each in listed[:1]:
        _report_scope(each)
        name = each.get("name")
        return {"concurrency": {"group": context.string(name) if name is not None else "mutex"}}
    for each in limited[:1]:
        _report_scope(each)
        reference = each.get("configMapKeyRef") or each.get("database")
        name, key = "semaphore", ""
        if reference is not None:
            found = reference.get("name") or reference.get("key")
            name = context.string(found) if found is not None else name
            key = reference.text_of("key")
        limit = whole(str(files.config_maps.get(name, {}).get(key, "")))
        if limit is None:
            each.gap(f'the limit of "{name}" is in none of the files: set spec.concurrency.limit')
        group = f"{name}-{key}" if key and key != name else name
        return {"concurrency": {"group": group, "limit": 1 if limit is None else limit}}
    return {}


def _report_scope(lock: Field) -> None:
    for key in ("database", "namespace"):
        value = lock.get(key)
        if value is not None and not value.is_map:
            value.check("flows wait for each other in their own namespace of one cluster")


def _retention(spec: Field) -> dict[str, Any]:
    found: dict[str, Any] = {}
    ttl = spec.get("ttlStrategy")
    names = {"secondsAfterCompletion": "Finished", "secondsAfterSuccess": "Succeeded"}
    for key, suffix in (names | {"secondsAfterFailure": "Failed"}).items():
        value = ttl.get(key) if ttl is not None else None
        if value is not None and (seconds := whole(value.text)) is not None:
            found[f"ttlSecondsAfter{suffix}"] = seconds
    collected = spec.get("podGC")
    if collected is not None:
        if (strategy := collected.get("strategy")) is not None:
            strategy.note(
                "pods are deleted with their jobs, when the flow has succeeded (jobRetainPolicy)"
            )
            found["jobRetainPolicy"] = "delete"
        for key in ("deleteDelayDuration", "labelSelector"):
            if (detail := collected.get(key)) is not None:
                detail.note("is left out: all pods are deleted at once, with their jobs")
    return found


def _report_unused(spec: Field, library: Library) -> None:
    own = spec.get("templates")
    for template in own.items() if own is not None else ():
        name = template.text_of("name")
        if name not in library.used:
            template.note(f'the template "{name}" is left out: nothing calls it')
