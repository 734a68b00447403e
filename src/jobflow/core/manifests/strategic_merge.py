"""Kubernetes' strategic merge of a step's patch onto a template's spec. Never raises on any JSON.

The table `JOB_SPEC` has the merge keys by path: `volumes` of the job merge by mountPath, `volumes`
of a pod by name. Cases that Kubernetes leaves open, or to its client:

- A list in the table merges by key; new elements are appended in the patch's order. Any other list
  is replaced.
- If a list has a key several times (tolerations may, and env, whose last one counts), the patch's
  elements with that key change the last of them; elements in excess are appended.
- A task or container without a name, alone in the patch's list, means the only one of the
  template. Any other element without its key is appended; `patch_violations` refuses it. In the
  template a task without a name has Volcano's default name (`default<index>`). A toleration
  without a key has the key "", a port without a protocol TCP.
- `null` removes a key; the result never has it.
- Directives: `$patch: replace` in a map empties it first, in an element of a merged list it
  replaces the whole list by the patch's other elements; `$patch: delete` empties a map, or removes
  the elements of that key; `$retainKeys` first drops every other key of the map.
- If keys exclude each other (the source of a volume, value and valueFrom of a variable), the
  patch's key removes the template's, like `kubectl apply` with `$retainKeys`.
- If the types differ (a map onto a list), the patch's value wins.

Libraries need the OpenAPI document of Kubernetes at run time, or merge by RFC 7386, which replaces
every list.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobflow.core.json_values import copy_json
from jobflow.core.violations import Reason, Violation, join_path

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"


@dataclass(frozen=True, slots=True)
class Shape:
    """Merge strategy of the value at one path."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    """Strategies of maps and lists below; for a list, below its elements."""
    keys: Mapping[str, str | None] = field(default_factory=dict)
    """Merge keys of a list and their defaults, if any; empty: the list is replaced."""
    one_of: frozenset[str] | None = None
    """Fields of a map that exclude each other; empty: all but the keys do."""
    default_name: str = ""
    """Prefix, before the index, of the default name of a list's element."""
    takes_lone: bool = False
    """Whether an element without a name, alone in the patch's list, means the only one."""

    def below(self, name: str) -> Shape:
        return self.fields.get(name, PLAIN)


PLAIN = Shape()
_BY_NAME = Shape(keys={"name": None})
CONTAINER = Shape(
    {
        "env": Shape(keys={"name": None}, one_of=frozenset({"value", "valueFrom"})),
        "ports": Shape(keys={"containerPort": None, "protocol": "TCP"}),
        "volumeMounts": Shape(keys={"mountPath": None}),
        "volumeDevices": Shape(keys={"devicePath": None}),
        "resources": Shape({"claims": _BY_NAME}),
    },
    {"name": None},
    takes_lone=True,
)
"""The shapes of a list of containers, and of the fields of one."""
_POD_SPEC = Shape(
    {
        **dict.fromkeys(("containers", "initContainers", "ephemeralContainers"), CONTAINER),
        **dict.fromkeys(("imagePullSecrets", "resourceClaims", "schedulingGates"), _BY_NAME),
        "volumes": Shape(keys={"name": None}, one_of=frozenset()),
        "tolerations": Shape(keys={"key": ""}),
        "topologySpreadConstraints": Shape(keys={"topologyKey": None, "whenUnsatisfiable": None}),
        "hostAliases": Shape(keys={"ip": None}),
    }
)
JOB_SPEC = Shape(
    {
        "tasks": Shape(
            {"template": Shape({"spec": _POD_SPEC})},
            {"name": None},
            default_name="default",
            takes_lone=True,
        ),
        "volumes": Shape(
            keys={"mountPath": None}, one_of=frozenset({"volumeClaim", "volumeClaimName"})
        ),
    }
)
"""Lists of a vcjob spec that merge by key. The keys are those of Kubernetes' types (patchMergeKey,
listMapKey in k8s.io/api/core/v1); tolerations merge by key in JobFlow."""

MergeKey = tuple[str | int, ...] | None
_Work = list[tuple[dict[str, Any], Mapping[str, Any], Shape]]


