"""Decoder of the few kinds that kubectl sends as protobuf only.

Field numbers: generated.proto of k8s.io/api and k8s.io/apimachinery. Answers are always JSON.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

MAGIC = b"k8s\x00"

Raw = int | bytes
Field = tuple[str, Callable[[Raw], Any]]
Message = Mapping[int, Field]
"""Name and reader of each field number. The lists and maps of a repeated field are joined."""


class MalformedProtobuf(ValueError):
    """The bytes are not a protobuf message of this kind."""


class UnknownProtobuf(ValueError):
    """The protobuf of this kind is not supported."""


def decode(body: bytes) -> dict[str, Any]:
    """Return the object in a protobuf body. Raises MalformedProtobuf or UnknownProtobuf."""
    if not body.startswith(MAGIC):
        raise MalformedProtobuf("the body does not begin with k8s\\0")
    envelope = dict(_fields(body[len(MAGIC) :]))
    types = _message(_bytes(envelope.get(1, b"")), _TYPE_META)
    kind = types.get("kind", "")
    if kind not in _KINDS:
        raise UnknownProtobuf(kind)
    return {**types, **_message(_bytes(envelope.get(2, b"")), _KINDS[kind])}


def _bytes(value: Raw) -> bytes:
    if isinstance(value, int):
        raise MalformedProtobuf("a number where bytes belong")
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
            raise MalformedProtobuf(f"wire type {wire}")
        if at > len(data):
            raise MalformedProtobuf("the message ends inside a field")
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
    raise MalformedProtobuf("a number without an end")


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
    return _bytes(raw).decode()


def _texts(raw: Raw) -> list[str]:
    return [_text(raw)]


def _int(raw: Raw) -> int:
    if not isinstance(raw, int):
        raise MalformedProtobuf("bytes where a number belongs")
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
