"""Where in a patch a fault of the merged spec comes from. It knows how lists merge, no rules.

A flow may have as many faults as it has words, so each is found in the time that its path takes,
however long the lists and maps on its way are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from jobflow.core.admission.analysis.resolved_specs import ResolvedPatch, ResolvedSpec, is_open
from jobflow.core.admission.volcano.job_view import mapping
from jobflow.core.manifests.strategic_merge import JOB_SPEC, PATCH, Shape, is_lone, overlaid
from jobflow.core.violations import Doubt, Violation, join_path, split_first_key

_INDEX = re.compile(r"\[(\d+)\]")

_Key = tuple[str | int, ...] | None
F = TypeVar("F", Violation, Doubt)


class Places:
    """The places of one patch, whose JSON path is `path`, and of what it made of its template.

    `written`: the patch as it stands in the flow, before its references had values.
    """

    def __init__(
        self,
        patch: Mapping[str, Any],
        result: Mapping[str, Any],
        path: str,
        written: Mapping[str, Any],
    ) -> None:
        self._patch = patch
        self._result = result
        self._path = path
        self._written = written
        self._origins: dict[int, Mapping[int, int]] = {}
        """By id of a list of the result: which elements came from which of the patch's."""

    def in_patch(self, fault: Violation) -> Violation:
        """A fault of the merged spec at the place of the patch that it comes from, or as near as
        the patch goes; then the words say where in the result it is."""
        path, is_whole = self.place(fault)
        detail = fault.detail if is_whole else _in_merged(fault)
        return as_written(replace(fault, path=path, detail=detail), self._path, self._written)

    def whole(self, fault: Violation) -> Violation:
        """A fault of the merged spec at the patch as a whole."""
        return replace(fault, path=self._path, detail=_in_merged(fault))

    def place(self, fault: Violation) -> tuple[str, bool]:
        """The JSON path, as far as the patch goes, and whether that is all the way."""
        here: Any = self._patch
        there: Any = self._result
        shape, path, rest = JOB_SPEC, self._path, fault.path
        while rest:
            key, rest = _first_key(rest, here, there)
            at = key if isinstance(key, str) else self._origin(here, there, key, shape)
            if at is None or not _has(here, at):
                return path, False
            here, there = here[at], _at(there, key)
            path = join_path(path, at)
            shape = shape.below(key) if isinstance(key, str) else shape
        return path, True

    def depth(self, path: str) -> int:
        """How far into the patch a path goes."""
        return len(path) - len(self._path)

    def _origin(self, here: Any, there: Any, index: int | None, shape: Shape) -> int | None:
        """Which element of the patch's list became element `index` of the result's."""
        if index is None or not isinstance(here, list) or not isinstance(there, list):
            return None
        if not shape.keys:
            return index if index < min(len(here), len(there)) else None
        origins = self._origins.get(id(there))
        if origins is None:
            origins = self._origins[id(there)] = _origins(here, there, shape)
        return origins.get(index)


def _in_merged(fault: Violation) -> str:
    return f"{fault.detail} (at {fault.path.removeprefix('.')} in the merged spec)"


def innermost(layers: Sequence[Places], fault: Violation) -> Violation:
    """A fault at its place in the first of the layers that goes all the way there; where none
    does, in the one that comes nearest."""
    places = [layer.place(fault) for layer in layers]
    for layer, (_, is_whole) in zip(layers, places, strict=True):
        if is_whole:
            return layer.in_patch(fault)
    depths = [layer.depth(path) for layer, (path, _) in zip(layers, places, strict=True)]
    return layers[depths.index(max(depths))].in_patch(fault)


def as_written(fault: F, path: str, written: Mapping[str, Any]) -> F:
    """A fault of a patch that stands at `path`, no deeper than the patch is written: the value of
    a reference has no place of its own."""
    here: Any = written
    at, rest = path, fault.path.removeprefix(path)
    while rest and not isinstance(here, str):
        key, rest = _first_key(rest, here, here)
        if key is None or not _has(here, key) or (isinstance(key, int) and key >= len(here)):
            return fault
        at, here = join_path(at, key), _at(here, key)
    if not rest:
        return fault
    detail = f"{fault.detail} (at {rest.removeprefix('.')} of its value)"
    return replace(fault, path=at, detail=detail)


