"""Uses of steps in others: a step waits for the steps whose results it uses.

Wrong names of outputs, comparisons with values of another type, and arguments that the annotation
of their parameter does not take are faults, which admission cannot know.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import chain
from typing import Any, NamedTuple, get_origin

import msgspec

from jobflow.api.flow.jobflow import STEP_LISTS
from jobflow.api.flow.step import Step
from jobflow.authoring.objects.expressions import Expr, has_expr, has_reference, reference_to
from jobflow.authoring.objects.functions import may_be_text
from jobflow.authoring.objects.returns import Outputs, annotation_of
from jobflow.core.cel.expression import MAX_LENGTH
from jobflow.core.cel.language import tree
from jobflow.core.cel.language.macros import MACROS
from jobflow.core.cel.language.parser import parse
from jobflow.core.cel.references import Reference, as_item, find_references
from jobflow.core.spec.expressions import list_expressions, reads_of
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import join_names
from jobflow.core.violations import quote


def add_dependencies(steps: list[dict[str, Any]]) -> None:
    """Let a step wait for the steps whose results it uses. One with a strategy, condition or probe
    of its own keeps its targets."""
    # A key names a step that exists; the targets of each grow on the way.
    targets = {step["name"]: [*step.get("dependsOn", {}).get("targets", ())] for step in steps}
    for step in steps:
        own = step["name"]
        if step.get("dependsOn", {}).keys() - {"targets"} or (typed := typed_step(step)) is None:
            continue
        for name in dict.fromkeys(read.step for read in reads_of(typed, targets)):
            if name in targets and name != own and name not in _upstream(own, targets):
                targets[own].append(name)
                step["dependsOn"] = {"targets": targets[own]}


def typed_step(step: dict[str, Any]) -> Step | None:
    """Return a step as the API reads it, or None if it is not valid."""
    try:
        return msgspec.convert(step, Step)
    except (msgspec.ValidationError, RecursionError):
        return None


def _upstream(step: str, targets: Mapping[str, list[str]]) -> set[str]:
    found: set[str] = set()
    pending = [*targets[step]]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += targets.get(name, ())
    return found


KnownOutputs = Mapping[str, Outputs]
"""The outputs of the steps that run functions."""
# The output of a function that failed: its error.
_OF_FAILURES = "text"
_ENTRY_FIELDS = ("outputs", "phase")
_ORDER = frozenset({"<", "<=", ">", ">="})
_TYPE_NAMES: Mapping[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    tuple: "a list",
    dict: "a map",
}


class _Kind(Enum):
    STEPS = auto()
    STEP = auto()
    ENTRY = auto()
    OUTPUTS = auto()
    OUTPUT = auto()


class _Value(NamedTuple):
    """The known keys of a value, or of the entries of a list of lists."""

    kind: _Kind
    step: str = ""
    lists: int = 0
    """In how many lists it is."""
    output: str = ""


_Variables = Mapping[str, _Value | None]


def find_misnamed_outputs(
    spec: Mapping[str, Any], path: str, known: KnownOutputs
) -> Iterator[tuple[str, str]]:
    """Yield the JSON path and a message of each wrong name in the spec of a flow at `path`."""
    texts = [(f"outputs.{name}", text) for name, text in (spec.get("outputs") or {}).items()]
    for key in STEP_LISTS.values():
        for i, step in enumerate(spec.get(key, ())):
            own = f"{key}[{i}]"
            for place, reference in find_references(step, f"{path}.{own}"):
                match _path_of(reference):
                    case ("steps", name, "outputs", output, *_):
                        yield from ((place, each) for each in _check_name(name, output, known))
            if (typed := typed_step(step)) is not None:
                texts += [(f"{own}.{each.path}", each.text) for each in list_expressions(typed)]
    for place, text in texts:
        try:
            node = parse(text) if len(text) <= MAX_LENGTH else None
        except tree.CelSyntaxError:
            node = None
        # Admission reports an expression that is not valid.
        if node is not None:
            finder = _OutputFinder(known)
            finder.read(node, {"steps": _Value(_Kind.STEPS)})
            yield from ((f"{path}.{place}", fault) for fault in dict.fromkeys(finder.faults))


def _path_of(reference: Reference) -> tuple[str, ...]:
    """Return root and keys of a reference; an item of a step has the outputs that its step has."""
    keys = reference.keys
    if reference.root == "steps":
        name, *fields = as_item(keys, lambda name: False)
        keys = (name, *(fields[1:] if fields[:1] == ["item"] else fields))
    return (reference.root, *keys)


def _check_name(step: str, name: str, known: KnownOutputs) -> Iterator[str]:
    names = known[step].names if step in known else None
    if names is not None and name not in names and name != _OF_FAILURES:
        listed = sorted(names)
        guess = did_you_mean(Suggester(listed).nearest(name))
        yield f'{step} has no output "{name}"{guess or f"; it returns {join_names(listed)}"}'


class _OutputFinder:
    """Follows the outputs of steps through one expression."""

    def __init__(self, known: KnownOutputs) -> None:
        self.faults: list[str] = []
        self._known = known

    def read(self, node: tree.SyntaxNode, variables: _Variables) -> _Value | None:
        if isinstance(node, tree.NameNode):
            return variables.get(node.name)
        if isinstance(node, tree.ChainNode):
            value = self.read(node.first, variables)
            for selector in node.selectors:
                if isinstance(selector, tree.CallNode):
                    value = self._call(value, selector, variables)
                elif isinstance(selector, tree.IndexNode):
                    # The key itself may use outputs.
                    key = selector.key
                    self.read(key, variables)
                    known = key.value if isinstance(key, tree.LiteralNode) else None
                    value = self._entry(value, known)
                else:
                    value = self._entry(value, selector.key)
            return value
        if isinstance(node, tree.OperationNode):
            self._compare(node, variables)
            return None
        # Their results are not known, but outputs may be in their parts.
        for part in chain.from_iterable(map(_nodes, node)):
            self.read(part, variables)
        return None

    def _compare(self, node: tree.OperationNode, variables: _Variables) -> None:
        """Read the operands; note an output that is compared with a literal of another type."""
        operands = [node.first, *(each for _, each in node.rest)]
        values = [self.read(each, variables) for each in operands]
        for i, (sign, _) in enumerate(node.rest):
            # Values of different types are not equal, which is no fault, but have no order.
            for at, other in ((i, i + 1), (i + 1, i)) if sign in _ORDER else ():
                value, literal = values[at], operands[other]
                if value is None or not isinstance(literal, tree.LiteralNode):
                    continue
                if value.kind is not _Kind.OUTPUT or value.lists or value.output == _OF_FAILURES:
                    continue
                outputs = self._known.get(value.step, Outputs())
                one = _name_of_type(outputs.type_of(value.output))
                two = _name_of_type(type(literal.value))
                if one is not None and two is not None and one != two:
                    name, shown = f"{value.step}.outputs.{value.output}", quote(literal.value)
                    self.faults.append(
                        f"{name} is {one}, so {sign} cannot compare it with {two}: {shown}"
                    )

    def _entry(self, value: _Value | None, key: object) -> _Value | None:
        """Return what is known of the entry of a map or a list."""
        # Lists have numbers as keys, and maps have texts.
        if value is None or bool(value.lists) is isinstance(key, str):
            return None
        if not isinstance(key, str):
            return value._replace(lists=value.lists - 1)
        match value.kind, key:
            case _Kind.STEPS, _:
                return _Value(_Kind.STEP, key)
            case ((_Kind.STEP | _Kind.ENTRY), "outputs"):
                return _Value(_Kind.OUTPUTS, value.step)
            case _Kind.STEP, "items":
                return _Value(_Kind.ENTRY, value.step, lists=1)
            case _Kind.STEP, "item":
                return _Value(_Kind.STEP, value.step)
            case _Kind.OUTPUTS, _:
                self.faults += _check_name(value.step, key, self._known)
                return _Value(_Kind.OUTPUT, value.step, output=key)
            case _Kind.ENTRY, _ if key not in _ENTRY_FIELDS:
                guess = Suggester(_ENTRY_FIELDS).nearest(key) or f"outputs.{key}"
                self.faults.append(f'an item has no "{key}"{did_you_mean(guess)}')
        return None

    def _call(
        self, value: _Value | None, call: tree.CallNode, variables: _Variables
    ) -> _Value | None:
        entry = value._replace(lists=value.lists - 1) if value is not None and value.lists else None
        first = call.arguments[0] if call.arguments else None
        if call.name in MACROS and isinstance(first, tree.NameNode):
            results = [
                self.read(each, {**variables, first.name: entry}) for each in call.arguments[1:]
            ]
            last = results[-1] if call.name == "map" and results else None
            if call.name == "filter":
                return value
            return last._replace(lists=last.lists + 1) if last is not None else None
        for argument in call.arguments:
            self.read(argument, variables)
        if call.name in ("maxBy", "minBy") and isinstance(first, tree.LiteralNode):
            inner = entry
            for key in str(first.value).split("."):
                inner = self._entry(inner, key)
            return entry
        return None


def find_misfits(
    step: Mapping[str, Any],
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    params: Mapping[str, Any],
    known: KnownOutputs,
) -> Iterator[tuple[str, str]]:
    """Yield the name and a message of each argument of a function that its annotation does not
    take, as far as the value or its type is known before the flow runs."""
    for name, value in arguments.items():
        hint = annotation_of(function, name)
        if hint is None:
            continue
        if isinstance(value, Expr):
            misfits = _misfits_of_run(value, hint, step, params, known)
        elif isinstance(value, str) and has_reference(value):
            # What an f-string will be is not known, but it is a text.
            misfits = ["a text"] if _name_of_type(hint) not in (None, "a text") else []
        else:
            misfits = [] if has_expr(value) or _fits(value, hint) else [quote(value)]
        if misfits:
            shown = inspect.formatannotation(hint)
            yield name, f"{misfits[0]} does not fit the annotation {shown}"


def _misfits_of_run(
    value: Expr, hint: Any, step: Mapping[str, Any], params: Mapping[str, Any], known: KnownOutputs
) -> list[str]:
    """Return the values of an expression that a parameter does not take: items of the step, a
    param, or an output whose type is known."""
    values: dict[str, Any] = {}
    found = [each for _, each in find_references({"": reference_to(value) or ""}, "")]
    match [_path_of(each) for each in found]:
        case [("item", *keys)]:
            items = (step.get("forEach") or {}).get("items")
            listed = enumerate(items if isinstance(items, list) else ())
            values = {f"item {index}": _inside(each, keys) for index, each in listed}
        case [("params", name, *keys)]:
            values = {f"params.{name}": _inside(params.get(name), keys)}
        case [("steps", name, "outputs", output)]:
            kind = _name_of_type(known.get(name, Outputs()).type_of(output))
            wanted = _name_of_type(hint)
            # A text may be read as JSON, and a boolean is a number.
            if wanted in (None, "a text", kind) or kind in (None, "a text", "a boolean"):
                return []
            return [f"{name}.outputs.{output}, {kind},"]
    read = {place: _as_read(each, hint) for place, each in values.items() if each is not None}
    return [f"{place}, {quote(each)}," for place, each in read.items() if not _fits(each, hint)]


def _inside(value: Any, keys: Sequence[str]) -> Any:
    """Return an entry of a map of maps; None if it is not known."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if has_expr(value) or (isinstance(value, str) and "$(" in value) else value


def _as_read(value: Any, hint: Any) -> Any:
    """Return a value of the run as the program gives it to a parameter."""
    if hint is str or may_be_text(hint) or not isinstance(value, str):
        return str(value) if hint is str else value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _fits(value: Any, hint: Any) -> bool:
    """Whether JSON has the type of an annotation; true if that cannot be decided."""
    # Python takes a boolean as a number.
    for each in (value, int(value)) if isinstance(value, bool) else (value,):
        try:
            msgspec.convert(each, hint)
        except msgspec.ValidationError:
            continue
        except Exception:  # it is any expression, and msgspec does not know all types
            return True
        return True
    return False


def _name_of_type(hint: Any) -> str | None:
    kind = get_origin(hint) or hint
    return _TYPE_NAMES.get(kind) if isinstance(kind, type) else None


def _nodes(value: Any) -> Iterator[tree.SyntaxNode]:
    """Yield the nodes in a field of a node: a node, or lists and pairs of nodes."""
    if hasattr(value, "_fields"):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _nodes(each)
