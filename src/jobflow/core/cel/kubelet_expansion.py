"""Inserted texts in the fields in which the kubelet expands `$(NAME)` and `$$`.

An inserted value is data: the container gets it unchanged, and it reads no variable of the
container. The kubelet replaces `$$` by `$`, so each inserted `$` is doubled. It does not look into
the brackets of `$(…)` if no variable has this name, so a `$` that is inserted there is not.

Sources: `kuberuntime_container.go`, `prober.go` and `third_party/forked/golang/expansion` of
Kubernetes. The command of a lifecycle hook is not expanded.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Fields = Mapping[str, "Fields"]
"""Fields below a field of a manifest, down to the expanded ones. The elements of a list have the
fields of the list."""
_EXPANDED: Fields = {}
"""The fields of an expanded text, or list of texts."""
_PROBE: Fields = {"exec": {"command": _EXPANDED}}
_CONTAINER: Fields = {
    "command": _EXPANDED,
    "args": _EXPANDED,
    "env": {"value": _EXPANDED},
    "volumeMounts": {"subPathExpr": _EXPANDED},
    "livenessProbe": _PROBE,
    "readinessProbe": _PROBE,
    "startupProbe": _PROBE,
}
OF_JOB_SPEC: Fields = {
    "tasks": {"template": {"spec": {"containers": _CONTAINER, "initContainers": _CONTAINER}}}
}
"""The expanded fields of a vcjob's spec."""


class Piece(NamedTuple):
    """A part of a text."""

    text: str
    is_inserted: bool


def is_expanded(fields: Fields | None) -> bool:
    """Return whether a text at a field with these fields is expanded."""
    return fields is not None and not fields


def protect_value(value: Any, fields: Fields | None) -> Any:
    """Return an inserted JSON value whose texts in the expanded fields below it arrive
    unchanged."""
    if fields is None:
        return value
    if isinstance(value, str) and is_expanded(fields):
        return value.replace("$", "$$")
    if isinstance(value, list):
        # Kubernetes has no lists of lists, which could be too deep for recursion.
        return [each if isinstance(each, list) else protect_value(each, fields) for each in value]
    if isinstance(value, dict):
        return {key: protect_value(each, fields.get(key)) for key, each in value.items()}
    return value


def join_protected(pieces: Sequence[Piece]) -> str:
    """Return the text of an expanded field, whose inserted pieces arrive unchanged."""
    text = "".join(piece.text for piece in pieces)
    inserted, start = set[int](), 0
    for piece in pieces:
        if piece.is_inserted:
            inserted.update(start + at.start() for at in re.finditer(r"\$", piece.text))
        start += len(piece.text)
    if not inserted:
        return text
    last_closer = text.rfind(")")
    made, at = list[str](), 0
    while (dollar := text.find("$", at)) >= 0:
        made.append(text[at:dollar])
        end = dollar + 1
        if dollar in inserted:
            made.append("$")
        # the user's own, which the kubelet replaces
        elif text.startswith("$$", dollar):
            end += 1
        # the kubelet looks for the name between the brackets, and for nothing else
        elif text.startswith("$(", dollar) and dollar < last_closer:
            end = text.index(")", dollar) + 1
        made.append(text[dollar:end])
        at = end
    return "".join([*made, text[at:]])
