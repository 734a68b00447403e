"""`--param NAME=VALUE`: replaces values of params in the manifests of flows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from jobflow.api.resources import JOBFLOWS
from jobflow.cli.errors import UNUSABLE, CommandError
from jobflow.cli.manifests.objects import Manifest
from jobflow.cli.manifests.yaml_errors import NotYAMLError, Span
from jobflow.cli.manifests.yaml_nodes import (
    ListNode,
    MappingEntry,
    MappingNode,
    Node,
    ScalarNode,
    documents,
)
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import join_names


def parse_params(arguments: Iterable[str]) -> dict[str, Node]:
    """Return the values by name; VALUE is YAML, which includes JSON. Raises CommandError."""
    values: dict[str, Node] = {}
    errors = []
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name:
            errors.append(f"--param {argument}: write it as --param NAME=VALUE")
        elif name in values:
            errors.append(f"--param {name} is given twice: remove one of them")
        elif isinstance(node := _parse_value(text), str):
            errors.append(f"--param {name}: its value {node}")
        else:
            values[name] = node
    if errors:
        raise CommandError(UNUSABLE, "\n".join(errors))
    return values


def _parse_value(text: str) -> Node | str:
    """Return the value, or the end of a sentence about its fault."""
    span = Span(0, 0, 0)
    if not text:
        return ScalarNode(span, "")
    parsed = list(documents(text))
    if len(parsed) > 1:
        return "is more than one YAML document"
    node = parsed[0] if parsed else ScalarNode(span, None)
    if isinstance(node, NotYAMLError):
        message = node.message
        return f"is {message}" if message.startswith("not YAML") else f"cannot be read: {message}"
    return node


def set_params(values: Mapping[str, Node], manifests: Iterable[Manifest]) -> None:
    """Set the values in every flow that declares such params. Raises CommandError if none does."""
    known: dict[str, None] = {}
    for manifest in manifests:
        for name, param in _params(manifest):
            known.setdefault(name)
            if name in values:
                _set_value(param, values[name])
                manifest.__dict__.pop("data", None)  # cached with the old value
    if unknown := [name for name in values if name not in known]:
        raise CommandError(UNUSABLE, "\n".join(_unknown(name, [*known]) for name in unknown))


def _unknown(name: str, known: Sequence[str]) -> str:
    if not known:
        return f"--param {name}: no JobFlow in the files has params"
    guess = did_you_mean(Suggester(known).nearest(name))
    return f"--param {name}: no JobFlow in the files has this param" + (
        guess or f"; their params are {join_names(known, shown=10)}"
    )


def _params(manifest: Manifest) -> Iterator[tuple[str, MappingNode]]:
    """Return the params of a flow by name; nothing if their shape is wrong."""
    if manifest.kind != JOBFLOWS.kind:
        return
    params = _child(_child(manifest.node, "spec"), "params")
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
