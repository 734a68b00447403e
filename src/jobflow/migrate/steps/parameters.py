"""Parameters of templates: inputs, which a task gives as arguments, and outputs.

Argo reads outputs from files and stdout, JobFlow reads the termination message. A single file is
the message itself (`terminationMessagePath`); a shell around the command writes the others.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jobflow.migrate.context import Context
from jobflow.migrate.expressions.values import Ref, Text, literal, quote, single
from jobflow.migrate.fields import Field
from jobflow.migrate.scopes import StepInfo, identifier
from jobflow.migrate.templates import Called, is_flow, texts_of

SHELLS = ("sh", "bash", "ash", "dash", "ksh", "zsh")
_JSON = re.compile(r"json|JSON|\{ *\\?[\"']|['\"]\{|\[ *\\?\"")
_LOG = "/dev/termination-log"
# Writes a text as JSON needs it between quotes.
_TO_JSON = (
    "json() { sed -e ':a' -e '$!{N;ba' -e '}' "
    "-e 's/\\\\/\\\\\\\\/g;s/\"/\\\\\"/g;s/\\t/\\\\t/g;s/\\n/\\\\n/g'; }"
)


@dataclass(slots=True)
class OutputPlan:
    """The outputs of a container, and how they get into the termination message."""

    result: bool = False
    files: dict[str, str] = field(default_factory=dict)
    """Paths by the name of the parameter."""
    as_object: bool = False
    """Whether the message is a JSON object, with a text for each output."""


@dataclass(slots=True)
class Wanted:
    """The uses of the outputs of a step in other steps; `""` is `outputs.result`."""

    result: bool = False
    lists: set[str] = field(default_factory=set)
    parsed: set[str] = field(default_factory=set)


def plan_outputs(template: Field, wanted: Wanted, context: Context, info: StepInfo) -> OutputPlan:
    """Return the outputs of a template with a container, and describe them in `info`."""
    plan = OutputPlan(result=wanted.result)
    for parameter in template.listed("outputs", "parameters"):
        name, path = parameter.text_of("name"), parameter.at("valueFrom", "path")
        if (default := parameter.at("valueFrom", "default")) is not None:
            info.defaults[name] = default.text
        if path is not None:
            plan.files[name] = context.string(path)
        elif (value := parameter.get("value")) is not None:
            value.gap("an output with a fixed value has no equal: write the value where it is used")
    names = [*([""] if plan.result else []), *plan.files]
    kinds = (template.at(kind, "volumeMounts") for kind in ("container", "script", "containerSet"))
    mounted = next(filter(None, kinds), None)
    mounts = [each.text_of("mountPath") for each in mounted.items()] if mounted else []
    # The kubelet mounts the message over its path, so that such a file would not reach the volume.
    in_volume = any(path.startswith(mount) for path in plan.files.values() for mount in mounts)
    # A message that is JSON has the outputs that the JSON names, so it is put into a text.
    own = template.first("script", "container")
    info.has_json = own is not None and any(_JSON.search(text) for text in texts_of(own.node))
    parsed = wanted.parsed | ({*names} - wanted.lists if info.has_json else set())
    plan.as_object = bool(len(names) > 1 or parsed & {*names} or in_volume)
    if plan.as_object:
        info.outputs |= {name: identifier(name or "result") for name in names}
    else:
        info.outputs |= {name: "items" if name in wanted.lists else "text" for name in names}
        info.lists |= wanted.lists & {*names}
    return plan


def add_outputs(container: dict[str, Any], plan: OutputPlan, source: Field) -> None:
    if not plan.result and not plan.as_object:
        # The file of the only output is the message, so the command stays as it is.
        for path in plan.files.values():
            container["terminationMessagePath"] = path
        return
    command: Sequence[str] = container.get("command") or ()
    if not command:
        source.gap(
            "has outputs that a shell has to collect, but the command of the image is not known: "
            "set command"
        )
        return
    program = str(command[0]).rpartition("/")[2]
    if program not in SHELLS:
        tools = "sh, sed and tee" if plan.as_object else "sh and tee"
        source.check(f"the outputs are collected by a shell: the image must have {tools}")
    lines, values = ['"$@"; code=$?'], dict[str, str]()
    if plan.result:
        to_log = "" if plan.as_object else f" | tee {_LOG}"
        lines = ['out=$("$@"); code=$?', f"printf '%s\\n' \"$out\"{to_log}"]
        values["result"] = "$(printf '%s' \"$out\" | json)"
    if plan.as_object:
        values |= {identifier(name): f'$(json < "{path}")' for name, path in plan.files.items()}
        keys = ", ".join(f'"{key}": "%s"' for key in values)
        texts = " ".join(f'"{value}"' for value in values.values())
        lines += [_TO_JSON, f"printf '{{{keys}}}' {texts} > {_LOG}"]
    container["command"] = ["sh", "-c", "\n".join([*lines, "exit $code"]), "sh", *command]


def paths_of(template: Field) -> Mapping[str, str]:
    """Return the paths that `{{outputs.parameters.x.path}}` and the like stand for."""
    found = {}
    for direction in ("inputs", "outputs"):
        for kind in ("artifacts", "parameters"):
            for entry in template.listed(direction, kind):
                path = entry.get("path") or entry.at("valueFrom", "path")
                if path is not None:
                    found[f"{direction}.{kind}.{entry.text_of('name')}"] = path.text
    return found


_ARTIFACT = (
    "there are no artifacts: share files by a volume claim (spec.volumeClaims), or load and store "
    "them in the container"
)


def bind(task: Field, called: Called, context: Context) -> dict[str, Text]:
    """Return the inputs of a template, in the context of the task; faults are reported."""
    arguments = {each.text_of("name"): each for each in task.listed("arguments", "parameters")}
    for direction in ("inputs", "outputs"):
        report_artifacts(called.template, direction)
    report_artifacts(task, "arguments")
    found: dict[str, Text] = {}
    # An input may use those before it. Only the first map of the two is written.
    inputs = ChainMap(found, context.inputs)  # type: ignore[arg-type]
    inner = replace(context, inputs=inputs, into_flow=is_flow(called.template))
    for parameter in called.template.listed("inputs", "parameters"):
        name = parameter.text_of("name")
        for ignored in parameter.present("description", "enum", "globalName"):
            ignored.note("is left out: only params of a flow can have allowed values")
        found[name] = _value(parameter, arguments.pop(name, None), inner)
    for name, argument in arguments.items():
        argument.note(f'the template {called.name} has no input "{name}"')
    return found


def _value(parameter: Field, argument: Field | None, context: Context) -> Text:
    default = parameter.first("value", "default")
    given = argument.get("value") if argument is not None else None
    if given is not None:
        text = context.text(given)
        # An output that does not exist leaves the input its default.
        if (ref := single(text)) is not None and ref.or_else and default is not None:
            if (plain := literal(context.text(default))) is not None:
                cel = ref.or_else.replace("%s", quote(plain))
                return (Ref(cel, kind=ref.kind, hint=ref.hint),)
        return text
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


def report_artifacts(owner: Field, direction: str) -> None:
    for artifact in owner.listed(direction, "artifacts"):
        name = artifact.text_of("name")
        artifact.gap(f'artifact "{name}": {_ARTIFACT}')
