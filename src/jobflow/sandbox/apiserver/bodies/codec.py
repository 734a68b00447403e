"""Decoders of request bodies: JSON, YAML, and the protobuf that kubectl requires."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import yaml

from jobflow.sandbox.apiserver.bodies import protobuf
from jobflow.sandbox.apiserver.requests.failures import unsupported_media_type
from jobflow.sandbox.apiserver.requests.http import JSON

YAML = "application/yaml"
_MAX_DEPTH = 200
"""Maximum depth of nested collections in a YAML body."""
PROTOBUF = "application/vnd.kubernetes.protobuf"

_decode = msgspec.json.Decoder().decode


class UnreadableBody(ValueError):
    """A body that does not match its media type. The message says why."""


def load(body: bytes) -> Any:
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        message = str(error)
        raise UnreadableBody(
            "unexpected end of JSON input" if message == "Input data was truncated" else message
        ) from error


def load_yaml(body: bytes) -> Any:
    """Decode YAML, which includes JSON. Raises UnreadableBody; aliases are refused."""
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # no JSON: the YAML parser says what it is
    depth = 0
    try:
        for event in yaml.parse(body, _PlainLoader):  # short documents can expand without limit
            if isinstance(event, yaml.AliasEvent):
                raise UnreadableBody("yaml: aliases are not supported")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > _MAX_DEPTH:
                raise UnreadableBody("yaml: it is nested too deeply")
        return yaml.load(body, Loader=_PlainLoader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        raise UnreadableBody(f"yaml: {error.problem}") from error
    except UnreadableBody:
        raise
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UnreadableBody(f"yaml: {error}") from error


class _PlainLoader(yaml.CSafeLoader):
    """A loader that keeps dates as text, like JSON."""


_PlainLoader.yaml_implicit_resolvers = {
    # YAML reads an unquoted date as a date, but JSON has none.
    first: [(tag, test) for tag, test in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def decoder(media_type: str) -> Callable[[bytes], Any]:
    """Return the decoder of a media type. Raises RequestFailure, 415, if it is not supported."""
    if media_type not in _DECODERS:
        raise unsupported_media_type((JSON, YAML, PROTOBUF))
    return _DECODERS[media_type]


def load_protobuf(body: bytes) -> Any:
    """Decode Kubernetes protobuf. Raises UnreadableBody, or RequestFailure, 415."""
    try:
        return protobuf.decode(body)
    except protobuf.UnknownProtobuf as unknown:
        raise unsupported_media_type((JSON, YAML)) from unknown
    except (protobuf.MalformedProtobuf, UnicodeDecodeError) as error:
        raise UnreadableBody(str(error)) from error


_DECODERS = {JSON: load, YAML: load_yaml, PROTOBUF: load_protobuf}


def duplicate_keys(body: bytes) -> list[str]:
    """Return the paths of keys that a JSON body repeats within one object, in document order."""
    twice = False

    def pairs(items: list[tuple[str, Any]]) -> None:
        nonlocal twice
        twice = twice or len({key for key, _ in items}) != len(items)

    # Quick for the usual body; the slow parser below finds the paths.
    json.loads(body, object_pairs_hook=pairs)
    return list(_twice(yaml.compose(body, Loader=_PlainLoader), "")) if twice else []


def _twice(node: yaml.Node | None, path: str) -> Iterator[str]:
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
