"""The work of a step: the template that its task calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jobflow.migrate.context import Context
from jobflow.migrate.expressions.values import Ref, Text, as_ref, literal
from jobflow.migrate.fields import Field, Severity
from jobflow.migrate.scopes import FlowScope, StepInfo, identifier
from jobflow.migrate.steps.control import duration, limits_of
from jobflow.migrate.steps.parameters import Wanted, paths_of, plan_outputs
from jobflow.migrate.steps.pods import PodSource, job_of, placeholder
from jobflow.migrate.templates import Called, Uses, is_flow, tasks_of, template_of

MAX_DEPTH = 4
"""Levels of flows in flows, the outermost included."""
MAX_RUNS = 100
"""Runs of a template that calls itself."""
AGAIN = "again"
"""Output of a child flow: whether a template that calls itself does so."""
NEXT = "next_"
"""Prefix of outputs of such a flow: the params of the next run."""
_NO_EQUAL = {
    "resource": "a step cannot create or watch objects: run kubectl in a container, with a "
    "serviceAccountName that may do so",
    "http": "a step cannot send a request: run curl in a container",
    "plugin": "there are no executor plugins: write a container",
    "data": "there is no data template: write a container that lists the files",
}
_WITHOUT_EFFECT = {
    "metrics": "is left out: metrics of flows come from the controller and Volcano",
    "memoize": "is left out: the step runs each time; a retry of a flow keeps what has completed",
    "archiveLocation": "is left out: logs stay with the pods",
    "executor": "is left out: there is no executor",
    "annotations": "is left out: it is about how Argo shows the template",
    "priority": "is left out: set priorityClassName",
}


@dataclass(slots=True)
class Workflow:
    """The objects that all steps of a workflow share."""

    spec: Field
    write_flow: Callable[[Called, Context, Workflow], dict[str, Any]]
    """`write_flow` of the module flow, which needs this one."""
    uses: Uses = field(default_factory=Uses)
    stack: list[str] = field(default_factory=list)
    """Names of the dag and steps templates that are being converted, the outermost first."""


def body_of(
    called: Called,
    inputs: Mapping[str, Text],
    context: Context,
    info: StepInfo,
    wanted: Wanted,
    workflow: Workflow,
) -> dict[str, Any]:
    """Return the fields of a step that calls a template, and note its outputs in `info`. `context`
    is that of the task."""
    template = called.template
    report_template(template)
    own = replace(
        context, inputs=inputs, steps={}, item=None, is_pod=True, paths=paths_of(template)
    )
    if is_flow(template):
        return _child(called, inputs, context, info, workflow)
    if (suspend := template.get("suspend")) is not None:
        return {"approval": _approval(called, suspend, own, info)}
    for kind, message in _NO_EQUAL.items():
        if (found := template.get(kind)) is not None:
            found.gap(message)
            _declare(template, info)
            return placeholder(kind)
    # Outputs are planned first, because tags in the container name their paths.
    plan = plan_outputs(template, wanted, own, info)
    if template.first("container", "script", "containerSet") is None:
        template.gap("the template runs nothing that is known: write a container")
        return placeholder(called.name)
    body = job_of(PodSource(template, workflow.spec, own, plan))
    if template.is_true("daemon"):
        body["daemon"] = True
    return body | limits_of(template, own)


def report_template(template: Field, *, is_entrypoint: bool = False) -> None:
    template.report_keys(Severity.NOTE, _WITHOUT_EFFECT)
    for limit in () if is_flow(template) else template.present("failFast", "parallelism"):
        limit.note("has no effect on a template with a single pod")
    for lock in template.present("synchronization") if is_entrypoint else ():
        lock.gap("the flow itself has the steps of this template: set spec.concurrency")


def _declare(template: Field, info: StepInfo) -> None:
    """Let other steps use the outputs of a step that is still to be written."""
    info.outputs[""] = "text"
    for parameter in template.listed("outputs", "parameters"):
        parameter.take()
        name = parameter.text_of("name")
        info.outputs[name] = identifier(name)


def _approval(called: Called, suspend: Field, own: Context, info: StepInfo) -> dict[str, Any]:
    limit = suspend.get("duration")
    for parameter in called.template.listed("outputs", "parameters"):
        name = parameter.text_of("name")
        info.outputs[name] = identifier(name)
        if (default := parameter.at("valueFrom", "default")) is not None:
            info.defaults[name] = default.text
        elif (given := literal(own.inputs.get(name, ()))) is not None and name in own.inputs:
            info.defaults[name] = given
        if (supplied := parameter.at("valueFrom", "supplied")) is not None:
            supplied.take()
    info.is_sure &= limit is None
    names = ", ".join(info.outputs.values())
    if limit is None:
        asked = f" with --output {names}" if names else ""
        return {"message": f"{called.name}: approve to continue{asked}"}
    span = duration(limit, own) or "1s"
    return {"message": f"{called.name}: waits {span}", "timeout": span, "default": "Approve"}


def _child(
    called: Called, inputs: Mapping[str, Text], context: Context, info: StepInfo, workflow: Workflow
) -> dict[str, Any]:
    template, scope = called.template, FlowScope(context.scope.workflow, context.scope)
    if called.name in workflow.stack or len(workflow.stack) >= MAX_DEPTH:
        reason = f"flows in flows have at most {MAX_DEPTH} levels"
        if called.name in workflow.stack:
            reason = (
                "the template calls itself, directly or by others, in a way that repeat does not "
                "describe"
            )
        template.gap(reason)
        _declare(template, info)
        return placeholder(f"{called.name}: {reason}")
    varies = calls_itself(called)
    brought = {name: scope.bring(name, text, varies=varies) for name, text in inputs.items()}
    inner = replace(context, scope=scope, inputs=brought, steps={}, item=None)
    flow = workflow.write_flow(called, inner, workflow)
    outputs, params, body = flow.get("outputs", {}), dict(scope.params), dict[str, Any]()
    if AGAIN in outputs:
        template.check(f"the template calls itself: it is repeated, at most {MAX_RUNS} times")
        body["repeat"] = {"until": f"!outputs.{AGAIN}", "max": MAX_RUNS}
        for name, text in params.items():
            if (following := f"{NEXT}{name}") in outputs:
                cel = f"has(last.outputs) ? last.outputs.{following} : {as_ref(text).cel}"
                params[name] = (Ref(cel, hint=name),)
    rendered = {name: context.render(text) for name, text in params.items()}
    body["flow"] = ({"params": rendered} if rendered else {}) | flow
    for parameter in template.listed("outputs", "parameters"):
        name = parameter.text_of("name")
        if identifier(name) in outputs:
            info.outputs[name] = identifier(name)
    around = context
    if AGAIN not in outputs:
        around = replace(inner, scope=context.scope)
        # Global outputs of its steps are outputs of the child flow, and global around it.
        for name, ref in scope.outputs.items():
            info.outputs.setdefault(name, identifier(name))
            note_global(context.scope, name, info, may_lack=ref.may_lack)
    for daemon in template.present("daemon"):
        daemon.gap("a flow cannot be a daemon: mark the steps in it")
    return body | limits_of(template, around)


def calls_itself(called: Called) -> bool:
    return any(calls(task, called) for task in tasks_of(called.template))


def calls(task: Field, called: Called) -> bool:
    """Whether a task of a template calls this template itself."""
    target = template_of(task, called.library)
    return target is not None and target.template.node is called.template.node


def note_global(scope: FlowScope, name: str, info: StepInfo, *, may_lack: bool = False) -> None:
    """Note an output of a step as a global one."""
    [ref] = info.output(name, name)
    assert isinstance(ref, Ref), "an output is one value"
    ref = replace(ref, may_lack=ref.may_lack or may_lack)
    (scope.workflow if scope.parent is None else scope).outputs[name] = ref
