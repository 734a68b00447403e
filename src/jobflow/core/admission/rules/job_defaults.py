"""The rules of `jobDefaults`: labels and annotations that a vcjob can have.

What of them becomes part of a vcjob's spec is looked at there (`patch_rules`). Source:
k8s.io/apimachinery/pkg/util/validation (IsQualifiedName, IsValidLabelValue) and
pkg/api/validation (ValidateAnnotations).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.object_names import MAX_OBJECT_NAME, all_names
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.manifests.job import comes_along
from jobflow.core.names import MAX_NAME
from jobflow.core.violations import Reason, Violation, join_path

MAX_ANNOTATIONS = 256 * 1024
"""Bytes that the annotations of an object may come to, keys included."""
_PATH = "spec.jobDefaults"
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def default_labels_are_labels(facts: FlowFacts) -> Iterator[Violation]:
    for path, key, value in _pairs(facts, "labels"):
        yield from _key(path, key)
        if len(value) > MAX_NAME:
            detail = f"{len(value)} characters, but a label has at most {MAX_NAME}"
            yield Violation(path, Reason.TOO_LONG, value, detail)
        elif value and not _NAME.fullmatch(value):
            detail = (
                'a label holds letters, digits, "-", "_" and ".", and begins and ends with a '
                "letter or digit; what is more belongs in annotations"
            )
            yield Violation(path, Reason.INVALID, value, detail)


def default_annotations_are_annotations(facts: FlowFacts) -> Iterator[Violation]:
    size = 0
    for path, key, value in _pairs(facts, "annotations"):
        yield from _key(path, key)
        size += len(key.encode(errors="replace")) + len(value.encode(errors="replace"))
    if size > MAX_ANNOTATIONS:
        detail = f"{size} bytes, but the annotations of a job have at most {MAX_ANNOTATIONS}"
        yield Violation(f"{_PATH}.annotations", Reason.TOO_LONG, None, detail)


def defaults_are_not_bookkeeping(facts: FlowFacts) -> Iterator[Violation]:
    """What a vcjob does not get from its template, it does not get from here either."""
    for field in ("labels", "annotations"):
        for path, key, value in _pairs(facts, field):
            if not comes_along(key, value):
                detail = (
                    "it says how an object came to be, or what JobFlow does with it, and jobs are "
                    "made without it; take it out"
                )
                yield Violation(path, Reason.FORBIDDEN, None, detail)


def _pairs(facts: FlowFacts, field: str) -> Iterator[tuple[str, str, str]]:
    """(JSON path, key, value) of labels or annotations."""
    defaults = facts.flow.spec.job_defaults
    if defaults is not None:
        pairs: Mapping[str, str] = getattr(defaults, field) or {}
        for key, value in pairs.items():
            yield join_path(f"{_PATH}.{field}", key), key, value


def _key(path: str, key: str) -> Iterator[Violation]:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        detail = (
            f'a key is "name" or "domain/name": the name has at most {MAX_NAME} letters, digits, '
            '"-", "_" and ".", and begins and ends with a letter or digit'
        )
        yield Violation(path, Reason.INVALID, key, detail)
    elif slash and not all_names([prefix]):
        detail = (
            "what stands before the slash of a key is a domain such as example.org, of at most "
            f"{MAX_OBJECT_NAME} characters"
        )
        yield Violation(path, Reason.INVALID, key, detail)


DEFAULT_RULES = (
    Group[Rule](
        lambda facts: facts.flow.spec.job_defaults,
        (
            default_labels_are_labels,
            default_annotations_are_annotations,
            defaults_are_not_bookkeeping,
        ),
    ),
)
