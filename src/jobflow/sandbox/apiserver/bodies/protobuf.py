"""Decoder of the few kinds that kubectl sends as protobuf only.

Field numbers come from the generated.proto files of k8s.io/api and k8s.io/apimachinery. Answers are
always JSON, which those clients accept.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

MAGIC = b"k8s\x00"

Message = Mapping[int, tuple[str, Any]]
"""Name and type of each field number; a type is `_TEXT`, `_INT` … or another Message."""

_TEXT, _INT, _BOOL, _TEXTS, _MAP, _BYTES_MAP, _TIME = range(7)


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


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise MalformedProtobuf("a number where bytes belong")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        wire = tag & 7
        value: int | bytes
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
        if number not in message:
            continue
        name, holds = message[number]
        if isinstance(holds, list):
            decoded.setdefault(name, []).append(_message(_bytes(raw), holds[0]))
        elif holds == _TEXTS:
            decoded.setdefault(name, []).append(_bytes(raw).decode())
        elif holds in (_MAP, _BYTES_MAP):
            decoded.setdefault(name, {}).update([_entry(_bytes(raw), holds)])
        else:
            value = _single(raw, holds)
            if value not in ("", None):
                decoded[name] = value
    return decoded


def _single(raw: int | bytes, holds: Any) -> Any:
    if isinstance(holds, Mapping):
        return _message(_bytes(raw), holds)
    if holds == _TIME:
        return _time(_bytes(raw))
    if holds == _TEXT:
        return _bytes(raw).decode()
    if not isinstance(raw, int):
        raise MalformedProtobuf("bytes where a number belongs")
    if holds == _BOOL:
        return bool(raw)
    return raw - (1 << 64) if raw >> 63 else raw


def _entry(raw: bytes, holds: int) -> tuple[str, str]:
    fields = dict(_fields(raw))
    key, value = _bytes(fields.get(1, b"")), _bytes(fields.get(2, b""))
    text = base64.b64encode(value) if holds == _BYTES_MAP else value
    return key.decode(), text.decode()


def _time(raw: bytes) -> str | None:
    fields = dict(_fields(raw))
    seconds, nanos = fields.get(1, 0), fields.get(2, 0)
    if not isinstance(seconds, int) or not isinstance(nanos, int):
        raise MalformedProtobuf("a time that is no number")
    if not seconds or seconds >> 63:
        return None
    moment = datetime.fromtimestamp(seconds, UTC)
    micro = f".{nanos // 1000:06d}" if nanos else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{micro}Z"


def _texts(*names: str) -> dict[int, tuple[str, Any]]:
    return {number: (name, _TEXT) for number, name in enumerate(names, start=1)}


_TYPE_META = _texts("apiVersion", "kind")
_OWNER = {
    **{1: ("kind", _TEXT), 3: ("name", _TEXT), 4: ("uid", _TEXT), 5: ("apiVersion", _TEXT)},
    **{6: ("controller", _BOOL), 7: ("blockOwnerDeletion", _BOOL)},
}
_META: Message = {
    **_texts("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"),
    **{7: ("generation", _INT), 8: ("creationTimestamp", _TIME), 9: ("deletionTimestamp", _TIME)},
    **{11: ("labels", _MAP), 12: ("annotations", _MAP)},
    **{13: ("ownerReferences", [_OWNER]), 14: ("finalizers", _TEXTS)},
}
_REFERENCE = _texts(
    "kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"
)
_EVENT: Message = {
    **{1: ("metadata", _META), 2: ("involvedObject", _REFERENCE)},
    **{3: ("reason", _TEXT), 4: ("message", _TEXT), 5: ("source", _texts("component", "host"))},
    **{6: ("firstTimestamp", _TIME), 7: ("lastTimestamp", _TIME), 8: ("count", _INT)},
    **{9: ("type", _TEXT), 10: ("eventTime", _TIME), 12: ("action", _TEXT)},
    **{11: ("series", {1: ("count", _INT), 2: ("lastObservedTime", _TIME)})},
    **{13: ("related", _REFERENCE)},
    **{14: ("reportingComponent", _TEXT), 15: ("reportingInstance", _TEXT)},
}
_DATA: Message = {2: ("data", _MAP), 3: ("binaryData", _BYTES_MAP), 4: ("immutable", _BOOL)}
_SECRET: Message = {
    **{2: ("data", _BYTES_MAP), 3: ("type", _TEXT)},
    **{4: ("stringData", _MAP), 5: ("immutable", _BOOL)},
}
_NAMESPACE: Message = {2: ("spec", {1: ("finalizers", _TEXTS)}), 3: ("status", _texts("phase"))}
_KINDS: Mapping[str, Message] = {
    "Event": _EVENT,
    **{
        kind: {1: ("metadata", _META), **fields}
        for kind, fields in (("Namespace", _NAMESPACE), ("ConfigMap", _DATA), ("Secret", _SECRET))
    },
    "DeleteOptions": {
        **{1: ("gracePeriodSeconds", _INT), 2: ("preconditions", _texts("uid", "resourceVersion"))},
        **{3: ("orphanDependents", _BOOL), 4: ("propagationPolicy", _TEXT), 5: ("dryRun", _TEXTS)},
    },
}
