"""Objects as names, JSON or YAML, as kubectl prints them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.client.manifests.write_yaml import (
    JSONObject,
    write_yaml,
)
from jobflow.display.formats import ObjectOutput


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
