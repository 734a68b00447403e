"""Rules of the labels and annotations in jobDefaults; `patches` has rules for the rest of it.

Source: k8s.io/apimachinery/pkg/util/validation (IsQualifiedName, IsValidLabelValue) and
pkg/api/validation (ValidateAnnotations).
"""

import re
from collections.abc import Iterator, Mapping

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.object_names import MAX_OBJECT_NAME, all_names
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.manifests.job import is_inherited
from jobflow.core.names import MAX_NAME
from jobflow.core.violations import Reason, Violation, join_path

MAX_ANNOTATIONS = 256 * 1024
"""Bytes of the annotations of an object, keys included."""
_PATH = "spec.jobDefaults"
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")


def default_labels_are_valid(facts: FlowFacts) -> Iterator[Violation]:
    for path, key, value in _pairs(facts, "labels"):
        yield from _key_violations(path, key)
        if len(value) > MAX_NAME:
            detail = f"{len(value)} characters, but a label has at most {MAX_NAME}"
            yield Violation(path, Reason.TOO_LONG, value, detail)
        elif value and not _NAME.fullmatch(value):
            detail = (
                'a label holds letters, digits, "-", "_" and ".", and begins and ends with a '
                "letter or digit; use an annotation for other text"
            )
            yield Violation(path, Reason.INVALID, value, detail)


def default_annotations_are_valid(facts: FlowFacts) -> Iterator[Violation]:
    size = 0
    for path, key, value in _pairs(facts, "annotations"):
        yield from _key_violations(path, key)
        size += len(key.encode(errors="replace")) + len(value.encode(errors="replace"))
    if size > MAX_ANNOTATIONS:
        detail = f"{size} bytes, but the annotations of a job have at most {MAX_ANNOTATIONS}"
        yield Violation(f"{_PATH}.annotations", Reason.TOO_LONG, None, detail)


def defaults_are_not_bookkeeping(facts: FlowFacts) -> Iterator[Violation]:
    """A vcjob gets no bookkeeping, neither from its template nor from jobDefaults."""
    for field in ("labels", "annotations"):
        for path, key, value in _pairs(facts, field):
            if not is_inherited(key, value):
                detail = (
                    "it records how an object was created, or is JobFlow's own, and jobs never get "
                    "it; remove it"
                )
                yield Violation(path, Reason.FORBIDDEN, None, detail)


def _pairs(facts: FlowFacts, field: str) -> Iterator[tuple[str, str, str]]:
    defaults = facts.flow.spec.job_defaults
    if defaults is not None:
        pairs: Mapping[str, str] = getattr(defaults, field) or {}
        for key, value in pairs.items():
            yield join_path(f"{_PATH}.{field}", key), key, value


def _key_violations(path: str, key: str) -> Iterator[Violation]:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME:
        detail = (
            f'a key is "name" or "domain/name": the name has at most {MAX_NAME} letters, digits, '
            '"-", "_" and ".", and begins and ends with a letter or digit'
        )
        yield Violation(path, Reason.INVALID, key, detail)
    elif slash and not all_names([prefix]):
        detail = (
            "the part before the slash of a key is a domain such as example.org, of at most "
            f"{MAX_OBJECT_NAME} characters"
        )
        yield Violation(path, Reason.INVALID, key, detail)


JOB_DEFAULTS_RULES = (
    Group[Rule](
        lambda facts: facts.flow.spec.job_defaults,
        (default_labels_are_valid, default_annotations_are_valid, defaults_are_not_bookkeeping),
    ),
)
