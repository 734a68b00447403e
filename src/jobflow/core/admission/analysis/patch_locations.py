"""Locations in patches: of the faults of a merged spec, and of elements that no template has.

Each is found in time proportional to its path, because a flow may have many faults.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from jobflow.core.admission.analysis.resolved_specs import ResolvedPatch, ResolvedSpec, is_open
from jobflow.core.admission.volcano.job_view import mapping
from jobflow.core.manifests.strategic_merge import (
    JOB_SPEC,
    PATCH,
    MergeKey,
    Shape,
    is_lone,
    merge_key,
    overlaid,
)
from jobflow.core.violations import FieldWarning, Violation, join_path, split_first_key

_INDEX = re.compile(r"\[(\d+)\]")

_Map = Mapping[str, Any]
F = TypeVar("F", Violation, FieldWarning)


@dataclass(slots=True)
class PatchLocations:
    """Locations in one patch, which has fields as in ResolvedPatch, of what it changed."""

    content: _Map
    result: _Map
    """The merged spec."""
    path: str
    written: _Map
    _origins: dict[int, Mapping[int, int]] = field(default_factory=dict)
    """By id of a list of the result: index in it -> index in the patch's list."""

    def in_patch(self, fault: Violation) -> Violation:
        """Return a fault of the merged spec at its location in the patch, or as near as the patch
        goes; then the message names the location in the merged spec."""
        path, is_exact = self.locate(fault)
        detail = fault.detail if is_exact else _in_merged(fault)
        return as_written(replace(fault, path=path, detail=detail), self.path, self.written)

    def at_root(self, fault: Violation) -> Violation:
        """Return a fault of the merged spec at the patch as a whole."""
        return replace(fault, path=self.path, detail=_in_merged(fault))

    def locate(self, fault: Violation) -> tuple[str, bool]:
        """Return the JSON path, as far as the patch goes, and whether that is all the way."""
        ours: Any = self.content
        merged: Any = self.result
        shape, path, rest = JOB_SPEC, self.path, fault.path
        while rest:
            key, rest = _first_key(rest, ours, merged)
            at = key if isinstance(key, str) else self._origin(ours, merged, key, shape)
            if at is None or not _has(ours, at):
                return path, False
            ours, merged = ours[at], _at(merged, key)
            path = join_path(path, at)
            shape = shape.below(key) if isinstance(key, str) else shape
        return path, True

    def depth(self, path: str) -> int:
        """Return how far a path goes into the patch."""
        return len(path) - len(self.path)

    def _origin(self, ours: Any, merged: Any, index: int | None, shape: Shape) -> int | None:
        if index is None or not isinstance(ours, list) or not isinstance(merged, list):
            return None
        if not shape.keys:
            return index if index < min(len(ours), len(merged)) else None
        origins = self._origins.get(id(merged))
        if origins is None:
            origins = self._origins[id(merged)] = _origins(ours, merged, shape)
        return origins.get(index)


def locations_of(resolved: ResolvedSpec) -> list[PatchLocations]:
    """Return the locations in each patch of a spec, the innermost (merged last) first."""
    return [
        PatchLocations(patch.content, resolved.spec, patch.path, patch.written)
        for patch in reversed(resolved.changes)
    ]


def innermost(layers: Sequence[PatchLocations], fault: Violation) -> Violation:
    """Return a fault at its location in the first layer that has it all, or else the deepest."""
    located = [layer.locate(fault) for layer in layers]
    for layer, (_, is_exact) in zip(layers, located, strict=True):
        if is_exact:
            return layer.in_patch(fault)
    depths = [layer.depth(path) for layer, (path, _) in zip(layers, located, strict=True)]
    return layers[depths.index(max(depths))].in_patch(fault)


def _in_merged(fault: Violation) -> str:
    return f"{fault.detail} (at {fault.path.removeprefix('.')} in the merged spec)"


def as_written(fault: F, path: str, written: _Map) -> F:
    """Return a fault of the patch at `path` at a location that the user wrote: inside the value of
    a reference, that is the reference."""
    node: Any = written
    at, rest = path, fault.path.removeprefix(path)
    while rest and not isinstance(node, str):
        key, rest = _first_key(rest, node, node)
        if key is None or not _has(node, key) or (isinstance(key, int) and key >= len(node)):
            return fault
        at, node = join_path(at, key), _at(node, key)
    if not rest:
        return fault
    detail = f"{fault.detail} (at {rest.removeprefix('.')} of its value)"
    return replace(fault, path=at, detail=detail)


def _origins(ours: Sequence[Any], merged: Sequence[Any], shape: Shape) -> Mapping[int, int]:
    """Map indices of the merged list to those of the patch's. An element that the patch changed or
    added comes last among the elements of its key (or without one), in the patch's order."""
    if len(merged) == 1 and is_lone(ours, shape):
        return {0: 0}
    indices: dict[MergeKey, list[int]] = {}
    for i, element in enumerate(merged):
        indices.setdefault(merge_key(element, shape), []).append(i)
    origins = {}
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


def unknown_elements(resolved: ResolvedSpec) -> Iterator[tuple[ResolvedPatch, UnknownElement]]:
    """Yield the unknown tasks and containers of the patches of one spec."""
    base = resolved.base
    for patch in resolved.changes:
        if PATCH not in patch.content:
            yield from ((patch, each) for each in _in_tasks(base, patch.content, patch.path))
        if patch is not resolved.changes[-1]:
            base = overlaid(base, patch.content)


def _in_tasks(base: _Map, patch: _Map, path: str) -> Iterator[UnknownElement]:
    for task in _pairs(base, patch, path, "tasks", _TASKS):
        if task.changed is None:
            yield from _unknown(task, "task")
            continue
        template = mapping(task.element, "template")
        pod = mapping(template, "spec")
        if PATCH in template or PATCH in pod:
            continue
        base_pod = mapping(mapping(task.changed, "template"), "spec")
        for key, word in _CONTAINER_LISTS.items():
            for container in _pairs(base_pod, pod, f"{task.path}.template.spec", key, _POD[key]):
                if container.changed is None:
                    yield from _unknown(container, word)


def _unknown(pair: _Pair, word: str) -> Iterator[UnknownElement]:
    name = pair.element.get("name")
    if pair.known and (name is None or isinstance(name, str)) and not is_open(name):
        yield UnknownElement(pair.path, word, name, pair.known)


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
    known = [name for name in by_name if name]
    lone = theirs[0] if len(theirs) == 1 and is_lone(ours, shape) else None
    for i, element in enumerate(ours):
        if isinstance(element, dict) and PATCH not in element:
            name = element.get("name")
            named = by_name.get(name) if isinstance(name, str) else None
            yield _Pair(f"{path}.{key}[{i}]", element, named if lone is None else lone, known)
