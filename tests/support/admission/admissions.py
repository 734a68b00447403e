"""AdmissionReviews as an API server sends them, answers to them, and a fake cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.kinds import KINDS
from jobflow.api.resources import StatusCause
from jobflow.core.admission.changes import Need, need_of
from jobflow.core.manifests.volume_claims import why_spent
from jobflow.core.spec.concurrency import GroupName
from jobflow.store.indexes import Reusers
from jobflow.webhook.review.envelope import Answer, UserInfo
from jobflow.webhook.review.judges import UNCHECKED, Right, Rights
from jobflow.webhook.review.review import LargeReviews, reviewers
from jobflow.webhook.tried_pods import DryRun

API_VERSION_AND_KIND = ("admission.k8s.io/v1", "AdmissionReview")
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def review(
    operation: str,
    new: Any = None,
    old: Any = None,
    *,
    kind: str = "",
    group: str = "flow.volcano.sh",
    **request: Any,
) -> bytes:
    """Return a review of `new` and `old`, manifests or any other JSON. The default kind is that of
    the manifests."""
    objects = [obj for obj in (new, old) if isinstance(obj, dict)]
    kind = kind or next((obj["kind"] for obj in objects if "kind" in obj), "JobFlow")
    metadata = (objects[0].get("metadata") if objects else None) or {}
    name = metadata.get("name") if isinstance(metadata, dict) else None
    resource = {"group": group, "version": "v1alpha1", "resource": f"{kind.lower()}s"}
    fields = {
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
    version, envelope = API_VERSION_AND_KIND
    return json.dumps(
        {"kind": envelope, "apiVersion": version, "request": fields | request}
    ).encode()


async def answer_to(
    body: bytes,
    cluster: FakeCluster | None = None,
    rights: Rights = UNCHECKED,
    *,
    large_reviews: LargeReviews | None = None,
    kind: str = "",
) -> Answer:
    """Return the answer to a review on the path of its kind."""
    kinds = (each for each in KINDS if f'"kind": "{each}"'.encode() in body)
    kind = kind or next(kinds, "JobFlow")
    paths = reviewers(cluster or FakeCluster(), large_reviews, rights)
    return await paths[KINDS[kind].review_path].review(body)


class Response:
    """The review in an answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.outcome = answer.outcome
        envelope = json.loads(answer.body)
        assert (envelope["apiVersion"], envelope["kind"]) == API_VERSION_AND_KIND
        self.json: dict[str, Any] = envelope["response"]
        assert (answer.code, self.json["uid"]) == (200, UID)
        self.allowed: bool = self.json["allowed"]
        self.warnings: list[str] = self.json.get("warnings", [])
        self.status: dict[str, Any] = self.json.get("status", {})
        self.code: int | None = self.status.get("code")
        self.message: str = self.status.get("message", "")

    @property
    def faults(self) -> dict[str, str]:
        """The messages of a 422 by field."""
        assert (self.allowed, self.code) == (False, 422)
        return {each.get("field", ""): each["message"] for each in self.status["details"]["causes"]}


async def respond(
    body: bytes,
    cluster: FakeCluster | None = None,
    rights: Rights = UNCHECKED,
    *,
    large_reviews: LargeReviews | None = None,
) -> Response:
    """Return the review in the answer to a review."""
    return Response(await answer_to(body, cluster, rights, large_reviews=large_reviews))


async def created(manifest: dict[str, Any], cluster: FakeCluster) -> Response:
    """Return the review of the creation of an object."""
    return await respond(review("CREATE", manifest), cluster)


INVALID_PORT = StatusCause(
    reason="FieldValueInvalid",
    field="template.spec.containers[0].ports[0].containerPort",
    message="Invalid value: 0: must be between 1 and 65535, inclusive",
)
"""A fault that an API server finds in a pod template."""


class Ticks:
    """A monotonic clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def stored(manifest: Mapping[str, Any], *, status: Any = None, **metadata: Any) -> dict[str, Any]:
    """Return a manifest as an API server stores it."""
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
    """`rights.Rights`, with the same answer for every user and right."""

    lacks: str | None = None
    controller: str = ""
    """The name of the controller's user."""
    users: list[tuple[str, str]] = field(default_factory=list)
    """The users and namespaces of all calls."""
    asked: list[str] = field(default_factory=list)
    """The rights of all calls."""

    async def lacking(self, user: UserInfo, right: Right) -> str | None:
        self.users.append((user.username, right.namespace))
        self.asked.append(str(right))
        return self.lacks

    async def is_controller(self, user: UserInfo) -> bool:
        return user.username == self.controller


@dataclass
class FakeCluster:
    """`judges.Cluster`, as a test sets it up."""

    known_templates: dict[str, Any] = field(default_factory=dict)
    known_queues: Mapping[str, str] | None = field(default_factory=lambda: {"default": "Open"})
    known_limits: Mapping[GroupName, Sequence[int]] = field(default_factory=dict)
    """The limits that flows of the namespace have for concurrency groups."""
    flows: list[Any] = field(default_factory=list)
    terminating: bool = False
    gone: set[tuple[str, str]] = field(default_factory=set)
    """Names and UIDs of flows that are gone."""
    synced: bool = True
    followed: bool = True
    asked: list[str] = field(default_factory=list)
    """Namespaces that were read live."""
    why_unfit: str | None = None
    why_outdated: str | None = None
    says: Callable[[Mapping[str, Any]], DryRun | None] = lambda template: DryRun()
    """The API server's answer to a pod template."""
    tried: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    """Namespaces and pod templates of dry runs."""

    def outdated(self) -> str | None:
        return self.why_outdated

    def unfit(self) -> str | None:
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

    def limits(self, namespace: str, group: GroupName) -> Sequence[int]:
        return self.known_limits.get(group, [])

    async def needed_by(self, namespace: str, template: str) -> Sequence[Need]:
        flows = [msgspec.convert(flow, JobFlow) for flow in self.flows]
        return [need for flow in flows if (need := need_of(flow, template)) is not None]

    async def namespace_terminating(self, name: str) -> bool:
        self.asked.append(name)
        return self.terminating

    async def flow_is_gone(self, namespace: str, name: str, uid: str) -> bool:
        return (name, uid) in self.gone

    async def flow(self, namespace: str, name: str) -> JobFlow | None:
        found = (msgspec.convert(flow, JobFlow) for flow in self.flows)
        return next((flow for flow in found if flow.metadata.name == name), None)

    def why_spent(self, namespace: str, name: str) -> str:
        flows = [msgspec.convert(flow, JobFlow) for flow in self.flows]
        found = next((flow for flow in flows if flow.metadata.name == name), None)
        return "" if found is None else why_spent(found, flows)

    def reused_by(self, namespace: str, name: str, uid: str) -> Sequence[str]:
        reusers = Reusers()
        for flow in self.flows:
            reusers.flow_changed(None, msgspec.convert(flow, JobFlow))
        return reusers.of(namespace, name, uid)

    async def dry_run(self, namespace: str, templates: Sequence[bytes]) -> Sequence[DryRun | None]:
        read = [json.loads(template) for template in templates]
        self.tried += [(namespace, template) for template in read]
        return [self.says(template) for template in read]
