"""References in patches, such as `$(params.x)`: found, and replaced by their values.

A reference is a path; it computes nothing. Any other `$(…)` stays unchanged, because shells and
Kubernetes (`$(POD_NAME)`) use the same brackets. `$$(` becomes `$(`.

The kubelet expands `$(NAME)` and `$$` in some fields. An inserted value is data there too: the
container gets it unchanged, and it reads no variable of the container. The kubelet replaces `$$`
by `$`, so each inserted `$` is doubled. It does not look into the brackets of `$(…)` if no variable
has this name, so a `$` that is inserted there is not. Sources: `kuberuntime_container.go`,
`prober.go` and `third_party/forked/golang/expansion` of Kubernetes. The command of a lifecycle hook
is not expanded.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from jobflow.core.json_values import copy_json, walk
from jobflow.core.violations import format_path

# -------------------------------------------- fields that the kubelet expands


Fields = Mapping[str, "Fields"]
"""Fields below a field of a manifest, or of each element of a list, down to the expanded ones."""
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
    text: str
    is_inserted: bool


def protect_value(value: Any, fields: Fields | None) -> Any:
    """Return an inserted JSON value whose texts below expanded fields arrive unchanged."""
    if fields is None:
        return value
    if isinstance(value, str) and fields == _EXPANDED:
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


# ----------------------------------------------------------------------- references

_REFERENCE = re.compile(
    r"\$\$\(|\$\((?P<path>(?:item|index|attempt|retries)"
    r"|(?:params|item|index|flow|steps|failure|last|vars)\.[^()$\s]*)\)"
)
MAX_SIZE = 1 << 20
"""Bytes of JSON of all values in one patch: no vcjob can be larger."""
_OUTPUT = re.compile(r"steps\.(?P<step>.+?)\.outputs(?:\.(?P<rest>.*))?")
_FAILURE = re.compile(r"steps\.(?P<step>.+)\.failure(?:\.(?P<key>[^.]*))?")
_FACT = re.compile(r"steps\.(?P<step>.+)\.(?P<fact>phase|reason|job)")
_DIGITS = 10
"""Digits that an index of a list never has; Python refuses to read thousands of them."""
LEFT_OUT = object()
"""In place of the value of a reference: an entry of env is left out, and a text is empty."""


class Reference(NamedTuple):
    """A reference without its brackets."""

    path: str
    root: str
    """params, item, index, attempt, retries, failure, last, flow, steps or vars."""
    keys: tuple[str, ...]
    """The keys below the root. The first key of `steps` is a step's name, which may have dots: it
    ends at the first `.outputs`, else at the last `.failure`, `.phase`, `.reason` or `.job`, with
    which the path ends, except for a key of `failure`; else at the end of the path."""


def parse_reference(path: str) -> Reference:
    root, dot, tail = path.partition(".")
    # names of steps may have dots, so the path is not simply split
    if root == "steps" and (found := _OUTPUT.fullmatch(path)) is not None:
        inner = tuple(found["rest"].split(".")) if found["rest"] is not None else ()
        return Reference(path, root, (found["step"], "outputs", *inner))
    if root == "steps" and (found := _FAILURE.fullmatch(path)) is not None:
        key = (found["key"],) if found["key"] is not None else ()
        return Reference(path, root, (found["step"], "failure", *key))
    if root == "steps":
        fact = _FACT.fullmatch(path)
        keys = (tail,) if fact is None else (fact["step"], fact["fact"])
        return Reference(path, root, keys)
    return Reference(path, root, tuple(tail.split(".")) if dot else ())


def as_item(keys: tuple[str, ...], has_step: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the keys of a reference to a step. Unless a step has the full name `x.item`, this is
    the item of the step `x`."""
    name = keys[0].removesuffix(".item")
    return keys if name == keys[0] or has_step(keys[0]) else (name, "item", *keys[1:])


def get_entry(value: Any, key: str) -> Any:
    """Return the entry of a map, or of a list by its index from 0; UNSET if there is none."""
    if isinstance(value, dict):
        return value.get(key, UNSET)
    if isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < _DIGITS:
        return value[int(key)] if int(key) < len(value) else UNSET
    return UNSET


def has_reference(text: str) -> bool:
    return any(found["path"] for found in _REFERENCE.finditer(text))


def has_other_brackets(value: Any) -> bool:
    """Return whether a text in a JSON value has `$(`, or `$$(`, that begins no reference."""
    for _, text in walk_texts(value, ""):
        references = sum(found["path"] is not None for found in _REFERENCE.finditer(text))
        if text.count("$(") > references:
            return True
    return False


def find_references(value: Any, path: str) -> Iterator[tuple[str, Reference]]:
    """Yield each reference in a JSON value at `path`, with the path of its text. Keys have none."""
    for place, text in walk_texts(value, path):
        for found in _REFERENCE.finditer(text):
            if found["path"] is not None:
                yield place, parse_reference(found["path"])


