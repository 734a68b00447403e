"""API resources of each kind that JobFlow uses, and the base types of Kubernetes objects.

Encoding omits fields with their default value, so an empty timestamp is absent and never null.
Decoding accepts every value that a stored object may have.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, dataclass_transform

import msgspec


def Schema(**schema: Any) -> msgspec.Meta:  # noqa: N802 - reads as an annotation
    """Return additions to a field's schema in the CRD, which do not constrain decoding."""
    return msgspec.Meta(extra_json_schema=schema)


class _ByName(msgspec.StructMeta):
    def __new__(mcls, *definition: Any, **config: Any) -> Any:
        # the only option that msgspec does not inherit
        return super().__new__(mcls, *definition, **{"kw_only": True} | config)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Struct(msgspec.Struct, metaclass=_ByName, frozen=True, omit_defaults=True, rename="camel"):
    """Base of all resource types: frozen, arguments by name only, camelCase names in JSON."""


class OwnerReference(Struct):
    """The owner of a dependent object; the garbage collector follows it by `uid`."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        return next((ref for ref in self.owner_references or () if ref.controller), None)

    def is_owned_by(self, other: "ObjectMeta") -> bool:
        """Return whether the other is the controller of this object."""
        # by the UID, because a later object may have the same name
        return (owner := self.controller) is not None and owner.uid == other.uid


class Object(Struct):
    """An object of any kind, with its metadata only."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class ListMeta(Struct):
    """`metadata` of a list: the version to watch from, and `continue` except on the last page."""

    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


@dataclass(frozen=True, slots=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def qualified(self) -> str:
        """`plural.group`, or only the plural for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        """`group/version`, or only the version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def type_meta(self) -> dict[str, Any]:
        """The fields of an object that say what it is."""
        return {"apiVersion": self.api_version, "kind": self.kind}

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of an object, its subresource, or a collection."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)

    def owner_reference(self, owner: ObjectMeta) -> dict[str, Any]:
        """Return the reference that makes an object of this kind the controller of another one."""
        return {
            **self.type_meta,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


FLOW_GROUP = "flow.volcano.sh"
_cluster_wide = partial(Resource, namespaced=False)

JOBFLOWS = Resource(FLOW_GROUP, "v1alpha1", "jobflows", "JobFlow")
JOBTEMPLATES = Resource(FLOW_GROUP, "v1alpha1", "jobtemplates", "JobTemplate")
CRONJOBFLOWS = Resource(FLOW_GROUP, "v1alpha1", "cronjobflows", "CronJobFlow")
JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
QUEUES = _cluster_wide("scheduling.volcano.sh", "v1beta1", "queues", "Queue")
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
COMMANDS = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command")
PODS = Resource("", "v1", "pods", "Pod")
VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")
EVENTS = Resource("", "v1", "events", "Event")
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACES = _cluster_wide("", "v1", "namespaces", "Namespace")
LOCAL_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview"
)
SELF_SUBJECT_ACCESS_REVIEWS = _cluster_wide(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview"
)
SELF_SUBJECT_REVIEWS = _cluster_wide(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview"
)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS = _cluster_wide(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"
)
VALIDATING_WEBHOOKS = _cluster_wide(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
)
MUTATING_WEBHOOKS = _cluster_wide(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
)
VALIDATING_POLICIES = _cluster_wide(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"
)


class StatusCause(Struct):
    """A fault in a `Status`: `field` is its JSON path, `reason` is one like FieldValueInvalid."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct):
    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class Status(Struct, omit_defaults=False):
    """`v1` Status: an API server's answer that is not an object (meta/v1 types.go)."""

    api_version: str = "v1"
    kind: str = "Status"
    metadata: dict[str, str] = {}
    status: str = "Failure"
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0
