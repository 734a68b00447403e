"""The work of a step: the template that its task calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from jobflow.migrate.context import Context
from jobflow.migrate.expressions.values import Ref, Text, as_ref, literal
from jobflow.migrate.fields import Field
from jobflow.migrate.scopes import FlowScope, StepInfo, identifier
from jobflow.migrate.steps.control import duration, retry_of, timeout_of
from jobflow.migrate.steps.parameters import OutputPlan, Wanted, paths_of, plan_outputs
from jobflow.migrate.steps.pods import PodSource, job_of, placeholder
from jobflow.migrate.templates import Called, Uses, parameters_of, tasks_of, template_of

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


class WritesFlows(Protocol):
    """Writes the flow of a dag or steps template."""

    def child(self, called: Called, context: Context) -> dict[str, Any]:
        """Return the fields of `flow`, without params, and note its outputs in the scope."""
        ...


@dataclass(slots=True)
class Workflow:
    """The objects that all steps of a workflow share."""

    spec: Field
    uses: Uses = field(default_factory=Uses)
    stack: list[str] = field(default_factory=list)
    """Names of the dag and steps templates that are being converted, the outermost first."""


@dataclass(slots=True)
class Body:
    """The work of a step, and the fields that come with it."""

    fields: dict[str, Any]
    repeat: dict[str, Any] | None = None


def body_of(
    called: Called,
    inputs: Mapping[str, Text],
    context: Context,
    info: StepInfo,
    wanted: Wanted,
    workflow: Workflow,
    writer: WritesFlows,
) -> Body:
    """Return what a step runs that calls a template. `context` is that of the task; outputs are
    noted in `info`."""
    template = called.template
    report_template(template)
    own = replace(
        context, inputs=inputs, steps={}, item=None, is_pod=True, paths=paths_of(template)
    )
    if template.get("dag") is not None or template.get("steps") is not None:
        return _child(called, inputs, context, info, workflow, writer)
    if (suspend := template.get("suspend")) is not None:
        return Body({"approval": _approval(called, suspend, own, info)})
    for kind, message in _NO_EQUAL.items():
        if (found := template.get(kind)) is not None:
            found.gap(message)
            _declare(template, info)
            return Body(placeholder(kind))
    plan = plan_outputs(template, wanted, own, info)
    return Body(_job(called, own, plan, workflow))


def report_template(template: Field) -> None:
    """Report fields of a template that have no equal."""
    is_pod = template.get("dag") is None and template.get("steps") is None
    for key, message in _WITHOUT_EFFECT.items():
        if (ignored := template.get(key)) is not None:
            ignored.note(message)
    for key in ("failFast", "parallelism") if is_pod else ():
        if (ignored := template.get(key)) is not None:
            ignored.note("has no effect on a template with a single pod")
    if (lock := template.get("synchronization")) is not None:
        lock.gap(
            "only a whole flow can wait for a lock (spec.concurrency): put the step into a flow of "
            "its own"
        )


def _job(called: Called, own: Context, plan: OutputPlan, workflow: Workflow) -> dict[str, Any]:
    template = called.template
    if not any(template.get(kind) for kind in ("container", "script", "containerSet")):
        template.gap("the template runs nothing that is known: write a container")
        return placeholder(called.name)
    info = own.scope.workflow
    is_child = own.scope.parent is not None
    source = PodSource(template, workflow.spec, own, plan, info.claims, is_child)
    body = job_of(source)
    if retry := retry_of(template, own):
        body["retry"] = retry
    if span := timeout_of(template, own):
        body["timeout"] = span
    if template.is_true("daemon"):
        body["daemon"] = True
    return body


def _declare(template: Field, info: StepInfo) -> None:
    """Let other steps use the outputs of a step that is still to be written."""
    info.outputs[""] = "text"
    for parameter in parameters_of(template, "outputs"):
        parameter.take()
        name = parameter.text_of("name")
        info.outputs[name] = identifier(name)


def _approval(called: Called, suspend: Field, own: Context, info: StepInfo) -> dict[str, Any]:
    limit = suspend.get("duration")
    for parameter in parameters_of(called.template, "outputs"):
        name, source = parameter.text_of("name"), parameter.get("valueFrom")
        info.outputs[name] = identifier(name)
        if source is not None and source.get("default") is not None:
            info.defaults[name] = source.text_of("default")
        elif (given := literal(own.inputs.get(name, ()))) is not None and name in own.inputs:
            info.defaults[name] = given
        if source is not None and (supplied := source.get("supplied")) is not None:
            supplied.take()
    info.is_sure &= limit is None
    names = ", ".join(info.outputs.values())
    if limit is None:
        asked = f" with --output {names}" if names else ""
        return {"message": f"{called.name}: approve to continue{asked}"}
    span = duration(limit, own) or "1s"
    return {"message": f"{called.name}: waits {span}", "timeout": span, "default": "Approve"}


def _child(
    called: Called,
    inputs: Mapping[str, Text],
    context: Context,
    info: StepInfo,
    workflow: Workflow,
    writer: WritesFlows,
) -> Body:
    """Return a dag or steps template as a child flow."""
    template, scope = called.template, context.scope.child()
    if called.name in workflow.stack or scope.depth > MAX_DEPTH:
        reason = f"flows in flows have at most {MAX_DEPTH} levels"
        if called.name in workflow.stack:
            reason = (
                "the template calls itself, directly or by others, in a way that repeat does not "
                "describe"
            )
        template.gap(reason)
        _declare(template, info)
        return Body(placeholder(f"{called.name}: {reason}"))
    bring = scope.hand_over if calls_itself(called) else scope.bring
    brought = {name: bring(name, text) for name, text in inputs.items()}
    inner = replace(
        context, scope=scope, inputs=brought, steps={}, item=None, in_finally=context.in_finally
    )
    flow = writer.child(called, inner)
    if AGAIN in flow.get("outputs", {}):
        return _repeated(scope, flow, context, info, called)
    params = {name: context.render(text) for name, text in scope.params.items()}
    flow = ({"params": params} if params else {}) | flow
    _note_outputs(flow, called, info)
    _hand_up(scope, context.scope, info)
    return Body({"flow": flow} | _limits(called, replace(inner, scope=context.scope)))


def calls_itself(called: Called) -> bool:
    """Whether a task of a template calls the template."""
    found = (template_of(task, called.library) for task in tasks_of(called.template))
    return any(each is not None and each.template.node is called.template.node for each in found)


def _hand_up(child: FlowScope, scope: FlowScope, info: StepInfo) -> None:
    """Note the global outputs of a child flow as outputs of its step."""
    for name, ref in child.outputs.items():
        info.outputs.setdefault(name, identifier(name))
        note_global(scope, name, info, may_lack=ref.may_lack)


def note_global(scope: FlowScope, name: str, info: StepInfo, *, may_lack: bool = False) -> None:
    """Note an output of a step as a global one."""
    [ref] = info.output(name, name)
    assert isinstance(ref, Ref), "an output is one value"
    ref = replace(ref, may_lack=ref.may_lack or may_lack)
    (scope.workflow if scope.parent is None else scope).outputs[name] = ref


def _limits(called: Called, context: Context) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if retry := retry_of(called.template, context):
        retry.pop("avoidNodes", None)
        found["retry"] = retry
    if span := timeout_of(called.template, context):
        found["timeout"] = span
    if (daemon := called.template.get("daemon")) is not None:
        daemon.gap("a flow cannot be a daemon: mark the steps in it")
    return found


def _note_outputs(flow: dict[str, Any], called: Called, info: StepInfo) -> None:
    for parameter in parameters_of(called.template, "outputs"):
        name = parameter.text_of("name")
        if identifier(name) in flow.get("outputs", {}):
            info.outputs[name] = identifier(name)


def _repeated(
    scope: FlowScope, flow: dict[str, Any], context: Context, info: StepInfo, called: Called
) -> Body:
    """Return a template that calls itself at its end as a flow that is repeated."""
    called.template.check(f"the template calls itself: it is repeated, at most {MAX_RUNS} times")
    params = {}
    for name, text in scope.params.items():
        following = f"{NEXT}{name}"
        if following in flow["outputs"]:
            cel = f"has(last.outputs) ? last.outputs.{following} : {as_ref(text).cel}"
            text = (Ref(cel, hint=name),)
        params[name] = context.render(text)
    flow = ({"params": params} if params else {}) | flow
    _note_outputs(flow, called, info)
    repeat = {"until": f"!outputs.{AGAIN}", "max": MAX_RUNS}
    return Body({"flow": flow} | _limits(called, context), repeat)
