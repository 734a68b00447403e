"""Arguments of a task as the inputs of the template that it calls."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import replace

from jobflow.migrate.context import Context
from jobflow.migrate.expressions.values import Ref, Text, literal, quote, single
from jobflow.migrate.fields import Field
from jobflow.migrate.library import Called
from jobflow.migrate.usage import parameters_of

_ARTIFACT = (
    "there are no artifacts: share files by a volume claim (spec.volumeClaims), or load and store "
    "them in the container"
)


def bind(task: Field, called: Called, context: Context) -> dict[str, Text]:
    """Return the values of the inputs of a template; faults are reported. `context` is that of the
    task."""
    arguments = {each.text_of("name"): each for each in parameters_of(task, "arguments")}
    for direction in ("inputs", "outputs"):
        report_artifacts(called.template, direction)
    report_artifacts(task, "arguments")
    found: dict[str, Text] = {}
    into_flow = any(called.template.get(kind) is not None for kind in ("dag", "steps"))
    inner = replace(context, inputs=ChainMap(found, context.inputs), into_flow=into_flow)  # type: ignore[arg-type]  # of which only the first is written
    for parameter in parameters_of(called.template, "inputs"):
        name = parameter.text_of("name")
        for key in ("description", "enum", "globalName"):
            if (described := parameter.get(key)) is not None:
                described.note("is left out: only params of a flow can have allowed values")
        found[name] = _value(parameter, arguments.pop(name, None), task, inner)
    for name, argument in arguments.items():
        argument.note(f'the template {called.name} has no input "{name}"')
    return found


def _value(parameter: Field, argument: Field | None, task: Field, context: Context) -> Text:
    default = parameter.get("value") or parameter.get("default")
    given = argument.get("value") if argument is not None else None
    if given is not None:
        return _or_default(context.text(given), default, context)
    source = argument.get("valueFrom") if argument is not None else parameter.get("valueFrom")
    if default is None and source is not None:
        default = source.get("default")
    if default is not None:
        if source is not None:
            source.gap("a value from elsewhere has no equal: the default is used")
        return context.text(default)
    if source is not None:
        reference = source.get("configMapKeyRef")
        known = context.scope.workflow.config_maps
        if reference is not None:
            value = known.get(reference.text_of("name"), {}).get(reference.text_of("key"))
            if value is not None:
                reference.check("the value of the ConfigMap is copied")
                return (str(value),)
        source.gap("a value from elsewhere has no equal: set env.NAME.valueFrom of the step")
    else:
        parameter.check("no value is given: it is an empty text")
    return ("",)


def _or_default(value: Text, default: Field | None, context: Context) -> Text:
    """Return a value, or the default of the input if the value is an output that may not exist."""
    ref = single(value)
    if ref is None or not ref.or_else or default is None:
        return value
    plain = literal(context.text(default))
    if plain is None:
        return value
    cel = ref.or_else.replace("%s", quote(plain))
    return (Ref(cel, kind=ref.kind, hint=ref.hint),)


def report_artifacts(owner: Field, direction: str) -> None:
    """Report the artifacts of a template or a task."""
    listed = owner.at(direction, "artifacts")
    for artifact in listed.items() if listed is not None else ():
        name = artifact.text_of("name")
        artifact.gap(f'artifact "{name}": {_ARTIFACT}')
