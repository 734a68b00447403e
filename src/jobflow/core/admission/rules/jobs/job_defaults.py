"""Rules of labels and annotations, first of all those in jobDefaults. `patches` has rules for the
rest of jobDefaults.

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
    yield from label_violations(f"{_PATH}.labels", _texts(facts, "labels"))


def default_annotations_are_valid(facts: FlowFacts) -> Iterator[Violation]:
    annotations = _texts(facts, "annotations")
    yield from annotation_violations(f"{_PATH}.annotations", annotations, "a job")


def label_violations(path: str, labels: Mapping[str, str]) -> Iterator[Violation]:
    """Yield the faults of the labels at `path`."""
    for key, value in labels.items():
        at = join_path(path, key)
        yield from _key_violations(at, key)
        if len(value) > MAX_NAME:
            detail = f"{len(value)} characters, but a label has at most {MAX_NAME}"
            yield Violation(at, Reason.TOO_LONG, value, detail)
        elif value and not _NAME.fullmatch(value):
            detail = (
                'a label holds letters, digits, "-", "_" and ".", and begins and ends with a '
                "letter or digit; use an annotation for other text"
            )
            yield Violation(at, Reason.INVALID, value, detail)


def annotation_violations(
    path: str, annotations: Mapping[str, str], owner: str
) -> Iterator[Violation]:
    """Yield the faults of the annotations at `path`. `owner`: the object that gets them."""
    size = 0
    for key, value in annotations.items():
        yield from _key_violations(join_path(path, key), key)
        size += len(key.encode(errors="replace")) + len(value.encode(errors="replace"))
    if size > MAX_ANNOTATIONS:
        detail = f"{size} bytes, but the annotations of {owner} have at most {MAX_ANNOTATIONS}"
        yield Violation(path, Reason.TOO_LONG, None, detail)


def defaults_are_not_bookkeeping(facts: FlowFacts) -> Iterator[Violation]:
    """A vcjob gets no bookkeeping, neither from its template nor from jobDefaults, and to drop it
    silently would be worse than to refuse it."""
    for field in ("labels", "annotations"):
        for key, value in _texts(facts, field).items():
            if not is_inherited(key, value):
                detail = (
                    "it records how an object was created, or is JobFlow's own, and jobs never get "
                    "it; remove it"
                )
                path = join_path(f"{_PATH}.{field}", key)
                yield Violation(path, Reason.FORBIDDEN, None, detail)


def _texts(facts: FlowFacts, field: str) -> Mapping[str, str]:
    return getattr(facts.flow.spec.job_defaults, field, None) or {}


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
