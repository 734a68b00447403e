"""Merges a step's patch onto a template's spec, as Kubernetes' strategic merge does.

It decides nothing about whether the result makes sense (`core.job_rules` does) and never raises.

What is merged how is one table, `JOB_SPEC`, by path: `volumes` of the job merge by mountPath,
`volumes` of a pod by name. Where Kubernetes leaves a case open or to its client, we do this:

- A list that is in the table merges by key; elements it has not are appended in the patch's order.
  Any other list is replaced.
- A key that a list holds several times (tolerations may, and env, where the last one counts): the
  patch's elements with that key pair off with the last of them; those that find no partner are
  appended.
- A task or container without a name, alone in the patch's list, means the only one of the template.
  Any other element without its key pairs with nothing and is appended; `patch_violations` refuses
  it. In the template a task without a name has the name that Volcano will give it
  (`default<index>`). A toleration without a key has the key "", a port without a protocol TCP.
- `null` removes a key, and is never carried into the result.
- Directives: `$patch: replace` in a map empties it first, in an element of a merged list the whole
  list is replaced by the patch's other elements; `$patch: delete` empties a map, or removes the
  elements of that key; `$retainKeys` drops every other key of the map first.
- Of keys that exclude each other (the source of a volume, value and valueFrom of a variable) the
  patch's choice removes the template's, as `kubectl apply` does it by `$retainKeys`.
- Types that do not go together (a map onto a list): the patch's value stands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobflow.core.json_values import copy_json
from jobflow.core.violations import Reason, Violation, join_path

PATCH = "$patch"
RETAIN_KEYS = "$retainKeys"


@dataclass(frozen=True, slots=True)
class Shape:
    """How what stands at one path is merged."""

    fields: Mapping[str, Shape] = field(default_factory=dict)
    """The maps and lists below that have a say of their own; of a list: those of its elements."""
    keys: tuple[str, ...] = ()
    """Of a list: the fields whose values name an element; none: the list is replaced."""
    defaults: tuple[str | None, ...] = ()
    """Of a list: what a missing key counts as, one for each of `keys`; None: there is no key."""
    one_of: frozenset[str] | None = None
    """Fields of a map that exclude each other; empty: all but the keys do."""
    default_name: str = ""
    """Of a list: what the name of an element without one starts with; its index follows."""
    takes_lone: bool = False
    """Of a list: whether an element without a name, alone in its patch, means the only one."""

    def below(self, name: str) -> Shape:
        """The shape of a field; the plain one where the table says nothing."""
        return self.fields.get(name, PLAIN)


PLAIN = Shape()


def _by(
    *keys: str,
    fields: Mapping[str, Shape] | None = None,
    defaults: tuple[str | None, ...] | None = None,
    one_of: frozenset[str] | None = None,
    default_name: str = "",
    takes_lone: bool = False,
) -> Shape:
    keys_alone = defaults or (None,) * len(keys)
    return Shape(fields or {}, keys, keys_alone, one_of, default_name, takes_lone)


_CONTAINERS = _by(
    "name",
    fields={
        "env": _by("name", one_of=frozenset({"value", "valueFrom"})),
        "ports": _by("containerPort", "protocol", defaults=(None, "TCP")),
        "volumeMounts": _by("mountPath"),
        "volumeDevices": _by("devicePath"),
        "resources": Shape({"claims": _by("name")}),
    },
    takes_lone=True,
)

_POD_SPEC = Shape(
    {
        "containers": _CONTAINERS,
        "initContainers": _CONTAINERS,
        "ephemeralContainers": _CONTAINERS,
        "volumes": _by("name", one_of=frozenset()),
        "tolerations": _by("key", defaults=("",)),
        "imagePullSecrets": _by("name"),
        "topologySpreadConstraints": _by("topologyKey", "whenUnsatisfiable"),
        "hostAliases": _by("ip"),
        "resourceClaims": _by("name"),
        "schedulingGates": _by("name"),
    }
)

JOB_SPEC = Shape(
    {
        "tasks": _by(
            "name",
            fields={"template": Shape({"spec": _POD_SPEC})},
            default_name="default",
            takes_lone=True,
        ),
        "volumes": _by("mountPath", one_of=frozenset({"volumeClaim", "volumeClaimName"})),
    }
)
"""The lists of a vcjob spec that merge by key. Keys are those of Kubernetes' own types
(patchMergeKey, listMapKey in k8s.io/api/core/v1), tolerations by key as JobFlow promises."""

_Key = tuple[str | int, ...] | None
_Work = list[tuple[dict[str, Any], Mapping[str, Any], Shape]]


def merge(spec: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`patch` merged onto `spec`, a vcjob spec, as a new object.

    Neither is changed and the result shares no map and no list with either of them. Any JSON will
    do, however deep: nothing here recurses.
    """
    return overlaid(copy_json(spec), patch)


