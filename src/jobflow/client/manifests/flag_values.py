"""Values that flags give: JSON, or else text, because YAML takes `NO` for false and `012` for ten.
Lists and mappings are YAML, so that texts need no quotes, but with the numbers and words of JSON.
"""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO

from jobflow.api.duration import MAX_SECONDS, parse_duration
from jobflow.api.flow.control import ReusePolicy
from jobflow.api.resources import CRONJOBFLOWS, JOBFLOWS
from jobflow.client.errors import UNUSABLE, CommandError
from jobflow.client.manifests import yaml_nodes
from jobflow.client.manifests.objects import Manifest
from jobflow.client.manifests.sources import ManifestFault, read_files
from jobflow.client.manifests.yaml_errors import NotYAMLError, Span
from jobflow.client.manifests.yaml_nodes import data_of
from jobflow.client.manifests.yaml_scalars import Scalar, plain_value
from jobflow.client.options import ParamValues
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import format_count, join_names

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORDS = ("true", "false", "null")
_QUOTED = re.compile(r"'(?:[^']|'')*'")
_BRACKETS = ("[", "{", '"')
_DURATIONS = 'write a line for each step or JobTemplate, such as "train: 1h30m"'
_PARAMS = 'write a line for each param, such as "workers: 4"'


@dataclass(slots=True)
class FlagWord(yaml_nodes.ScalarNode):
    """A number, true, false or null of a flag."""

    text: str = ""
    """The value as it was written."""


class FlagValueError(ValueError):
    """A value that cannot be read. The message ends a sentence about the value."""


def read_flag_value(text: str) -> yaml_nodes.Node:
    """Return a number, true, false, null, list, mapping or quoted text as in JSON, and anything
    else as text. Raises FlagValueError if a value begins with a bracket or a double quote and does
    not end as a list, mapping or quoted text, or has characters that UTF-8 does not have."""
    trimmed = text.strip()
    if trimmed.startswith(_BRACKETS) or _QUOTED.fullmatch(trimmed):
        parsed = list(yaml_nodes.documents(text, json_value))
        if len(parsed) > 1:
            raise FlagValueError("has more text after its end; put all of it into double quotes")
        if isinstance(node := parsed[0], NotYAMLError):
            is_short = node.message.startswith("not YAML")
            raise FlagValueError(f"{'is' if is_short else 'cannot be read:'} {node.message}")
        return node
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FlagValueError("has characters that UTF-8 does not have") from None
    if is_json(trimmed):
        return FlagWord(Span(0, 0, 0), json_value(trimmed), text=text)
    return yaml_nodes.ScalarNode(Span(0, 0, 0), text)


def is_json(text: str) -> bool:
    """Return whether a word is a number, true, false or null in JSON."""
    return text in _WORDS or _NUMBER.fullmatch(text) is not None


def json_value(text: str) -> Scalar:
    """Return the value of a plain word: a number, true, false or null of JSON, or the text."""
    return plain_value(text) if is_json(text) or not text else text


def parse_params(arguments: Iterable[str], flag: str = "--param") -> dict[str, yaml_nodes.Node]:
    """Return the values of a flag by name (`read_flag_value`). Raises CommandError."""
    values: dict[str, yaml_nodes.Node] = {}
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


def read_params(given: ParamValues) -> dict[str, yaml_nodes.Node]:
    """Return the values of params by name, those of flags before those of the file. Raises
    CommandError."""
    values: dict[str, yaml_nodes.Node] = {}
    if given.param_file is not None:
        label = f"--param-file {given.param_file}"
        root, faults = _read_mapping(given.param_file, label, _PARAMS)
        _raise_faults(given.param_file, faults)
        # `n: 4` is a param of this name
        values = {entry.misread or name: entry.value for name, entry in root.entries.items()}
    return values | parse_params(given.param or ())


@dataclass(frozen=True, slots=True)
class ReuseChoice:
    """The ended flow whose results a new one takes, and the steps that run nevertheless."""

    flow: str
    uid: str
    rerun: Sequence[str] = ()


def set_name(name: str, manifests: Iterable[Manifest]) -> None:
    """Set the name of the only flow, also instead of a generateName. Raises CommandError if there
    is no flow or several."""
    _rename(only_flow(f"--name {name}: sets the name of", manifests), "name", name)


def set_generated_name(flow: Manifest) -> None:
    """Let the API server make a name of that of the flow."""
    _rename(flow, "generateName", f"{flow.name}-")