def walk_texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the texts in a JSON value that have `$(`, in their order, with their paths."""
    # most values have none, which one search of their JSON shows
    for place, inner in walk(value) if may_have_reference(value) else ():
        if isinstance(inner, str) and "$(" in inner:
            yield format_path(place, path), inner


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
    value: Any,
    look_up: Callable[[Reference], Any],
    room: ReferenceRoom | None = None,
    expanded: Fields | None = None,
) -> Any:
    """Return JSON with the value of `look_up`, which may raise or return LEFT_OUT, in place of each
    reference. `expanded`: the fields of the value that the kubelet expands. Raises
    ReferencesTooLargeError if there is not enough room, by default that of one patch.

    A text that is only a reference becomes the value, with its type. Inside a longer text, and in
    fields that are always texts (`is_text_field`), the value is written as JSON:
    `args: ["$(params.workers)"]` becomes `["4"]`, and so does `args: $(params.list)` for `[4]`.
    """
    if not may_have_reference(value):
        return value
    # a few references could insert a large value many times
    room = room or ReferenceRoom()

    def take_value(found: Reference) -> Any:
        found_value = look_up(found)
        return found_value if found_value is LEFT_OUT else room.take(found_value)

    root = {"": value}
    result = copy_json(root)
    left_out: set[int] = set()
    # Patches may be nested too deep for recursion. `own` and `outer` are the keys of a container
    # and of the one around it.
    work: list[tuple[Any, Any, str, str, Fields | None]] = []
    work.append((root, result, "", "", None if expanded is None else {"": expanded}))
    while work:
        source, made, own, outer, fields = work.pop()
        for key, each in source.items() if isinstance(source, dict) else enumerate(source):
            below = fields.get(key) if fields is not None and isinstance(key, str) else fields
            if isinstance(each, str):
                only = _REFERENCE.fullmatch(each) if each.startswith("$(") else None
                if only is not None:
                    found = take_value(parse_reference(only["path"]))
                    made[key] = protect_value(_as_field(found, key, own, outer), below)
                    # a variable without a value is not set at all
                    if found is LEFT_OUT and key == "value" and own == "env":
                        left_out.add(id(made))
                elif "$(" in each:
                    made[key] = _replace_in_text(each, take_value, below)
            elif isinstance(each, dict | list):
                names = (key, own) if isinstance(key, str) else (own, outer)
                work.append((each, made[key], *names, below))
    for _, inner in walk(result) if left_out else ():
        if isinstance(inner, dict) and isinstance(env := inner.get("env"), list):
            inner["env"] = [each for each in env if id(each) not in left_out]
    return result[""]


def _as_field(value: Any, key: str | int, own: str, outer: str) -> Any:
    """Return a value as the field `key` takes it: as a text, or a list or map of texts."""
    if value is LEFT_OUT:
        return ""
    if is_text_field(key, own, outer):
        return _to_text(value)
    # Kubernetes takes no numbers in `args`
    if isinstance(key, str) and isinstance(value, list) and is_text_field(0, key, own):
        return [_to_text(each) if _is_number(each) else each for each in value]
    if isinstance(key, str) and isinstance(value, dict) and is_text_field("", key, own):
        texts = {name: _to_text(each) for name, each in value.items() if _is_number(each)}
        return value | texts
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _to_text(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def may_have_reference(value: Any) -> bool:
    """Return whether any text in a JSON value may contain a reference, quickly."""
    try:
        return b"$(" in msgspec.json.encode(value)
    except UnicodeEncodeError:
        # half a surrogate pair is no JSON, and a slower search finds what there is
        return True


def measure_json(value: Any) -> int:
    """Return the bytes of a value as JSON, roughly if it has half characters, as YAML may."""
    try:
        return len(msgspec.json.encode(value))
    except UnicodeEncodeError:
        # no JSON, but also not free
        return len(ascii(value))


def _replace_in_text(
    text: str, look_up: Callable[[Reference], Any], expanded: Fields | None
) -> str:
    pieces, end = list[Piece](), 0
    for found in _REFERENCE.finditer(text):
        pieces.append(Piece(text[end : found.start()], is_inserted=False))
        end = found.end()
        if found["path"] is None:
            pieces.append(Piece("$(", is_inserted=False))
            continue
        value = look_up(parse_reference(found["path"]))
        inserted = "" if value is LEFT_OUT else _to_text(value)
        pieces.append(Piece("null" if inserted is None else inserted, is_inserted=True))
    pieces.append(Piece(text[end:], is_inserted=False))
    if expanded == _EXPANDED:
        return join_protected(pieces)
    return "".join(piece.text for piece in pieces)


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
