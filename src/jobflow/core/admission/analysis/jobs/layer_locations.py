"""Locations in layers: of the faults of a merged spec, of fields that no vcjob has, of elements
that no template has, and of values that only a run knows.

Each is found in time proportional to its path, because a flow may have many faults.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from jobflow.core.admission.analysis.jobs.resolved_specs import ResolvedLayer, ResolvedSpec, is_open
from jobflow.core.admission.volcano.job_view import mapping
from jobflow.core.cel.references import may_have_reference
from jobflow.core.manifests.job_fields import misfits
from jobflow.core.manifests.layers import CONTAINER_PATH, Rank, arguments_in
from jobflow.core.manifests.strategic_merge import (
    JOB_SPEC,
    PATCH,
    MergeKey,
    Shape,
    is_lone,
    merge_key,
)
from jobflow.core.violations import (
    MAX_FINDINGS,
    FieldWarning,
    Verdict,
    Violation,
    join_path,
    split_first_key,
)

_INDEX = re.compile(r"\[(\d+)\]")

_Map = Mapping[str, Any]
F = TypeVar("F", Violation, FieldWarning)


@dataclass(slots=True)
class LayerLocations:
    """Locations in one layer of what it changed."""

    layer: ResolvedLayer
    result: _Map
    _origins: dict[int, Mapping[int, int]] = field(default_factory=dict)
    """By id of a list of the result: index in it -> index in the layer's list."""

    def in_layer(self, fault: F) -> F:
        """Return a fault of the merged spec at its location in the layer, or as near as the layer
        goes; then the message names the location in the merged spec."""
        path, is_exact = self.locate(fault.path)
        detail = fault.detail if is_exact else _in_merged(fault)
        return as_written(replace(fault, path=path, detail=detail), self.layer)

    def at_root(self, fault: Violation) -> Violation:
        """Return a fault of the merged spec at the layer as a whole."""
        at = self.layer.written_path(self.layer.path)
        return replace(fault, path=at, detail=_in_merged(fault))

    def locate(self, path: str) -> tuple[str, bool]:
        """Return the path in the layer, as far as it goes, and whether it goes all the way."""
        if self.layer.layer.rank is Rank.ARGUMENTS:
            return self._locate_argument(path)
        ours: Any = self.layer.content
        merged: Any = self.result
        shape, at, rest = JOB_SPEC, self.layer.path, path
        while rest:
            missing = rest
            key, rest = _first_key(rest, ours, merged)
            is_work = self.layer.layer.rank is Rank.WORK
            # the spec comes from work, so it lacks the field; a null, or a value of another type,
            # has no fields that it could lack
            if key is None and is_work and isinstance(ours, dict) and "[" not in missing:
                field, dot, _ = missing.removeprefix(".").partition(".")
                return f"{at}.{field}", not dot
            mine = key if isinstance(key, str) else self._origin(ours, merged, key, shape)
            if mine is None or not _has(ours, mine):
                return at, False
            ours, merged = ours[mine], _at(merged, key)
            at = join_path(at, mine)
            shape = shape.below(key) if isinstance(key, str) else shape
        return at, True

    def _locate_argument(self, path: str) -> tuple[str, bool]:
        arguments = arguments_in(self.layer.content)
        found = _CONTAINER.match(path)
        if found is None:
            return self.layer.path, False
        in_ours = f"{self.layer.path}{CONTAINER_PATH}"
        rest = path[found.end() :]
        if (entry := _ENV.match(rest)) is not None:
            task = self.result["tasks"][int(found[1])]
            container = task["template"]["spec"][found[2]][int(found[3])]
            variable = container["env"][int(entry[1])]
            name = variable.get("name") if isinstance(variable, dict) else None
            for i, ours in enumerate(arguments.get("env") or ()):
                if ours["name"] == name:
                    return f"{in_ours}.env[{i}]{rest[entry.end() :]}", True
        is_first = found[1] == found[3] == "0" and found[2] == "containers"
        if is_first and rest[1:].partition(".")[0].partition("[")[0] in arguments:
            return in_ours + rest, True
        return self.layer.path, False

    def depth(self, path: str) -> int:
        return len(path) - len(self.layer.path)

    def _origin(self, ours: Any, merged: Any, index: int | None, shape: Shape) -> int | None:
        if index is None or not isinstance(ours, list) or not isinstance(merged, list):
            return None
        if not shape.keys:
            return index if index < min(len(ours), len(merged)) else None
        if self.layer.layer.rank is not Rank.WORK:
            if id(merged) not in self._origins:
                self._origins[id(merged)] = _origins(ours, merged, shape)
            return self._origins[id(merged)].get(index)
        # elements of the base come first, in their order, but a patch may have removed some
        key = merge_key(merged[index], shape, index) if index < len(merged) else None
        if index < len(ours) and merge_key(ours[index], shape, index) == key:
            return index
        if key is None:
            return None
        return next((j for j, each in enumerate(ours) if merge_key(each, shape, j) == key), None)


