"""`--param NAME=VALUE` and `--name`: replace values in the manifests of flows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS
from jobflow.client.errors import UNUSABLE, CommandError
from jobflow.client.manifests.flag_values import FlagValueError, read_flag_value
from jobflow.client.manifests.objects import Manifest
from jobflow.client.manifests.yaml_errors import Span
from jobflow.client.manifests.yaml_nodes import (
    ListNode,
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
)
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import format_count, join_names


def parse_params(arguments: Iterable[str], flag: str = "--param") -> dict[str, Node]:
    """Return the values of a flag by name (`read_flag_value`). Raises CommandError."""
    values: dict[str, Node] = {}
    errors = []
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name:
            errors.append(f"{flag} {argument}: write it as {flag} NAME=VALUE")
        elif name in values:
            errors.append(f"{flag} {name} is given twice: remove one of them")
        else:
            try:
                values[name] = read_flag_value(text)
            except FlagValueError as error:
                errors.append(f"{flag} {name}: its value {error}")
    if errors:
        raise CommandError(UNUSABLE, "\n".join(errors))
    return values


def set_name(name: str, manifests: Iterable[Manifest]) -> None:
    """Set the name of the only flow, also instead of a generateName. Raises CommandError if there
    is no flow or several."""
    flows = [manifest for manifest in manifests if manifest.kind == JOBFLOWS.kind]
    if len(flows) != 1:
        found = format_count(len(flows), "JobFlow") if flows else "no JobFlow"
        message = f"--name {name}: sets the name of one JobFlow, but the files contain {found}"
        raise CommandError(UNUSABLE, message)
    [flow] = flows
    metadata = _child(flow.node, "metadata")
    if isinstance(metadata, MappingNode):
        generated = metadata.entries.pop("generateName", None)
        old = metadata.entries.get("name") or generated
        span = old.value.span if old is not None else metadata.span
        metadata.entries["name"] = MappingEntry(span, ScalarNode(span, name))
        flow.__dict__.pop("data", None)  # cached with the old name


def set_params(
    values: Mapping[str, Node], manifests: Iterable[Manifest], *, flow: str = ""
) -> None:
    """Set the values in every flow that declares such params. Raises CommandError if none does;
    `flow` is the name of the only flow if it is not from FILEs."""
    known: dict[str, None] = {}
    for manifest in manifests:
        for name, param in _params(manifest):
            known.setdefault(name)
            if name in values:
                _set_value(param, values[name])
                manifest.__dict__.pop("data", None)  # cached with the old value
    if unknown := [name for name in values if name not in known]:
        raise CommandError(UNUSABLE, "\n".join(_unknown(name, [*known], flow) for name in unknown))


def _unknown(name: str, known: Sequence[str], flow: str) -> str:
    none, no_such = "no JobFlow in the files has params", "no JobFlow in the files has this param"
    if flow:
        none, no_such = f"JobFlow {flow} has no params", f"JobFlow {flow} has no such param"
    if not known:
        return f"--param {name}: {none}"
    guess = did_you_mean(Suggester(known).nearest(name))
    owner = "its" if flow else "their"
    return f"--param {name}: {no_such}" + (
        guess or f"; {owner} params are {join_names(known, shown=10)}"
    )


def _params(manifest: Manifest) -> Iterator[tuple[str, MappingNode]]:
    """Return the params of a flow, or those of a CronJobFlow's flows, by name; nothing if their
    shape is wrong."""
    spec = _child(manifest.node, "spec")
    if manifest.kind == CRONJOBFLOWS.kind:
        spec = _child(_child(spec, "jobFlowTemplate"), "spec")
    elif manifest.kind != JOBFLOWS.kind:
        return
    params = _child(spec, "params")
    for param in params.items if isinstance(params, ListNode) else ():
        name = _text(_child(param, "name"))
        if isinstance(param, MappingNode) and name is not None:
            yield name, param


def _child(node: Node | None, key: str) -> Node | None:
    entry = node.entries.get(key) if isinstance(node, MappingNode) else None
    return entry.value if entry is not None else None


def _text(node: Node | None) -> str | None:
    value = node.value if isinstance(node, ScalarNode) else None
    return value if isinstance(value, str) else None


def _set_value(param: MappingNode, value: Node) -> None:
    """Set the value; its faults are shown at the param's name, because it is in no file."""
    name = param.entries["name"]
    param.entries["value"] = MappingEntry(name.key, _moved(value, name.value.span))
    param.duplicates = [each for each in param.duplicates if each.key != "value"]


def _moved(node: Node, span: Span) -> Node:
    match node:
        case MappingNode():
            moved = {key: _moved(entry.value, span) for key, entry in node.entries.items()}
            entries = {key: MappingEntry(span, value) for key, value in moved.items()}
            return replace(node, span=span, entries=entries, duplicates=[])
        case ListNode():
            return replace(node, span=span, items=[_moved(item, span) for item in node.items])
        case ScalarNode():
            return replace(node, span=span)
