"""Metadata of objects: server-set fields, immutability and syntax, with the rules and messages of
k8s.io/apimachinery/pkg/api/validation."""

import random
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from jobflow.core.violations import Reason, Violation
from jobflow.sandbox.apiserver.kinds import Kind, Object

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_is_label, _is_subdomain, _is_value, _is_name = (
    re.compile(pattern).fullmatch for pattern in (_LABEL, _SUBDOMAIN, _VALUE, _NAME)
)

_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
"""Letters of generated names: no vowels, no lookalikes."""
MAX_ANNOTATIONS = 256 * 1024

_REFUSED = frozenset(("uid", "deletionTimestamp"))
"""Fields that an update may not set; other server-set fields are ignored."""
_SERVER_SET = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")


def now() -> str:
    """Return the current time in metadata's format: UTC, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def generate_name(prefix: str) -> str:
    return prefix[:58] + "".join(random.choices(_SUFFIX, k=5))


def begin(kind: Kind, obj: Object) -> None:
    metadata = obj["metadata"]
    for gone in (*_SERVER_SET, "resourceVersion", "selfLink", "generation", "managedFields"):
        metadata.pop(gone, None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generate_name(metadata["generateName"])
    # Not uuid4, which ignores the seed of a test.
    metadata["uid"] = str(uuid.UUID(int=random.getrandbits(128), version=4))
    metadata["creationTimestamp"] = now()
    if kind.generation:
        metadata["generation"] = 1
    _tidy(metadata)


def carry_over(kind: Kind, obj: Object, old: Object) -> None:
    """Restore fields that an update cannot change, in place, and count the generation."""
    metadata, before = obj["metadata"], old["metadata"]
    for name in (*_SERVER_SET, "generateName", "generation"):
        if metadata.get(name) and (name == "uid" or (name in _REFUSED and name not in before)):
            continue
        if name in before:
            metadata[name] = before[name]
        else:
            metadata.pop(name, None)
    for gone in ("selfLink", "managedFields"):
        metadata.pop(gone, None)
    _tidy(metadata)
    if kind.generation and _content(kind, obj) != _content(kind, old):
        metadata["generation"] = before.get("generation", 0) + 1


def _content(kind: Kind, obj: Object) -> Object:
    """Return the part that generation counts: without metadata, and without a separate status."""
    apart = ("metadata", "status") if kind.has_status else ("metadata",)
    return {key: value for key, value in obj.items() if key not in apart}


def _tidy(metadata: dict[str, Any]) -> None:
    for name in ("labels", "annotations", "ownerReferences", "finalizers", "generateName"):
        if name in metadata and not metadata[name]:
            del metadata[name]


def violations(kind: Kind, obj: Object, old: Object | None) -> Iterator[Violation]:
    metadata = obj["metadata"]
    yield from _name(kind, metadata)
    for key, value in (metadata.get("labels") or {}).items():
        if fault := _key_fault(key):
            yield _invalid("labels", key, fault)
        if len(value) > 63:
            yield _invalid("labels", value, "must be no more than 63 bytes")
        elif not _is_value(value):
            yield _invalid("labels", value, _VALUE_SAYS)
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        # As in kube-apiserver, an annotation may have capitals in its prefix.
        if fault := _key_fault(key.lower()):
            yield _invalid("annotations", key, fault)
    size = sum(len(text.encode()) for entry in annotations.items() for text in entry)
    if size > MAX_ANNOTATIONS:
        detail = f"may not be more than {MAX_ANNOTATIONS} bytes"
        yield Violation("metadata.annotations", Reason.TOO_LONG, "", detail)
    yield from _owners(metadata.get("ownerReferences") or [])
    for finalizer in metadata.get("finalizers") or []:
        if fault := _key_fault(finalizer):
            yield _invalid("finalizers", finalizer, fault)
    if old is None:
        return
    before = old["metadata"]
    for name in ("name", "namespace", *sorted(_REFUSED)):
        if metadata.get(name) != before.get(name):
            yield _invalid(name, metadata.get(name), "field is immutable")
    added = set(metadata.get("finalizers") or ()) - set(before.get("finalizers") or ())
    if before.get("deletionTimestamp") and added:
        why = "no new finalizers can be added if the object is being deleted"
        detail = f"{why}, found new finalizers {sorted(added)}"
        yield Violation("metadata.finalizers", Reason.FORBIDDEN, None, detail)


def suspicions(obj: Object) -> Iterator[str]:
    for finalizer in obj["metadata"].get("finalizers") or ():
        if "/" not in finalizer and finalizer not in _OWN_FINALIZERS:
            yield (
                f'metadata.finalizers: "{finalizer}": prefer a domain-qualified finalizer name to '
                "avoid accidental conflicts with other finalizer writers"
            )


_OWN_FINALIZERS = frozenset(("orphan", "foregroundDeletion", "kubernetes"))

_ALPHANUMERIC = "must start and end with an alphanumeric character"
_SUBDOMAIN_SAYS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    f"'.', and {_ALPHANUMERIC} (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_LABEL_SAYS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    f"{_ALPHANUMERIC} (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_QUALIFIED = (
    f"name part must consist of alphanumeric characters, '-', '_' or '.', and {_ALPHANUMERIC} "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_SAYS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    f"'.', and {_ALPHANUMERIC} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    f"validation is '{_VALUE}')"
)


def _invalid(path: str, value: Any, detail: str) -> Violation:
    return Violation(f"metadata.{path}", Reason.INVALID, value, detail)


def _name(kind: Kind, metadata: dict[str, Any]) -> Iterator[Violation]:
    name = metadata.get("name") or ""
    if not name:
        yield Violation("metadata.name", Reason.REQUIRED, name, "name or generateName is required")
        return
    longest = 63 if kind.label_name else 253
    if len(name) > longest:
        yield _invalid("name", name, f"must be no more than {longest} characters")
    if kind.label_name and "." in name:
        yield _invalid("name", name, "must not contain dots")
    elif kind.label_name and not _is_label(name):
        yield _invalid("name", name, _LABEL_SAYS)
    elif not kind.label_name and not _is_subdomain(name):
        yield _invalid("name", name, _SUBDOMAIN_SAYS)


def _key_fault(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and (len(prefix) > 253 or not _is_subdomain(prefix)):
        return f"prefix part {_SUBDOMAIN_SAYS}"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return None if _is_name(name) else _QUALIFIED


def _owners(references: list[Any]) -> Iterator[Violation]:
    for reference in references:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(name):
                prefix = "version " if name == "apiVersion" else ""
                yield _invalid(f"ownerReferences.{name}", "", f"{prefix}must not be empty")
    controllers = [f"{r.get('kind')}/{r.get('name')}" for r in references if r.get("controller")]
    if len(controllers) > 1:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            + " and ".join(controllers)
        )
        yield _invalid("ownerReferences", references, detail)