def set_reuse(reuse: ReuseChoice, flow: Manifest) -> None:
    """Let a flow reuse another one. Raises CommandError if it has no such steps."""
    spec = _child(flow.node, "spec")
    if not isinstance(spec, yaml_nodes.MappingNode):
        return  # its fault is found later
    fields = {"flow": reuse.flow, "uid": reuse.uid}
    _set(spec, "reuse", {key: yaml_nodes.ScalarNode(spec.span, fields[key]) for key in fields})
    steps: dict[str, yaml_nodes.MappingNode] = {}
    for field in ("flows", "finally"):
        listed = _child(spec, field)
        for step in listed.items if isinstance(listed, yaml_nodes.ListNode) else ():
            name = _child(step, "name")
            if isinstance(step, yaml_nodes.MappingNode) and isinstance(name, yaml_nodes.ScalarNode):
                steps.setdefault(str(name.value), step)
    errors = []
    for step_name in reuse.rerun:
        if step_name in steps:
            _set(steps[step_name], "reusePolicy", ReusePolicy.NEVER.value)
            continue
        guess = did_you_mean(Suggester([*steps]).nearest(step_name))
        others = f"; its steps are {join_names([*steps], shown=10)}"
        errors.append(f"--rerun {step_name}: the flow has no such step{guess or others}")
    if errors:
        raise CommandError(UNUSABLE, "\n".join(errors))
    flow.__dict__.pop("data", None)  # cached as it was before


def _set(
    node: yaml_nodes.MappingNode, key: str, value: str | dict[str, yaml_nodes.ScalarNode]
) -> None:
    """Set a value that is in no file: its faults are shown at the mapping."""
    made: yaml_nodes.Node = yaml_nodes.ScalarNode(node.span, value)
    if isinstance(value, dict):
        entries = {name: yaml_nodes.MappingEntry(node.span, each) for name, each in value.items()}
        made = yaml_nodes.MappingNode(node.span, entries=entries)
    node.entries[key] = yaml_nodes.MappingEntry(node.span, made)
    node.duplicates = [each for each in node.duplicates if each.key != key]


def only_flow(what: str, manifests: Iterable[Manifest]) -> Manifest:
    """Return the only flow. Raises CommandError if there is none or several; `what` begins its
    sentence."""
    flows = [manifest for manifest in manifests if manifest.kind == JOBFLOWS.kind]
    if len(flows) == 1:
        return flows[0]
    found = format_count(len(flows), "JobFlow") if flows else "no JobFlow"
    raise CommandError(UNUSABLE, f"{what} one JobFlow, but the files contain {found}")


def _rename(flow: Manifest, field: str, name: str) -> None:
    metadata = _child(flow.node, "metadata")
    if isinstance(metadata, yaml_nodes.MappingNode):
        olds = [metadata.entries.pop(each, None) for each in ("name", "generateName")]
        # faults of the name are shown where the old one is
        old = next(filter(None, olds), None)
        span = old.value.span if old is not None else metadata.span
        metadata.entries[field] = yaml_nodes.MappingEntry(span, yaml_nodes.ScalarNode(span, name))
        flow.__dict__.pop("data", None)  # cached with the old name


def set_params(
    values: Mapping[str, yaml_nodes.Node],
    manifests: Iterable[Manifest],
    *,
    flows: Sequence[str] = (),
) -> list[ManifestFault]:
    """Set the values in every flow that declares such params, and return warnings. Raises
    CommandError if no flow does; `flows` are their names if they are not from FILEs."""
    known: dict[str, None] = {}
    warnings = []
    for manifest in manifests:
        for path, name, param in _params(manifest):
            known.setdefault(name)
            if name in values:
                value, why = _fit(name, values[name], param.entries.get("value"))
                # its faults are shown at the param's name, because the value is in no file
                at = param.entries["name"]
                value = _moved(value, at.value.span)
                param.entries["value"] = yaml_nodes.MappingEntry(at.key, value)
                param.duplicates = [each for each in param.duplicates if each.key != "value"]
                manifest.__dict__.pop("data", None)  # cached with the old value
                if why:
                    place, kind = manifest.place(path), str(manifest.kind)
                    warnings.append(ManifestFault(place, "", why, path, kind, manifest.name))
    none, no_such = "no JobFlow in the files has params", "no JobFlow in the files has this param"
    if flows:
        owners = (
            f"JobFlow {flows[0]} has" if len(flows) == 1 else f"JobFlows {join_names(flows)} have"
        )
        none, no_such = f"{owners} no params", f"{owners} no such param"
    errors, whose = [], "its" if len(flows) == 1 else "their"
    for name in values:
        if not known:
            errors.append(f"--param {name}: {none}")
        elif name not in known:
            guess = did_you_mean(Suggester([*known]).nearest(name))
            listed = f"; {whose} params are {join_names([*known], shown=10)}"
            errors.append(f"--param {name}: {no_such}{guess or listed}")
    if errors:
        raise CommandError(UNUSABLE, "\n".join(errors))
    return warnings