def merge(spec: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `patch` onto `spec`, a vcjob spec, into a new object that shares nothing with them."""
    return overlaid(copy_json(spec), patch)


def overlaid(
    spec: Mapping[str, Any], patch: Mapping[str, Any], shape: Shape = JOB_SPEC
) -> dict[str, Any]:
    """Merge into a new object that is only read: it shares unpatched parts with `spec`."""
    result = dict(spec)
    work: _Work = [(result, patch, shape)]
    while work:
        _apply(*work.pop(), work)
    return result


def _apply(target: dict[str, Any], patch: Mapping[str, Any], shape: Shape, work: _Work) -> None:
    # maps further down become work, because patches may be nested too deep for recursion
    directive = patch.get(PATCH)
    if directive in ("replace", "delete"):
        target.clear()
    if isinstance(retained := patch.get(RETAIN_KEYS), list):
        for name in [name for name in target if name not in retained]:
            del target[name]
    # a field of the patch removes those of the template that exclude it
    if shape.one_of is not None and target:
        rivals = shape.one_of or (target.keys() | patch.keys()) - {PATCH, RETAIN_KEYS, *shape.keys}
        if any(patch[name] is not None for name in rivals & patch.keys()):
            for name in [name for name in target if name in rivals and name not in patch]:
                del target[name]
    if directive == "delete":
        return  # the other keys of the patch do not matter
    for name, value in patch.items():
        if name in (PATCH, RETAIN_KEYS):
            continue
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            old = target.get(name)
            target[name] = made = dict(old) if isinstance(old, dict) else {}
            work.append((made, value, shape.below(name)))
        elif isinstance(value, list):
            old = target.get(name)
            old = old if isinstance(old, list) else []
            target[name] = _list(old, value, shape.below(name), work)
        else:
            target[name] = value


def _list(old: list[Any], patch: list[Any], shape: Shape, work: _Work) -> list[Any]:
    """Return a new list: `old` with `patch` merged in by key, or a copy of the patch."""
    if not shape.keys:
        return _replaced(patch, work)
    held = [
        (merge_key(value, shape, index), value.copy() if isinstance(value, dict) else value)
        for index, value in enumerate(old)
    ]
    changes = [(merge_key(value, shape), value) for value in patch]
    if any(isinstance(value, dict) and PATCH in value for value in patch):
        directives = [value.get(PATCH) if isinstance(value, dict) else None for value in patch]
        pairs = list(zip(changes, directives, strict=True))
        deleted = {key for (key, _), directive in pairs if directive == "delete"} - {None}
        held = [] if "replace" in directives else [each for each in held if each[0] not in deleted]
        # directives among the elements are none of the content
        changes = [each for each, directive in pairs if directive not in ("replace", "delete")]
    merged = [value for _, value in held]
    if len(held) == 1 and isinstance(merged[0], dict) and is_lone(patch, shape):
        work.append((merged[0], patch[0], shape))
        return merged
    # an element of the patch changes the last elements with its key, in order
    wanted = Counter(key for key, _ in changes)
    found: dict[MergeKey, list[dict[str, Any]]] = {}
    for key, value in held:
        if key is not None and key in wanted:
            found.setdefault(key, []).append(value)
    partners = {key: iter(values[-wanted[key] :]) for key, values in found.items()}
    for key, value in changes:
        partner = next(partners[key], None) if key in partners else None
        if partner is None and isinstance(value, dict):
            merged.append(partner := {})
        if partner is None:
            merged.extend(_replaced([value], work))
        else:
            work.append((partner, value, shape))
    return merged


def is_lone(patch: Sequence[Any], shape: Shape) -> bool:
    """Whether a patch's list means the only task or container of the template: one, unnamed."""
    return (
        shape.takes_lone
        and len(patch) == 1
        and isinstance(patch[0], dict)
        and "name" not in patch[0]
        and PATCH not in patch[0]
    )


def merge_key(value: Any, shape: Shape, index: int | None = None) -> MergeKey:
    """Return the merge key of an element; None if a part is missing, or no text or integer.
    `index`: its index in the template; None for an element of the patch."""
    if not isinstance(value, dict):
        return None
    parts: list[str | int] = []
    for name, default in shape.keys.items():
        part = value.get(name)
        # a null counts as missing
        if part is None:
            part = default
        if shape.default_name and not part:
            part = None if index is None else f"{shape.default_name}{index}"
        if isinstance(part, bool) or not isinstance(part, (str, int)):
            return None
        parts.append(part)
    return tuple(parts)


def _replaced(patch: list[Any], work: _Work) -> list[Any]:
    # the maps in it are patched onto nothing, so that they lose their nulls and directives
    root = patch.copy()
    lists = [root]
    while lists:
        values = lists.pop()
        for index, value in enumerate(values):
            if isinstance(value, dict):
                target: dict[str, Any] = {}
                values[index] = target
                work.append((target, value, PLAIN))
            elif isinstance(value, list):
                values[index] = copy = value.copy()
                lists.append(copy)
    return root


def patch_violations(patch: Mapping[str, Any], path: str) -> Iterator[Violation]:
    """Yield the unknown directives of a patch, and its elements without their merge key."""
    work: deque[tuple[Any, Shape, str]] = deque([(patch, JOB_SPEC, path)])
    while work:
        node, shape, at = work.popleft()
        # elements of lists that are replaced need no key
        has_keys = isinstance(node, list) and bool(shape.keys) and not is_lone(node, shape)
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            is_directive = str(key).startswith("$")
            if not is_directive and not isinstance(value, dict | list):
                continue
            place = join_path(at, key)
            if key == PATCH:
                if value not in ("replace", "delete", "merge"):
                    detail = 'supported values: "replace", "delete", "merge"'
                    yield Violation(place, Reason.NOT_SUPPORTED, value, detail)
            elif is_directive and key != RETAIN_KEYS:
                detail = f"unknown directive; use {PATCH} or {RETAIN_KEYS}"
                yield Violation(place, Reason.FORBIDDEN, value, detail)
            elif is_directive:
                if not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
                    detail = "must be a list of the field names to keep"
                    yield Violation(place, Reason.TYPE_INVALID, value, detail)
            elif isinstance(value, dict) and has_keys:
                yield from _element_violations(value, shape, place)
            if isinstance(value, dict | list):
                work.append((value, shape.below(key) if isinstance(key, str) else shape, place))


def _element_violations(element: dict[str, Any], shape: Shape, at: str) -> Iterator[Violation]:
    # it has no key, because it is about the whole list
    if element.get(PATCH) == "replace":
        if len(element) > 1:
            detail = (
                f"replaces the whole list, so it must be an element of its own (`- {PATCH}: "
                "replace`), beside the elements of the new list"
            )
            yield Violation(f"{at}.{PATCH}", Reason.FORBIDDEN, "replace", detail)
        return
    if merge_key(element, shape) is not None:
        return
    for name, default in shape.keys.items():
        if element.get(name) in (None, "") and default is None:
            detail = f"this list merges by {name}; set the {name} of the element to change"
            yield Violation(f"{at}.{name}", Reason.REQUIRED, None, detail)
