"""Objects as names, JSON or YAML, as kubectl prints them."""

import sys
from collections.abc import Sequence

import msgspec

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import FLOW_GROUP, JOBFLOWS
from jobflow.client.manifests.write_yaml import JSONObject, write_yaml
from jobflow.display.formats import GetOutput, ObjectOutput, print_json


def name_of(obj: JSONObject) -> str:
    """Return `jobflow.flow.volcano.sh/train`, as kubectl's `-o name` does."""
    group = str(obj["apiVersion"]).rpartition("/")[0]
    metadata = obj["metadata"]
    # a server dry run gives no name to an object with generateName
    name = metadata.get("name") or f"{metadata.get('generateName', '')}<random>"
    return f"{str(obj['kind']).lower()}.{group}/{name}"


def full_name(flow: JobFlow) -> str:
    return f"jobflow.{FLOW_GROUP}/{flow.metadata.name}"


def object_of(flow: JobFlow) -> JSONObject:
    """Return a flow as the API server has it."""
    head = JOBFLOWS.type_meta
    return head | msgspec.to_builtins(flow)  # type: ignore[no-any-return]


def print_flow_objects(flows: Sequence[JobFlow], output: ObjectOutput, *, single: bool) -> None:
    """Print flows as `print_objects` does, but a List unless a `single` flow was named, which may
    be missing."""
    objects = [*map(object_of, flows)]
    # a script that names one flow expects one object, as of kubectl
    if not single and output is not ObjectOutput.NAME:
        objects = [_list_of(objects)]
    if objects:
        print_objects(objects, output)


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
        print_json(answer)


def _list_of(objects: Sequence[JSONObject]) -> JSONObject:
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(objects)}


def print_raw(
    objects: Sequence[bytes | msgspec.Raw], output: GetOutput | None, *, single: bool
) -> None:
    """Print objects as the API server sent them: one, or a List."""
    # types would drop the fields that this version does not know
    raw = bytes(objects[0]) if single else b""
    if not single:
        items = b",".join(map(bytes, objects))
        # as kubectl writes its lists
        head = b'{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":""},"items":['
        raw = head + items + b"]}"
    if output is GetOutput.YAML:
        write_yaml([msgspec.json.decode(raw)], sys.stdout)
    else:
        print(msgspec.json.format(raw, indent=2).decode())
