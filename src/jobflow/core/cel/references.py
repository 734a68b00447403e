"""References `$(params.x)` in patches: found, and replaced by values. They compute nothing.

A reference is a path, not an expression. Every other `$(…)` stays as it stands, for shells and
Kubernetes (`$(POD_NAME)`) have the same brackets; `$$(` writes `$(` (DESIGN §1, Expressions).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from jobflow.core.json_values import copy_json
from jobflow.core.violations import join_path

_FOUND = re.compile(
    r"\$\$\(|\$\((?P<path>(?:item|index)|(?:params|item|index|flow|steps)\.[^()$\s]*)\)"
)
MAX_SIZE = 1 << 20
"""Bytes of JSON that the references of one patch may stand for: no vcjob can be larger."""
_OUTPUT = re.compile(r"steps\.(?P<step>.+?)\.outputs(?:\.(?P<rest>.*))?")


class Reference(NamedTuple):
    """What stands between `$(` and `)`."""

    path: str
    root: str
    """params, item, index, flow or steps."""
    keys: tuple[str, ...]
    """What is taken of it; of steps: the step, `outputs`, and what is taken of these. A step's
    name may hold dots, so it ends at the first `.outputs`; without that it is all there is."""


def parse_reference(path: str) -> Reference:
    """Read a path."""
    root, dot, rest = path.partition(".")
    if root == "steps" and (found := _OUTPUT.fullmatch(path)) is not None:
        inner = tuple(found["rest"].split(".")) if found["rest"] is not None else ()
        return Reference(path, root, (found["step"], "outputs", *inner))
    if root == "steps":
        return Reference(path, root, (rest,))
    return Reference(path, root, tuple(rest.split(".")) if dot else ())


def has_reference(text: str) -> bool:
    """Whether there is a reference in a text."""
    return any(found["path"] is not None for found in _FOUND.finditer(text))


def find_references(value: Any, path: str) -> Iterator[tuple[str, Reference]]:
    """Every reference in the texts of a JSON value, with the JSON path of its text. Keys of maps
    hold none."""
    pending = [(path, value)] if _may_hold_any(value) else []
    while pending:
        place, inner = pending.pop()
        if isinstance(inner, str):
            for found in _FOUND.finditer(inner) if "$(" in inner else ():
                if found["path"] is not None:
                    yield place, parse_reference(found["path"])
        elif isinstance(inner, dict):
            pending += [(join_path(place, key), each) for key, each in reversed(inner.items())]
        elif isinstance(inner, list):
            pending += [(f"{place}[{i}]", each) for i, each in reversed(list(enumerate(inner)))]


class ReferencesTooLargeError(Exception):
    """What references stand for comes to more than there is room for."""


class ReferenceRoom:
    """How much references may still stand for, in bytes of JSON."""

    def __init__(self, left: int = MAX_SIZE) -> None:
        self.left = left

    def take(self, value: Any) -> Any:
        """The value, where there is room for it; else TooLargeError."""
        self.left -= measure_json(value)
        if self.left < 0:
            raise ReferencesTooLargeError
        return value


def replace_references(
    value: Any, look_up: Callable[[Reference], Any], room: ReferenceRoom | None = None
) -> Any:
    """The same JSON with every reference replaced by what `look_up` answers, which may raise; the
    value itself where there is nothing to replace. TooLargeError where there is no room for all
    the answers; by default that of one patch.

    A text that is nothing but one reference becomes the value itself, whatever its type; within a
    text a value is written out, as JSON where it is no text, and so it is where Kubernetes knows
    only texts (`text_places`): `args: ["$(params.workers)"]` is `["4"]`.
    """
    if not _may_hold_any(value):
        return value
    taken = room or ReferenceRoom()

    def answered(found: Reference) -> Any:
        return taken.take(look_up(found))

    root = {"": value}
    result = copy_json(root)
    # Not by recursion, which a deep patch would end. Last the keys of a container and around it.
    work: list[tuple[Any, Any, str, str]] = [(root, result, "", "")]
    while work:
        source, made, own, around = work.pop()
        for key, each in source.items() if isinstance(source, dict) else enumerate(source):
            if isinstance(each, str):
                if "$(" in each:
                    answer = _text(each, answered)
                    made[key] = _written(answer) if is_text_field(key, own, around) else answer
            elif isinstance(each, dict | list):
                names = (key, own) if isinstance(key, str) else (own, around)
                work.append((each, made[key], *names))
    return result[""]


def _written(answer: Any) -> Any:
    """A value as text; null stays, for it says that there is none."""
    if answer is None or isinstance(answer, str):
        return answer
    return msgspec.json.encode(answer).decode()


def _may_hold_any(value: Any) -> bool:
    """A quick look, which most patches do not get beyond."""
    try:
        return b"$(" in msgspec.json.encode(value)
    except UnicodeEncodeError:
        return True


def measure_json(value: Any) -> int:
    """About how many bytes a value takes as JSON; never raises."""
    try:
        return len(msgspec.json.encode(value))
    except UnicodeEncodeError:  # half a character, which YAML can write
        return len(ascii(value))


def _text(text: str, look_up: Callable[[Reference], Any]) -> Any:
    whole = _FOUND.fullmatch(text)
    if whole is not None and whole["path"] is not None:
        return look_up(parse_reference(whole["path"]))

    def written(found: re.Match[str]) -> str:
        if found["path"] is None:
            return "$("
        answer = look_up(parse_reference(found["path"]))
        return "null" if answer is None else str(_written(answer))

    return _FOUND.sub(written, text)


_FIELDS = frozenset(
    """
    claimName clusterIP containerName fieldPath hostIP hostname image imagePullPolicy key
    medium minTimeAvailable mountPath mountPropagation name namespace nodeName operator path
    preemptionPolicy priorityClassName queue resource restartPolicy runningEstimate
    runtimeClassName schedulerName secretName serviceAccount serviceAccountName storageClassName
    subPath subPathExpr subdomain terminationMessagePath terminationMessagePolicy topologyKey value
    volumeClaimName volumeName workingDir
    """.split()
)
"""Fields that are texts wherever they stand."""
_MAPS = frozenset({"annotations", "labels", "matchLabels", "nodeSelector", "parameters"})
"""Maps of texts."""
_LISTS = frozenset({"args", "command", "hostnames", "nameservers", "searches", "values"})
"""Lists of texts."""


def is_text_field(key: str | int, own: str, around: str) -> bool:
    """Whether what stands at `key` of a map or list is a text in any case. `own`: the field that
    the map or list is; `around`: the one that this is in."""
    if isinstance(key, int):
        return own in _LISTS or around == "plugins"
    return own in _MAPS or key in _FIELDS