_CONTAINER = re.compile(
    r"\.?tasks\[(\d+)\]\.template\.spec\.(containers|initContainers)\[(\d+)\](?=[.\[])"
)
_ENV = re.compile(r"\.env\[(\d+)\]")


def locations_of(resolved: ResolvedSpec) -> list[LayerLocations]:
    """Return the locations in each layer of a spec, the innermost (merged last) first."""
    return [LayerLocations(layer, resolved.spec) for layer in reversed(resolved.layers)]


def innermost(layers: Sequence[LayerLocations], fault: F) -> F:
    """Return a fault at its location in the first layer that has it all, or else the deepest."""
    located = [layer.locate(fault.path) for layer in layers]
    for layer, (_, is_exact) in zip(layers, located, strict=True):
        if is_exact:
            return layer.in_layer(fault)
    depths = [layer.depth(path) for layer, (path, _) in zip(layers, located, strict=True)]
    return layers[depths.index(max(depths))].in_layer(fault)


def _in_merged(fault: Violation | FieldWarning) -> str:
    return f"{fault.detail} (at {fault.path.removeprefix('.')} in the merged spec)"


def as_written(fault: F, layer: ResolvedLayer) -> F:
    """Return a fault, whose path is one in the content of the layer, at a location that the user
    wrote: inside the value of a reference, that is the reference."""
    at, rest = layer.path, fault.path.removeprefix(layer.path)
    node: Any = layer.written
    while rest and not isinstance(node, str):
        key, rest = _first_key(rest, node, node)
        if key is None or not _has(node, key) or (isinstance(key, int) and key >= len(node)):
            return replace(fault, path=layer.written_path(fault.path))
        at, node = join_path(at, key), _at(node, key)
    if not rest:
        return replace(fault, path=layer.written_path(fault.path))
    detail = f"{fault.detail} (at {rest.removeprefix('.')} of its value)"
    return replace(fault, path=layer.written_path(at), detail=detail)


def _origins(ours: Sequence[Any], merged: Sequence[Any], shape: Shape) -> Mapping[int, int]:
    """Map indices of the merged list to those of the patch's. An element that the patch changed or
    added comes last among the elements of its key (or without one), in the patch's order."""
    # a lone element without a name means the only one of the template
    if len(merged) == 1 and is_lone(ours, shape):
        return {0: 0}
    indices: dict[MergeKey, list[int]] = {}
    for i, element in enumerate(merged):
        indices.setdefault(merge_key(element, shape), []).append(i)
    origins = {}
    # from the end, because the patch's elements come last among those of their key
    for j in range(len(ours) - 1, -1, -1):
        if isinstance(ours[j], dict) and ours[j].get(PATCH) in ("replace", "delete"):
            continue
        if candidates := indices.get(merge_key(ours[j], shape)):
            origins[candidates.pop()] = j
    return origins


def _first_key(path: str, ours: Any, merged: Any) -> tuple[str | int | None, str]:
    """Return the first key or index of a path and the rest of it; None if these maps or lists do
    not have it. A key may hold dots and brackets itself; the longest one matches."""
    if index := _INDEX.match(path):
        if isinstance(ours, list) or isinstance(merged, list):
            return int(index[1]), path[index.end() :]
    maps = [node for node in (ours, merged) if isinstance(node, dict)]
    for key, rest in split_first_key(path):
        if any(key in node for node in maps):
            return key, rest
    return None, ""


def _has(node: Any, at: str | int) -> bool:
    return at in node if isinstance(node, dict) else isinstance(at, int)


def _at(node: Any, key: str | int | None) -> Any:
    if isinstance(node, dict):
        return node.get(key)
    return node[key] if isinstance(node, list) and isinstance(key, int) else None


_TASKS = JOB_SPEC.fields["tasks"]
_POD = _TASKS.fields["template"].fields["spec"].fields
_CONTAINER_LISTS = {"containers": "container", "initContainers": "init container"}


