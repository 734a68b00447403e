"""`--param NAME=VALUE`: puts values of the command line into the flows of FILEs. Judges none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobflow.api.resources import JOBFLOWS
from jobflow.cli.manifests.objects import Manifest
from jobflow.cli.manifests.yaml_errors import NotYAMLError, Span
from jobflow.cli.manifests.yaml_nodes import (
    Entry,
    ListNode,
    MappingNode,
    Node,
    ScalarNode,
    documents,
)
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import some


class NotParamsError(Exception):
    """What is wrong with --param; a sentence each."""

    def __init__(self, sentences: Sequence[str]) -> None:
        super().__init__(*sentences)
        self.sentences = sentences


def given(arguments: Iterable[str]) -> dict[str, Node]:
    """The values by name; VALUE is read as YAML, of which JSON is a part. NotParamsError."""
    values: dict[str, Node] = {}
    wrong = []
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name:
            wrong.append(f"--param {argument}: write it as --param NAME=VALUE")
        elif name in values:
            wrong.append(f"--param {name} is given twice")
        else:
            node = _read(text)
            if isinstance(node, str):
                wrong.append(f"--param {name}: its value {node}")
            else:
                values[name] = node
    if wrong:
        raise NotParamsError(wrong)
    return values


def put(values: Mapping[str, Node], manifests: Iterable[Manifest]) -> None:
    """Let every flow that has a param of such a name have this value of it, as if it were written
    there. NotParamsError where no flow has it."""
    known: dict[str, None] = {}
    for manifest in manifests:
        for name, param in _params(manifest):
            known.setdefault(name)
            if name in values:
                _put(param, values[name])
                manifest.__dict__.pop("data", None)  # what was read before says otherwise
    if unknown := [name for name in values if name not in known]:
        raise NotParamsError([_unknown(name, [*known]) for name in unknown])


def _unknown(name: str, known: Sequence[str]) -> str:
    if not known:
        return f"--param {name}: no JobFlow in the files has params"
    guess = Suggester(known).nearest(name)
    there = did_you_mean(guess) or f"; there are {some(known, 10)}"
    return f"--param {name}: no JobFlow in the files has such a param{there}"


def _read(text: str) -> Node | str:
    """The value, or what is wrong with it."""
    span = Span(0, 0, 0)
    if not text:
        return ScalarNode(span, "")
    read = list(documents(text))
    if len(read) > 1:
        return "is more than one YAML document"
    if not read:
        return ScalarNode(span, None)
    (node,) = read
    if isinstance(node, NotYAMLError):
        said = node.message
        return f"is {said}" if said.startswith("not YAML") else f"cannot be read: {said}"
    return node


def _params(manifest: Manifest) -> Iterator[tuple[str, MappingNode]]:
    """The params of a flow, by name."""
    kind = manifest.node.entries.get("kind")
    if kind is None or _text(kind.value) != JOBFLOWS.kind:
        return
    spec = manifest.node.entries.get("spec")
    params = (
        spec.value.entries.get("params") if spec and isinstance(spec.value, MappingNode) else None
    )
    if params is not None and isinstance(params.value, ListNode):
        for param in params.value.items:
            if isinstance(param, MappingNode) and (name := param.entries.get("name")) is not None:
                if (text := _text(name.value)) is not None:
                    yield text, param


def _text(node: Node) -> Any:
    return node.value if isinstance(node, ScalarNode) and isinstance(node.value, str) else None


def _put(param: MappingNode, value: Node) -> None:
    """A fault of it is shown at the param's name: it stands in no file."""
    name = param.entries["name"]
    param.entries["value"] = Entry(name.key, _at(value, name.value.span))
    param.duplicates = [each for each in param.duplicates if each.key != "value"]


def _at(node: Node, span: Span) -> Node:
    """The same value at another place."""
    match node:
        case MappingNode():
            entries = {
                key: Entry(span, _at(entry.value, span)) for key, entry in node.entries.items()
            }
            return replace(node, span=span, entries=entries, duplicates=[])
        case ListNode():
            return replace(node, span=span, items=[_at(item, span) for item in node.items])
        case ScalarNode():
            return replace(node, span=span)
