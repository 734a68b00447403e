"""The rules of a step's patch: what it makes of its template has to be a vcjob Volcano takes.

What a vcjob may say is `job_rules`; here it is asked of the merged spec, and the answer is brought
back to the place in the patch that it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from jobflow.core.build import patch_of
from jobflow.core.flow_rules import Rule
from jobflow.core.job_rules import job_violations
from jobflow.core.merge import JOB_SPEC, Shape, merge, patch_violations
from jobflow.core.outline import Outline, Use
from jobflow.core.violations import Reason, Violation, below

_INDEX = re.compile(r"\[(\d+)\]")

_OF_THE_VALUE_ALONE = frozenset({Reason.NOT_SUPPORTED, Reason.TYPE_INVALID, Reason.TOO_LONG})
"""Reasons that hold whatever the template says, for what the patch sets it sets."""
_ONE_VALUE = re.compile(
    r"tasks\[\d+\]\.name|queue|priorityClassName|runningEstimate|mountPath|volumeClaimName"
)
"""Where an invalid value is invalid by itself: the end of its path."""
_REPLACED = re.compile(r"policies\[\d+\]")
"""Lists that a patch replaces as a whole, so that nothing in them depends on a template."""


def patches_can_be_merged(outline: Outline) -> Iterator[Violation]:
    for i, patch, path in _patches(outline):
        del i
        yield from patch_violations(patch, path)


def patches_make_jobs(outline: Outline) -> Iterator[Violation]:
    """With a known template all of Volcano's rules; without one those that need no template."""
    if not outline.patches:
        return
    uses = {use.step: use for use in outline.uses if use.patched}
    for i, patch, path in _patches(outline):
        if (use := uses.get(i)) is not None:
            yield from _faults_of_the_result(use, patch, path)
        else:
            yield from _faults_by_themselves(patch, path)


PATCH_RULES: tuple[Rule, ...] = (patches_can_be_merged, patches_make_jobs)


def _patches(outline: Outline) -> Iterator[tuple[int, dict[str, Any], str]]:
    """(step, patch, its JSON path) of each step that changes something."""
    for i, patch in outline.patches:
        if (changes := patch_of(outline.steps[i])) is not None:
            field = "jobSpec" if patch.job_spec else "spec"
            yield i, changes, f"spec.flows[{i}].patch.{field}"


def _faults_of_the_result(use: Use, patch: Mapping[str, Any], path: str) -> Iterator[Violation]:
    """What Volcano would refuse in the merged spec and would not in the template alone."""
    faults = list(job_violations(use.spec, "", None))
    if not faults:
        return
    before = {(fault.path, fault.message) for fault in job_violations(use.template.spec, "", None)}
    for fault in faults:
        if (fault.path, fault.message) not in before:
            yield _in_patch(fault, use.spec, patch, path)


def _faults_by_themselves(patch: Mapping[str, Any], path: str) -> Iterator[Violation]:
    """What Volcano would refuse whatever the template holds."""
    spec = merge({}, patch)
    for fault in job_violations(spec, "", None):
        if _needs_no_template(fault):
            yield _in_patch(fault, spec, patch, path)


def _needs_no_template(fault: Violation) -> bool:
    if fault.reason in _OF_THE_VALUE_ALONE or _REPLACED.search(fault.path):
        return True
    if fault.reason is not Reason.INVALID:
        return False
    if isinstance(fault.value, int):
        return fault.value < 0
    return any(found.end() == len(fault.path) for found in _ONE_VALUE.finditer(fault.path))


def _in_patch(
    fault: Violation, result: Mapping[str, Any], patch: Mapping[str, Any], path: str
) -> Violation:
    """A fault of the merged spec at the place of the patch that it comes from, or as near as the
    patch goes; then the words say where in the result it is."""
    here: Any = patch
    there: Any = result
    shape = JOB_SPEC
    rest = fault.path
    while rest:
        key, rest = _first_key(rest, here, there)
        at = key if isinstance(key, str) else _same_element(here, there, key, shape)
        if at is None or not _has(here, at):
            where = fault.path.removeprefix(".")
            detail = f"{fault.detail} (at {where} of the merged spec)"
            return replace(fault, path=path, detail=detail)
        here, there = here[at], _at(there, key)
        path = below(path, at)
        shape = shape.below(key) if isinstance(key, str) else shape
    return replace(fault, path=path)


def _first_key(path: str, *nodes: Any) -> tuple[str | int | None, str]:
    """The key or index that a path begins with, and the rest of it; None where it leads to nothing
    in these maps or lists. A key may hold dots and brackets itself: the longest one is meant."""
    if index := _INDEX.match(path):
        if any(isinstance(node, list) for node in nodes):
            return int(index[1]), path[index.end() :]
    bare = path.removeprefix(".")
    keys = {key for node in nodes if isinstance(node, dict) for key in node}
    for key in sorted(keys, key=len, reverse=True):
        if path.startswith(f"[{key}]"):
            return key, path[len(key) + 2 :]
        if bare == key or bare.startswith((f"{key}.", f"{key}[")):
            return key, bare[len(key) :]
    return None, ""


def _has(node: Any, at: str | int) -> bool:
    return at in node if isinstance(node, dict) else isinstance(at, int)


def _at(node: Any, key: str | int | None) -> Any:
    if isinstance(node, dict):
        return node.get(key)
    return node[key] if isinstance(node, list) and isinstance(key, int) else None


def _same_element(here: Any, there: Any, index: int | None, shape: Shape) -> int | None:
    """Which element of the patch's list became element `index` of the result's."""
    if (
        index is None
        or not isinstance(here, list)
        or not isinstance(there, list)
        or index >= len(there)
    ):
        return None
    if not shape.keys:
        return index if index < len(here) else None
    wanted = _key(there[index], shape)
    return next((j for j, element in enumerate(here) if _key(element, shape) == wanted), None)


def _key(element: Any, shape: Shape) -> tuple[Any, ...] | None:
    if not isinstance(element, dict):
        return None
    pairs = zip(shape.keys, shape.defaults, strict=True)
    return tuple(element.get(name, default) for name, default in pairs)
