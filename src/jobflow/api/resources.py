"""API resources: group, version, plural, scope and URL path of each kind that JobFlow uses."""

from dataclasses import dataclass
from typing import Any

import msgspec

from jobflow.api.meta import ObjectMeta


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of an API server."""

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

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection (without a name), an object or its subresource.
        Without a namespace, it spans all namespaces."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, subresource) if part]
        return "/".join(parts)

    def owner_reference(self, owner: ObjectMeta) -> dict[str, Any]:
        """Return the reference that makes an object of this kind the controller of another one:
        the other is deleted with it, and before it."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


FLOW_GROUP = "flow.volcano.sh"

JOBFLOWS = Resource(FLOW_GROUP, "v1alpha1", "jobflows", "JobFlow")
JOBTEMPLATES = Resource(FLOW_GROUP, "v1alpha1", "jobtemplates", "JobTemplate")
CRONJOBFLOWS = Resource(FLOW_GROUP, "v1alpha1", "cronjobflows", "CronJobFlow")
JOBS = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
POD_GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
COMMANDS = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command")
PODS = Resource("", "v1", "pods", "Pod")
VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate")
EVENTS = Resource("", "v1", "events", "Event")
SECRETS = Resource("", "v1", "secrets", "Secret")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
LOCAL_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview"
)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "selfsubjectaccessreviews",
    "SelfSubjectAccessReview",
    namespaced=False,
)
SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CRDS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
MUTATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_POLICIES = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicies",
    "ValidatingAdmissionPolicy",
    namespaced=False,
)


class StatusCause(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fault in a `Status`: `field` is its JSON path, `reason` is one like FieldValueInvalid."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The object of a `Status` and its faults."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: list[StatusCause] | None = None
    retry_after_seconds: int | None = None


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`v1` Status: an API server's answer that is not an object (meta/v1 types.go)."""

    api_version: str = "v1"
    kind: str = "Status"
    metadata: dict[str, str] = {}
    status: str = "Failure"
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0
