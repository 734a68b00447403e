"""AdmissionReviews as an API server sends them, and a cluster that a test makes up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from jobflow.api.jobflow import JobFlow
from jobflow.api.jobtemplate import JobTemplate
from jobflow.core.admission.changes import Need, need_of
from jobflow.webhook.dry_run.template_pods import DryRun
from jobflow.webhook.review.envelope import UserInfo

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def review(
    operation: str,
    new: Any = None,
    old: Any = None,
    *,
    kind: str = "JobFlow",
    group: str = "flow.volcano.sh",
    **request: Any,
) -> bytes:
    """A review of `new` and `old`, manifests or any other JSON."""
    objects = [obj for obj in (new, old) if isinstance(obj, dict)]
    metadata = (objects[0].get("metadata") if objects else None) or {}
    name = metadata.get("name") if isinstance(metadata, dict) else None
    resource = {"group": group, "version": "v1alpha1", "resource": f"{kind.lower()}s"}
    asked = {
        "uid": UID,
        "kind": {"group": group, "version": "v1alpha1", "kind": kind},
        "resource": resource,
        "requestKind": {"group": group, "version": "v1alpha1", "kind": kind},
        "requestResource": resource,
        "name": name if isinstance(name, str) else "",
        "namespace": "default",
        "operation": operation,
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": new,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return json.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked | request}
    ).encode()


def stored(manifest: Mapping[str, Any], *, status: Any = None, **metadata: Any) -> dict[str, Any]:
    """A manifest as an API server keeps it."""
    meta = {
        "namespace": "default",
        "uid": f"uid-of-{manifest['metadata']['name']}",
        "resourceVersion": "41",
        "generation": 1,
        "creationTimestamp": "2026-08-01T10:00:00Z",
    }
    kept = {**manifest, "metadata": {**meta, **manifest["metadata"], **metadata}}
    return kept if status is None else kept | {"status": status}


@dataclass
class FakeRights:
    """What users may do in a test."""

    lacks: str = ""
    """Why nobody may create vcjobs."""
    users: list[tuple[str, str]] = field(default_factory=list)
    """Who was asked about: user and namespace."""

    async def lacking(self, user: UserInfo, namespace: str) -> str:
        self.users.append((user.username, namespace))
        return self.lacks


@dataclass
class FakeCluster:
    """What the webhook knows in a test."""

    known_templates: dict[str, Any] = field(default_factory=dict)
    known_queues: Mapping[str, str] | None = field(default_factory=lambda: {"default": "Open"})
    flows: list[Any] = field(default_factory=list)
    terminating: bool = False
    synced: bool = True
    followed: bool = True
    asked: list[str] = field(default_factory=list)
    """Namespaces that were read live."""
    why_unfit: str = ""
    says: Callable[[Mapping[str, Any]], DryRun | None] = lambda template: DryRun()
    """What the API server says of a pod template."""
    tried: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    """Dry runs that were asked for: namespace and pod template."""

    def unfit(self) -> str:
        return self.why_unfit

    def follows(self, namespace: str) -> bool:
        return self.followed

    def knows(self, namespace: str) -> bool:
        return self.synced and self.followed

    def templates(self, namespace: str) -> Mapping[str, JobTemplate]:
        return {
            name: msgspec.convert(template, JobTemplate)
            for name, template in self.known_templates.items()
        }

    def queues(self) -> Mapping[str, str] | None:
        return self.known_queues

    async def needed_by(self, namespace: str, template: str) -> Sequence[Need]:
        flows = [msgspec.convert(flow, JobFlow) for flow in self.flows]
        return [need for flow in flows if (need := need_of(flow, template)) is not None]

    async def namespace_terminating(self, name: str) -> bool:
        self.asked.append(name)
        return self.terminating

    async def dry_run(self, namespace: str, templates: Sequence[bytes]) -> Sequence[DryRun | None]:
        read = [json.loads(template) for template in templates]
        self.tried += [(namespace, template) for template in read]
        return [self.says(template) for template in read]