def overlaid(spec: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The same for those who only read it: what the patch leaves alone it shares with `spec`."""
    result = dict(spec)
    work: _Work = [(result, patch, JOB_SPEC)]
    while work:
        _apply(*work.pop(), work)
    return result


def _apply(target: dict[str, Any], patch: Mapping[str, Any], shape: Shape, work: _Work) -> None:
    """Bring `target` (ours to change) level with `patch`; maps further down are left as work."""
    _direct(target, patch, shape)
    if patch.get(PATCH) == "delete":
        return
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
            target[name] = _list(
                old if isinstance(old, list) else [], value, shape.below(name), work
            )
        else:
            target[name] = value


def _direct(target: dict[str, Any], patch: Mapping[str, Any], shape: Shape) -> None:
    """Take out of `target` what the patch's directives and choices exclude."""
    if PATCH in patch and patch[PATCH] in ("replace", "delete"):
        target.clear()
    if RETAIN_KEYS in patch and isinstance(retained := patch[RETAIN_KEYS], list):
        _drop(target, [name for name in target if name not in retained])
    if shape.one_of is not None and target:
        rivals = shape.one_of or (target.keys() | patch.keys()) - {PATCH, RETAIN_KEYS, *shape.keys}
        if any(patch[name] is not None for name in rivals & patch.keys()):
            _drop(target, [name for name in target if name in rivals and name not in patch])


def _drop(target: dict[str, Any], names: Sequence[str]) -> None:
    for name in names:
        del target[name]


def _list(old: list[Any], patch: list[Any], shape: Shape, work: _Work) -> list[Any]:
    """A new list: `old` with `patch` merged in by the shape's keys, or just the patch."""
    if not shape.keys:
        return _replaced(patch, work)
    held = [(_key(value, shape, index), _own(value)) for index, value in enumerate(old)]
    changes = [(_key(value, shape, None), value) for value in patch]
    if any(isinstance(value, dict) and PATCH in value for value in patch):
        held, changes = _directed(held, changes)
    merged = [value for _, value in held]
    if len(held) == 1 and isinstance(merged[0], dict) and is_lone(patch, shape):
        work.append((merged[0], patch[0], shape))
        return merged
    partners = _partners(held, changes)
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
    """Whether a patch's list has one element, a task or container without a name: it means the only
    one that the template has."""
    return (
        shape.takes_lone
        and len(patch) == 1
        and isinstance(patch[0], dict)
        and "name" not in patch[0]
        and PATCH not in patch[0]
    )


def _own(value: Any) -> Any:
    """An element that is ours to change."""
    return value.copy() if isinstance(value, dict) else value


_Keyed = list[tuple[_Key, Any]]


def _directed(held: _Keyed, changes: _Keyed) -> tuple[_Keyed, _Keyed]:
    """Both lists after the directives among the patch's elements; what is left is content."""
    directives = [
        value.get(PATCH) if isinstance(value, dict) else None  # of each element, None: content
        for _, value in changes
    ]
    if "replace" in directives:
        held = []
    gone = {key for (key, _), said in zip(changes, directives, strict=True) if said == "delete"}
    content = [
        change
        for change, said in zip(changes, directives, strict=True)
        if said not in ("replace", "delete")
    ]
    return [(key, value) for key, value in held if key is None or key not in gone], content


def _partners(held: _Keyed, changes: _Keyed) -> dict[_Key, Iterator[dict[str, Any]]]:
    """For each key of the patch the elements it pairs off with: the last ones, in order."""
    wanted: dict[_Key, int] = {}
    for key, _ in changes:
        if key is not None:
            wanted[key] = wanted.get(key, 0) + 1
    found: dict[_Key, list[dict[str, Any]]] = {}
    for key, value in held:
        if key in wanted:
            found.setdefault(key, []).append(value)
    return {key: iter(values[max(0, len(values) - wanted[key]) :]) for key, values in found.items()}


def _key(value: Any, shape: Shape, index: int | None) -> _Key:
    """What names this element in its list; None where a key is missing or no text or integer.

    `index` is where it stands in the template, None for an element of the patch.
    """
    if not isinstance(value, dict):
        return None
    parts: list[str | int] = []
    for name, default in zip(shape.keys, shape.defaults, strict=True):
        part = value.get(name)
        if part is None:
            part = default
        if shape.default_name and not part:
            part = None if index is None else f"{shape.default_name}{index}"
        if isinstance(part, bool) or not isinstance(part, (str, int)):
            return None
        parts.append(part)
    return tuple(parts)


def _replaced(patch: list[Any], work: _Work) -> list[Any]:
    """A list of the patch as a new one of ours; the maps in it are left as work."""
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
    """Everything in a patch that could not be merged as it was meant: elements that lack the key
    they are merged by, directives that this merge does not have. Never raises on any JSON.
    """
    work: deque[tuple[Any, Shape, str]] = deque([(patch, JOB_SPEC, path)])
    while work:
        node, shape, at = work.popleft()
        if isinstance(node, dict):
            yield from _directive_violations(node, at)
            work.extend((v, shape.below(k), join_path(at, k)) for k, v in node.items() if _holds(v))
        else:
            has_keys = bool(shape.keys) and not is_lone(node, shape)
            for index, value in enumerate(node):
                if isinstance(value, dict) and has_keys:
                    yield from _element_violations(value, shape, f"{at}[{index}]")
                if _holds(value):
                    work.append((value, shape, f"{at}[{index}]"))


def _holds(value: Any) -> bool:
    return isinstance(value, (dict, list))


def _directive_violations(node: dict[str, Any], at: str) -> Iterator[Violation]:
    for name, value in node.items():
        if not name.startswith("$"):
            continue
        if name == PATCH:
            if value not in ("replace", "delete", "merge"):
                detail = 'supported values: "replace", "delete", "merge"'
                yield Violation(join_path(at, name), Reason.NOT_SUPPORTED, value, detail)
        elif name != RETAIN_KEYS:
            detail = f"no directive that a patch may use; use {PATCH} or {RETAIN_KEYS}"
            yield Violation(join_path(at, name), Reason.FORBIDDEN, value, detail)
        elif not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            detail = "must be a list of the field names to keep"
            yield Violation(join_path(at, name), Reason.TYPE_INVALID, value, detail)


def _element_violations(element: dict[str, Any], shape: Shape, at: str) -> Iterator[Violation]:
    if element.get(PATCH) == "replace":
        if len(element) > 1:
            detail = (
                f"replaces the whole list, so it must be an element of its own (`- {PATCH}: "
                "replace`), beside those that the list is to have"
            )
            yield Violation(f"{at}.{PATCH}", Reason.FORBIDDEN, "replace", detail)
        return
    if _key(element, shape, None) is not None:
        return
    for name, default in zip(shape.keys, shape.defaults, strict=True):
        if element.get(name) in (None, "") and default is None:
            detail = f"elements of this list are merged by their {name}: say which one is meant"
            yield Violation(f"{at}.{name}", Reason.REQUIRED, None, detail)
