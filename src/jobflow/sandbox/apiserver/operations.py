"""What is asked of the server, between the routes that read it and the rooms that carry it out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jobflow.sandbox.apiserver.kinds import Kind, Object
from jobflow.sandbox.apiserver.storage import Key

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"

ADMIN = {"username": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}
"""Who every request comes from: the sandbox asks nobody for credentials."""
COLLECTOR = {
    "username": "system:serviceaccount:kube-system:generic-garbage-collector",
    "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system"],
}
NAMESPACE_CONTROLLER = {
    "username": "system:serviceaccount:kube-system:namespace-controller",
    "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system"],
}


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a collection (no name), an object or its subresource."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> Key:
        """Where the object is stored."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class How:
    """How a write is to be carried out."""

    dry_run: bool = False
    field_validation: str = "Warn"
    options: dict[str, Any] = field(default_factory=dict)
    """CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, as admission is told them."""
    user: dict[str, Any] = field(default_factory=lambda: ADMIN)
    warnings: list[str] = field(default_factory=list)
    """What the answer will warn of; filled while the write is carried out."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One write, as admission sees it."""

    operation: str
    target: Target
    obj: Object | None
    old: Object | None
    how: How
