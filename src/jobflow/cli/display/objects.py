"""Objects as names, JSON or YAML, as kubectl prints them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

import msgspec
import yaml

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.cli.flags import ObjectOutput
from jobflow.cli.manifests.yaml_scalars import NotJSONError, plain_value

_COMPACT = 80
"""Most characters of a list on one line."""

JSONObject = Mapping[str, Any]


def name_of(obj: JSONObject) -> str:
    """Return `jobflow.flow.volcano.sh/train`, as kubectl's `-o name` does."""
    group = str(obj["apiVersion"]).rpartition("/")[0]
    metadata = obj["metadata"]
    name = metadata.get("name") or f"{metadata.get('generateName', '')}<random>"
    return f"{str(obj['kind']).lower()}.{group}/{name}"


def object_of(flow: JobFlow) -> JSONObject:
    """Return a flow as the API server has it."""
    head = {"apiVersion": JOBFLOWS.api_version, "kind": JOBFLOWS.kind}
    return head | msgspec.to_builtins(flow)  # type: ignore[no-any-return]


def print_flows(flows: Sequence[JobFlow], output: ObjectOutput, *, single: bool) -> None:
    """Print flows as `print_objects` does, but a List unless a `single` flow was named, which may
    be missing."""
    objects = [*map(object_of, flows)]
    if single and not objects:
        return
    if single or output is ObjectOutput.NAME:
        print_objects(objects, output)
    else:
        print_objects([_list_of(objects)], output)


def print_objects(objects: Sequence[JSONObject], output: ObjectOutput) -> None:
    """Print names, one per line; as JSON or YAML the object, or a List of several."""
    if output is ObjectOutput.NAME:
        for obj in objects:
            print(name_of(obj))
        return
    answer = objects[0] if len(objects) == 1 else _list_of(objects)
    if output is ObjectOutput.YAML:
        write_yaml([answer], sys.stdout)
    else:
        print(json.dumps(answer, indent=2, ensure_ascii=False))


def _list_of(objects: Sequence[JSONObject]) -> JSONObject:
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(objects)}


def write_yaml(documents: Iterable[JSONObject], stream: TextIO, *, compact: bool = False) -> None:
    """Write YAML documents that kubectl reads as these values; with `compact`, a short list of
    plain values is on one line."""
    yaml.dump_all(
        documents,
        stream,
        Dumper=_CompactDumper if compact else _Dumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=False,
        width=sys.maxsize,
    )


class _Dumper(yaml.SafeDumper):
    """Quotes each text that kubectl would read as another value, writes texts of several lines as
    blocks, and repeats values instead of writing aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent the items of a list below their key."""
        super().increase_indent(flow, False)


class _CompactDumper(_Dumper):
    """Writes a short list of texts of one line, numbers and booleans in brackets."""

    def represent_list(self, data: Any) -> yaml.SequenceNode:
        is_short = (
            not any(
                isinstance(each, dict | list) or (isinstance(each, str) and "\n" in each)
                for each in data
            )
            and sum(len(str(each)) + 2 for each in data) <= _COMPACT
        )
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=is_short)


_CompactDumper.add_representer(list, _CompactDumper.represent_list)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif not _stays_text(text):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _stays_text(text: str) -> bool:
    try:
        return isinstance(plain_value(text), str)
    except NotJSONError:
        return False


_Dumper.add_representer(str, _text)
_CompactDumper.add_representer(str, _text)
