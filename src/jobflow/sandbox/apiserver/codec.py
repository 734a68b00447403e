"""Bodies of requests as objects: JSON, YAML and what little protobuf kubectl insists on.

Finds duplicate keys, which most decoders pass over. Judges nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import yaml

from jobflow.sandbox.apiserver import protobuf
from jobflow.sandbox.apiserver.failures import bad_request, unsupported_media_type
from jobflow.sandbox.apiserver.http import JSON, Request
from jobflow.sandbox.apiserver.kinds import Object

YAML = "application/yaml"
_MAX_DEPTH = 200
"""Collections inside collections of a YAML body."""
PROTOBUF = "application/vnd.kubernetes.protobuf"

_decode = msgspec.json.Decoder().decode


def load(body: bytes) -> Any:
    """JSON. Raises Failure, 400."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise bad_request(
            f"the object provided is unrecognized (must be valid JSON): {error}"
        ) from error


def load_yaml(body: bytes) -> Any:
    """YAML, of which JSON is a part. Raises Failure, 400; aliases are refused."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # no JSON: the YAML parser says what it is
    try:
        _check_events(body)
        return yaml.load(body, Loader=_PlainLoader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise bad_request(f"error converting YAML to JSON: {error}") from error


def _check_events(body: bytes) -> None:
    """Raise Failure, 400, for what a few bytes can make large or deep without end."""
    depth = 0
    for event in yaml.parse(body, _PlainLoader):
        if isinstance(event, yaml.AliasEvent):
            raise bad_request("error converting YAML to JSON: aliases are not taken here")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _MAX_DEPTH:
            raise bad_request("error converting YAML to JSON: it is nested too deeply")


class _PlainLoader(yaml.CSafeLoader):
    """Keeps dates as text, as JSON has them."""


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, test) for tag, test in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def load_object(request: Request) -> Object:
    """The object that a request brings. Raises Failure, 400 or 415."""
    loaded = _loader(request.content_type)(request.body)
    if not isinstance(loaded, dict):
        raise bad_request("the object provided is unrecognized: it is no JSON object")
    return loaded


def _loader(media_type: str) -> Callable[[bytes], Any]:
    if media_type == JSON:
        return load
    if media_type == YAML:
        return load_yaml
    if media_type == PROTOBUF:
        return load_protobuf
    raise unsupported_media_type((JSON, YAML, PROTOBUF))


def load_protobuf(body: bytes) -> Any:
    """Kubernetes' protobuf. Raises Failure: 400 where it is none, 415 for a kind in JSON only."""
    try:
        return protobuf.decode(body)
    except protobuf.Unknown as unknown:
        raise unsupported_media_type((JSON, YAML)) from unknown
    except (protobuf.Malformed, UnicodeDecodeError) as error:
        raise bad_request(f"the object provided is unrecognized: {error}") from error


def duplicate_keys(body: bytes) -> list[str]:
    """Paths of the keys that a JSON body has twice in one object, in order of the text."""
    twice = False

    def pairs(items: list[tuple[str, Any]]) -> None:
        nonlocal twice
        twice = twice or len({key for key, _ in items}) != len(items)

    json.loads(body, object_pairs_hook=pairs)
    return list(_twice(yaml.compose(body, Loader=_PlainLoader), "")) if twice else []


def _twice(node: yaml.Node | None, path: str) -> Iterator[str]:
    """The same, with paths: JSON read as YAML, whose nodes keep all keys."""
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _twice(item, f"{path}[{index}]")
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            where = f"{path}.{key.value}" if path else str(key.value)
            if key.value in seen:
                yield where
            seen.add(key.value)
            yield from _twice(value, where)