def _origins(here: Sequence[Any], there: Sequence[Any], shape: Shape) -> Mapping[int, int]:
    """By index in the result the index in the patch. What the patch changed or added comes last
    among the elements of its key, and among those without one, in the patch's order."""
    if len(there) == 1 and is_lone(here, shape):
        return {0: 0}
    places: dict[_Key, list[int]] = {}
    for i, element in enumerate(there):
        places.setdefault(_key(element, shape), []).append(i)
    origins = {}
    for j in range(len(here) - 1, -1, -1):
        if not _is_directive(here[j]) and (left := places.get(_key(here[j], shape))):
            origins[left.pop()] = j
    return origins


def _is_directive(element: Any) -> bool:
    return isinstance(element, dict) and element.get(PATCH) in ("replace", "delete")


def _key(element: Any, shape: Shape) -> _Key:
    if not isinstance(element, dict):
        return None
    pairs = zip(shape.keys, shape.defaults, strict=True)
    parts = [element.get(name, default) for name, default in pairs]
    known = tuple(part for part in parts if isinstance(part, str | int))
    return known if len(known) == len(parts) else None


def _first_key(path: str, here: Any, there: Any) -> tuple[str | int | None, str]:
    """The key or index that a path begins with, and the rest of it; None where it leads to nothing
    in these maps or lists. A key may hold dots and brackets itself: the longest one is meant."""
    if index := _INDEX.match(path):
        if isinstance(here, list) or isinstance(there, list):
            return int(index[1]), path[index.end() :]
    maps = [node for node in (here, there) if isinstance(node, dict)]
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

_Map = Mapping[str, Any]


class Stranger(NamedTuple):
    """An element of a patch's list that the template's list does not have."""

    path: str
    word: str
    """`task`, `container` or `init container`."""
    name: str | None
    """None: it has no name, and the template's list has several elements."""
    known: list[str]
    """Names in the template's list; at least one."""


class _Pair(NamedTuple):
    """An element of a patch's list, and the element of the template that it means, if any."""

    path: str
    element: _Map
    meant: _Map | None
    known: list[str]


def strangers(kind: ResolvedSpec) -> Iterator[tuple[ResolvedPatch, Stranger]]:
    """Every stranger in the patches of one vcjob, with its patch."""
    base = kind.base
    for change in kind.changes:
        if PATCH not in change.said:
            yield from ((change, each) for each in _in_tasks(base, change.said, change.path))
        if change is not kind.changes[-1]:
            base = overlaid(base, change.said)


def _in_tasks(base: _Map, patch: _Map, path: str) -> Iterator[Stranger]:
    for task in _pairs(base, patch, path, "tasks", _TASKS):
        if task.meant is None:
            yield from _stranger(task, "task")
            continue
        template = mapping(task.element, "template")
        pod = mapping(template, "spec")
        if PATCH in template or PATCH in pod:
            continue
        theirs = mapping(mapping(task.meant, "template"), "spec")
        for key, word in _CONTAINER_LISTS.items():
            for container in _pairs(theirs, pod, f"{task.path}.template.spec", key, _POD[key]):
                if container.meant is None:
                    yield from _stranger(container, word)


def _stranger(pair: _Pair, word: str) -> Iterator[Stranger]:
    name = pair.element.get("name")
    if pair.known and (name is None or isinstance(name, str)) and not is_open(name):
        yield Stranger(pair.path, word, name, pair.known)


def _pairs(base: _Map, patch: _Map, path: str, key: str, shape: Shape) -> Iterator[_Pair]:
    theirs, ours = base.get(key), patch.get(key)
    if not isinstance(theirs, list) or not isinstance(ours, list):
        return
    if any(isinstance(each, dict) and each.get(PATCH) == "replace" for each in ours):
        return
    held = {
        each.get("name") or f"{shape.default_name}{i}": each
        for i, each in enumerate(theirs)
        if isinstance(each, dict) and isinstance(each.get("name") or "", str)
    }
    known = [name for name in held if name]
    only = theirs[0] if len(theirs) == 1 and is_lone(ours, shape) else None
    for i, element in enumerate(ours):
        if isinstance(element, dict) and PATCH not in element:
            name = element.get("name")
            meant = only if only is not None else held.get(name) if isinstance(name, str) else None
            yield _Pair(f"{path}.{key}[{i}]", element, meant, known)
