"""Targets and options of requests, and writes as admission sees them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jobflow.api.labels import Requirement, holds, parse_label_selector, split_terms
from jobflow.core.violations import Reason
from jobflow.sandbox.apiserver.kinds import Kind, Object, Registry, value_at
from jobflow.sandbox.apiserver.requests import failures
from jobflow.sandbox.apiserver.requests.access import ADMIN, User
from jobflow.sandbox.apiserver.requests.http import Request
from jobflow.sandbox.apiserver.storage import Key, Stored

Operation = Literal["CREATE", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True)
class Target:
    """The collection (no name), object or subresource that a path names."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    dry_run: bool = False
    field_validation: str = "Warn"
    options: dict[str, Any] = field(default_factory=dict)
    """CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, as in an AdmissionReview."""
    user: User = field(default_factory=lambda: ADMIN)
    warnings: list[str] = field(default_factory=list)
    """Warnings of the response, collected during the write."""


@dataclass(frozen=True, slots=True)
class WriteOperation:
    """One write, as admission sees it."""

    operation: Operation
    target: Target
    obj: Object | None
    old: Object | None
    write: WriteOptions


_FIELD = re.compile(r"\s*([^=!\s]+)\s*(==|!=|=)\s*(\S*)\s*")


def find_target(registry: Registry, path: str) -> Target | None:
    """Return the target of a path under /api or /apis, or None if it is not served."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    # A namespace is a place of objects and an object too, with subresources of its own.
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not rest or len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    kind = registry.find(group, version, plural)
    if kind is None or (namespace and not kind.namespaced):
        return None
    if subresource and subresource not in kind.subresources:
        return None
    return Target(kind, namespace, name, subresource)


def write_options(kind: str, request: Request, body: Mapping[str, Any] = {}) -> WriteOptions:
    """Return the options in the query and the body. Raises RequestFailure, 422."""
    query = {name: value for name, value in request.query.items() if value}
    validation = query.get("fieldValidation", "Warn")
    if validation not in ("Strict", "Warn", "Ignore"):
        path, fault = "fieldValidation", 'supported values: "", "Ignore", "Strict", "Warn"'
        raise failures.invalid_option(kind, path, Reason.NOT_SUPPORTED, validation, fault)
    options: dict[str, Any] = {
        name: query[name] for name in ("fieldManager", "fieldValidation") if name in query
    }
    if "dryRun" in query:
        options["dryRun"] = [query["dryRun"]]
    if "force" in query:
        options["force"] = query["force"] == "true"
    # Both the query and the body may ask for it.
    dry_run = [*options.get("dryRun", ()), *(body.get("dryRun") or ())]
    if any(value != "All" for value in dry_run):
        fault = 'supported values: "All"'
        raise failures.invalid_option(kind, "dryRun", Reason.NOT_SUPPORTED, dry_run, fault)
    return WriteOptions(
        user=request.user,
        dry_run=bool(dry_run),
        field_validation=validation,
        options={**options, **body, "kind": kind, "apiVersion": "meta.k8s.io/v1"},
        warnings=request.warnings,
    )


class Selector:
    """Selector of a request, and of the name that it targets. Raises RequestFailure, 400."""

    def __init__(self, target: Target, request: Request) -> None:
        self._target = target
        self._fields: list[Requirement] = []
        text = request.query.get("fieldSelector", "")
        for term in split_terms(text):
            found = _FIELD.fullmatch(term)
            if found is None:
                raise failures.bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
            if found[1] not in {"metadata.name", "metadata.namespace", *target.kind.selectable}:
                raise failures.bad_request(f"field label not supported: {found[1]}")
            self._fields.append((found[1], "NotIn" if found[2] == "!=" else "In", (found[3],)))
        if target.name:
            self._fields.append(("metadata.name", "In", (target.name,)))
        try:
            self._labels = parse_label_selector(request.query.get("labelSelector", ""))
        except ValueError as error:
            raise failures.bad_request(str(error)) from None
        self.everything = not self._labels and not self._fields

    def __call__(self, stored: Stored) -> bool:
        if self._target.namespace not in ("", stored.key[0]):
            return False
        if not all(holds(stored.labels, *each) for each in self._labels):
            return False
        # Most requests select by labels only, and paths cost time.
        if not self._fields:
            return True
        names = {"metadata.namespace": stored.key[0], "metadata.name": stored.key[1]}
        paths = self._target.kind.selectable.items()
        fields = names | {name: str(value_at(stored.obj, path) or "") for name, path in paths}
        return all(holds(fields, *each) for each in self._fields)


def matches(wanted: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether labels match a LabelSelector object; an empty selector matches."""
    equal = wanted.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in equal.items()) and all(
        holds(labels, each["key"], each["operator"], each.get("values") or ())
        for each in wanted.get("matchExpressions") or ()
    )