def _fit(
    name: str, value: yaml_nodes.Node, old: yaml_nodes.MappingEntry | None
) -> tuple[yaml_nodes.Node, str]:
    """Return the value that a flag gives to a param, and a warning if it changes text."""
    was_text = old is not None and isinstance(data_of(old.value), str)
    if not (was_text and isinstance(value, FlagWord) and value.value is not None):
        return value, ""
    if "e" in value.text.lower() and not isinstance(value.value, bool):
        # more often a hash such as 7e3 than a number
        return yaml_nodes.ScalarNode(value.span, value.text), ""
    kind = "a boolean" if isinstance(value.value, bool) else "a number"
    quoted = f"--param '{name}=\"{value.text.strip()}\"'"
    return value, f"--param {name} changes it from text to {kind}; {quoted} keeps it text"


def _params(manifest: Manifest) -> Iterator[tuple[str, str, yaml_nodes.MappingNode]]:
    """Return the params of a flow, or of a CronJobFlow's flows: the path of the value, the name and
    the param; no misshapen ones."""
    spec, path = _child(manifest.node, "spec"), "spec"
    if manifest.kind == CRONJOBFLOWS.kind:
        # the params of its flows are declared there
        spec, path = _child(_child(spec, "jobFlowTemplate"), "spec"), "spec.jobFlowTemplate.spec"
    elif manifest.kind != JOBFLOWS.kind:
        return
    params = _child(spec, "params")
    for i, param in enumerate(params.items if isinstance(params, yaml_nodes.ListNode) else ()):
        name = _child(param, "name")
        if isinstance(param, yaml_nodes.MappingNode) and isinstance(name, yaml_nodes.ScalarNode):
            if isinstance(name.value, str):
                yield f"{path}.params[{i}].value", name.value, param


def _child(node: yaml_nodes.Node | None, key: str) -> yaml_nodes.Node | None:
    entry = node.entries.get(key) if isinstance(node, yaml_nodes.MappingNode) else None
    return entry.value if entry is not None else None


def _moved(node: yaml_nodes.Node, span: Span) -> yaml_nodes.Node:
    match node:
        case yaml_nodes.MappingNode():
            # every part of a value is at its name, because it is in no file
            moved = {key: _moved(entry.value, span) for key, entry in node.entries.items()}
            entries = {key: yaml_nodes.MappingEntry(span, value) for key, value in moved.items()}
            return replace(node, span=span, entries=entries, duplicates=[])
        case yaml_nodes.ListNode():
            return replace(node, span=span, items=[_moved(item, span) for item in node.items])
        case yaml_nodes.ScalarNode():
            return replace(node, span=span)


def read_durations(file: str, names: Collection[str]) -> dict[str, float]:
    """Return the seconds by name of a step or JobTemplate. `names` are those that the flows have.
    Raises CommandError with all faults of the file."""
    root, faults = _read_mapping(file, file, _DURATIONS)
    found: dict[str, float] = {}
    suggester = Suggester([*names])
    for name, entry in root.entries.items():
        if name not in names:
            guess = did_you_mean(suggester.nearest(name))
            unknown = f"{name}: no step or JobTemplate of the flows has this name{guess}"
            faults.append((entry.key.line, unknown))
        try:
            found[name] = _seconds(entry.value)
        except ValueError as error:
            faults.append((entry.value.span.line, f"{name}: {error}"))
    _raise_faults(file, faults)
    return found


def _read_mapping(
    file: str, label: str, advice: str
) -> tuple[yaml_nodes.MappingNode, list[tuple[int, str]]]:
    """Return the mapping in a file, and its faults with their lines. Raises CommandError, which
    begins with `label`, if it has no mapping."""
    if file == "-" or os.path.isdir(file):  # stdin may have the flows
        raise CommandError(UNUSABLE, f"{label}: name one file, not stdin or a folder")
    [source] = read_files([file], BytesIO())
    if isinstance(source, ManifestFault):
        raise CommandError(UNUSABLE, f"{label}: {source.message}")
    parsed = list(yaml_nodes.documents(source.text))
    if len(parsed) != 1 or not isinstance(root := parsed[0], yaml_nodes.MappingNode):
        errors = [each.message for each in parsed if isinstance(each, NotYAMLError)]
        why = errors[0] if errors else f"is not a mapping: {advice}"
        raise CommandError(UNUSABLE, f"{label}: {why}")
    again = "is given twice: remove one of them"
    return root, [(each.again.line, f"{each.key} {again}") for each in root.duplicates]


def _raise_faults(file: str, faults: Iterable[tuple[int, str]]) -> None:
    if lines := [f"{file}:{line}: {fault}" for line, fault in sorted(faults)]:
        raise CommandError(UNUSABLE, "\n".join(lines))


def _seconds(node: yaml_nodes.Node) -> float:
    value = node.value if isinstance(node, yaml_nodes.ScalarNode) else None
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_SECONDS:
        return float(value)
    raise ValueError("is not a duration: write it like 90s or 1h30m, or as a number of seconds")
