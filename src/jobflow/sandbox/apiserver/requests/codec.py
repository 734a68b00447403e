"""Decoders of request bodies: JSON, YAML, and the protobuf that kubectl requires."""

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
import yaml

from jobflow.sandbox.apiserver.requests.failures import unsupported_media_type
from jobflow.sandbox.apiserver.requests.http import JSON

YAML = "application/yaml"
_MAX_DEPTH = 200
PROTOBUF = "application/vnd.kubernetes.protobuf"

_decode = msgspec.json.Decoder().decode

GO_WORDS = {"int": "number", "float": "number", "dict": "object", "list": "array", "str": "string"}
"""Go's word for a type of JSON, by Python's."""


def go_word(value: Any) -> str:
    return "string" if value is None else GO_WORDS.get(type(value).__name__, "bool")


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
    with suppress(UnreadableBody):  # no JSON: the YAML parser says what it is
        return load(body)
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


MAGIC = b"k8s\x00"

Raw = int | bytes
Field = tuple[str, Callable[[Raw], Any]]
Message = Mapping[int, Field]
"""Name and reader of each field number. The lists and maps of a repeated field are joined."""


def load_protobuf(body: bytes) -> dict[str, Any]:
    """Decode Kubernetes protobuf. Raises UnreadableBody, or RequestFailure, 415."""
    if not body.startswith(MAGIC):
        raise UnreadableBody("the body does not begin with k8s\\0")
    envelope = dict(_fields(body[len(MAGIC) :]))
    types = _message(_bytes(envelope.get(1, b"")), _TYPE_META)
    kind = types.get("kind", "")
    if kind not in _KINDS:
        raise unsupported_media_type((JSON, YAML))
    return {**types, **_message(_bytes(envelope.get(2, b"")), _KINDS[kind])}


def _bytes(value: Raw) -> bytes:
    if isinstance(value, int):
        raise UnreadableBody("a number where bytes belong")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, Raw]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        value: Raw
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 2:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
            value, at = data[at : at + length], at + length
        else:
            raise UnreadableBody(f"wire type {wire}")
        if at > len(data):
            raise UnreadableBody("the message ends inside a field")
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise UnreadableBody("a number without an end")


def _message(data: bytes, message: Message) -> dict[str, Any]:
    decoded: dict[str, Any] = {}
    for number, raw in _fields(data):
        # Fields that no table names have no meaning in this server.
        if number not in message:
            continue
        name, read = message[number]
        value = read(raw)
        # A repeated field comes once for each of its values.
        if isinstance(value, list):
            decoded.setdefault(name, []).extend(value)
        elif isinstance(value, dict):
            decoded.setdefault(name, {}).update(value)
        elif value != "":
            decoded[name] = value
    return decoded


def _text(raw: Raw) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise UnreadableBody(str(error)) from error


def _texts(raw: Raw) -> list[str]:
    return [_text(raw)]


def _int(raw: Raw) -> int:
    if not isinstance(raw, int):
        raise UnreadableBody("bytes where a number belongs")
    return raw - (1 << 64) if raw >> 63 else raw


def _bool(raw: Raw) -> bool:
    return bool(_int(raw))


def _map(raw: Raw) -> dict[str, str]:
    fields = dict(_fields(_bytes(raw)))
    return {_text(fields.get(1, b"")): _text(fields.get(2, b""))}


def _bytes_map(raw: Raw) -> dict[str, str]:
    fields = dict(_fields(_bytes(raw)))
    return {_text(fields.get(1, b"")): base64.b64encode(_bytes(fields.get(2, b""))).decode()}


def _inner(message: Message) -> Callable[[Raw], dict[str, Any]]:
    return lambda raw: _message(_bytes(raw), message)


def _numbered(*names: str, **readers: Callable[[Raw], Any]) -> dict[int, Field]:
    """Return fields with the numbers 1, 2 and so on: texts with these names, then others."""
    fields = [*((name, _text) for name in names), *readers.items()]
    return dict(enumerate(fields, start=1))


_TYPE_META = _numbered("apiVersion", "kind")
_OWNER = _inner(
    {
        **{1: ("kind", _text), 3: ("name", _text), 4: ("uid", _text), 5: ("apiVersion", _text)},
        **{6: ("controller", _bool), 7: ("blockOwnerDeletion", _bool)},
    }
)
_META = _inner(
    {
        **_numbered("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"),
        **{7: ("generation", _int), 11: ("labels", _map), 12: ("annotations", _map)},
        **{13: ("ownerReferences", lambda raw: [_OWNER(raw)]), 14: ("finalizers", _texts)},
    }
)
_KINDS: Mapping[str, Message] = {
    "Namespace": _numbered(
        metadata=_META, spec=_inner(_numbered(finalizers=_texts)), status=_inner(_numbered("phase"))
    ),
    "ConfigMap": _numbered(metadata=_META, data=_map, binaryData=_bytes_map, immutable=_bool),
    "Secret": _numbered(
        metadata=_META, data=_bytes_map, type=_text, stringData=_map, immutable=_bool
    ),
    "DeleteOptions": _numbered(
        gracePeriodSeconds=_int,
        preconditions=_inner(_numbered("uid", "resourceVersion")),
        orphanDependents=_bool,
        propagationPolicy=_text,
        dryRun=_texts,
    ),
}


def decoder(media_type: str) -> Callable[[bytes], Any]:
    """Return the decoder of a media type. Raises RequestFailure, 415, if it is not supported."""
    if media_type not in _DECODERS:
        raise unsupported_media_type((JSON, YAML, PROTOBUF))
    return _DECODERS[media_type]


_DECODERS = {JSON: load, YAML: load_yaml, PROTOBUF: load_protobuf}
