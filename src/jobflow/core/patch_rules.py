"""The rules of a step's patch: what it makes of its template has to be a vcjob Volcano takes.

What a vcjob may say is `job_rules`; here it is asked of the merged spec, and `patch_places` brings
the answer back to the place in the patch that it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from jobflow.core.build import patch_of
from jobflow.core.flow_rules import Rule
from jobflow.core.job_rules import job_violations
from jobflow.core.merge import merge, patch_violations
from jobflow.core.outline import Outline, Use
from jobflow.core.patch_places import Places
from jobflow.core.violations import Reason, Violation

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
    places = Places(patch, use.spec, path)
    for fault in faults:
        if (fault.path, fault.message) not in before:
            yield places.in_patch(fault)


def _faults_by_themselves(patch: Mapping[str, Any], path: str) -> Iterator[Violation]:
    """What Volcano would refuse whatever the template holds."""
    spec = merge({}, patch)
    places = Places(patch, spec, path)
    for fault in job_violations(spec, "", None):
        if _needs_no_template(fault):
            yield places.in_patch(fault)


def _needs_no_template(fault: Violation) -> bool:
    if fault.reason in _OF_THE_VALUE_ALONE or _REPLACED.search(fault.path):
        return True
    if fault.reason is not Reason.INVALID:
        return False
    if isinstance(fault.value, int):
        return fault.value < 0
    return any(found.end() == len(fault.path) for found in _ONE_VALUE.finditer(fault.path))
