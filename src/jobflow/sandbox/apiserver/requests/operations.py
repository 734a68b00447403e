"""Targets and options of requests, and writes as admission sees them."""

from dataclasses import dataclass, field
from typing import Any, Literal

from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.requests.access import ADMIN, User, service_account
from jobflow.sandbox.apiserver.storage import Key

Operation = Literal["CREATE", "UPDATE", "DELETE"]

COLLECTOR = service_account("kube-system", "generic-garbage-collector")
NAMESPACE_CONTROLLER = service_account("kube-system", "namespace-controller")


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
    """Options of a write."""

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