class UnknownElement(NamedTuple):
    """An element of a patch's list that the template's list does not have."""

    path: str
    word: str
    """`task`, `container` or `init container`."""
    name: str | None
    """None: the patch does not name it, and the template's list has several elements."""
    known: list[str]
    """Names in the template's list; at least one."""


class _Pair(NamedTuple):
    """An element of a patch's list, and the element of the template that it changes, if any."""

    path: str
    element: _Map
    changed: _Map | None
    known: list[str]


def unknown_elements(resolved: ResolvedSpec) -> Iterator[tuple[ResolvedLayer, UnknownElement]]:
    base = resolved.base
    for change in resolved.changes:
        if change.layer.rank >= Rank.PATCH and PATCH not in change.content:
            for pair, word in _changed_elements(base, change):
                name = pair.element.get("name")
                is_known = pair.changed is not None or not pair.known
                if not is_known and (name is None or isinstance(name, str)) and not is_open(name):
                    yield change, UnknownElement(pair.path, word, name, pair.known)
        if change is not resolved.changes[-1]:
            base = change.layer.merge(base, change.content)


def _changed_elements(base: _Map, patch: ResolvedLayer) -> Iterator[tuple[_Pair, str]]:
    """Yield the tasks of a patch, and the containers of those that `base` has."""
    for task in _pairs(base, patch.content, patch.path, "tasks", _TASKS):
        yield task, "task"
        template = mapping(task.element, "template")
        pod = mapping(template, "spec")
        if task.changed is None or PATCH in template or PATCH in pod:
            continue
        base_pod = mapping(mapping(task.changed, "template"), "spec")
        for key, word in _CONTAINER_LISTS.items():
            pairs = _pairs(base_pod, pod, f"{task.path}.template.spec", key, _POD[key])
            yield from ((container, word) for container in pairs)


def _pairs(base: _Map, patch: _Map, path: str, key: str, shape: Shape) -> Iterator[_Pair]:
    theirs, ours = base.get(key), patch.get(key)
    if not isinstance(theirs, list) or not isinstance(ours, list):
        return
    if any(isinstance(each, dict) and each.get(PATCH) == "replace" for each in ours):
        return
    by_name = {
        each.get("name") or f"{shape.default_name}{i}": each
        for i, each in enumerate(theirs)
        if isinstance(each, dict) and isinstance(each.get("name") or "", str)
    }
    # a container without a name has no default one
    known = [name for name in by_name if name]
    lone = theirs[0] if len(theirs) == 1 and is_lone(ours, shape) else None
    changed = lone if isinstance(lone, dict) else None
    for i, element in enumerate(ours):
        if isinstance(element, dict) and PATCH not in element:
            name = element.get("name")
            named = by_name.get(name) if isinstance(name, str) else None
            yield _Pair(f"{path}.{key}[{i}]", element, named if changed is None else changed, known)


def misfits_of_layers(layers: Iterable[ResolvedLayer]) -> list[tuple[ResolvedLayer, Verdict]]:
    """Return the misfits of each layer, until there are about MAX_FINDINGS."""
    found: list[tuple[ResolvedLayer, Verdict]] = []
    wrong = unknown = 0
    for layer in layers:
        of_layer = misfits(
            layer.content,
            layer.path,
            is_open=is_open,
            has_directives=layer.layer.rank >= Rank.PATCH,
            unknown_before=unknown,
        )
        found.append((layer, of_layer))
        wrong += len(of_layer.violations)
        unknown += len(of_layer.field_warnings)
        # no verdict shows more
        if wrong >= MAX_FINDINGS:
            break
    return found


def open_paths(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the JSON paths in a merged spec of values that only a run knows. If the merge key of a
    list element is open, so is the whole element: it may turn out to be another one."""
    work: list[tuple[Any, Shape, str]] = [(spec, JOB_SPEC, "")]
    while work:
        node, shape, at = work.pop()
        if isinstance(node, dict):
            if any(is_open(node.get(key)) for key in shape.keys):
                yield at
            else:
                work += [
                    (value, shape.below(key), join_path(at, key)) for key, value in node.items()
                ]
        elif isinstance(node, list):
            work += [
                (value, shape, f"{at}[{i}]")
                for i, value in enumerate(node)
                if may_have_reference(value)
            ]
        elif is_open(node):
            yield at
