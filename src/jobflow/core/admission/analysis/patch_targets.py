"""Tasks and containers of a patch that its template does not have. It judges none of them: a patch
may add a task or a container, but a name that is misspelt adds one too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jobflow.core.admission.analysis.resolved_specs import Change, Kind, is_open
from jobflow.core.admission.volcano.job_view import mapping
from jobflow.core.manifests.strategic_merge import JOB_SPEC, PATCH, Shape, is_lone, overlaid

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


def strangers(kind: Kind) -> Iterator[tuple[Change, Stranger]]:
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
