"""Objects of an API server as JSON or YAML."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from jobflow.cli.flags import GetOutput
from jobflow.client.manifests.write_yaml import write_yaml


def print_objects(
    objects: Sequence[bytes | msgspec.Raw], output: GetOutput, *, single: bool
) -> None:
    """Print JSON of the API server without a change of its fields: one object, or a List."""
    raw = bytes(objects[0]) if single else _list_of(objects)
    if output is GetOutput.YAML:
        write_yaml([msgspec.json.decode(raw)], sys.stdout)
    else:
        print(msgspec.json.format(raw, indent=2).decode())


def _list_of(objects: Sequence[bytes | msgspec.Raw]) -> bytes:
    items = b",".join(map(bytes, objects))
    metadata = b'"metadata":{"resourceVersion":""}'
    return b'{"apiVersion":"v1","kind":"List",' + metadata + b',"items":[' + items + b"]}"
