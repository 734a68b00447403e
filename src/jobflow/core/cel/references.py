"""References in patches, such as `$(params.x)`: found, and replaced by their values.

A reference is a path; it computes nothing. Any other `$(…)` stays unchanged, because shells and
Kubernetes (`$(POD_NAME)`) use the same brackets. `$$(` becomes `$(`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from jobflow.core.json_values import copy_json
from jobflow.core.violations import join_path

_REFERENCE = re.compile(
    r"\$\$\(|\$\((?P<path>(?:item|index)|(?:params|item|index|flow|steps)\.[^()$\s]*)\)"
)
MAX_SIZE = 1 << 20
"""Bytes of JSON of all values in one patch: no vcjob can be larger."""
_OUTPUT = re.compile(r"steps\.(?P<step>.+?)\.outputs(?:\.(?P<rest>.*))?")


class Reference(NamedTuple):
    """A reference without its brackets."""

    path: str
    root: str
    """params, item, index, flow or steps."""
    keys: tuple[str, ...]
    """The keys below the root. The first key of `steps` is a step's name, which may have dots: it
    ends at the first `.outputs`, or at the end of the path."""


def parse_reference(path: str) -> Reference:
    """Return the reference of a path."""
    root, dot, tail = path.partition(".")
    if root == "steps" and (found := _OUTPUT.fullmatch(path)) is not None:
        inner = tuple(found["rest"].split(".")) if found["rest"] is not None else ()
        return Reference(path, root, (found["step"], "outputs", *inner))
    if root == "steps":
        return Reference(path, root, (tail,))
    return Reference(path, root, tuple(tail.split(".")) if dot else ())


def has_reference(text: str) -> bool:
    """Return whether a text contains a reference."""
    return any(found["path"] for found in _REFERENCE.finditer(text))


def find_references(value: Any, path: str) -> Iterator[tuple[str, Reference]]:
    """Yield each reference in a JSON value, with the JSON path of its text. `path` is that of the
    value; keys of maps have no references."""
    pending = [(path, value)] if _may_have_reference(value) else []
    while pending:
        place, inner = pending.pop()
        if isinstance(inner, str):
            for found in _REFERENCE.finditer(inner) if "$(" in inner else ():
                if found["path"] is not None:
                    yield place, parse_reference(found["path"])
        elif isinstance(inner, dict):
            pending += [(join_path(place, key), each) for key, each in reversed(inner.items())]
        elif isinstance(inner, list):
            pending += [(f"{place}[{i}]", each) for i, each in reversed(list(enumerate(inner)))]


class ReferencesTooLargeError(Exception):
    """The values of references have more bytes than allowed."""


class ReferenceRoom:
    """The bytes of JSON that are left for the values of references."""

    def __init__(self, left: int = MAX_SIZE) -> None:
        self.left = left

    def take(self, value: Any) -> Any:
        """Return the value and take its bytes. Raises ReferencesTooLargeError."""
        self.left -= measure_json(value)
        if self.left < 0:
            raise ReferencesTooLargeError
        return value


def replace_references(
    value: Any, look_up: Callable[[Reference], Any], room: ReferenceRoom | None = None
) -> Any:
    """Return JSON with the value of `look_up`, which may raise, in place of each reference. Raises
    ReferencesTooLargeError if there is not enough room, by default that of one patch.

    A text that is only a reference becomes the value, with its type. Inside a longer text, and in
    fields that are always texts (`is_text_field`), the value is written as JSON:
    `args: ["$(params.workers)"]` becomes `["4"]`.
    """
    if not _may_have_reference(value):
        return value
    room = room or ReferenceRoom()

    def take_value(found: Reference) -> Any:
        return room.take(look_up(found))

    root = {"": value}
    result = copy_json(root)
    # Patches may be nested too deep for recursion. `own` and `outer` are the keys of a container
    # and of the one around it.
    work: list[tuple[Any, Any, str, str]] = [(root, result, "", "")]
    while work:
        source, made, own, outer = work.pop()
        for key, each in source.items() if isinstance(source, dict) else enumerate(source):
            if isinstance(each, str):
                if "$(" in each:
                    replaced = _replace_in_text(each, take_value)
                    made[key] = _to_text(replaced) if is_text_field(key, own, outer) else replaced
            elif isinstance(each, dict | list):
                names = (key, own) if isinstance(key, str) else (own, outer)
                work.append((each, made[key], *names))
    return result[""]


def _to_text(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _may_have_reference(value: Any) -> bool:
    try:
        return b"$(" in msgspec.json.encode(value)
    except UnicodeEncodeError:
        return True


def measure_json(value: Any) -> int:
    """Return the bytes of a value as JSON, roughly if it has half characters, as YAML may."""
    try:
        return len(msgspec.json.encode(value))
    except UnicodeEncodeError:
        return len(ascii(value))


def _replace_in_text(text: str, look_up: Callable[[Reference], Any]) -> Any:
    only = _REFERENCE.fullmatch(text)
    if only is not None and only["path"] is not None:
        return look_up(parse_reference(only["path"]))

    def write(found: re.Match[str]) -> str:
        if found["path"] is None:
            return "$("
        value = look_up(parse_reference(found["path"]))
        return "null" if value is None else str(_to_text(value))

    return _REFERENCE.sub(write, text)


_TEXT_FIELDS = frozenset(
    """
    claimName clusterIP containerName fieldPath hostIP hostname image imagePullPolicy key
    medium minTimeAvailable mountPath mountPropagation name namespace nodeName operator path
    preemptionPolicy priorityClassName queue resource restartPolicy runningEstimate
    runtimeClassName schedulerName secretName serviceAccount serviceAccountName storageClassName
    subPath subPathExpr subdomain terminationMessagePath terminationMessagePolicy topologyKey value
    volumeClaimName volumeName workingDir
    """.split()
)
"""Fields that are texts in every object."""
_MAPS = frozenset({"annotations", "labels", "matchLabels", "nodeSelector", "parameters"})
"""Maps of texts."""
_LISTS = frozenset({"args", "command", "hostnames", "nameservers", "searches", "values"})
"""Lists of texts."""


def is_text_field(key: str | int, own: str, outer: str) -> bool:
    """Return whether Kubernetes takes only texts at `key` of a map or list, which is the field
    `own` of the field `outer`."""
    if isinstance(key, int):
        return own in _LISTS or outer == "plugins"
    return own in _MAPS or key in _TEXT_FIELDS
