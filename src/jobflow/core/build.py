"""Builds the vcjob of a step from its template: the whole manifest, ready to send.

It reads nothing but its arguments and does not judge whether Volcano would take the result.
"""

from __future__ import annotations

from typing import Any

from jobflow.api import labels
from jobflow.api.jobflow import JobFlow, Step
from jobflow.api.jobtemplate import JobTemplate
from jobflow.api.resources import JOBFLOWS, JOBS
from jobflow.core.merge import copied, merge
from jobflow.core.names import label_value, qualified

_BOOKKEEPING = (
    "kubectl.kubernetes.io/",
    "applyset.kubernetes.io/",
    "meta.helm.sh/",
    "helm.sh/",
    "argocd.argoproj.io/",
    "flow.volcano.sh/",
)
"""Prefixes of labels and annotations that say how the template came to be, or what JobFlow does
with it, and would be untrue of a vcjob (`kubectl apply --prune` would even delete it as a member
of the template's apply set)."""

_CHANGE_CAUSE = "kubernetes.io/change-cause"
_MANAGED_BY = "app.kubernetes.io/managed-by"


def build_job(
    flow: JobFlow, step: Step, template: JobTemplate, *, name: str, attempt: int
) -> dict[str, Any]:
    """The vcjob `name` of a step, for its run number `attempt`, counted from 1.

    The spec is the template's with the step's patch merged in. `ttlSecondsAfterFinished` becomes
    an annotation: the controller carries it out, once the job's outcome is in the flow's status.
    Labels and annotations of the template come along except bookkeeping of the tools that applied
    it; ours go before the template's. The result shares nothing with the arguments that a caller
    could change.
    """
    spec = _spec(step, template)
    annotations = _inherited(template.metadata.annotations) | _annotations(flow, step, template)
    ttl = spec.get("ttlSecondsAfterFinished")
    if ttl is None or (isinstance(ttl, int) and not isinstance(ttl, bool)):
        # Anything else stays, for the API server to refuse in its own words.
        spec.pop("ttlSecondsAfterFinished", None)
    if "ttlSecondsAfterFinished" not in spec and ttl is not None:
        annotations[labels.TTL_SECONDS] = str(ttl)
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": name,
            "namespace": flow.metadata.namespace,
            "labels": _inherited(template.metadata.labels) | _labels(flow, step, template, attempt),
            "annotations": annotations,
            "ownerReferences": [_owner(flow)],
        },
        "spec": spec,
    }


def patch_of(step: Step) -> dict[str, Any] | None:
    """A step's patch by either of its names; None where it has none, or an empty one."""
    if step.patch is None:
        return None
    return step.patch.job_spec or step.patch.spec or None


def _spec(step: Step, template: JobTemplate) -> dict[str, Any]:
    patch = patch_of(step)
    return merge(template.spec, patch) if patch else copied(template.spec)


def _labels(flow: JobFlow, step: Step, template: JobTemplate, attempt: int) -> dict[str, str]:
    namespace = flow.metadata.namespace
    return {
        labels.CREATED_BY_FLOW: label_value(qualified(namespace, flow.metadata.name)),
        labels.CREATED_BY_TEMPLATE: label_value(qualified(namespace, template.metadata.name)),
        labels.STEP: label_value(step.name),
        labels.ATTEMPT: str(attempt),
    }


def _annotations(flow: JobFlow, step: Step, template: JobTemplate) -> dict[str, str]:
    """The full names behind the labels, and which state of the template this is."""
    namespace = flow.metadata.namespace
    annotations = {
        labels.CREATED_BY_FLOW: qualified(namespace, flow.metadata.name),
        labels.CREATED_BY_TEMPLATE: qualified(namespace, template.metadata.name),
        labels.STEP: step.name,
    }
    if template.metadata.generation is not None:
        annotations[labels.TEMPLATE_GENERATION] = str(template.metadata.generation)
    return annotations


def _inherited(own: dict[str, str] | None) -> dict[str, str]:
    """A template's labels or annotations without bookkeeping.

    `app.kubernetes.io/instance` stays, though Argo CD can be set to track by it: it prunes only
    objects that no other object owns, and of a Helm chart the label is the user's own.
    """
    return {
        key: value
        for key, value in (own or {}).items()
        if not key.startswith(_BOOKKEEPING)
        and key != _CHANGE_CAUSE
        and not (key == _MANAGED_BY and value == "Helm")
    }


def _owner(flow: JobFlow) -> dict[str, Any]:
    return {
        "apiVersion": JOBFLOWS.api_version,
        "kind": JOBFLOWS.kind,
        "name": flow.metadata.name,
        "uid": flow.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
